r"""Aligning: joules of a lab meter's log, put to the bursts of a profile made without it.

    log      ──/‾‾\__/‾‾‾\___/‾‾\──/‾\─────      watts, on the log's clock
    bursts       ├──┤      ├──┤                  each row knows when its bursts began

The log may end up on this machine long after the measurements: a bench recorder, a phone's power
monitor on another computer. Both clocks are the same (dates), differ by `offset_s`, or are set
beside each other by a pulse of load that `ampere pulse` made at a known moment. Seconds stay as
they are; joules become what the log says, the drift of their moments divided out by what it did to
seconds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from ampere.errors import DataError, MeterFault
from ampere.meters.base import Provenance
from ampere.meters.traces import PowerTrace
from ampere.records.failure import Cause, Failure
from ampere.records.measurement import Measurement
from ampere.records.steady import steady

EDGES = 0.2  # of a burst: what the ends may be off by, when there are ten or more of them


def align(
    rows: Sequence[Measurement], trace: PowerTrace, offset_s: float = 0.0
) -> list[Measurement]:
    """These measurements with the joules of a log; those that cannot have them are left out.

    `offset_s` is added to the log's clock.

    Raises:
        DataError: If no row says when its bursts began, or they are too short for the log.
        MeterError: If the log does not cover them.
    """
    timed = [row for row in rows if row.failed is None and _whole(row)]
    if not timed:
        raise DataError("no row says when its bursts began: profile again with this version")
    shortest_s = min(_length_s(row) for row in timed)
    if trace.period_s > EDGES * shortest_s:
        raise DataError(
            f"bursts of {shortest_s:.3g} s are too short for a log of a sample every"
            f" {trace.period_s:.3g} s: profile again with --burst-s {trace.period_s / EDGES:.3g}"
        )
    aligned = [_aligned(row, trace, offset_s) for row in timed]
    if all(row.failed is not None for row in aligned):
        raise DataError("the log has no usable joules for any row: do both have the same clock?")
    return aligned


def _whole(row: Measurement) -> bool:
    """Whether it says of every burst when it began, and how long it took."""
    lists = [row.bursts.get(name, []) for name in ("at", "time_s", "drift")]
    complete = all(value is not None for values in lists for value in values)
    return bool(lists[0]) and complete and len({len(values) for values in lists}) == 1


def _length_s(row: Measurement) -> float:
    return float(_steps(row) * statistics.median(row.bursts["time_s"]))


def _steps(row: Measurement) -> float:
    return float(row.bursts.get("steps", 1))


def _aligned(row: Measurement, trace: PowerTrace, offset_s: float) -> Measurement:
    bursts = row.bursts
    steps = _steps(row)
    joules = [
        _joules(trace, at - offset_s, steps * time_s) / steps
        for at, time_s in zip(bursts["at"], bursts["time_s"], strict=True)
    ]
    outlier = set(bursts.get("outlier", []))  # rows of older versions left bursts out
    told = [
        (energy_j / factor, time_s / factor)
        for i, (energy_j, time_s, factor) in enumerate(
            zip(joules, bursts["time_s"], bursts["drift"], strict=True)
        )
        if i not in outlier and math.isfinite(energy_j)
    ]
    kept = [float(each) for each in steady(*zip(*told, strict=True))] if told else []
    if not kept:
        return replace(
            row,
            energy_j_per_step=None,
            time_s_per_step=None,
            idle_j_per_step=None,
            failed=Failure("the log has nothing usable for it", Cause.METER),
            bursts={},  # joules of the other meter
        )
    mean = statistics.fmean(kept)
    others = {name: values for name, values in bursts.items() if name != "samples"}  # not the log's
    return replace(
        row,
        energy_j_per_step=mean,
        idle_j_per_step=None,
        spread=statistics.stdev(kept) / mean if len(kept) > 1 else 0.0,
        repeats=len(kept),
        provenance=Provenance.EXTERNAL,
        bursts={**others, "energy_j": joules, "energy_drift": bursts["drift"]},
    )


def _joules(trace: PowerTrace, start_s: float, time_s: float) -> float:
    """What the log says of a burst; NaN where it cannot be trusted."""
    try:
        energy_j = trace.energy_between(start_s, start_s + time_s)
    except MeterFault:
        return math.nan
    return energy_j if energy_j > 0 else math.nan  # noise around 0 W is no training
