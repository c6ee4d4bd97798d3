"""Measurement: joules and seconds per training step, raw and immutable."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from statistics import NormalDist

from ampere.core import units
from ampere.core.boundary.fields import Fields, shown
from ampere.core.layers import Layer, Work, brief
from ampere.core.page import printable
from ampere.core.types import Json
from ampere.errors import DataError, FaultyReading, MeasurementFailed
from ampere.meters.base import Provenance
from ampere.records.failure import Failure
from ampere.records.history import recounted

STAGES = ("step", "forward", "backward", "update")
MOST_LAYERS = 10_000
SHORT = 200  # characters of a sitting's name
# Of a step; whoever means less or more has mistaken the unit.
LEAST_J, MOST_J = 1e-15, 1e15
LEAST_S, MOST_S = 1e-12, 1e12
REACH = NormalDist().inv_cdf(0.95)  # standard deviations of half a 90 % interval
# What bursts may say of what else ran meanwhile, a value each (see meters/surroundings.py).
EVIDENCE = ("cpu_s", "absent_s", "others_s", "stolen_s", "waiting_s", "held_s", "switches")
MARKS = ("busy", "pace", "clock", "power")  # what was not as it should be while it was measured
MOST_SPREAD, MOST_DOUBT = 1e6, 100.0
MOST_DRIFT = 1e6  # what a moment may be slower or faster than the beginning


@dataclass(frozen=True)
class Measurement:
    """What one training step of one network took on one device.

    `spread` is the relative standard deviation of the joules of `repeats` bursts, `doubt` the
    relative standard error that work of others may have added, where it was accepted. Networks that
    were measured together have one `sitting`. `energy_j_per_step` includes `idle_j_per_step`. A
    failed one has a reason and no numbers; seconds are None where nobody took them. `by_calls` says
    that it was measured to teach what calls cost: a profile with such rows is fitted by calls.
    """

    layers: tuple[Layer, ...]
    energy_j_per_step: float | None = None
    time_s_per_step: float | None = None
    idle_j_per_step: float | None = None
    spread: float = 0.0
    repeats: int = 1
    device: str = ""
    provenance: Provenance = Provenance.EXTERNAL
    when: str = ""
    stage: str = "step"
    failed: Failure | None = None
    cost_s: float = 0.0
    bursts: Mapping[str, Json] = field(default_factory=dict, compare=False)
    doubt: float = 0.0
    sitting: str = ""
    by_calls: bool = False

    @property
    def energy_j(self) -> float:
        """Joules of a step as a number for arrays: NaN where there are none."""
        return math.nan if self.energy_j_per_step is None else self.energy_j_per_step

    @property
    def time_s(self) -> float:
        """Seconds of a step as a number for arrays: NaN where there are none."""
        return math.nan if self.time_s_per_step is None else self.time_s_per_step

    @property
    def burst_error(self) -> float:
        """The relative standard error of its joules, as far as its bursts show it."""
        return self.spread / math.sqrt(self.repeats)

    @property
    def error(self) -> float:
        """The relative standard error of its joules, as far as it is known."""
        return math.hypot(self.burst_error, self.doubt)

    @property
    def metered_j(self) -> float:
        """Joules of all its bursts; warming up is not metered."""
        joules = (value for value in self.bursts.get("energy_j", []) if value is not None)
        return math.fsum(joules) * float(self.bursts.get("steps", 1))

    @property
    def timestamp(self) -> float:
        """`when` in seconds; NaN if it says nothing that can be read."""
        try:
            return datetime.fromisoformat(self.when.replace("Z", "+00:00")).timestamp()
        except (ValueError, OverflowError, OSError):  # the last two of years like 1 and 9999
            return math.nan

    def __repr__(self) -> str:
        """One line, since measurements come in lists."""
        network = " + ".join(
            f"{units.times(layer.kind.operation, layer.count)}({_sizes(layer)})"
            for layer in self.layers
        )
        what = "" if self.stage == "step" else f", {self.stage} alone"
        if self.failed is not None:
            return printable(f"<Measurement of {network}{what}: failed, {self.failed}>")
        return printable(
            f"<Measurement of {network}{what}: {units.joules(self.energy_j)} and"
            f" {units.seconds(self.time_s)} a step, spread {units.percent(self.spread)}"
            f" over {units.plural(self.repeats, 'burst')},"
            f" joules are {self.provenance.origin}>"
        )

    def to_json(self) -> dict[str, Json]:
        """A row of a journal, without what is default; what `from_json` would refuse is refused."""
        row = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}
        row["layers"] = layers = [layer.to_json() for layer in self.layers]
        if calls := _told_once(layers):
            row["calls"] = calls
        row["provenance"] = self.provenance.value
        if self.failed is not None:
            row.update(failed=self.failed.text, cause=self.failed.cause.value)
            row.pop("energy_j_per_step", None)
            row.pop("time_s_per_step", None)
        if bursts := _without_nan(self.bursts):
            row["bursts"] = bursts
        else:
            del row["bursts"]
        Measurement.from_json(row)
        return row

    @classmethod
    def from_json(cls, row: Json) -> Measurement:
        """Check a row, ours or another tool's: layers and `energy_j_per_step` are enough."""
        if not isinstance(row, Mapping):
            raise DataError(f"a row is an object with layers and energy_j_per_step: {shown(row)}")
        fields = Fields(row)
        layers = fields.items("layers", least=1, most=MOST_LAYERS)
        calls = [Work.from_json(call, place) for place, call in fields.items("calls")]
        reason = fields.text("failed", "")
        failed = Failure.from_json(reason, row.get("cause")) if reason else None
        # What a meter read, not what a tool wrote: such rows are left out, not the whole file.
        energy_j = fields.number(
            "energy_j_per_step", None, above=LEAST_J, most=MOST_J, beyond=FaultyReading
        )
        time_s = fields.number(
            "time_s_per_step", None, above=LEAST_S, most=MOST_S, beyond=FaultyReading
        )
        if failed is not None and not (energy_j is time_s is None):
            raise DataError(
                f"a row that failed ({failed}) has no energy and no time: leave them out"
            )
        if failed is None and energy_j is None:
            raise DataError("energy_j_per_step is missing: give it, or the reason as `failed`")
        return cls(
            layers=tuple(
                recounted(Layer.from_json(layer, where=place, calls=calls))
                for place, layer in layers
            ),
            energy_j_per_step=energy_j,
            time_s_per_step=time_s,
            idle_j_per_step=fields.number("idle_j_per_step", None, least=0.0, most=MOST_J),
            spread=fields.number("spread", 0.0, least=0.0, most=MOST_SPREAD),
            repeats=fields.whole("repeats", 1, least=1, most=10**9),
            doubt=fields.number("doubt", 0.0, least=0.0, most=MOST_DOUBT),
            sitting=fields.text("sitting", "", most=SHORT),
            by_calls=fields.flag("by_calls"),
            device=fields.text("device", ""),
            provenance=read_provenance(row.get("provenance") or Provenance.EXTERNAL),
            when=fields.text("when", ""),
            stage=fields.choice("stage", STAGES, "step"),
            failed=failed,
            cost_s=fields.number("cost_s", 0.0, least=0.0, most=MOST_S),
            bursts=_bursts(fields.inner("bursts", {})),
        )


def refuse_untrue(row: Measurement, number: int) -> None:
    """Raise unless numbers of a row that was made in Python can be true, as a file's must be."""
    if row.failed is not None:
        return
    if not LEAST_J < row.energy_j <= MOST_J:
        raise FaultyReading(f"row {number}: {row.energy_j_per_step} J a step cannot be")
    if row.time_s_per_step is not None and not LEAST_S < row.time_s <= MOST_S:
        raise FaultyReading(f"row {number}: {row.time_s_per_step} s a step cannot be")
    if not (0 <= row.spread <= MOST_SPREAD and 0 <= row.doubt <= MOST_DOUBT and row.repeats >= 1):
        raise DataError(
            f"row {number}: spread is from 0 to {MOST_SPREAD:g}, doubt from 0 to {MOST_DOUBT:g},"
            " repeats 1 or more"
        )
    for layer in row.layers:
        if layer.count < 1 or any(width < 1 for width in layer.widths.values()):
            raise DataError(f"row {number}: {layer!r} has a width or a count below 1")
        told = (layer.features, *(work.features for work in layer.work))
        numbers = [value for features in told for value in features.numbers if value is not None]
        if not all(0 <= value < math.inf for value in numbers):
            raise DataError(f"row {number}: {layer!r} has FLOPs or bytes that cannot be")


def read_provenance(value: Json) -> Provenance:
    """A provenance by its name; an unknown one is refused with the names that are known."""
    try:
        return Provenance(value)
    except ValueError:
        names = ", ".join(provenance.value for provenance in Provenance)
        raise DataError(f"provenance {shown(value)} is unknown: use one of {names}") from None


def utc_now() -> str:
    """The present moment as `when` states it."""
    return utc(time.time())


def utc(moment: float) -> str:
    """A moment, in seconds since 1970, as `when` states it: ISO 8601, UTC, whole seconds."""
    return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="seconds")


def _told_once(layers: Sequence[dict[str, Json]]) -> list[Json]:
    """Take calls out of layers, whose work is their numbers then: networks repeat them."""
    numbers: dict[str, int] = {}
    calls: list[Json] = []
    for layer in layers:
        work = [(repr(call), call) for call in layer.get("work", ())]
        for text, call in work:
            if numbers.setdefault(text, len(calls)) == len(calls):
                calls.append(call)
        if work:
            layer["work"] = [numbers[text] for text, _ in work]
    return calls


def _sizes(layer: Layer) -> str:
    return ", ".join(f"{name}={width}" for name, width in layer.widths.items())


def _bursts(fields: Fields) -> dict[str, Json]:
    """Raw data: what ampere reads of them must be readable; other tools may add what they like."""
    fields.whole("steps", 1, least=1, most=10**12)
    fields.whole("faults", 0, most=10**9)
    fields.number("loading_s", None, least=0.0, most=MOST_S)
    fields.numbers("at")
    fields.numbers("energy_j", least=0.0, most=MOST_J)
    fields.numbers("time_s", least=0.0, most=MOST_S)
    for name in ("drift", "energy_drift"):
        fields.numbers(name, above=1 / MOST_DRIFT, most=MOST_DRIFT)
    for name in ("outlier", "samples", *EVIDENCE):
        fields.numbers(name, least=0.0)
    for name in ("reference_energy_j", "reference_time_s"):
        fields.numbers(name, above=0.0, most=MOST_J)
    fields.whole("retaken", 0, most=10**9)
    fields.items("marks", most=len(MARKS))
    return {name: fields.plain(name) for name in fields.names(most=100) if name in fields}


def _without_nan(value: Json) -> Json:
    """Raw bursts keep their place when a reading was lost: NaN and infinity turn into null."""
    if isinstance(value, Mapping):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    if isinstance(value, float):
        return brief(value) if math.isfinite(value) else None
    return value


def succeeded(rows: Sequence[Measurement], what: str) -> list[Measurement]:
    """The same rows, if none of them failed.

    Raises:
        MeasurementFailed: One did; `what` says of whom.
    """
    for row in rows:
        if row.failed is not None:
            raise MeasurementFailed(f"{what} could not be metered: {row.failed}")
    return list(rows)
