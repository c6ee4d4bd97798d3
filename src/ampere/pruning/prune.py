"""Prune: a model with fewer channels, whose training fits an energy budget.

    model -> layers -> tables of what every width costs -> search within the budget -> weights

What the profile does not know for sure counts against the budget.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ampere.acquisition.families import present_loss
from ampere.acquisition.loop import reference_of
from ampere.core.budget import Budget, parse_budget
from ampere.core.choices import choices
from ampere.core.layers import Layer
from ampere.core.units import plural
from ampere.devices.registry import device_or_local
from ampere.errors import ModelError, NotCovered
from ampere.estimators.base import usable
from ampere.profiles.estimate import Estimate
from ampere.profiles.profile import Profile
from ampere.pruning.judge import Candidate, Judge, Judging, make_judge, unwatched
from ampere.pruning.result import Pruning, refuse_to_overwrite
from ampere.pruning.search import Candidates, Search, WidthSearch, make_space
from ampere.pruning.verify import BESIDE, Round, Verification, Verified, Verifier

if TYPE_CHECKING:
    from torch import nn

    from ampere.core.boundary.example_inputs import Input
    from ampere.core.training import Training
    from ampere.pytorch.pruning.slimmer import Slim, Slimmer

FEW = 12  # measurements of a profile: with fewer, search finds where it errs


def prune(
    model: nn.Module | str,
    input: Input | None = None,
    *,
    profile: Profile,
    budget: Budget | str,
    steps: int | None = None,
    weights: str | os.PathLike[str] | None = None,
    training: Training | None = None,
    search: Search = Search(),
    judging: Judging = Judging(),
    verification: Verification | None = None,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    watch: Callable[[str], None] = unwatched,
) -> Pruning:
    """Cut a model's channels until its training fits a budget.

    Args:
        model: The model, or the text that names it; an object is left as it is.
        input: What it is fed.
        profile: What its layers cost on the device.
        budget: `50%` of the model's own energy, `2J/step`, or `800J` or `5Wh` for a whole job.
            What is of a battery, carbon or money is converted first: `Budget.settled`.
        steps: Training steps of the job, where the budget is for a whole one.
        weights: A file of weights for the model.
        training: How the model is trained; as the profile was unless given.
        search: How widths are looked for, how surely the budget holds, which channels stay.
        judging: What candidates are scored by, and how the best are fine-tuned.
        verification: Meter candidates beside the whole model; not metered unless given.
        seed: Of everything that is random.
        folder: Where the result will be saved: if it cannot be, that is said before the work.
        watch: Told what is being done.

    Raises:
        DataError: The budget is below what the smallest model takes, or makes no sense, or the
            profile makes no tables.
        ModelError: The model cannot be read, or no channel of it can be cut.
        NotCovered: The profile knows nothing of some layers.
    """
    from ampere.pytorch.models import make_slimmer

    budget = (parse_budget(budget) if isinstance(budget, str) else budget).settled()
    profile.require_tables()
    if verification and verification.device is not None:  # not after an hour of fine-tuning
        verification.refuse_others(verification.device, profile)
    training = training or profile.training
    training = replace(training, loss=present_loss(training.loss))
    fed = profile.input_for(model) if input is None else input
    slimmer = make_slimmer(
        model, fed, training, weights=weights, importance=search.importance, seed=seed
    )
    if folder is not None:
        refuse_to_overwrite(Path(folder), slimmer.weight_bytes)
    task = _plan(
        slimmer,
        profile,
        budget,
        steps,
        search=search,
        judging=judging,
        least=BESIDE if verification else 1,
        seed=seed,
        watch=watch,
    )
    candidates, verified = task.find(), None
    if verification:
        verified, task = task.verify(candidates, verification)
        candidates = verified.candidates[: task.judge.candidates]
    chosen = task.judge.choose(slimmer, candidates, watch)
    return task.result(chosen, verified, model, has_weights=weights is not None)


@dataclass(frozen=True)
class _Task:
    """A model to cut, how far, and who looks for it and judges it."""

    slimmer: Slimmer
    given: Profile
    profile: Profile  # with what was metered since
    can_tell: bool  # whether what is metered is of the profile's device
    before: Estimate
    budget: Budget
    limit_j: float  # of a step
    correction: float  # of the limit, for what the profile does not believe of the meter
    steps: int | None  # of the whole job
    fine_tune_steps: int  # of these, all finalists together
    widths: WidthSearch
    judge: Judge
    watch: Callable[[str], None]

    def find(self) -> Candidates:
        """The best candidates by the profile; the whole model alone if it is all of the budget."""
        if self.budget.is_share and self.limit_j >= self.before.energy_j:
            return [self.widths.whole]
        return self.widths.find(self.limit_j * self.correction)

    def at_most(self, widths: Mapping[str, int]) -> float:
        """What a candidate takes with the asked confidence, as a share of what is allowed."""
        return self.widths.bound(widths) / (self.limit_j * self.correction)

    def score(self, widths: Mapping[str, int]) -> float:
        """How much of the model's importance a candidate keeps."""
        return self.widths.score(widths)

    def verify(self, candidates: Candidates, verification: Verification) -> tuple[Verified, _Task]:
        """Those that are inside the budget by the meter, and the task with what it told."""
        with device_or_local(verification.device) as device:
            verification.refuse_others(device, self.profile)
            verifier = Verifier(
                device=device,
                nominal=reference_of(self.profile.header, device, verification.effort),
                layers=self.slimmer.layers,
                effort=verification.effort,
                allowed=self.limit_j / (self.before.energy_j if self.budget.is_share else 1.0),
                is_share=self.budget.is_share,
                watch=self.watch,
            )
            fits = self.budget.is_share and candidates == [self.widths.whole]  # all of itself
            if self.widths.settings.guide != "energy" or fits:
                return verifier.check(candidates), self
            is_own = device.fingerprint.id == self.profile.header.fingerprint.id
            return verifier.improve(candidates, replace(self, can_tell=is_own))

    def learned(self, rounds: Sequence[Round]) -> _Task:
        """The task by a profile that was told these rows, unless they are of another device.

        What it does not believe at all, since its other rows contradict them or since they are of
        another device, holds for the next candidates as well: the limit is corrected by it.
        """
        profile, doubted = self.given, True
        if self.can_tell:  # all is fitted anew: rows side by side tell how noisy it is, too
            rows = [row for each in rounds for row in (each.whole, *each.rows)]
            profile = replace(profile, measurements=(*profile.measurements, *rows))
            refused = [each.row for each in profile.rejected if not each.seconds_only]
            doubted = any(each is row for each in refused for row in rows)
        before = _estimate_whole(profile, self.slimmer.layers)
        is_share, settings = self.budget.is_share, self.widths.settings
        believed = [
            profile.estimate(row.layers).energy_j
            / row.energy_j
            * (each.whole.energy_j / before.energy_j if is_share else 1.0)
            for each in rounds
            for row in each.rows
        ]
        return replace(
            self,
            profile=profile,
            before=before,
            limit_j=self.limit_j * (before.energy_j / self.before.energy_j if is_share else 1.0),
            correction=statistics.median(believed) if doubted else 1.0,
            widths=replace(
                self.widths,
                space=make_space(self.slimmer, profile, settings, is_share, self.can_tell),
                whole_j=before.energy_j,
            ),
        )

    def result(
        self,
        chosen: Candidate,
        verified: Verified | None,
        model: nn.Module | str,
        has_weights: bool,
    ) -> Pruning:
        """All that is known of the model that was chosen."""
        slimmer, slim, accuracy = self.slimmer, chosen.slim, self.judge.accuracy
        after = self.profile.estimate(slim.layers)
        is_whole = chosen.widths == self.widths.whole
        warnings = [*after.warnings]
        if isinstance(model, str) and not has_weights and not is_whole:
            warnings.append("no weights were given: channels were chosen by those it is built with")
        warnings += _what_stayed(slimmer, slim)
        if not is_whole:
            warnings += self._doubts(is_metered=verified is not None)
        if verified is not None and not verified.held and not is_whole:
            warnings.append(
                "no candidate was inside the budget with the asked confidence, by the meter and all"
                " that is known: this is the nearest"
            )
        if verified is not None and verified.cut_short:
            warnings.append(f"the search was not repeated: {verified.cut_short}")
        if verified is not None and verified.dropped:
            warnings.append(
                f"{plural(verified.dropped, 'candidate')} took more than allowed by the meter, and"
                " the search was repeated with what it told"
            )
        kept = [slimmer.kept(name, size) for name, size in chosen.widths.items()]
        return Pruning(
            name=model if isinstance(model, str) else type(model).__name__,
            source=model if isinstance(model, str) else None,
            budget=self.budget,
            limit_j=self.limit_j,
            search=self.widths.settings,
            before=self.before,
            after=after,
            layers_before=slimmer.layers,
            slim=slim,
            widths=chosen.widths,
            full_widths=self.widths.whole,
            importance_kept=float(np.mean(kept)),
            ratios=slimmer.ratios(chosen.widths),
            steps=self.steps,
            fine_tune_steps=self.fine_tune_steps,
            accuracy=(accuracy(slimmer.model), accuracy(slim.model)) if accuracy else None,
            fine_tuned=self.judge.fine_tune is not None,
            metered=None if verified is None else verified.rows_of(chosen.widths),
            warnings=tuple(warnings),
        )

    def _doubts(self, is_metered: bool) -> list[str]:
        """Why to doubt that it had to be cut, or that it was cut enough."""
        texts = []
        if self.widths.settings.guide == "energy" and self.before.energy_j <= self.limit_j:
            texts.append("the whole model is estimated to fit, but not with the asked confidence")
        if (count := len(usable(self.profile.measurements))) < FEW and not is_metered:
            texts.append(
                f"the profile rests on {count} measurements, and a search finds where it errs:"
                " profile longer, or have it metered (verify)"
            )
        return texts


def _plan(
    slimmer: Slimmer,
    profile: Profile,
    budget: Budget,
    steps: int | None,
    *,
    search: Search,
    judging: Judging,
    least: int,  # candidates
    seed: int,
    watch: Callable[[str], None],
) -> _Task:
    """What is to be done, once the profile and the data are known to fit the model."""
    if all(choice.fixed for choice in choices(slimmer.layers)):
        raise ModelError("nothing can be cut: every width is tied to the inputs or the outputs")
    before = _estimate_whole(profile, slimmer.layers)
    judge = make_judge(judging, slimmer, seed)
    fine_tune_steps = judge.finalists * judging.fine_tune_steps
    all_steps = (steps or 0) + fine_tune_steps or None
    limit_j = budget.per_step(before.energy_j, all_steps)
    watch("looking for widths")
    widths = WidthSearch(
        space=make_space(slimmer, profile, search, budget.is_share),
        settings=search,
        whole_j=before.energy_j,
        count=max(least, judge.candidates),
        seed=seed,
    )
    return _Task(
        slimmer=slimmer,
        given=profile,
        profile=profile,
        can_tell=True,
        before=before,
        budget=budget,
        limit_j=limit_j,
        correction=1.0,
        steps=all_steps,
        fine_tune_steps=fine_tune_steps,
        widths=widths,
        judge=judge,
        watch=watch,
    )


def _estimate_whole(profile: Profile, layers: Sequence[Layer]) -> Estimate:
    """What a model costs, all of its layers."""
    uncovered = tuple(layers)
    with suppress(NotCovered):
        estimate = profile.estimate(layers)
        uncovered = estimate.uncovered
        if not uncovered:
            return estimate
    kinds = dict.fromkeys(layer.kind.name for layer in uncovered)
    made_for = f" (it was made for {profile.header.model})" if profile.header.model else ""
    raise NotCovered(
        f"the profile{made_for} does not cover {', '.join(kinds)}: profile this model first, with"
        " `ampere profile` and the same options"
    )


def _what_stayed(slimmer: Slimmer, slim: Slim) -> list[str]:
    """What of a model could not be cut, or not in its own code."""
    texts = []
    if slimmer.stuck:
        names = ", ".join(sorted(slimmer.stuck))
        texts.append(f"left as they are, their channels cannot be followed: {names}")
    if slim.rebuilt:
        texts.append(
            "sizes stand in the model's own code, so it was built again from its layers; it may"
            f" take batches of {slimmer.training.batch_size} only"
        )
    if slimmer.reading.unused:
        names = ", ".join(slimmer.reading.unused)
        texts.append(f"left as they are, nothing in a training step uses them: {names}")
    return texts
