"""Repeats: how sittings agree, raw and corrected, as it is and with a drift on top."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Any, TypeVar, cast

import ampere
from ampere.core.fingerprint import Fingerprint, local_fingerprint
from ampere.core.types import Json
from ampere.core.workloads import ModelSpec, Workload
from ampere.devices.base import Burst, Device, Loaded
from ampere.errors import Busy
from ampere.meters.base import Resolution
from ampere.meters.surroundings import Watched
from ampere.pytorch.models import read
from ampere.records.measurement import Measurement, succeeded
from ampere.sittings.measure import Work, measure
from ampere.sittings.reference import Reference, take_reference
from measured.codes import Code
from measured.part import TRIES, Keep, Part, Scale, say

T = TypeVar("T")
WAVE, WAVE_S = 0.15, 47.0  # the drift that is put on top
AS_IT_IS, DRIFT, CALM = "as it is", f"a drift of ±{WAVE:.0%} on top", "calm"
NOISES = (0.02, 0.05)  # of bursts of the calm device
MOST_RATIO, MOST_DRIFTING = 1.1, 0.5  # bars for corrected errors, as multiples of raw ones


@dataclass
class Drifting:
    """A device whose readings a drift multiplies."""

    device: Device

    def __getattr__(self, name: str) -> object:
        return getattr(self.device, name)

    def burst(self, handle: int, steps: int) -> Burst:
        """What the device says, times the drift of the moment."""
        metered = self.device.burst(handle, steps)
        factor = 1 + WAVE * math.sin(2 * math.pi * time.monotonic() / WAVE_S)
        return replace(metered, energy_j=factor * metered.energy_j, time_s=factor * metered.time_s)


@dataclass
class Calm:
    """A device without drift: every step costs 1 J and 0.03 s, with noise."""

    noise: float
    fingerprint: Fingerprint = field(default_factory=lambda: local_fingerprint({}))
    provenance: ampere.Provenance = ampere.Provenance.SIMULATED
    resolution: Resolution = field(default_factory=Resolution)
    meter: Mapping[str, Json] = field(default_factory=lambda: {"name": "calm", "settings": {}})
    _rng: random.Random = field(default_factory=lambda: random.Random(0))
    _handles: itertools.count[int] = field(default_factory=itertools.count)
    _clock_s: float = 0.0

    def load(self, workload: Workload) -> Loaded:
        """Any workload will do."""
        return Loaded(next(self._handles))

    def unload(self, handle: int) -> None:
        """Nothing is held."""

    def burst(self, handle: int, steps: int) -> Burst:
        """The same cost each time, but for noise."""
        factor = math.exp(self._rng.gauss(0.0, self.noise))
        self._clock_s += 0.03 * steps * factor
        return Burst(steps, steps * factor, 0.03 * steps * factor)

    def watch(self, time_s: float) -> Watched:
        """Nothing else runs there."""
        self._clock_s += time_s
        return Watched(time_s)

    def now(self) -> float:
        """A clock that only its bursts move."""
        return self._clock_s

    def close(self) -> None:
        """Nothing was started."""


@dataclass
class Sittings:
    """Sittings of one journal: the same workloads on a device in a certain condition."""

    name: str
    condition: str
    device: Device
    nominal: Reference
    rows: list[Measurement] = field(default_factory=list)
    figures: list[list[dict[str, float]]] = field(default_factory=list)
    refused: int = 0

    @classmethod
    def begin(cls, name: str, condition: str, device: Device) -> Sittings:
        """Take the scale of the device."""
        nominal = patiently(lambda: take_reference(device))
        if nominal is None:
            raise Busy("this machine is busy: leave it alone, and try again")
        return cls(name, condition, device, nominal)

    def sit(self, work: Sequence[Work]) -> None:
        """Measure all workloads once more."""
        rows = patiently(lambda: measure(self.device, work, self.nominal, known=self.rows))
        if rows is None:
            self.refused += 1
            return
        self.rows += succeeded(rows, "a workload")
        self.figures.append(
            [
                {
                    "raw": row.bursts["median_energy_j"],
                    "mean": fmean(row.bursts["energy_j"]),
                    "corrected": row.energy_j,
                    "within": row.spread / math.sqrt(row.repeats),
                }
                for row in rows
            ]
        )

    def to_json(self) -> dict[str, Json]:
        """What is kept of it."""
        about = {"device": self.name, "condition": self.condition, "refused": self.refused}
        return {**about, "sittings": self.figures}


def patiently(action: Callable[[], T]) -> T | None:
    """Do something on a machine that others may keep busy for a while; None if they do not end."""
    for _ in range(TRIES):
        try:
            return action()
        except Busy as error:
            say(str(error))
    return None


def run_repeats(scale: Scale, codes: Mapping[str, Code], keep: Keep) -> None:
    """Sit again and again, on devices and in conditions that alternate."""
    models = [model for model, _ in scale.workloads]
    work = [(Workload(model=ModelSpec(model)), read(model)) for model in models]
    calm: list[Sittings] = []
    for noise in NOISES:
        calm.append(Sittings.begin(f"simulated, bursts ±{noise:.0%}", CALM, Calm(noise)))
        for _ in range(scale.calm):
            calm[-1].sit(work)
        say(f"{calm[-1].name}: {scale.calm} sittings")
    with contextlib.ExitStack() as stack:
        begun: list[list[Sittings]] = [[], []]
        for threads in (1, 2):
            name = f"{threads} thread{'s' if threads > 1 else ''}"
            device = stack.enter_context(ampere.LocalDevice(ampere.Settings(threads=threads)))
            begun[0].append(Sittings.begin(name, AS_IT_IS, device))
            drifting = cast("Device", Drifting(device))
            begun[1].append(Sittings.begin(name, DRIFT, drifting))
        for number, together in itertools.product(range(scale.sittings), begun):
            start_s = time.monotonic()
            for each in together:
                each.sit(work)
                say(f"{each.name}, {each.condition}: sitting {number + 1} of {scale.sittings}")
            every = [*calm, *itertools.chain(*begun)]
            keep({"workloads": models, "journals": [each.to_json() for each in every]})
            time.sleep(max(0.0, start_s + scale.apart_s - time.monotonic()))


def repeat_error(repeated: Sequence[Sequence[float]]) -> float:
    """Mean absolute difference of two repeats of the same, relative to their mean."""
    return fmean(
        2 * abs(a - b) / (a + b)
        for series in repeated
        for a, b in itertools.combinations(series, 2)
    )


def repeats_table(data: Mapping[str, Any]) -> list[str]:
    """A row a device, condition and workload, and which of them miss their bar."""
    text = [
        "Error of measuring again, raw (median of bursts) and corrected; `within` is the standard"
        " error that bursts of a sitting tell.",
        "",
        "| device | condition | workload | sittings | within | raw | corrected | ratio"
        " | to means of bursts |",
        "|---" * 9 + "|",
    ]
    missed: dict[float, list[str]] = {MOST_RATIO: [], MOST_DRIFTING: []}
    for journal in data["journals"]:
        sittings = journal["sittings"]
        if len(sittings) < 2:
            text.append(f"| {journal['device']} | {journal['condition']} | too few sittings |")
            continue
        cells = {model: [i] for i, model in enumerate(data["workloads"])}
        if journal["condition"] == CALM:
            cells = {"all": list(range(len(data["workloads"])))}
        for workload, chosen in cells.items():
            series = {
                figure: [[rows[i][figure] for rows in sittings] for i in chosen]
                for figure in ("raw", "mean", "corrected", "within")
            }
            raw, mean, corrected = (repeat_error(series[f]) for f in ("raw", "mean", "corrected"))
            within = median(itertools.chain(*series["within"]))
            name = f"{journal['device']}, {journal['condition']}"
            text.append(
                f"| {journal['device']} | {journal['condition']} | {workload} | {len(sittings)} |"
                f" {within:.1%} | {raw:.1%} | {corrected:.1%} | {corrected / raw:.2f} |"
                f" {corrected / mean:.2f} |"
            )
            for bar, bad in missed.items():
                applies = bar == MOST_RATIO or journal["condition"] == DRIFT
                if applies and corrected / raw > bar:
                    bad.append(f"{name}, {workload}: {corrected / raw:.2f}")
    refused = sum(journal["refused"] for journal in data["journals"])
    names = {MOST_RATIO: "in any cell", MOST_DRIFTING: "with a drift on top"}
    text.append("")
    for bar, bad in missed.items():
        kept = "missed by " + "; ".join(bad) if bad else "kept everywhere"
        text.append(f"- A ratio of at most {bar} {names[bar]}: {kept}.")
    return [*text, f"- Sittings that were refused: {refused}."]


REPEATS = Part(run_repeats, repeats_table, needs_before=False)
