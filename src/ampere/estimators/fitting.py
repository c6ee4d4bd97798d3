"""Fitting the additive method: rows that contradict all the others are left out, with the reason.

Joules first, then what other devices say of them, how wide intervals must be, and seconds.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from ampere.errors import DataError
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.base import Rejection, usable
from ampere.estimators.candidates import again, likelier
from ampere.estimators.drift import STEADY, seen_drift
from ampere.estimators.encoding.encoder import STEP, distinct, in_order
from ampere.estimators.lending.borrowing import borrow
from ampere.estimators.lending.lenders import Lenders
from ampere.estimators.processes.comparison import lead
from ampere.estimators.processes.mode import Solution
from ampere.estimators.rejection import (
    gross_faults,
    odd_seconds,
    suspects,
    wrong_joules,
    wrong_seconds,
)
from ampere.estimators.seconds import with_seconds
from ampere.estimators.selection import arrays_of, some_rows
from ampere.estimators.stretch import stretch_of
from ampere.records.measurement import Measurement

CONTRADICTED = 3.0  # log odds against the lenders (20 to 1), from which on they are left out


def fit_additive(
    measurements: Sequence[Measurement], drift: float = STEADY, lenders: Lenders | None = None
) -> AdditiveFit:
    """Fit all whole training steps; their order does not matter.

    Args:
        measurements: The rows.
        drift: What is usual of such a device: what rows of one moment cannot tell.
        lenders: Other devices, that this one may be like.
    """
    every = in_order(usable(measurements))
    rows = some_rows(every)
    usual, drift = drift, seen_drift(rows, drift)
    unused = len(every) - len(rows)
    if not rows:
        raise DataError("there is no measurement to fit: every row failed, or there are none")
    wrong = gross_faults(rows)
    rejected = [Rejection(rows[i], reason) for i, reason in wrong.items()]
    rows = [row for i, row in enumerate(rows) if i not in wrong]
    fit = _fit(rows, drift)
    for _ in range(3):  # one fault hides another
        # A network of a survey that is unlike all others is news of its calls, no fault.
        doubted = [] if fit.of_calls else suspects(fit.energy)
        if not doubted:
            break
        without = _fit([row for i, row in enumerate(rows) if i not in doubted], drift, fit)
        wrong = {i: reason for i in doubted if (reason := wrong_joules(rows[i], without))}
        if not wrong:
            break
        rejected += [Rejection(rows[i], reason) for i, reason in wrong.items()]
        rows = [row for i, row in enumerate(rows) if i not in wrong]
        fit = without if len(wrong) == len(doubted) else _fit(rows, drift, fit)
    if lenders is not None:
        fit = _borrowing(fit, drift, lenders)
    fit = _stretched(fit, drift)
    fit, late = _with_true_seconds(fit, with_seconds(rows), usual)
    return replace(fit, rejected=(*rejected, *late), unused=unused)


def rebuild_additive(
    measurements: Sequence[Measurement],
    *,
    energy: Solution,
    time: Solution | None,
    rejected: Sequence[Rejection],
    lenders: Lenders | None = None,
) -> AdditiveFit:
    """The fit that `fit_additive` made of these rows, from what it found: nothing is searched for.

    Rejections hold rows of `measurements` themselves, not others that are equal.
    """
    faulty = {id(rejection.row) for rejection in rejected if not rejection.seconds_only}
    mistimed = {id(rejection.row) for rejection in rejected}
    every = in_order(usable(measurements))
    some = some_rows(every)
    rows = [row for row in some if id(row) not in faulty]
    unused = len(every) - len(some)
    fit = replace(
        AdditiveFit.conditioned(rows, energy, lenders=lenders if energy.lent else None),
        rejected=tuple(rejected),
        unused=unused,
        refused=() if lenders is None or energy.lent else lenders.names,
    )
    if time is None:
        return fit
    timed = [row for row in with_seconds(rows) if id(row) not in mistimed]
    return fit.with_seconds_of(timed, time)


def _with_true_seconds(
    fit: AdditiveFit, timed: Sequence[Measurement], drift: float
) -> tuple[AdditiveFit, list[Rejection]]:
    """The fit with seconds, but for those that all others contradict; their joules are kept."""

    def without(some: Container[int]) -> AdditiveFit:
        kept = [row for i, row in enumerate(timed) if i not in some]
        return fit.with_seconds_of(kept, drift=drift)

    wrong = odd_seconds(timed)
    told = without(wrong)
    if told.time and (doubted := suspects(told.time)):  # of many rows, where none was odd
        others = without(doubted)
        wrong = {i: reason for i in doubted if (reason := wrong_seconds(timed[i], others))}
        told = without(wrong) if wrong else told
    return told, [Rejection(timed[i], reason, seconds_only=True) for i, reason in wrong.items()]


def _fit(
    rows: Sequence[Measurement],
    drift: float = STEADY,
    before: AdditiveFit | None = None,
) -> AdditiveFit:
    """The fit of the joules of all of these rows; that of nearly the same rows may be known."""
    layers, counts = distinct([(*row.layers, STEP) for row in rows])
    joules = arrays_of(rows, counts, [row.energy_j for row in rows])
    if before is None:
        encoder, energy = likelier(layers, joules, drift)
    else:
        encoder, energy = again(layers, joules, drift, before.encoder, before.energy.hyper)
    return AdditiveFit.of(rows, layers, encoder, energy)


def _borrowing(fit: AdditiveFit, drift: float, lenders: Lenders) -> AdditiveFit:
    """The fit of the same rows with what other devices say for its mean, unless they refute it."""
    encoder, energy = borrow(fit.layers, fit.energy.rows, drift, lenders)
    if lead(fit.energy, energy) > CONTRADICTED:
        return replace(fit, refused=lenders.names)
    return AdditiveFit.of(fit.measurements, fit.layers, encoder, energy)


def _stretched(fit: AdditiveFit, drift: float) -> AdditiveFit:
    """The fit with intervals as wide as rows that are left out show that they must be.

    A survey's are widened by calls (see survey.py), and what is lent has deviations of its own.
    """
    if fit.of_calls or fit.encoder.lenders is not None:
        return fit
    stretch = stretch_of(fit.measurements, lambda rows: _fit(rows, drift, fit))
    solution = replace(fit.energy.solution, stretch=stretch)
    return replace(fit, energy=replace(fit.energy, solution=solution))
