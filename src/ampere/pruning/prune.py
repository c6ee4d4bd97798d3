"""Pruning: a model with fewer channels, whose training fits an energy budget.

    model -> layers -> tables of what every width costs -> search within the budget -> weights

Which widths is decided by a strategy and a guide (`searching`), which channels by their importance
(`frameworks.torch.slimming`). What the profile does not know for sure counts against the budget.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ampere.acquisition.families import present_loss
from ampere.acquisition.loop import reference_of
from ampere.acquisition.measure import Effort
from ampere.core.choices import choices
from ampere.core.fingerprint import refuse_to_mix
from ampere.core.layers import Layer
from ampere.core.units import plural
from ampere.devices.base import Device
from ampere.devices.registry import device_or_local
from ampere.errors import DataError, ModelError, NotCovered
from ampere.estimators.base import usable
from ampere.profiles.estimate import Estimate
from ampere.profiles.family_tables import entries
from ampere.profiles.profile import Profile
from ampere.pruning.budget import SHARE, Budget, parse_budget
from ampere.pruning.guide import EnergyGuide, FlopsGuide
from ampere.pruning.judge import Judge, unwatched
from ampere.pruning.result import Pruning
from ampere.pruning.search import SEARCHES, Space
from ampere.pruning.verify import Candidates, Verifier

if TYPE_CHECKING:
    from torch import nn

    from ampere.core.training import Training
    from ampere.datasets import Dataset
    from ampere.pruning.judge import FineTune, Score
    from ampere.pytorch.pruning.slimmer import Slim, Slimmer
    from ampere.pytorch.reader import Input

GUIDES = ("energy", "flops")
VERIFYING = Effort(min_rounds=20, max_rounds=40, target=0.01)
MANY = 500_000  # sizes of all layers together
FEW = 12  # measurements of a profile: with fewer, search finds where it errs


def prune(
    model: nn.Module | str,
    input: Input | None = None,
    *,
    profile: Profile,
    budget: Budget | str,
    weights: str | os.PathLike[str] | None = None,
    confidence: float = 0.9,
    strategy: str = "random",
    guide: str = "energy",
    importance: str = "l2",
    least: float = 0.1,
    round_to: int | None = None,
    steps: int | None = None,
    data: Dataset | str | None = None,
    fine_tune_steps: int = 0,
    learning_rate: float | None = None,
    fine_tune: FineTune | None = None,
    score: Score | None = None,
    seed: int = 0,
    verify: bool = False,
    device: Device | None = None,
    any_device: bool = False,
    effort: Effort | None = None,
    training: Training | None = None,
    watch: Callable[[str], None] = unwatched,
) -> Pruning:
    """Cut a model's channels until its training fits a budget.

    Args:
        model: The model, or the text that names it; an object is left as it is.
        input: What it is fed.
        profile: What its layers cost on the device.
        budget: `50%` of the model's own energy, `2J/step`, or `800J` or `5Wh` for a whole job.
        weights: A file of weights for the model.
        confidence: The probability with which the budget holds, by the estimate's own interval.
        strategy: `random`, `gradient` or `evolution`.
        guide: `energy`, or `flops` to compare with: the same search with FLOPs for joules.
        importance: Which channels stay: `l1`, `l2`, `bn` or `random`.
        least: The share of every width that stays at least.
        round_to: What widths are multiples of; by default 1, or more where a model has so many
            sizes that looking at all would take minutes.
        steps: Training steps of the job, where the budget is for a whole one.
        data: Data to score and fine-tune on: `digits`, `celeba:DIR` or `path/file.py:function`.
        fine_tune_steps: Steps of fine-tuning for each finalist; they count towards the job.
        learning_rate: Of fine-tuning; by default 0.01 for sgd and momentum, 0.001 for the others.
        fine_tune: Your own fine-tuning of a model, in place of training on `data`.
        score: Your own score of a model, the higher the better, in place of the loss on `data`.
        seed: Of everything that is random.
        verify: Meter both models, side by side. What is over the budget by the meter is dropped,
            and looked for again with less allowed.
        device: Where to meter; this machine unless given.
        any_device: Meter on another device than the profile's all the same.
        effort: How carefully to meter.
        training: How the model is trained; as the profile was unless given.
        watch: Told what is being done.

    Raises:
        DataError: The budget is below what the smallest model takes, or makes no sense.
        ModelError: The model cannot be read, or no channel of it can be cut.
        NotCovered: The profile knows nothing of some layers.
    """
    from ampere.pytorch.reader import make_slimmer

    budget = parse_budget(budget) if isinstance(budget, str) else budget
    _check(confidence, strategy, guide, least, round_to)
    if verify and device is not None and not any_device:  # not after an hour of fine-tuning
        refuse_to_mix(device.fingerprint, profile.header.fingerprint)
    training = training or profile.training
    training = replace(training, loss=present_loss(training.loss))
    slimmer = make_slimmer(
        model, input, training, weights=weights, importance=importance, seed=seed
    )
    if all(choice.fixed for choice in choices(slimmer.layers)):
        raise ModelError("nothing can be cut: every width is tied to the inputs or the outputs")
    before = profile.estimate(slimmer.layers)
    _refuse_uncovered(before, profile)
    judge = Judge.of(slimmer, data, score, fine_tune, fine_tune_steps, learning_rate, seed)
    tuned = judge.finalists * fine_tune_steps
    job = (steps or 0) + tuned
    limit_j = budget.per_step(before.energy_j, job or None)
    watch("looking for widths")
    space = make_space(slimmer, profile, guide, confidence, least, round_to)
    full = _named(space, space.largest)

    def search(limit_j: float) -> Candidates:
        found = _widths(space, budget, limit_j, before, strategy, guide, seed, judge.candidates)
        return [_named(space, row) for row in found]

    candidates: Candidates = search(limit_j)
    metered = None
    if verify:
        with device_or_local(device) as opened:
            if not any_device:
                refuse_to_mix(opened.fingerprint, profile.header.fingerprint)
            verifier = Verifier(
                opened, reference_of(profile.header, opened), slimmer.layers, effort or VERIFYING,
                limit_j / before.energy_j if budget.unit == SHARE else limit_j,
                is_share=budget.unit == SHARE, watch=watch,
            )  # fmt: skip
            look_again = search if guide == "energy" and candidates != [full] else None
            metered = verifier.verify(candidates, limit_j, look_again)
            candidates = metered.candidates
    chosen = judge.choose(slimmer, candidates, watch)
    after = profile.estimate(chosen.slim.layers)
    own_weights = weights is not None or not isinstance(model, str) or chosen.widths == full
    texts = _warnings(slimmer, chosen.slim, after, own_weights)
    if chosen.widths != full:
        texts += _doubts(profile, before, limit_j, guide, verify)
    if metered is not None and metered.dropped:
        texts.append(
            f"{plural(metered.dropped, 'candidate')} took more than allowed by the meter, so the"
            " search was repeated with less allowed"
        )
    return Pruning(
        model if isinstance(model, str) else type(model).__name__,
        budget,
        limit_j,
        confidence,
        strategy,
        guide,
        importance,
        before,
        after,
        slimmer.layers,
        chosen.slim,
        chosen.widths,
        full,
        float(np.mean([slimmer.kept(name, size) for name, size in chosen.widths.items()])),
        slimmer.ratios(chosen.widths),
        job or None,
        tuned,
        accuracy=None if judge.accuracy is None
        else (judge.accuracy(slimmer.model), judge.accuracy(chosen.slim.model)),
        metered=None if metered is None else metered.rows_of(chosen.widths),
        source=model if isinstance(model, str) else None,
        warnings=tuple(texts),
    )  # fmt: skip


def _check(
    confidence: float, strategy: str, guide: str, least: float, round_to: int | None
) -> None:
    if not 0.5 <= confidence < 1:
        raise DataError(f"confidence is {confidence}: use 0.5 or more, and less than 1")
    if strategy not in SEARCHES:
        raise DataError(f"unknown strategy {strategy!r}: use one of {', '.join(SEARCHES)}")
    if guide not in GUIDES:
        raise DataError(f"unknown guide {guide!r}: use one of {', '.join(GUIDES)}")
    if round_to is not None and round_to < 1:
        raise DataError(f"widths cannot be multiples of {round_to}: use 1 or more")
    if not 0 <= least <= 1:
        raise DataError(f"the least share of a width is {least}: use a number from 0 to 1")


def _refuse_uncovered(estimate: Estimate, profile: Profile) -> None:
    if not estimate.uncovered:
        return
    kinds = dict.fromkeys(layer.kind.name for layer in estimate.uncovered)
    made_for = f" (it was made for {profile.header.model})" if profile.header.model else ""
    raise NotCovered(
        f"the profile{made_for} does not cover {', '.join(kinds)}: profile this model first, with"
        " `ampere profile` and the same options"
    )


def _coarseness(layers: Sequence[Layer]) -> int:
    """The finest multiple at which tables are made in seconds."""
    return next((step for step in (1, 2, 4, 8) if entries(layers, step) <= MANY), 16)


def make_space(
    slimmer: Slimmer,
    profile: Profile,
    guide: str = "energy",
    confidence: float = 0.9,
    least: float = 0.1,
    round_to: int | None = None,
) -> Space:
    """Every free width from its least to its full size; those that cannot be cut stay full."""
    family = profile.tabulate(slimmer.layers, round_to=round_to or _coarseness(slimmer.layers))
    if slimmer.stuck.issuperset(family.names):
        names = ", ".join(family.names)
        raise ModelError(f"nothing can be cut, the channels of {names} cannot be followed")
    lows, worth = [], []
    for name, largest, step in zip(family.names, family.largest, family.steps, strict=True):
        low = max(step, -(-int(np.ceil(least * largest)) // step) * step)
        lows.append(largest if name in slimmer.stuck else min(low, largest))
        sizes = range(0, largest + 1, step)
        kept = np.array([slimmer.kept(name, size) for size in sizes])
        worth.append(np.maximum(kept, np.finfo(float).tiny))
    by = EnergyGuide(family, confidence) if guide == "energy" else FlopsGuide(family)
    return Space(family.names, family.largest, family.steps, lows, worth, by)


def _named(space: Space, row: Sequence[int]) -> dict[str, int]:
    return {name: int(size) for name, size in zip(space.names, row, strict=True)}


def _widths(
    space: Space, budget: Budget, limit_j: float, before: Estimate, strategy: str, guide: str,
    seed: int, count: int,
) -> Sequence[Sequence[int]]:  # fmt: skip
    """The best candidates within the budget; the full model alone where it fits."""
    whole = np.array([space.largest])
    share = limit_j / before.energy_j
    if budget.unit == SHARE and share >= 1:
        return [space.largest]
    limit = limit_j if guide == "energy" else share * float(space.guide.cost(whole)[0])
    found = SEARCHES[strategy]().find(space, limit, np.random.default_rng(seed), count)
    return [tuple(map(int, row)) for row in found]


def _warnings(slimmer: Slimmer, slim: Slim, after: Estimate, own_weights: bool) -> list[str]:
    texts = list(after.warnings)
    if not own_weights:
        texts.append("no weights were given: channels were chosen by those it is built with")
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


def _doubts(
    profile: Profile, before: Estimate, limit_j: float, guide: str, verified: bool
) -> list[str]:
    texts = []
    if guide == "energy" and before.energy_j <= limit_j:
        texts.append("the whole model is estimated to fit, but not with the asked confidence")
    if (count := len(usable(profile.measurements))) < FEW and not verified:
        texts.append(
            f"the profile rests on {count} measurements, and a search finds where it errs: profile"
            " longer, or --verify"
        )
    return texts
