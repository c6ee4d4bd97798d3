"""Trials against a budget: refused before they run, and told why."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

optuna = pytest.importorskip("optuna", reason="pip install 'ampere-energy[optuna]'")

from ampere.core.layers import Layer  # noqa: E402
from ampere.errors import DataError, NotCovered  # noqa: E402
from ampere.integrations.optuna import EnergyBudget  # noqa: E402
from integrations.cases import known_profile  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
optuna.logging.set_verbosity(optuna.logging.ERROR)
FIVE = hasattr(optuna.trial.Trial, "set_constraint")
STEPS = 1000


def model_of(trial: Any) -> str:
    widths = [trial.suggest_int(f"c{i}", 1, top) for i, top in enumerate((32, 64, 128, 128))]
    return f"zoo:cnn5(channels={widths})"


def middle() -> float:
    """Joules that a part of the space takes."""
    return known_profile().estimate("zoo:cnn5(channels=[12,24,48,48])", steps=STEPS).energy_j


def study_of(budget: EnergyBudget, sampler: Any = None, **how: Any) -> Any:
    if sampler is None:
        extra = {} if FIVE else {"constraints_func": budget.constraints}
        sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=10, **extra)
    return optuna.create_study(sampler=sampler, **how)


def test_a_trial_that_fits_is_run_and_one_that_does_not_is_refused() -> None:
    budget, ran = EnergyBudget(known_profile(), energy=middle()), []

    def objective(trial: Any) -> float:
        estimate = budget.check(trial, model_of(trial), steps=STEPS)
        ran.append(trial.number)
        return float(estimate.energy_j)

    study = study_of(budget, direction="maximize")
    study.enqueue_trial({"c0": 2, "c1": 2, "c2": 2, "c3": 2})
    study.enqueue_trial({"c0": 32, "c1": 64, "c2": 128, "c3": 128})
    study.optimize(objective, n_trials=2)
    fits, refused = study.trials
    assert ran == [0]
    assert (fits.state.name, refused.state.name) == ("COMPLETE", "PRUNED")
    assert "ampere_refused" not in fits.user_attrs
    assert fits.user_attrs["ampere_probability"] > 0.9 > refused.user_attrs["ampere_probability"]
    assert refused.user_attrs["ampere_refused"].startswith("energy of the job: ")
    low, high = refused.user_attrs["ampere_energy_j_interval"]
    assert low < refused.user_attrs["ampere_energy_j"] < high
    assert refused.user_attrs["ampere_constraints"]["energy"] > 0
    assert refused.user_attrs["ampere_time_s"] > 0
    assert refused.user_attrs["ampere_provenance"] == "external"


def test_batch_size_and_optimiser_count() -> None:
    budget = EnergyBudget(known_profile(), energy="1 MJ")
    small, large = (
        budget.check(
            optuna.trial.FixedTrial({}), "zoo:cnn5", steps=100, batch_size=n, optimizer="adam"
        ).energy_j
        for n in (10, 40)
    )
    assert large > 2 * small


def test_memory_and_time_are_limits_too() -> None:
    trial = optuna.trial.FixedTrial({})
    with pytest.raises(optuna.TrialPruned, match=r"memory of the job: .* MB, the limit is 1.00 MB"):
        EnergyBudget(known_profile(), memory="1 MB").check(trial, "zoo:cnn5", steps=1)
    assert trial.user_attrs["ampere_memory_bytes"] > 1e6
    with pytest.raises(optuna.TrialPruned, match=r"time of the job: .* the limit is 10.0 ms"):
        EnergyBudget(known_profile(), time=0.01).check(trial, "zoo:cnn5", steps=100)


def share_refused(study: Any, last: int) -> float:
    trials = study.trials[-last:]
    return sum("ampere_refused" in trial.user_attrs for trial in trials) / len(trials)


def test_tpe_learns_from_refusals() -> None:
    """It is drawn to large networks, and comes to stay inside all the same."""
    budget = EnergyBudget(known_profile(), energy=middle())

    def objective(trial: Any) -> float:
        return math.log(budget.check(trial, model_of(trial), steps=STEPS).energy_j)

    study = study_of(budget, direction="maximize")
    study.optimize(objective, n_trials=60)
    first = sum("ampere_refused" in trial.user_attrs for trial in study.trials[:10]) / 10
    assert first > 0.6
    assert share_refused(study, 20) < first - 0.2
    assert study.best_value <= math.log(middle())


def test_nsga_learns_from_verdicts_of_two_objectives() -> None:
    budget = EnergyBudget(known_profile(), energy=middle())

    def objective(trial: Any) -> tuple[float, float]:
        verdict = budget.judge(trial, model_of(trial), steps=STEPS)
        if verdict.refusal is not None:
            return 0.0, verdict.estimate.energy_j
        return sum(trial.params.values()), verdict.estimate.energy_j

    extra = {} if FIVE else {"constraints_func": budget.constraints}
    sampler = optuna.samplers.NSGAIISampler(population_size=10, seed=0, **extra)
    study = study_of(budget, sampler, directions=["maximize", "minimize"])
    study.optimize(objective, n_trials=80)
    first = sum("ampere_refused" in trial.user_attrs for trial in study.trials[:10]) / 10
    assert share_refused(study, 20) < first
    assert all("ampere_refused" not in trial.user_attrs for trial in study.best_trials)


def test_refused_trials_of_two_objectives_are_pruned() -> None:
    budget = EnergyBudget(known_profile(), energy="1 mJ")
    study = study_of(budget, directions=["maximize", "minimize"])
    study.optimize(
        lambda trial: (1.0, budget.check(trial, model_of(trial), steps=5).energy_j), n_trials=12
    )
    assert {trial.state.name for trial in study.trials} == {"PRUNED"}


def test_attributes_outlive_the_process(tmp_path: Path) -> None:
    """They are plain data: a study on a disk keeps them."""
    budget = EnergyBudget(known_profile(), energy="1 J", time="1 h", memory="1 TB")
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    study = optuna.create_study(storage=storage, study_name="s")
    study.optimize(lambda t: budget.check(t, model_of(t), steps=1).energy_j, n_trials=1)
    (trial,) = optuna.load_study(study_name="s", storage=storage).trials
    assert set(trial.user_attrs["ampere_constraints"]) == {"energy", "time", "memory"}


def test_a_profile_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "p.ampere"
    known_profile().save(path)
    trial = optuna.trial.FixedTrial({})
    said = EnergyBudget(path, energy="1 kJ").check(trial, "zoo:cnn5", steps=2)
    assert said.energy_j == pytest.approx(known_profile().estimate("zoo:cnn5", steps=2).energy_j)


def test_a_model_that_is_not_covered_ends_the_study() -> None:
    """It is no fault of the trial: nobody should believe that it was too dear."""
    budget = EnergyBudget(known_profile(), energy="1 kJ")
    other = Layer.from_json({"name": "fft", "kind": "fft", "operation": "fft"})
    with pytest.raises(NotCovered, match="covers none of 1 layer"):
        budget.check(optuna.trial.FixedTrial({}), [other], steps=1)
    study = study_of(budget)
    with pytest.raises(NotCovered):
        study.optimize(lambda trial: budget.check(trial, [other], steps=1).energy_j, n_trials=1)
    assert study.trials[0].state.name == "FAIL"


def test_a_profile_without_seconds_cannot_hold_a_time() -> None:
    with pytest.raises(DataError, match="no seconds"):
        EnergyBudget(known_profile(seconds=False), energy="1 J", time="1 s")
    EnergyBudget(known_profile(seconds=False), energy="1 J")


@pytest.mark.parametrize("steps", [0, -1])
def test_a_job_has_steps(steps: int) -> None:
    budget = EnergyBudget(known_profile(), energy="1 kJ")
    with pytest.raises(DataError, match="not a training job"):
        budget.check(optuna.trial.FixedTrial({}), "zoo:cnn5", steps=steps)


def test_constraints_of_a_trial_that_nobody_checked() -> None:
    budget = EnergyBudget(known_profile(), energy="1 kJ")
    study = optuna.create_study()
    study.add_trial(optuna.trial.create_trial(value=1.0))
    with pytest.raises(DataError, match="trial 0 was never checked"):
        budget.constraints(study.trials[0])
