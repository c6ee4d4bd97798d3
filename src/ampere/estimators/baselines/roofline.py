"""Roofline: joules and seconds linear in FLOPs and bytes, the additive method's mean alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.errors import DataError, NotCovered
from ampere.estimators.base import Cost, Layerwise, Prediction, usable
from ampere.estimators.encoding.encoder import STEP, Encoder, distinct, in_order
from ampere.estimators.processes import linear_mean
from ampere.records.measurement import Measurement


@dataclass(frozen=True)
class RooflineFit(Layerwise):
    """Coefficients of FLOPs and bytes, operation by operation (paper, section 2.2)."""

    encoder: Encoder
    energy: Array
    time: Array | None
    error: float
    method: str = field(default="roofline", init=False)

    def cost(self, layer: Layer) -> Cost:
        """Coefficients times features."""
        if layer.kind != STEP.kind and not self.encoder.covers(layer):
            raise NotCovered(f"the FLOPs of {layer.name} are not known: add them to its features")
        encoded = self.encoder.encode([layer])
        joules = float(linear_mean.expand(encoded, self.energy).sum())
        if self.time is None:
            return Cost(joules, self.error * joules)
        seconds = float(linear_mean.expand(encoded, self.time).sum())
        return Cost(joules, self.error * joules, seconds, self.error * seconds)

    def predict(self, layers: Sequence[Layer]) -> Prediction:
        """The sum over the layers, and what a step costs besides."""
        return super().predict((*layers, STEP))


def fit_roofline(measurements: Sequence[Measurement]) -> RooflineFit:
    """Joules and seconds per FLOP and byte of each operation, by least relative errors."""
    rows = in_order(usable(measurements))
    if not rows:
        raise DataError("there is no measurement to fit: every row failed, or there are none")
    encoder = Encoder.of([STEP, *(layer for row in rows for layer in row.layers)])
    joules = [row.energy_j for row in rows]
    energy, expected = fit_mean(rows, encoder, joules)
    error = float(np.sqrt(np.square(expected / joules - 1).mean()))
    timed = [row for row in rows if row.time_s_per_step is not None]
    time = None
    if timed:
        time, _ = fit_mean(timed, encoder, [row.time_s for row in timed])
    return RooflineFit(encoder=encoder, energy=energy, time=time, error=error)


def fit_mean(
    rows: Sequence[Measurement], encoder: Encoder, values: Sequence[float]
) -> tuple[Array, Array]:
    """Coefficients of the mean alone, and what it says of each row."""
    layers, counts = distinct([(*row.layers, STEP) for row in rows])
    encoded = encoder.encode(layers)
    beta = linear_mean.fit_coefficients(encoded, counts, np.array(values))
    return beta, counts @ linear_mean.expand(encoded, beta).sum(1)
