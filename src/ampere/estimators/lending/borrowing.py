"""Borrowing: a process whose mean is what other devices say of layers (see lenders.py).

How far a new device is from its lenders, and over which distances, is what a few rows tell least.
So each lender is first taken for a new device, with the others as its lenders: the deviations and
lengths that are found there are what is expected here.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ampere.core.layers import Layer
from ampere.estimators.encoding.encoder import STEP, Encoder, distinct, in_order
from ampere.estimators.lending.lenders import Lender, Lenders
from ampere.estimators.processes import sum_process
from ampere.estimators.processes.covariance import Hyper
from ampere.estimators.processes.likelihood import LENGTH, begin
from ampere.estimators.processes.sum_process import Assumed, SumProcess
from ampere.estimators.processes.totals import Rows
from ampere.estimators.selection import arrays_of
from ampere.records.measurement import Measurement

# Of what other devices lend: how far operations differ from them, where lenders know the rest.
LENT = Assumed(coefficient=0.3, beyond=0.0, odd=0.0)
ROWS = 60  # of a lender, which tell how far it is from the others
# What lenders tell of a new device's hyper-parameters; others are of a place and its meter.
TOLD = ("operation", "kind", "short", "rough", "block", "noise", "stairs", "trait", "reach")


class _Found(NamedTuple):
    """What one lender is like, seen from the others."""

    hyper: Hyper
    lengths: Mapping[str, float]


def borrow(
    layers: Sequence[Layer], rows: Rows, drift: float, lenders: Lenders
) -> tuple[Encoder, SumProcess]:
    """The process of these rows with what lenders say for its mean."""
    encoder = Encoder.of(layers, lenders=lenders)
    encoded = encoder.encode(layers)
    assumed = replace(LENT, slow=drift, expected=_expected(_kin(lenders), encoder.coordinates))
    found = sum_process.search(encoded, rows, assumed)
    return encoder, sum_process.condition(encoded, rows, replace(found, lent=True))


@functools.lru_cache(maxsize=4)
def _kin(lenders: Lenders) -> tuple[_Found, ...]:
    """What each lender is like, seen from the others; nothing of one by itself."""
    if len(lenders.each) < 2:
        return ()
    found = []
    for lender in lenders.each:
        others = Lenders(tuple(other for other in lenders.each if other is not lender))
        rows = _some(lender)
        layers, counts = distinct([(*row.layers, STEP) for row in rows])
        encoder = Encoder.of(layers, lenders=others)
        joules = arrays_of(rows, counts, [row.energy_j for row in rows])
        hyper = sum_process.search(encoder.encode(layers), joules, LENT).hyper
        found.append(_Found(hyper, dict(zip(encoder.coordinates, hyper.lengths, strict=True))))
    return tuple(found)


def _some(lender: Lender) -> list[Measurement]:
    """Rows of a lender, drawn at random if they are many."""
    rows = in_order(lender.fit.measurements)
    order = np.random.default_rng(0).permutation(len(rows))[:ROWS]
    return [rows[i] for i in sorted(order)]


def _expected(kin: Sequence[_Found], coordinates: Sequence[str]) -> Hyper | None:
    """Deviations and lengths as they are between lenders, in the middle."""
    if not kin:
        return None
    lengths = [
        _middle([each.lengths[name] for each in kin if name in each.lengths] or [LENGTH.median])
        for name in coordinates
    ]
    told = {name: _middle([getattr(each.hyper, name) for each in kin]) for name in TOLD}
    return replace(begin(len(coordinates)), **told, lengths=tuple(lengths))


def _middle(values: Sequence[float]) -> float:
    return float(np.exp(np.log(values).mean()))
