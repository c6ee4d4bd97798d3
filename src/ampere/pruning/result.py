"""Pruning, as a result: a model cut to a budget, and what it was and will cost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ampere.core import units
from ampere.core.boundary.files import is_part, is_there, writing_folder
from ampere.core.budget import JOULES, Budget
from ampere.core.groups import grouped
from ampere.core.layers import Layer
from ampere.core.page import Page, Range
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.estimators.intervals import bound
from ampere.meters.base import UNKNOWN_ORIGIN
from ampere.profiles.estimate import Estimate
from ampere.pruning.search import Search
from ampere.records.measurement import Measurement

if TYPE_CHECKING:
    from torch import nn

    from ampere.pytorch.pruning.slimmer import Slim


@dataclass(frozen=True)
class Pruning:
    """A model cut to a budget, with what it was and will be estimated, and metered, to cost."""

    name: str
    budget: Budget
    limit_j: float  # of a step
    search: Search
    before: Estimate
    after: Estimate
    layers_before: tuple[Layer, ...] = field(repr=False)
    slim: Slim = field(repr=False, compare=False)
    widths: Mapping[str, int]
    full_widths: Mapping[str, int]
    importance_kept: float  # the mean share
    ratios: Mapping[str, float] = field(repr=False)  # what each module loses, by its name
    steps: int | None = None  # of the whole job
    fine_tune_steps: int = 0  # of these, all finalists together
    accuracy: tuple[float, float] | None = None  # before and after, on the data's test part
    fine_tuned: bool = False  # only what was cut: the whole model stays as it was given
    metered: tuple[Measurement, Measurement] | None = None  # before and after
    source: str | None = None  # the text that names the original; none if it was an object
    warnings: tuple[str, ...] = ()

    @property
    def model(self) -> nn.Module:
        """The model itself, with the weights that were kept."""
        return self.slim.model

    @property
    def unchanged(self) -> bool:
        """Whether the whole model fits, so that nothing was cut."""
        return self.widths == self.full_widths

    @property
    def bound_j(self) -> float:
        """Joules that a step stays under with the asked confidence."""
        after = self.after
        return bound(after.energy_j, after.energy_j_std, self.search.confidence, after.method)

    @property
    def metered_ratio(self) -> float | None:
        """Metered joules after as a share of those before."""
        if self.metered is None:
            return None
        before, after = self.metered
        return after.energy_j / before.energy_j

    def pruning_ratio_dict(self, model: nn.Module) -> dict[nn.Module, float]:
        """What Torch-Pruning's pruners take: the modules of a model, and what each loses.

        Those that lose nothing are in it too: a pruner has a ratio of its own for all others.
        """
        return {model.get_submodule(name): ratio for name, ratio in self.ratios.items()}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write weights, widths and a Python file that builds the model into a new folder.

        Raises:
            DataError: It cannot be written, and nothing of it is there.
        """
        from ampere.pytorch.pruning.files import CODE, write_model

        target = Path(folder)
        refuse_to_overwrite(target)
        try:
            with writing_folder(target, last=CODE) as draft:
                write_model(draft, self.slim, self.source, self._title(), self.to_json(), target)
        except OSError as error:
            raise DataError(f"cannot write {target}: {error.strerror or error}") from None

    def to_json(self) -> dict[str, Json]:
        """Plain data, as `ampere prune --json` prints it."""
        metered, right = self.metered or (None, None), self.accuracy or (None, None)
        sides = zip(("before", "after"), (self.before, self.after), metered, right, strict=True)
        provenance = self.before.provenance
        return {
            "model": self.name,
            "budget": str(self.budget),
            "budget_j_per_step": self.limit_j,
            "confidence": self.search.confidence,
            **{
                side: {
                    "estimate_j": estimate.energy_j,
                    "interval_j": list(estimate.energy_j_interval),
                    "metered_j": None if row is None else row.energy_j,
                    "accuracy": accuracy,
                }
                for side, estimate, row, accuracy in sides
            },
            "metered_ratio": self.metered_ratio,
            "inside": None if self.metered is None else self._is_inside(*self.metered),
            "provenance": None if provenance is None else provenance.value,
            "metered_provenance": self.metered and self.metered[1].provenance.value,
            "widths": dict(self.widths),
            "full_widths": dict(self.full_widths),
            "strategy": self.search.strategy,
            "guide": self.search.guide,
            "importance": self.search.importance,
            "importance_kept": self.importance_kept,
            "fine_tuned": self.fine_tuned,
            "steps": self.steps,
            "warnings": list(self.warnings),
        }

    def __repr__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().html()

    def _title(self) -> str:
        before, after = map(units.joules, (self.before.energy_j, self.after.energy_j))
        if self.unchanged:
            return f"{self.name} fits {self.budget} as it is: {before} a training step, estimated"
        by = " by FLOPs" if self.search.guide == "flops" else ""
        cut = f"{self.name}, cut to {self.budget}{by}"
        return f"{cut}: {after} a training step, not {before}, estimated"

    def _page(self) -> Page:
        """A row for each layer; those that were and are the same stand together."""
        pairs = list(zip(self.layers_before, self.slim.layers, strict=True))
        groups = grouped(range(len(pairs)), lambda i: tuple(layer.identity for layer in pairs[i]))
        sides = (self.before, self.after)
        joules = [
            [sum(estimate.lines[i].cost.energy_j for i in group) for group in groups]
            + [estimate.energy_j]
            for estimate in sides
        ]
        unit, texts = units.same_unit([*joules[0], *joules[1]], "J")
        shares = [new / old if old > 0 else None for old, new in zip(*joules, strict=True)]
        n = len(groups) + 1
        numbers = list(zip(texts[:n], texts[n:], map(units.percent, shares), strict=True))
        rows = [
            (units.times(was.name, len(group)), was.kind.operation, _changes(was, layer), *row)
            for group, (was, layer), row in zip(
                groups, (pairs[group[0]] for group in groups), numbers, strict=False
            )
        ]
        headers = ("layer", "operation", "widths", f"before ({unit})", f"after ({unit})", "share")
        total = ("with the step itself", "", "", *numbers[-1])
        return Page(
            title=self._title(),
            headers=headers,
            rows=rows,
            align="<<<>>>",
            total=total,
            facts=self._facts(),
            bars={"share": shares},
            ranges=self._ranges(),
        )

    def _ranges(self) -> list[Range]:
        """Before, after and what is allowed, on one scale."""
        found = []
        for name, estimate in (("before", self.before), ("after", self.after)):
            low, high = estimate.energy_j_interval
            middle, *ends = map(units.joules, (estimate.energy_j, low, high))
            text = f"{middle} ({' to '.join(ends)})"
            found.append(Range(name, low, estimate.energy_j, high, text))
        limit_j = self.limit_j
        if limit_j <= 2 * self.before.energy_j:  # far beyond, it would make the others small
            found.append(Range("budget", limit_j, limit_j, limit_j, units.joules(limit_j)))
        return found

    def _facts(self) -> list[tuple[str, str]]:
        low, high = map(units.joules, self.after.energy_j_interval)
        budget = f"{self.budget}: {units.joules(self.limit_j)} a step"
        if self.steps and self.budget.unit in JOULES:
            budget += f" over {units.plural(self.steps, 'step')}"
            if self.fine_tune_steps:
                budget += f", {units.number(self.fine_tune_steps)} of them fine-tuning"
        provenance = self.before.provenance
        facts = [
            ("budget", budget),
            ("estimate", f"{units.joules(self.after.energy_j)} (90 % interval {low} to {high})"),
        ]
        if self.search.guide == "energy" and self.bound_j <= self.limit_j:
            sure = f"with {100 * self.search.confidence:g} % confidence"
            facts.append(("surely", f"under {units.joules(self.bound_j)} {sure}"))
        if self.metered is not None:
            facts.append(("metered", self._verdict(*self.metered)))
        if not self.unchanged:
            by, share = self.search, units.percent(self.importance_kept)
            facts += [
                ("search", f"strategy {by.strategy}, guided by {by.guide}"),
                ("kept", f"{share} of the importance ({by.importance})"),
            ]
        if self.accuracy is not None:
            facts.append(("accuracy", self._right(*self.accuracy)))
        facts += [
            ("energy", f"joules are {provenance.origin if provenance else UNKNOWN_ORIGIN}"),
            ("device", self.before.device or units.UNKNOWN),
        ]
        return [*facts, *(("warning", text) for text in self.warnings)]

    def _right(self, was: float, now: float) -> str:
        """Accuracy, and whether the two may be compared at all."""
        before = f"{units.percent(was)} before it was cut"
        if not self.fine_tuned:
            return f"{units.percent(now)} on test samples, {before}; neither was fine-tuned"
        return (
            f"{units.percent(now)} on test samples, cut and fine-tuned; {before}, where nothing was"
            " fine-tuned: train the whole model as long, to compare them"
        )

    def _verdict(self, before: Measurement, after: Measurement) -> str:
        inside = "inside" if self._is_inside(before, after) else "OVER"
        was, now = (units.joules(row.energy_j) for row in (before, after))
        text = f"{now}, {units.percent(self.metered_ratio)} of {was}: {inside} the budget"
        if after.provenance is self.before.provenance:
            return text
        return f"{text} ({after.provenance.origin})"

    def _is_inside(self, before: Measurement, after: Measurement) -> bool:
        """A share is one of what was metered; joules are joules."""
        scale = before.energy_j / self.before.energy_j
        limit_j = scale * self.limit_j if self.budget.is_share else self.limit_j
        return after.energy_j <= limit_j


def _changes(was: Layer, layer: Layer) -> str:
    """`in=3 out=32→21`."""
    return " ".join(
        f"{name}={size}" if layer.widths[name] == size else f"{name}={size}→{layer.widths[name]}"
        for name, size in was.widths.items()
    )


def refuse_to_overwrite(folder: Path, weights: int = 0) -> None:
    """Raise unless the folder is new, or empty, can be made, and has room for so many bytes."""
    target = Path(os.path.realpath(folder))
    if is_there(target) and (not target.is_dir() or not all(map(is_part, target.iterdir()))):
        raise DataError(f"{folder} is there already: choose another folder, or remove it first")
    home = next(each for each in (target, *target.parents) if is_there(each))
    if not home.is_dir() or not os.access(home, os.W_OK):
        raise DataError(f"cannot write {folder}: {home} is no folder that you may write to")
    free = shutil.disk_usage(home).free
    if free < weights:
        raise DataError(
            f"cannot write {folder}: the model may take {weights / 1e6:.1f} MB, the disk has room"
            f" for {free / 1e6:.1f} MB: make room, or choose another folder"
        )
