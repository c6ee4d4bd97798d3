"""Optuna: trials that would exceed a budget are refused before they run.

    budget = EnergyBudget("laptop.ampere", energy="5 kJ", time="10 min", memory="2 GiB")

    def objective(trial):
        model = make_model(trial)
        estimate = budget.check(trial, model, (3, 32, 32), steps=2000, batch_size=32)
        ...                                      # train it: it stays inside with 90 %
        return accuracy, estimate.energy_j       # or accuracy alone

A refused trial is pruned: it costs milliseconds. Why, and the estimate, stand in its attributes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

try:
    import optuna
except ModuleNotFoundError as error:
    if error.name != "optuna":
        raise
    raise ModuleNotFoundError(
        "ampere.integrations.optuna needs Optuna: pip install 'ampere-energy[optuna]'",
        name="optuna",
    ) from None

from ampere.core.boundary.example_inputs import Input
from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.frameworks.models import read
from ampere.frameworks.readers import Model
from ampere.integrations.limits import JobLimits, Verdict
from ampere.profiles.estimate import Estimate
from ampere.profiles.profile import Profile

PREFIX = "ampere_"  # of a trial's attributes
CONSTRAINTS = f"{PREFIX}constraints"


class EnergyBudget:
    """What a trial's training may take; at least one of energy, time and memory.

    Args:
        profile: Of the device that trains, or its file.
        energy: `5 kJ`, `2 Wh`, `1.5 J/step`, or joules of the whole job.
        time: `10 min`, `1 h 30 min`, or seconds of the whole job.
        memory: `2 GiB`, `512 MB`, or bytes at the peak of a step. It is counted, not measured, and
            without an interval: see `ampere.pytorch.memory`.
        confidence: The probability with which a trial has to stay inside, to be run.
    """

    def __init__(
        self,
        profile: Profile | str | os.PathLike[str],
        *,
        energy: str | float | None = None,
        time: str | float | None = None,
        memory: str | float | None = None,
        confidence: float = 0.9,
    ) -> None:
        self.limits = JobLimits.parse(energy, time, memory, confidence)
        loaded = profile if isinstance(profile, Profile) else Profile.load(profile, keep_fit=True)
        if time is not None and all(m.time_s_per_step is None for m in loaded.measurements):
            raise DataError("the profile has no seconds, so it cannot hold a time: leave it out")
        self.profile = loaded

    def check(
        self,
        trial: optuna.trial.BaseTrial,
        model: Model | Sequence[Layer],
        input: Input | None = None,
        *,
        steps: int,
        batch_size: int | None = None,
        optimizer: str | None = None,
        training: Training | None = None,
    ) -> Estimate:
        """The estimate of a trial's job, if it stays inside; call it once, before training.

        The arguments are those of `judge`.

        Raises:
            optuna.TrialPruned: It would exceed the budget; the message says why.
            AmpereError: The model cannot be read, or the profile does not cover it.
        """
        verdict = self.judge(
            trial,
            model,
            input,
            steps=steps,
            batch_size=batch_size,
            optimizer=optimizer,
            training=training,
        )
        if verdict.refusal is not None:
            raise optuna.TrialPruned(verdict.refusal)
        return verdict.estimate

    def judge(
        self,
        trial: optuna.trial.BaseTrial,
        model: Model | Sequence[Layer],
        input: Input | None = None,
        *,
        steps: int,
        batch_size: int | None = None,
        optimizer: str | None = None,
        training: Training | None = None,
    ) -> Verdict:
        """What `check` decides by, without refusing: `verdict.refusal` is None, or why.

        For samplers that look at completed trials only, such as NSGA-II: return the worst values at
        once if it is refused, and they learn from the constraints that are set here.

        Args:
            trial: Gets estimate, interval and refusal as attributes, and constraints.
            model: As everywhere in ampere.
            input: Its shape, where it does not say so itself.
            steps: Of the whole job.
            batch_size: As the trial trains; None is the profile's.
            optimizer: The same.
            training: Whatever else differs from how the profile was made.
        """
        layers = self._read(
            model,
            input,
            (training or self.profile.training).but(batch_size=batch_size, optimizer=optimizer),
        )
        estimate = self.profile.estimate(layers, steps=steps)
        verdict = self.limits.judge(estimate, self._memory(layers))
        _note(trial, verdict)
        return verdict

    def constraints(self, trial: optuna.trial.FrozenTrial) -> tuple[float, ...]:
        """For `constraints_func` of a sampler of Optuna 4: above 0 is outside.

        Optuna 5 needs no such function: there the trial itself has its constraints.
        """
        kept = trial.user_attrs.get(CONSTRAINTS)
        if kept is None:
            raise DataError(
                f"trial {trial.number} was never checked: call budget.check(trial, model, ...) in"
                " the objective"
            )
        return tuple(kept.values())

    def _read(
        self, model: Model | Sequence[Layer], input: Input | None, training: Training
    ) -> Sequence[Layer]:
        if isinstance(model, Sequence) and not isinstance(model, str):
            return model
        return read(model, input, training)

    def _memory(self, layers: Sequence[Layer]) -> float | None:
        if self.limits.memory_bytes is None:
            return None
        from ampere.pytorch.memory import step_memory

        return float(step_memory(layers).total)


def _note(trial: optuna.trial.BaseTrial, verdict: Verdict) -> None:
    """Write into a trial what is known of it, as plain data that any storage keeps."""
    estimate = verdict.estimate
    excesses = {need.name: need.excess for need in verdict.needs}
    notes: dict[str, Json] = {
        "energy_j": estimate.energy_j,
        "energy_j_interval": list(estimate.energy_j_interval),
        "time_s": estimate.time_s,
        "time_s_interval": list(estimate.time_s_interval or ()) or None,
        "memory_bytes": verdict.memory_bytes,
        "steps": estimate.steps,
        "provenance": None if estimate.provenance is None else estimate.provenance.value,
        "probability": verdict.probability,
        "refused": verdict.refusal,
        "warnings": list(estimate.warnings) or None,
        "constraints": excesses,
    }
    for name, value in notes.items():
        if value is not None:
            trial.set_user_attr(f"{PREFIX}{name}", value)
    if hasattr(trial, "set_constraint"):  # since Optuna 5
        for name, excess in excesses.items():
            trial.set_constraint(f"{PREFIX}{name}", excess)
