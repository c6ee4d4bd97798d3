"""Candidates: the processes that rows may be fitted by, of which the likelier is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ampere.core.layers import Layer
from ampere.estimators.encoding.contexts import is_call
from ampere.estimators.encoding.encoder import Encoder
from ampere.estimators.processes import sum_process
from ampere.estimators.processes.covariance import Hyper
from ampere.estimators.processes.likelihood import FIT_LAYERS
from ampere.estimators.processes.sum_process import ODD, Assumed, SumProcess
from ampere.estimators.processes.totals import Rows
from ampere.estimators.rejection import ENOUGH

RARELY = 0.2  # share of layers with an odd width, below which rows do not tell what these cost
MOST_CALLS = 900  # that hyper-parameters are searched for with


def likelier(layers: Sequence[Layer], joules: Rows, drift: float) -> tuple[Encoder, SumProcess]:
    """The process without FLOPs on tiles, or with them, if that makes the rows likelier.

    What odd widths cost is assumed where rows have hardly any, and left to them where they have.
    """
    plain = Encoder.of(layers)
    encoded = plain.encode(layers)
    rarely_odd = float((encoded.stairs[:, -1] > 0).mean()) < RARELY
    assumed = _assumed(layers, drift, ODD if rarely_odd else 0.0)
    smooth = sum_process.search(encoded, joules, assumed)
    if len(joules) >= ENOUGH:
        tiled = Encoder.of(layers, rounded=True)
        on_tiles = replace(encoded, features=tiled.features(layers))
        assumed = _assumed(layers, drift)
        stepped = sum_process.search(on_tiles, joules, assumed, start=smooth.hyper)
        if stepped.log_density > smooth.log_density:
            stepped = replace(stepped, rounded=True)
            return tiled, sum_process.condition(on_tiles, joules, stepped)
    return plain, sum_process.condition(encoded, joules, smooth)


def _assumed(layers: Sequence[Layer], drift: float, odd: float = ODD) -> Assumed:
    """What rows do not tell; of calls a network has several times as many as of layers."""
    most = MOST_CALLS if any(map(is_call, layers)) else FIT_LAYERS
    return Assumed(drift, odd=odd, most_layers=most)


def again(
    layers: Sequence[Layer], joules: Rows, drift: float, before: Encoder, hyper: Hyper
) -> tuple[Encoder, SumProcess]:
    """The process of nearly the same rows, searched for where the one before was found."""
    encoder = Encoder.of(layers, before.rounded)
    start = hyper if encoder.coordinates == before.coordinates else None
    encoded = encoder.encode(layers)
    found = sum_process.search(encoded, joules, _assumed(layers, drift, hyper.odd), start)
    return encoder, sum_process.condition(encoded, joules, replace(found, rounded=before.rounded))
