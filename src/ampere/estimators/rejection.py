"""Rejection: rows that cannot be true, because all the others contradict them.

A meter wraps around, a machine is busy for a minute: one such row would move the estimate of every
layer in it. What is far from the mean is a gross fault. What agrees badly with the others is a
suspect, and is judged by a fit without it: a suspect would excuse itself by much noise. What rows
state of FLOPs and contradict each other in is only remarked on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ampere.core import units
from ampere.core.arrays import Array
from ampere.core.layers import Layer, LayerIdentity
from ampere.estimators.base import Cost, Fit
from ampere.estimators.baselines.roofline import fit_mean
from ampere.estimators.encoding.encoder import FEATURES, STEP, Encoder, distinct
from ampere.estimators.processes.linear_mean import expand, fit_coefficients
from ampere.estimators.processes.sum_process import SumProcess, unsearched
from ampere.estimators.seconds import time_error
from ampere.records.measurement import Measurement

ENOUGH = 8  # rows, before one of them can be called wrong by a fit of all
FEW = 3  # rows, before one can be called wrong at all: two that agree, and one that does not
SLACK = 3.0  # what noise and caches add to what size explains
AGREE = math.log(5)  # how far rows may be from a mean that is fitted to them
USUAL = 2.0  # times as much surprise as a fit leaves, before anything is fitted
SUSPECT = 3.0  # standard deviations from what all other rows say: worth a closer look
CONTRADICTS = 4.5  # standard deviations from what a fit without it says: left out
SAME_FLOPS = 0.01  # relative difference that is a matter of counting
GROSS = math.log(20)  # the mean alone may be off by 6: what is further from it is a fault


def gross_faults(rows: Sequence[Measurement]) -> dict[int, str]:
    """Rows that are several times what their layers' features suggest: a meter wrapped around."""
    joules = np.array([row.energy_j for row in rows])
    if len(rows) < ENOUGH:
        return _odd_one_out(rows, joules)
    encoder = Encoder.of([STEP, *(layer for row in rows for layer in row.layers)])
    _, expected = fit_mean(rows, encoder, joules.tolist())
    off = np.log(joules / expected)
    off -= np.median(off)
    limit = max(GROSS, 6 * float(np.median(np.abs(off))) / 0.6745)
    sized = [all(layer.features.flops is not None for layer in row.layers) for row in rows]
    faulty = np.flatnonzero((np.abs(off) > limit) & sized)  # what has no size suggests nothing
    if len(faulty) > len(rows) // 10 + 1:  # so many are no faults
        return {}
    return {i: _gross(rows[i], off[i]) for i in map(int, faulty)}


def _odd_one_out(rows: Sequence[Measurement], joules: Array) -> dict[int, str]:
    """Of a few rows the only one that all others agree against, if there is one.

    Each is left out in turn: without the wrong one the others agree, with it they do not.
    """
    layers, counts = distinct([(*row.layers, STEP) for row in rows])
    encoded = Encoder.of(layers).encode(layers)
    odd = {}
    for i in range(len(rows)) if len(rows) >= FEW else ():
        others = np.arange(len(rows)) != i
        beta = fit_coefficients(encoded, counts[others], joules[others])
        off = np.log(joules / (counts @ expand(encoded, beta).sum(1)))
        if np.abs(off[others]).max() < AGREE and abs(off[i]) > GROSS:
            odd[i] = float(off[i])
    sizes = counts @ expand(encoded, np.ones((len(np.unique(encoded.op)), FEATURES)))
    wrong = {i: off for i, off in odd.items() if not _is_explained(i, sizes, joules)}
    return {i: _gross(rows[i], off) for i, off in wrong.items()} if len(odd) == 1 else {}


def odd_seconds(rows: Sequence[Measurement]) -> dict[int, str]:
    """Of a few rows the only one whose seconds make watts that all others agree against.

    What a device draws differs by a few times between networks, whatever their sizes are.
    """
    watts = _watts(rows)
    odd = {}
    for i in range(len(rows)) if FEW <= len(rows) < ENOUGH else ():
        others = np.delete(watts, i)
        usual = math.exp(np.log(others).mean())
        if _apart(others, usual) < AGREE and _apart(watts[i], usual) > GROSS:
            odd[i] = (
                f"the seconds of {rows[i]!r} make it {units.watts(watts[i])}, and all other rows"
                f" draw about {units.watts(usual)}"
            )
    return odd if len(odd) == 1 else {}


def open_seconds(rows: Sequence[Measurement]) -> list[str]:
    """Whether a few rows contradict each other so much, and nobody can say which one is wrong."""
    if not 1 < len(rows) < ENOUGH:
        return []
    watts = _watts(rows)
    least, most = float(watts.min()), float(watts.max())
    if _apart(watts, least) <= GROSS:
        return []
    return [
        f"joules and seconds of {len(rows)} rows make {units.watts(least)} to {units.watts(most)}:"
        " some of them are wrong, and so few rows do not tell which; measure more"
    ]


def _watts(rows: Sequence[Measurement]) -> Array:
    """What each of these rows with seconds drew."""
    return np.array([row.energy_j / row.time_s for row in rows])


def _apart(watts: Array, usual: float) -> float:
    """How far the farthest of them is from what is usual, in logarithms."""
    return float(np.abs(np.log(watts / usual)).max())


def _is_explained(i: int, sizes: Array, joules: Array) -> bool:
    """Whether a row may cost what it does because it is so much smaller or larger than the others.

    By whatever grows most from another row to this one, its joules may grow, and hardly more.
    """
    others = np.arange(len(joules)) != i
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = sizes[i] / sizes[others]  # NaN where neither has it
    least = joules[others] * np.minimum(np.nanmin(growth, 1), 1.0)
    most = joules[others] * np.maximum(np.nanmax(growth, 1), 1.0)
    return bool(least.min() / SLACK <= joules[i] <= SLACK * most.max())


def _gross(row: Measurement, off: float) -> str:
    return f"{row!r} is {math.exp(off):.2g} × what its size suggests"


def suspects(process: SumProcess) -> list[int]:
    """The few rows, if any, that agree worst with all others.

    One that is far off bends deviations until it is excused; so it is also looked at before these
    are searched for, where more surprise is usual.
    """
    n = len(process.rows)
    if n < ENOUGH:
        return []
    at_first = np.abs(unsearched(process).leave_one_out) / USUAL
    surprise = np.maximum(np.abs(process.leave_one_out), at_first)
    worst = np.argsort(-surprise)[: n // 20 + 1]
    return [int(i) for i in worst if surprise[i] > SUSPECT]


def surprise(row: Measurement, fit: Fit) -> float | None:
    """How many standard deviations a row is from what a fit tells that does not know it."""
    cost = _expected(row, fit)
    if cost is None or not cost.energy_j > 0:
        return None
    return math.log(row.energy_j / cost.energy_j) / (cost.energy_j_std / cost.energy_j)


def wrong_joules(row: Measurement, fit: Fit) -> str | None:
    """How a row contradicts a fit that does not know it; None if it does not."""
    cost = _expected(row, fit)
    if cost is None:
        return None
    ratio = _far(row.energy_j, row.error, cost.energy_j, cost.energy_j_std)
    return f"{row!r} is {ratio} what all other rows say" if ratio else None


def wrong_seconds(row: Measurement, fit: Fit) -> str | None:
    """The same of its seconds, if it has any."""
    cost = _expected(row, fit) if row.time_s_per_step is not None else None
    if cost is None or cost.time_s is None or cost.time_s_std is None:
        return None
    ratio = _far(row.time_s, time_error(row), cost.time_s, cost.time_s_std)
    return f"the seconds of {row!r} are {ratio} what all other rows say" if ratio else None


def absurd(row: Measurement, expected: Cost) -> str | None:
    """How many times what is expected a row has, if no network could be so unlike the others."""
    told = [(row.energy_j, expected.energy_j)]
    if row.time_s_per_step is not None and expected.time_s:
        told.append((row.time_s, expected.time_s))
    far = max((math.log(value / other) for value, other in told), key=abs)
    return _gross(row, far) if abs(far) > GROSS else None


def _expected(row: Measurement, fit: Fit) -> Cost | None:
    """What a fit says of a row; nothing, if it cannot speak for all of its layers."""
    prediction = fit.predict(row.layers)
    return None if prediction.uncovered else prediction.total


def _far(value: float, error: float, expected: float, std: float) -> str | None:
    """How many times what was expected, if that is too far to be true."""
    if not expected > 0 or not math.isfinite(expected):
        return None
    if abs(math.log(value / expected)) <= CONTRADICTS * math.hypot(std / expected, error):
        return None
    return f"{value / expected:.2g} ×"


def told_of_flops(
    layers: Sequence[Layer], rows: Sequence[Measurement], encoder: Encoder
) -> Iterator[str]:
    """Operations whose FLOPs are of no use, and kinds of which different layers count as one."""
    known = [layer for layer in layers if layer.features.flops is not None]
    for name in sorted({encoder.operation(layer) for layer in known} - encoder.counted):
        own = [layer for layer in layers if encoder.operation(layer) == name]
        bare = sum(layer.features.flops is None for layer in own)
        yield (
            f"FLOPs of {bare} of {len(own)} layers of {name} are unknown, so those of the others"
            " tell nothing: state them, or leave these rows out"
        )
    first: dict[LayerIdentity, float] = {}
    odd: dict[str, None] = {}
    for layer in (layer for row in rows for layer in row.layers):
        flops = layer.features.flops
        if flops is not None and not math.isclose(
            first.setdefault(layer.identity, flops), flops, rel_tol=SAME_FLOPS
        ):
            odd[layer.kind.name] = None
    if odd:
        yield (
            f"layers of {', '.join(odd)} have the same widths and attributes and different FLOPs,"
            " and count as one: what they differ in must be an attribute"
        )
