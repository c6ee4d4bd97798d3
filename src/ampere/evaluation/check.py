"""Checking: is this machine quiet enough, and is energy additive on it (paper, Fig. 2)?

The same layer is stacked 0 to 6 times between a first and a last one: if energy is additive, the
total grows on a straight line. And layers of two kinds are put in every order: if position does not
matter, all orders cost the same.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from ampere.acquisition.effort import Effort
from ampere.acquisition.measure import measure
from ampere.acquisition.progress import Event, Watch, unwatched
from ampere.acquisition.reference import Reference, take_reference
from ampere.core import units
from ampere.core.layers import Layer
from ampere.core.page import Page, bar
from ampere.core.types import Json
from ampere.core.workloads import Workload
from ampere.devices.base import Device
from ampere.meters.base import Provenance
from ampere.records.measurement import Measurement, succeeded

DEPTHS = tuple(range(7))
QUIET = 0.05
ADDITIVE = 0.1
CHECKED = "a network of the check"
REPEATS = 4


@dataclass(frozen=True)
class Check:
    """What a check found. Errors and deviations are relative."""

    repeat_error: float
    burst_spread: float
    depths: tuple[int, ...]
    stacked_j: tuple[float, ...]
    slope_j: float
    r2: float
    largest_deviation: float
    orders_j: dict[str, float]
    order_deviation: float
    provenance: Provenance
    idle_w: float

    @property
    def quiet(self) -> bool:
        """Whether repeating a measurement gives the same within 5 %."""
        return self.repeat_error <= QUIET

    @property
    def additive(self) -> bool | None:
        """Whether no stack and no order is more than 10 % (or thrice the repeat error) off.

        None where the machine is too noisy to tell.
        """
        limit = max(ADDITIVE, 3 * self.repeat_error)
        if self.largest_deviation <= limit and self.order_deviation <= limit:
            return True if self.quiet else None
        return False

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return {
            **asdict(self),
            "depths": list(self.depths),
            "stacked_j": list(self.stacked_j),
            "provenance": self.provenance.value,
            "quiet": self.quiet,
            "additive": self.additive,
        }

    def __repr__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().html()

    def _page(self) -> Page:
        unit, energies = units.same_unit(self.stacked_j, "J")
        largest = max(self.stacked_j)
        facts = [
            (
                "quiet",
                f"{_yes(self.quiet)}: repeating a measurement changes it by"
                f" {units.percent(self.repeat_error)}, bursts spread by"
                f" {units.percent(self.burst_spread)}",
            ),
            (
                "additive",
                f"{_yes(self.additive)}: {units.joules(self.slope_j)} for each layer more,"
                f" R² {self.r2:.4f}, largest deviation {units.percent(self.largest_deviation)}"
                f" from the line, {units.percent(self.order_deviation)} between orders",
            ),
            ("orders", ", ".join(f"{k} {units.joules(v)}" for k, v in self.orders_j.items())),
            ("idle", units.watts(self.idle_w)),
            ("energy", f"joules are {self.provenance.origin}"),
        ]
        return Page(
            "The same layer stacked between a first and a last one, per training step",
            headers=("layers", f"energy ({unit})", ""),
            rows=[
                (str(depth), text, bar(value, largest))
                for depth, text, value in zip(self.depths, energies, self.stacked_j, strict=True)
            ],
            align=">><",
            facts=facts,
        )


def _yes(fact: bool | None) -> str:
    return "cannot tell on a machine this noisy" if fact is None else "yes" if fact else "no"


def check(
    device: Device,
    ends: tuple[Layer, Layer],
    stacked: Layer,
    other: Layer,
    *,
    effort: Effort | None = None,
    watch: Watch = unwatched,
) -> Check:
    """Measure stacks of one layer and permutations of two between the given first and last."""
    first, last = ends
    nominal = take_reference(device, effort)
    start = time.monotonic()
    stacks = [chain(first, [stacked] * depth, last) for depth in DEPTHS]
    orders = {
        text: chain(first, [stacked if letter == "A" else other for letter in text], last)
        for text in ("AAB", "ABA", "BAA")
    }
    total = len(stacks) + len(orders) + REPEATS

    def watched(doing: str, done: int) -> None:
        pace = (time.monotonic() - start) / done if done else 2.0
        watch(Event(doing, done, total, pace * (total - done)))

    watched("the same layer 0 to 6 times", 0)
    depth_rows = succeeded(
        measure(device, [(Workload(s), s) for s in stacks], nominal, effort), CHECKED
    )
    watched("two kinds of layers in every order", len(stacks))
    order_rows = succeeded(
        measure(device, [(Workload(s), s) for s in orders.values()], nominal, effort), CHECKED
    )
    repeats = []
    for i in range(REPEATS):
        watched("one network again and again", len(stacks) + len(orders) + i)
        again = measure(device, [(Workload(stacks[2]), stacks[2])], nominal, effort)
        repeats += succeeded(again, CHECKED)
    watched("done", total)
    return _judge(depth_rows, dict(zip(orders, order_rows, strict=True)), repeats, nominal, device)


def chain(first: Layer, hidden: Sequence[Layer], last: Layer) -> tuple[Layer, ...]:
    """A network of these layers, each with a name of its own."""
    return (first, *(replace(h, name=f"hidden{i}") for i, h in enumerate(hidden, start=1)), last)


@dataclass(frozen=True)
class Trend:
    """The straight line through stacks of a layer, and how far they are from it, relatively."""

    slope_j: float
    start_j: float
    r2: float
    largest_deviation: float


def trend(depths: Sequence[int], stacked_j: Sequence[float]) -> Trend:
    """The line of least squares through what stacks of these depths take."""
    x, joules = np.array(depths, dtype=float), np.array(stacked_j)
    slope, start = np.polyfit(x, joules, 1)
    line = start + slope * x
    spread = float(np.square(joules - joules.mean()).sum())
    r2 = 1 - float(np.square(joules - line).sum()) / spread if spread else 0.0
    return Trend(float(slope), float(start), r2, float(np.max(np.abs(joules - line) / line)))


def _judge(
    stacks: Sequence[Measurement],
    orders: dict[str, Measurement],
    repeats: Sequence[Measurement],
    nominal: Reference,
    device: Device,
) -> Check:
    stacked_j = tuple(row.energy_j for row in stacks)
    line = trend(DEPTHS, stacked_j)
    order_j = {text: row.energy_j for text, row in orders.items()}
    middle = statistics.fmean(order_j.values())
    repeated_j = [row.energy_j for row in repeats]
    return Check(
        repeat_error=statistics.stdev(repeated_j) / statistics.fmean(repeated_j),
        burst_spread=statistics.fmean(row.spread for row in repeats),
        depths=DEPTHS,
        stacked_j=stacked_j,
        slope_j=line.slope_j,
        r2=line.r2,
        largest_deviation=line.largest_deviation,
        orders_j=order_j,
        order_deviation=max(abs(j / middle - 1) for j in order_j.values()),
        provenance=device.provenance,
        idle_w=nominal.idle_w,
    )
