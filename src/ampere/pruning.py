"""Pruning: a model with fewer channels, whose training fits an energy budget.

    model -> layers -> tables of what every width costs -> search within the budget -> weights

Which widths is decided by a strategy and a guide (`searching`), which channels by their importance
(`frameworks.torch.slimming`). What the profile does not know for sure counts against the budget.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from ampere import tables
from ampere.budgets import SHARE, Budget, parse_budget
from ampere.devices.device import Device
from ampere.devices.fingerprint import refuse_to_mix
from ampere.errors import DataError, MeasurementFailed, NotCovered
from ampere.estimating import Estimate
from ampere.families import present_loss
from ampere.judging import Judge
from ampere.layers import Json, Layer
from ampere.measurements import Measurement
from ampere.measuring import Effort, measure
from ampere.opening import device_or_local
from ampere.profiles import Profile
from ampere.profiling import reference_of
from ampere.searching import SEARCHES, EnergyGuide, FlopsGuide, Guide, Space
from ampere.tabulating import FamilyTables
from ampere.workloads import Workload

if TYPE_CHECKING:
    from torch import nn

    from ampere.datasets import Dataset
    from ampere.frameworks.torch import Input, Loss
    from ampere.frameworks.torch.slimming import Slim, Slimmer
    from ampere.judging import FineTune, Score


GUIDES = ("energy", "flops")
VERIFYING = Effort(min_rounds=20, max_rounds=40, target=0.01)


@dataclass(frozen=True)
class Pruning:
    """A model cut to a budget, with what it was and will be estimated, and metered, to cost."""

    name: str
    budget: Budget
    limit_j: float  # of a step
    confidence: float
    strategy: str
    guide: str
    importance: str
    before: Estimate
    after: Estimate
    was: tuple[Layer, ...] = field(repr=False)
    slim: Slim = field(repr=False, compare=False)
    widths: Mapping[str, int]
    full: Mapping[str, int]
    kept: float  # the mean share of importance
    ratios: Mapping[str, float] = field(repr=False)  # what each module loses, by its name
    steps: int | None = None  # of the whole job
    metered: tuple[Measurement, Measurement] | None = None
    source: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def model(self) -> nn.Module:
        """The model itself, with the weights that were kept."""
        return self.slim.model

    @property
    def unchanged(self) -> bool:
        """Whether the whole model fits, so that nothing was cut."""
        return self.widths == self.full

    @property
    def bound_j(self) -> float:
        """Joules that a step stays under with the asked confidence."""
        reach = NormalDist().inv_cdf(self.confidence) * self.after.energy_j_std
        return self.after.energy_j + reach

    @property
    def metered_ratio(self) -> float | None:
        """Metered joules after as a share of those before."""
        if self.metered is None:
            return None
        before, after = self.metered
        return after.energy_j_per_step / before.energy_j_per_step

    def pruning_ratio_dict(self, model: nn.Module) -> dict[nn.Module, float]:
        """What Torch-Pruning's pruners take: the modules of a model, and what each loses."""
        return {model.get_submodule(name): ratio for name, ratio in self.ratios.items() if ratio}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write weights, widths and a Python file that builds the model into a new folder."""
        from ampere.frameworks.torch.saving import write_model

        target = Path(folder)
        refuse_to_overwrite(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        # All or nothing: a folder that is there is whole.
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            draft.chmod(0o755)
            write_model(draft, self.slim, self.source, self._title(), self.to_json())
            if target.exists():
                target.rmdir()
            draft.rename(target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def to_json(self) -> dict[str, Json]:
        """Plain data, as `ampere prune --json` prints it."""
        metered = self.metered or (None, None)
        sides = zip(("before", "after"), (self.before, self.after), metered, strict=True)
        provenance = self.before.provenance
        return {
            "model": self.name,
            "budget": str(self.budget),
            "budget_j_per_step": self.limit_j,
            "confidence": self.confidence,
            **{
                side: {
                    "estimate_j": estimate.energy_j,
                    "interval_j": list(estimate.energy_j_interval),
                    "metered_j": None if row is None else row.energy_j_per_step,
                }
                for side, estimate, row in sides
            },
            "metered_ratio": self.metered_ratio,
            "provenance": None if provenance is None else provenance.value,
            "widths": dict(self.widths),
            "full_widths": dict(self.full),
            "strategy": self.strategy,
            "guide": self.guide,
            "importance": self.importance,
            "importance_kept": self.kept,
            "steps": self.steps,
            "warnings": list(self.warnings),
        }

    def __repr__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().html()

    def _title(self) -> str:
        before, after = map(tables.joules, (self.before.energy_j, self.after.energy_j))
        if self.unchanged:
            return f"{self.name} fits {self.budget} as it is: {before} a training step, estimated"
        return (
            f"{self.name}, cut to {self.budget}: {after} a training step, not {before}, estimated"
        )

    def _page(self) -> tables.Page:
        """A row for each layer; those that were and are the same stand together."""
        pairs = list(zip(self.was, self.slim.layers, strict=True))
        groups = tables.grouped(
            range(len(pairs)), lambda i: (pairs[i][0].kind.name, *(p.widths for p in pairs[i]))
        )
        sides = (self.before, self.after)
        joules = [
            [sum(estimate.lines[i].cost.energy_j for i in group) for group in groups]
            + [estimate.energy_j]
            for estimate in sides
        ]
        unit, texts = tables.same_unit([*joules[0], *joules[1]], "J")
        numbers = [
            (before, after, tables.percent(new / old) if old > 0 else tables.UNKNOWN)
            for before, after, old, new in zip(
                texts[: len(groups) + 1], texts[len(groups) + 1 :], *joules, strict=True
            )
        ]
        rows = [
            (tables.times(was.name, len(group)), was.kind.operation, _changes(was, layer), *row)
            for group, (was, layer), row in zip(
                groups, (pairs[group[0]] for group in groups), numbers, strict=False
            )
        ]
        headers = ("layer", "operation", "widths", f"before ({unit})", f"after ({unit})", "share")
        total = ("with the step itself", "", "", *numbers[-1])
        return tables.Page(self._title(), headers, rows, "<<<>>>", total, self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        low, high = map(tables.joules, self.after.energy_j_interval)
        budget = f"{self.budget}: {tables.joules(self.limit_j)} a step"
        if self.steps:
            budget += f" over {tables.plural(self.steps, 'step')}, fine-tuning included"
        sure, provenance = tables.percent(self.confidence), self.before.provenance
        facts = [
            ("budget", budget),
            ("estimate", f"{tables.joules(self.after.energy_j)} (90 % interval {low} to {high})"),
        ]
        if self.guide == "energy":
            facts.append(("surely", f"under {tables.joules(self.bound_j)} with {sure} confidence"))
        if self.metered is not None:
            before, after = (tables.joules(row.energy_j_per_step) for row in self.metered)
            inside = self.metered[1].energy_j_per_step <= self._metered_limit
            verdict = "inside the budget" if inside else "OVER the budget"
            facts.append(
                ("metered", f"{after}, {tables.percent(self.metered_ratio)} of {before}: {verdict}")
            )
        facts += [
            ("search", f"strategy {self.strategy}, guided by {self.guide}"),
            ("kept", f"{tables.percent(self.kept)} of the importance ({self.importance})"),
            ("energy", f"joules are {tables.origin(provenance and provenance.value)}"),
            ("device", self.before.device or tables.UNKNOWN),
        ]
        return [*facts, *(("warning", text) for text in self.warnings)]

    @property
    def _metered_limit(self) -> float:
        """A share is one of what was metered; joules are joules."""
        if self.metered is not None and self.budget.unit == SHARE:
            return self.limit_j / self.before.energy_j * self.metered[0].energy_j_per_step
        return self.limit_j


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
    steps: int | None = None,
    data: Dataset | str | None = None,
    fine_tune_steps: int = 0,
    fine_tune: FineTune | None = None,
    score: Score | None = None,
    seed: int = 0,
    verify: bool = False,
    device: Device | None = None,
    any_device: bool = False,
    effort: Effort | None = None,
    batch_size: int | None = None,
    optimizer: str | None = None,
    loss: Loss | None = None,
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
        steps: Training steps of the job, where the budget is for a whole one.
        data: Data to score and fine-tune on: `digits`, `celeba:DIR` or `path/file.py:function`.
        fine_tune_steps: Steps of fine-tuning for each finalist; they count towards the job.
        fine_tune: Your own fine-tuning of a model, in place of training on `data`.
        score: Your own score of a model, the higher the better, in place of the loss on `data`.
        seed: Of everything that is random.
        verify: Meter both models, side by side.
        device: Where to meter; this machine unless given.
        any_device: Meter on another device than the profile's all the same.
        effort: How carefully to meter.
        batch_size: As the model is trained; the profile's own unless given, like the next two.
        optimizer: See `batch_size`.
        loss: See `batch_size`.

    Raises:
        DataError: The budget is below what the smallest model takes, or makes no sense.
        NotCovered: The profile knows nothing of some layers.
    """
    from ampere.frameworks.torch import make_slimmer

    budget = parse_budget(budget) if isinstance(budget, str) else budget
    _check(confidence, strategy, guide, least)
    training = profile.training_settings().but(batch_size, optimizer, loss)
    training = replace(training, loss=present_loss(training.loss))
    slimmer = make_slimmer(
        model, input, weights=weights, importance=importance, seed=seed, **vars(training)
    )
    before = profile.estimate(slimmer.layers)
    _refuse_uncovered(before, profile)
    judge = Judge.of(slimmer, data, score, fine_tune, fine_tune_steps, training.batch_size, seed)
    job = (steps or 0) + judge.finalists * fine_tune_steps
    limit_j = budget.per_step(before.energy_j, job or None)
    family = profile.tabulate(slimmer.layers)
    space = _space(slimmer, family, _guide(guide, family, confidence), least)
    widths = _widths(space, budget, limit_j, before, strategy, guide, seed, judge.candidates)
    chosen = judge.choose(slimmer, [_named(space, row) for row in widths])
    after = profile.estimate(chosen.slim.layers)
    found = Pruning(
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
        _named(space, space.largest),
        float(np.mean([slimmer.kept(name, size) for name, size in chosen.widths.items()])),
        slimmer.ratios(chosen.widths),
        job or None,
        source=model if isinstance(model, str) else None,
        warnings=tuple(_warnings(slimmer, chosen.slim, after, weights, model)),
    )
    if not verify:
        return found
    return replace(found, metered=_meter(found, profile, device, any_device, effort))


def _check(confidence: float, strategy: str, guide: str, least: float) -> None:
    if not 0.5 <= confidence < 1:
        raise DataError(f"confidence is {confidence}: use 0.5 or more, and less than 1")
    if strategy not in SEARCHES:
        raise DataError(f"unknown strategy {strategy!r}: use one of {', '.join(SEARCHES)}")
    if guide not in GUIDES:
        raise DataError(f"unknown guide {guide!r}: use one of {', '.join(GUIDES)}")
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


def _guide(name: str, family: FamilyTables, confidence: float) -> Guide:
    return EnergyGuide(family, confidence) if name == "energy" else FlopsGuide(family)


def _space(slimmer: Slimmer, family: FamilyTables, guide: Guide, least: float) -> Space:
    """Every free width from its least to its full size; those that cannot be cut stay full."""
    lows, worth = [], []
    for name, largest, step in zip(family.names, family.largest, family.steps, strict=True):
        low = max(step, -(-int(np.ceil(least * largest)) // step) * step)
        lows.append(largest if name in slimmer.stuck else min(low, largest))
        sizes = range(0, largest + 1, step)
        kept = np.array([slimmer.kept(name, size) for size in sizes])
        worth.append(np.maximum(kept, np.finfo(float).tiny))
    return Space(family.names, family.largest, family.steps, lows, worth, guide)


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


def _warnings(
    slimmer: Slimmer, slim: Slim, after: Estimate, weights: object, model: object
) -> list[str]:
    texts = list(after.warnings)
    if weights is None and isinstance(model, str):
        texts.append("no weights were given, so channels were chosen among untrained ones")
    if slimmer.stuck:
        names = ", ".join(sorted(slimmer.stuck))
        texts.append(f"left as they are, their channels cannot be followed: {names}")
    if slim.rebuilt:
        texts.append(
            "sizes stand in the model's own code, so it was built again from its layers, for"
            f" batches of {slimmer.setting.batch} where its code writes the batch into a shape"
        )
    if slimmer.reading.unused:
        names = ", ".join(slimmer.reading.unused)
        texts.append(f"left as they are, nothing in a training step uses them: {names}")
    return texts


def _meter(
    found: Pruning, profile: Profile, device: Device | None, any_device: bool, effort: Effort | None
) -> tuple[Measurement, Measurement]:
    """Both models, burst by burst in turn, on the profile's scale."""
    with device_or_local(device) as opened:
        if not any_device:
            refuse_to_mix(opened.fingerprint, profile.header.fingerprint)
        work = [(Workload(layers), layers) for layers in (found.was, found.slim.layers)]
        nominal = reference_of(profile.header, opened)
        before, after = measure(opened, work, nominal, effort or VERIFYING)
    for row in (before, after):
        if row.failed is not None:
            raise MeasurementFailed(f"the model could not be metered: {row.failed}")
    return before, after


def _changes(was: Layer, layer: Layer) -> str:
    """`in=3 out=32→21`."""
    return " ".join(
        f"{name}={size}" if layer.widths[name] == size else f"{name}={size}→{layer.widths[name]}"
        for name, size in was.widths.items()
    )


def refuse_to_overwrite(folder: Path) -> None:
    """Raise unless the folder is new, or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} is there already: choose another folder, or remove it first")
