"""Estimate: the cost of a whole model is the sum over its layers (paper, section 3.4, eq. 4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ampere.core import units
from ampere.core.groups import grouped
from ampere.core.layers import Layer
from ampere.core.page import Page, Range
from ampere.core.program.structure import TORCH
from ampere.core.rates import Rate
from ampere.core.types import Json
from ampere.errors import ContradictoryRows, DataError, NotCovered
from ampere.estimators.base import Cost, Fit, Line, Share, add_known
from ampere.estimators.encoding.encoder import STEP
from ampere.estimators.intervals import interval
from ampere.frameworks.models import runtime_facts
from ampere.meters.base import UNKNOWN_ORIGIN, Provenance
from ampere.profiles.cautions import SEEN, cautions, marked

TOLD = 0.01  # share of another device that is worth its name
LEFT_OUT = ("data loading", "validation")  # of a job of steps alone: not part of what was metered


@dataclass(frozen=True)
class Part:
    """One part of a whole job: training, validation or data loading; `basis` is how it is known."""

    name: str
    cost: Cost
    batches: int
    basis: str = ""


@dataclass(frozen=True)
class Estimate:
    """Joules and seconds of training a model: interval, a line per layer, and what is not in it.

    Lines are of the training alone. Where a whole job was asked about, `parts` are what makes up
    the total, and `job` is what was counted.
    """

    lines: tuple[Line, ...]
    energy_j: float
    energy_j_std: float
    time_s: float | None
    time_s_std: float | None
    steps: int = 1
    uncovered: tuple[Layer, ...] = ()
    device: str = ""
    provenance: Provenance | None = None
    method: str = "additive"
    battery_wh: float | None = None
    warnings: tuple[str, ...] = field(default=())
    energy_j_mean_std: float | None = None
    shares: tuple[Share, ...] = ()
    lent: Mapping[str, float] = field(default_factory=dict)  # shares of other devices in it
    carbon: Rate | None = None  # what a kWh emits while the job runs
    price: Rate | None = None  # what it costs
    parts: tuple[Part, ...] = ()
    job: Mapping[str, Json] = field(default_factory=dict)
    runtime: str = TORCH  # who trains there
    translated: bool = False  # what ampere made of the model for that runtime

    @property
    def energy_j_interval(self) -> tuple[float, float]:
        """The 90 % interval of the joules, as they would be metered once, at some moment."""
        return interval(self.energy_j, self.energy_j_std, self.method)

    @property
    def energy_j_mean_interval(self) -> tuple[float, float]:
        """The 90 % interval of the mean over a long job, in which noise and moods average out."""
        std = self.energy_j_std if self.energy_j_mean_std is None else self.energy_j_mean_std
        return interval(self.energy_j, std, self.method)

    @property
    def time_s_interval(self) -> tuple[float, float] | None:
        """The 90 % interval of the seconds; None if they are not known."""
        if self.time_s is None or self.time_s_std is None:
            return None
        return interval(self.time_s, self.time_s_std, self.method)

    @property
    def battery_share(self) -> float | None:
        """Which share of the battery the job takes."""
        return None if self.battery_wh is None else self.energy_j / (3600 * self.battery_wh)

    def at_rates(self, carbon: Rate | None, price: Rate | None, begin_s: float) -> Estimate:
        """The same job with what it emits and costs, if it begins at this moment."""
        if self.time_s is not None:  # else the mean of a file's hours stands
            end_s = begin_s + self.time_s
            carbon = carbon and carbon.during(begin_s, end_s)
            price = price and price.during(begin_s, end_s)
        notes = [rate.note for rate in (carbon, price) if rate is not None and rate.note]
        return replace(self, carbon=carbon, price=price, warnings=(*self.warnings, *notes))

    def for_steps(self, steps: int) -> Estimate:
        """The same model trained for this many steps; errors of a step do not average out."""
        if steps < 1:
            raise DataError(f"{steps} steps is not a training job: use 1 or more")
        if self.parts:
            raise DataError("this is of a whole job already: estimate the other job anew")
        by = steps / self.steps
        lines = tuple(replace(line, cost=line.cost.times(by)) for line in self.lines)
        total = Cost(self.energy_j, self.energy_j_std, self.time_s, self.time_s_std).times(by)
        mean_std = self.energy_j_mean_std
        return replace(
            self,
            energy_j=total.energy_j,
            energy_j_std=total.energy_j_std,
            time_s=total.time_s,
            time_s_std=total.time_s_std,
            lines=lines,
            shares=tuple(replace(each, cost=each.cost.times(by)) for each in self.shares),
            steps=steps,
            energy_j_mean_std=None if mean_std is None else by * mean_std,
        )

    def to_json(self) -> dict[str, Json]:
        """Plain data, as `ampere estimate --json` prints it."""
        row: dict[str, Json] = {
            "energy_j": _finite(self.energy_j),
            "energy_j_interval": [_finite(value) for value in self.energy_j_interval],
            "energy_j_mean_interval": [_finite(value) for value in self.energy_j_mean_interval],
            "energy_wh": _finite(self.energy_j / 3600),
            "time_s": self.time_s,
            "time_s_interval": list(self.time_s_interval or (None, None)),
            "steps": self.steps,
            "layers": [line.to_json() for line in self.lines],
            "uncovered": [
                {"name": layer.name, "kind": layer.kind.name, "widths": dict(layer.widths)}
                for layer in self.uncovered
            ],
            "device": self.device,
            "provenance": None if self.provenance is None else self.provenance.value,
            "method": self.method,
            "warnings": list(self.warnings),
        }
        if self.runtime != TORCH:
            row["runtime"], row["translated"] = self.runtime, self.translated
        if self.shares:
            row["operations"] = [share.to_json() for share in self.shares]
        if self.lent:
            row["borrowed"] = dict(self.lent)
        if self.parts:
            row["job"] = dict(self.job)
            row["parts"] = [self._part_row(part) for part in self.parts]
            row["not_in_it"] = self.left_out()
        if self.battery_wh is not None:
            row["battery_wh"], row["battery_share"] = self.battery_wh, self.battery_share
        for rate, name in ((self.carbon, "gco2e"), (self.price, "cost")):
            if rate is not None:
                row[name] = _finite(rate.of(self.energy_j))
                row[f"{name}_interval"] = [_finite(each) for each in self._at(rate)]
        if self.carbon is not None:
            row["carbon_g_per_kwh"] = self.carbon.per_kwh
            row["carbon_source"] = self.carbon.source
        if self.price is not None:
            row["price_per_kwh"], row["currency"] = self.price.per_kwh, self.price.unit
        return row

    def _at(self, rate: Rate) -> tuple[float, float]:
        """The interval of what the joules emit or cost; a price below 0 turns it around."""
        low, high = sorted(rate.of(energy_j) for energy_j in self.energy_j_interval)
        return low, high

    def _part_row(self, part: Part) -> dict[str, Json]:
        cost = part.cost
        seconds: tuple[float | None, float | None] = (None, None)
        if cost.time_s is not None and cost.time_s_std is not None:
            seconds = interval(cost.time_s, cost.time_s_std, self.method)
        return {
            "name": part.name,
            "energy_j": cost.energy_j,
            "energy_j_interval": list(interval(cost.energy_j, cost.energy_j_std, self.method)),
            "time_s": cost.time_s,
            "time_s_interval": list(seconds),
            "batches": part.batches,
            "basis": part.basis,
        }

    def left_out(self) -> list[str]:
        """What the total does not have."""
        if not self.parts:
            return list(LEFT_OUT)
        named = {part.name for part in self.parts}
        ranks = ["communication between ranks"] if self.job.get("ranks", 1) > 1 else []
        return [*(each for each in LEFT_OUT if each not in named), "checkpoints", *ranks]

    def __repr__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().html()

    def _page(self) -> Page:
        """A row for each kind and widths: layers that are the same stand together, as ×3."""
        lines = grouped(self.lines, lambda line: line.layer.identity)
        groups = [[line.layer for line in same] for same in lines]
        around = [part.cost for part in self.parts[1:]]  # the first is what the lines add up to
        costs = [[line.cost for line in group] for group in lines] + [[cost] for cost in around]
        energies = [math.fsum(cost.energy_j for cost in group) for group in costs]
        stds = [math.fsum(cost.energy_j_std for cost in group) for group in costs]
        times = [add_known(cost.time_s for cost in group) for group in costs]
        shares = [energy / self.energy_j if self.energy_j else math.nan for energy in energies]
        n = len(costs)
        unit, texts = units.same_unit([*energies, self.energy_j, *stds, self.energy_j_std], "J")
        time_unit, time_texts = units.same_time(
            [math.nan if time is None else time for time in (*times, self.time_s)]
        )
        columns = (texts[: n + 1], texts[n + 1 :], map(units.percent, [*shares, 1.0]), time_texts)
        numbers = list(zip(*columns, strict=True))
        names = [_described(group) for group in groups]
        names += [(part.name, f"{part.batches:,} batches", "") for part in self.parts[1:]]
        uncovered = grouped(self.uncovered, lambda layer: layer.identity)
        unknown = [_described(group) for group in uncovered]
        return Page(
            self._title(),
            headers=(
                "layer",
                "operation",
                "widths",
                f"energy ({unit})",
                "± std",
                "share",
                f"time ({time_unit})",
            ),
            rows=[
                *((*name, *row) for name, row in zip(names, numbers, strict=False)),
                *((*name, "not covered", "", "", "") for name in unknown),
            ],
            align="<<<>>>>",
            total=("total", "", "", *numbers[-1]),
            facts=self._facts(),
            bars={"share": shares},
            ranges=(self._range(),),
        )

    def _range(self) -> Range:
        low, high = self.energy_j_interval
        text = f"{units.joules(low)} to {units.joules(high)}"
        return Range("energy", low, self.energy_j, high, text)

    def _title(self) -> str:
        every = sum(line.layer.kind != STEP.kind for line in self.lines) + len(self.uncovered)
        missing = f" without {len(self.uncovered)} of {every} layers" if self.uncovered else ""
        low_j, high_j = map(units.joules, self.energy_j_interval)
        time = "time unknown"
        if self.time_s is not None and self.time_s_interval is not None:
            low_s, high_s = map(units.seconds, self.time_s_interval)
            time = f"{units.seconds(self.time_s)} ({low_s} to {high_s})"
        names = [part.name for part in self.parts[1:]]
        also = f" with {' and '.join(names)}" if names else ""
        return (
            f"{units.plural(self.steps, 'training step')}{also}{missing}:"
            f" {self._joules()} (90 % interval {low_j} to {high_j}), {time}"
        )

    def _joules(self) -> str:
        """Joules, and watt-hours beside them from one on."""
        text = units.joules(self.energy_j)
        return (
            f"{text}, {units.watt_hours(self.energy_j)}" if self.energy_j >= units.HOUR_J else text
        )

    def _operations(self) -> list[str]:
        """What operations cost, the dearest first, and how well they are known."""
        parts = [
            f"{share.operation} {units.percent(share.cost.energy_j / self.energy_j)}"
            for share in self.shares
            if share.cost.energy_j >= SEEN * self.energy_j
        ]
        return [", ".join(parts)] if parts else []

    def _part_facts(self) -> list[tuple[str, str]]:
        """A line for each part of a job, with its interval."""
        facts = []
        for part, row in ((part, self._part_row(part)) for part in self.parts):
            text = _ranging(units.joules, part.cost.energy_j, row["energy_j_interval"])
            time = _ranging(units.seconds, part.cost.time_s, row["time_s_interval"])
            facts.append((part.name, f"{text}, {time or 'time unknown'}; {part.basis}"))
        return facts

    def origin_facts(self) -> list[tuple[str, str]]:
        """Whose joules these are, and where they come from."""
        origin = self.provenance.origin if self.provenance else UNKNOWN_ORIGIN
        measured = origin.startswith("measured")  # what was; the estimate itself never is
        energy = f"estimated from joules {origin}" if measured else f"joules are {origin}"
        return [
            ("device", self.device or units.UNKNOWN),
            *runtime_facts(self.runtime, self.translated),
            ("energy", f"{energy}; method {self.method}"),
        ]

    def _facts(self) -> list[tuple[str, str]]:
        facts = [
            *self._part_facts(),
            *(("operations", text) for text in self._operations()),
            *self.origin_facts(),
            *([("borrowed", _borrowed(self.lent))] if self.lent else []),
            ("not in it", ", ".join(self.left_out())),
        ]
        if self.battery_wh is not None:
            share = f"{units.percent(self.battery_share)} of {self.battery_wh:g} Wh"
            facts.append(("battery", f"{share} ({units.watt_hours(self.energy_j)})"))
        for name, rate in (("carbon", self.carbon), ("cost", self.price)):
            if rate is not None:
                low, high = (rate.text(each) for each in self._at(rate))
                emitted = f"{rate.text(rate.of(self.energy_j))} ({low} to {high})"
                wh = units.watt_hours(self.energy_j)
                facts.append((name, f"{emitted}: {wh} at {rate}"))
        return [*facts, *(("warning", text) for text in self.warnings)]


def _ranging(word: Callable[[float], str], value: float | None, ends: Sequence[float]) -> str:
    """A value and its interval, if it has one."""
    if value is None:
        return ""
    return word(value) + (f" ({word(ends[0])} to {word(ends[1])})" if ends[0] < ends[1] else "")


def _borrowed(lent: Mapping[str, float]) -> str:
    """Which share other devices have in what is said, the largest first."""
    parts = sorted(lent.items(), key=lambda part: -part[1])
    told = [f"{name} {units.percent(share)}" for name, share in parts if share >= TOLD]
    whole = f"{units.percent(math.fsum(lent.values()))} from other devices"
    return f"{whole}: {', '.join(told)}" if told else whole


def _described(layers: Sequence[Layer]) -> tuple[str, str, str]:
    """Name, operation and widths of layers that are the same."""
    first = layers[0]
    widths = " ".join(f"{name}={width}" for name, width in first.widths.items())
    count = sum(layer.count for layer in layers)
    return units.times(first.name, count), first.kind.operation, widths


def estimate(
    layers: Sequence[Layer],
    fit: Fit,
    *,
    steps: int = 1,
    battery_wh: float | None = None,
    device: str = "",
    provenance: Provenance | None = None,
    warnings: Sequence[str] = (),
) -> Estimate:
    """What a fit says of these layers; those that it does not cover are named, not zero.

    Args:
        layers: Of the network.
        fit: What the measurements taught.
        steps: Of the job.
        battery_wh: What the battery holds.
        device: Whose joules they are.
        provenance: Where they come from.
        warnings: What is to be known of the measurements; the estimate inherits it.

    Raises:
        NotCovered: No layer is known.
        ContradictoryRows: The rows make joules that cannot be.
    """
    prediction = fit.predict(layers)
    if not prediction.lines:
        raise NotCovered(f"the profile covers none of {units.plural(len(layers), 'layer')}")
    total = _possible(prediction.total)
    prediction = replace(prediction, lines=marked(prediction))
    result = Estimate(
        lines=prediction.lines,
        energy_j=total.energy_j,
        energy_j_std=total.energy_j_std,
        time_s=total.time_s,
        time_s_std=total.time_s_std,
        uncovered=prediction.uncovered,
        device=device,
        provenance=provenance,
        method=fit.method,
        battery_wh=battery_wh,
        warnings=(*cautions(prediction), *warnings),
        energy_j_mean_std=prediction.mean_j_std,
        shares=tuple(sorted(prediction.shares, key=lambda share: -share.cost.energy_j)),
        lent=prediction.lent,
    )
    return result if steps == 1 else result.for_steps(steps)


def _possible(total: Cost) -> Cost:
    """A total that can be: joules are above 0, and seconds too, or not known."""
    if not (total.energy_j > 0 and math.isfinite(total.energy_j + total.energy_j_std)):
        raise ContradictoryRows(
            f"the profile's rows contradict each other: they make {units.joules(total.energy_j)}"
            " of this network, which cannot be; look for a wrong row with `ampere report`"
        )
    time_s, std = total.time_s, total.time_s_std
    known = time_s is not None and std is not None and time_s > 0 and math.isfinite(time_s + std)
    return total if known else Cost(total.energy_j, total.energy_j_std)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
