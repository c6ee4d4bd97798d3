"""Measurement: joules and seconds per training step, raw and immutable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone

from ampere.core import units
from ampere.core.layers import Layer
from ampere.core.page import printable
from ampere.core.types import Json
from ampere.errors import DataError, FaultyReading, MeasurementFailed
from ampere.meters.base import Provenance
from ampere.records.failure import Failure

STAGES = ("step", "forward", "backward", "update")


@dataclass(frozen=True)
class Measurement:
    """What one training step of one network took on one device.

    `spread` is the relative standard deviation of the joules of `repeats` bursts, without outliers.
    `energy_j_per_step` includes `idle_j_per_step`. A failed one has a reason and no numbers;
    seconds are None where nobody took them.
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

    @property
    def energy_j(self) -> float:
        """Joules of a step as a number for arrays: NaN where there are none."""
        return math.nan if self.energy_j_per_step is None else self.energy_j_per_step

    @property
    def time_s(self) -> float:
        """Seconds of a step as a number for arrays: NaN where there are none."""
        return math.nan if self.time_s_per_step is None else self.time_s_per_step

    @property
    def error(self) -> float:
        """The relative standard error of its joules, as far as its bursts show it."""
        return self.spread / math.sqrt(self.repeats)

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
        except ValueError:
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
        row["layers"] = [layer.to_json() for layer in self.layers]
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
            raise DataError(
                f"a row is an object with layers and energy_j_per_step, not {row!r:.80}"
            )
        row = {key: value for key, value in row.items() if value is not None}
        layers = row.get("layers")
        if not isinstance(layers, list) or not layers:
            raise DataError(f"layers must be a list of at least one layer, not {layers!r:.80}")
        reason = _text(row, "failed")
        failed = Failure.from_json(reason, row.get("cause")) if reason else None
        energy_j = _number(row, "energy_j_per_step", above=0.0)
        time_s = _number(row, "time_s_per_step", above=0.0)
        if failed is not None and not (energy_j is time_s is None):
            raise DataError(
                f"a row that failed ({failed}) has no energy and no time: leave them out"
            )
        if failed is None and energy_j is None:
            raise DataError("energy_j_per_step is missing: give it, or the reason as `failed`")
        repeats = row.get("repeats", 1)
        if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
            raise DataError(f"repeats must be a whole number of at least 1, not {repeats!r}")
        stage = _text(row, "stage") or "step"
        if stage not in STAGES:
            raise DataError(f"stage {stage!r} is unknown: use one of {', '.join(STAGES)}")
        bursts = row.get("bursts", {})
        if not isinstance(bursts, Mapping):
            raise DataError(f"bursts must be an object of lists, not {bursts!r:.80}")
        _check_bursts(bursts)
        return cls(
            layers=tuple(_layer(layer) for layer in layers),
            energy_j_per_step=energy_j,
            time_s_per_step=time_s,
            idle_j_per_step=_number(row, "idle_j_per_step"),
            spread=_number(row, "spread") or 0.0,
            repeats=repeats,
            device=_text(row, "device"),
            provenance=read_provenance(row.get("provenance", Provenance.EXTERNAL)),
            when=_text(row, "when"),
            stage=stage,
            failed=failed,
            cost_s=_number(row, "cost_s") or 0.0,
            bursts=dict(bursts),
        )


def read_provenance(value: Json) -> Provenance:
    """A provenance by its name; an unknown one is refused with the names that are known."""
    try:
        return Provenance(value)
    except ValueError:
        names = ", ".join(provenance.value for provenance in Provenance)
        raise DataError(f"provenance {value!r:.80} is unknown: use one of {names}") from None


def utc_now() -> str:
    """The present moment as `when` states it: ISO 8601, UTC, whole seconds."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _sizes(layer: Layer) -> str:
    return ", ".join(f"{name}={width}" for name, width in layer.widths.items())


def _layer(row: Json) -> Layer:
    try:
        layer = Layer.from_json(row)
    except OverflowError:  # 1e999 is valid JSON, and infinite
        raise DataError(f"not a layer (a size is infinite): {row!r:.120}") from None
    for name, value in layer.features.to_json().items():
        if not (math.isfinite(value) and value >= 0.0):
            raise DataError(f"layer {layer.name}: {name} must be finite and 0 or more, not {value}")
    return layer


def _check_bursts(bursts: Mapping[str, Json]) -> None:
    """What ampere reads of raw data must be readable; other tools may add what they like."""
    for name in ("steps", "faults"):
        if name in bursts:
            _number(bursts, name)
    for name in ("at", "energy_j", "time_s", "drift", "energy_drift", "outlier"):
        values = bursts.get(name, [])
        if not isinstance(values, list) or not all(
            value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
            for value in values
        ):
            raise DataError(f"bursts: {name} must be a list of numbers, not {values!r:.80}")


def _number(row: Mapping[str, Json], name: str, above: float | None = None) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DataError(f"{name} must be a number, not {value!r:.80}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0.0 or (above is not None and number <= above):
        if above is None:
            raise DataError(f"{name} must be finite and 0 or more, not {number}")
        # What a meter read, not what a tool wrote.
        raise FaultyReading(f"{name} must be finite and above {above:g}, not {number}")
    return number


def _text(row: Mapping[str, Json], name: str) -> str:
    value = row.get(name, "")
    if not isinstance(value, str):
        raise DataError(f"{name} must be a text, not {value!r:.80}")
    return value


def _without_nan(value: Json) -> Json:
    """Raw bursts keep their place when a reading was lost: NaN and infinity turn into null."""
    if isinstance(value, Mapping):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
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
