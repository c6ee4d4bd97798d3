"""Checking: how well does this machine repeat, and is energy additive on it (paper, Fig. 2)?

The same layer is stacked 0 to 6 times between a first and a last one: if energy is additive, the
total grows on a straight line. And layers of two kinds are put in every order: if position does not
matter, all orders cost the same. Some of these networks are measured again and again, and once more
after a pause: what bursts of one moment agree to says little of what the next moment brings.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from ampere.acquisition.loop import rest
from ampere.acquisition.progress import Event, Watch, unwatched
from ampere.core import units
from ampere.core.fingerprint import Fingerprint
from ampere.core.layers import Layer
from ampere.core.page import Page, bar
from ampere.core.types import Json
from ampere.core.workloads import Workload
from ampere.devices.base import Device
from ampere.meters.base import Provenance
from ampere.records.measurement import Measurement, succeeded, utc_now
from ampere.records.repeats import Repeats, repeats_of
from ampere.sittings.effort import Effort
from ampere.sittings.measure import measure
from ampere.sittings.quiet import LIMIT
from ampere.sittings.reference import Reference, take_reference

DEPTHS = tuple(range(7))
QUIET = 0.05
ADDITIVE = 0.1
CHECKED = "a network of the check"
REPEATED = (1, 3, 5)  # depths of the stacks that are measured again
REPEATS = 2
PAUSE_S = 60.0
GOVERNORS = ("powersave", "ondemand", "conservative", "schedutil")


@dataclass(frozen=True)
class Check:
    """What a check found. Errors and deviations are relative.

    `at_once` is how networks repeated within seconds, `repeats` with the sitting after the pause;
    `foreign_load` is what others had of the cores that steps used, `advice` what would help.
    """

    repeats: Repeats
    at_once: Repeats
    foreign_load: float
    advice: tuple[str, ...]
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
    def repeat_error(self) -> float:
        """How far two measurements of the same are from each other, minutes apart or at once."""
        return max(self.repeats.between or 0.0, self.at_once.between or 0.0)

    @property
    def quiet(self) -> bool:
        """Whether repeating a measurement gives the same within 5 %, in some minutes, too."""
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
            "repeat_error": self.repeat_error,
            "advice": list(self.advice),
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
                f"{_yes(self.quiet)}: bursts agree to {units.percent(self.repeats.within)}; again"
                f" at once: {units.percent(self.at_once.between)}; again within"
                f" {units.seconds(self.repeats.apart_s)}: {units.percent(self.repeats.between)}",
            ),
            (
                "expect",
                f"that a model estimated from a profile made here is off by about"
                f" {units.percent(self.repeats.error)} for the machine's sake alone",
            ),
            *(("helps", text) for text in self.advice),
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
    pause_s: float = PAUSE_S,
    watch: Watch = unwatched,
) -> Check:
    """Measure stacks of one layer and permutations of two between the given first and last.

    Then some of them once more after a pause.
    """
    first, last = ends
    nominal = take_reference(device, effort)
    start = time.monotonic()
    stacks = [chain(first, [stacked] * depth, last) for depth in DEPTHS]
    orders = {
        text: chain(first, [stacked if letter == "A" else other for letter in text], last)
        for text in ("AAB", "ABA", "BAA")
    }
    total = len(stacks) + len(orders) + len(REPEATED) * (REPEATS + 1)
    known: list[Measurement] = []

    def sit(doing: str, networks: Sequence[tuple[Layer, ...]]) -> list[Measurement]:
        done = len(known)
        pace = (time.monotonic() - start) / done if done else 1.0
        watch(Event(doing, done, total, pace * (total - done) + pause_s))
        work = [(Workload(layers), layers) for layers in networks]
        rows = succeeded(measure(device, work, nominal, effort, known=known), CHECKED)
        known.extend(rows)
        return rows

    depth_rows = sit("the same layer 0 to 6 times", stacks)
    order_rows = sit("two kinds of layers in every order", list(orders.values()))
    some = [stacks[depth] for depth in REPEATED]
    at_once = [row for _ in range(REPEATS) for row in sit("some of them again and again", some)]
    watch(Event("waiting, to see how it is then", len(known), total, pause_s))
    rest(device, pause_s)
    later = sit("the same again", some)
    watch(Event("done", total, total, 0.0))
    return _judge(
        depth_rows,
        dict(zip(orders, order_rows, strict=True)),
        (repeats_of(at_once), repeats_of([*at_once, *later])),
        _foreign_load(known),
        nominal,
        device,
    )


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
    repeats: tuple[Repeats, Repeats],
    foreign_load: float,
    nominal: Reference,
    device: Device,
) -> Check:
    stacked_j = tuple(row.energy_j for row in stacks)
    line = trend(DEPTHS, stacked_j)
    order_j = {text: row.energy_j for text, row in orders.items()}
    middle = statistics.fmean(order_j.values())
    at_once, later = repeats
    return Check(
        repeats=replace(later, when=utc_now()),
        at_once=at_once,
        foreign_load=foreign_load,
        advice=tuple(advice(device.fingerprint, later, foreign_load)),
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


def _foreign_load(rows: Sequence[Measurement]) -> float:
    """What others had of the cores while all this was measured."""
    others_s = math.fsum(s for row in rows for s in row.bursts.get("others_s", ()))
    time_s = math.fsum(
        row.bursts["steps"] * s for row in rows for s in row.bursts.get("time_s", ())
    )
    return others_s / time_s if time_s else 0.0


def advice(fingerprint: Fingerprint, repeats: Repeats, foreign_load: float) -> list[str]:
    """What would make measurements on this device repeat better; nothing where all is well."""
    texts = []
    threads, cores = (fingerprint.identity.get(name, "") for name in ("threads", "cores"))
    if threads.isdigit() and cores.isdigit() and int(threads) > int(cores):
        texts.append(f"--threads {cores}: {threads} threads share {cores} cores")
    elif (repeats.between or 0.0) > QUIET and threads == cores and threads not in ("", "1"):
        texts.append(
            f"--threads {int(cores) - 1 or 1}: {threads} threads wait for each other, and for"
            " whoever else has one of the cores"
        )
    if foreign_load > LIMIT:
        texts.append(
            f"ending other programs: they had {units.percent(foreign_load)} of a core meanwhile"
        )
    mode = fingerprint.identity.get("power_mode", "")
    if any(governor in mode for governor in GOVERNORS):
        texts.append(f"the governor `performance`: it is {mode}, which changes clocks all the time")
    if fingerprint.conditions.get("power_source") == "battery":
        texts.append("the power cable: many machines are slower on battery")
    if (repeats.between or 0.0) > QUIET:
        texts.append("more than one sitting: --sittings 2, with minutes in between")
    return texts
