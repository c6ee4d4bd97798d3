"""Doubts: what a reader should know of measurements before believing what is made of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone

from ampere.core import units
from ampere.estimators.base import usable
from ampere.records.journal import Header, devices_of
from ampere.records.measurement import Measurement
from ampere.records.repeats import repeats_of

OLD_DAYS = 180
NOISY = 0.25  # relative spread of bursts above which figures are not to be trusted
MARKED = {  # what rows may be marked for (see `Measurement`), and what that means
    "busy": "measured while other programs ran, which was accepted: intervals are wider for it",
    "pace": "the reference was more than 30 % off its pace of the beginning: this may be off by as"
    " much; measure again when the device is as it was",
    "clock": "the clock was set, or the machine slept, in the middle of it",
    "power": "the power cable was plugged in or out in the middle of it",
}
MOMENT_S = 120.0  # within which a device is in one mood
OTHER_PACE = 0.1  # relative difference to the pace of the beginning that is worth telling


def pace_of(measurements: Sequence[Measurement]) -> float | None:
    """How long steps took while profiling, as a multiple of when it was begun; None if unknown."""
    factors = (factor for row in measurements for factor in row.bursts.get("drift", []))
    drift = [factor for factor in factors if factor is not None]  # a reading that was lost
    return statistics.median(drift) if drift else None


def is_one_moment(measurements: Sequence[Measurement]) -> bool:
    """Whether all rows are of one moment, so that none shows what the device does at another.

    Rows that tell neither when they were measured nor in which sitting may be of many.
    """
    good = usable(measurements)
    times = [row.timestamp for row in good]
    if good and all(map(math.isfinite, times)):
        return max(times) - min(times) < MOMENT_S
    return len({row.sitting for row in good}) == 1 and good[0].sitting != ""


def restlessness(measurements: Sequence[Measurement]) -> list[str]:
    """Whether the machine was busy, or not as it was at the beginning."""
    texts = []
    good = usable(measurements)
    texts += [*row_doubts(good), *unsteadiness(good)]
    spread = statistics.median(row.spread for row in good) if good else 0.0
    if spread > NOISY:
        texts.append(
            f"bursts spread by {units.percent(spread)}: the machine was busy; see"
            " `ampere check`, and profile again when it is quiet"
        )
    pace = pace_of(measurements)
    if pace is not None and abs(pace - 1) > OTHER_PACE:
        texts.append(
            f"steps took {pace:.2f} × what they took when the profile was begun; all its"
            " figures are for the pace of that beginning"
        )
    return texts


def unsteadiness(measurements: Sequence[Measurement]) -> list[str]:
    """Whether networks that were measured again came out otherwise."""
    repeats = repeats_of(usable(measurements))
    if repeats.between is None or repeats.between <= OTHER_PACE:
        return []
    return [
        f"networks that were measured again came out {units.percent(repeats.between)} off:"
        " intervals allow for less; measure in more sittings, or on a quieter machine"
    ]


def row_doubts(measurements: Sequence[Measurement]) -> list[str]:
    """Whether measuring was disturbed in a way that rows were marked for."""
    texts = []
    many = len(measurements) > 1
    for mark, text in MARKED.items():
        marked = sum(mark in row.bursts.get("marks", ()) for row in measurements)
        if marked:
            texts.append(f"{marked} of {len(measurements)} rows: {text}" if many else text)
    return texts


def meter_faults(measurements: Sequence[Measurement]) -> list[str]:
    """Whether readings of the meter had to be taken again."""
    faults = sum(int(row.bursts.get("faults", 0)) for row in measurements)
    if not faults:
        return []
    times = units.plural(faults, "reading")
    return [f"{times} of the meter could not be true and had to be taken again: look at the meter"]


def mixtures(header: Header, measurements: Sequence[Measurement]) -> list[str]:
    """Whether rows of several devices, or joules of several origins, stand beside each other."""
    texts = []
    devices = devices_of(header, measurements)
    if len(devices) > 1:
        texts.append(
            f"rows of {len(devices)} devices are mixed ({', '.join(devices)}): estimates are of"
            " none of them"
        )
    origins = {header.provenance, *(row.provenance for row in measurements)}
    if len(origins) > 1:
        names = ", ".join(sorted(origin.value for origin in origins))
        texts.append(f"joules of different origin are mixed: {names}")
    return texts


def age(header: Header) -> list[str]:
    """Devices, drivers and frameworks change: whether an old profile holds must be looked at."""
    with suppress(ValueError, TypeError, OverflowError):  # it may say anything
        days = (datetime.now(timezone.utc) - datetime.fromisoformat(header.created)).days
        if days > OLD_DAYS:
            return [f"the profile is {days} days old: `ampere evaluate` tells whether it holds"]
    return []
