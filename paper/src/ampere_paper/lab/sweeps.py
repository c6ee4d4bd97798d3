"""Sweep: a linear layer by itself over its input channels (the paper's Fig. 4 and 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.core.program.widths import Widths
from ampere.estimators.processes import gp
from ampere.meters.base import Provenance
from ampere.records.measurement import Measurement, succeeded
from ampere_paper.lab.benches import Bench
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.notebooks import network

CHANNELS = 64


@dataclass(frozen=True)
class Sweep:
    """Widths, and what the layer takes at each."""

    widths: tuple[int, ...]
    rows: tuple[Measurement, ...]
    provenance: Provenance

    @property
    def energy_j(self) -> Array:
        """Joules of a step at each width."""
        return np.array([row.energy_j for row in self.rows])

    @property
    def flops(self) -> Array:
        """Of a step at each width."""
        return np.array([row.layers[0].features.flops or 0.0 for row in self.rows])

    def at(self, widths: Array) -> Array:
        """Widths as a process takes them, 0 to 1, a row each."""
        first, last = self.widths[0], self.widths[-1]
        scaled: Array = (np.asarray(widths, float) - first) / (last - first)
        return scaled[:, None]

    def fit(self, chosen: list[int]) -> gp.GaussianProcess:
        """The paper's process, through the rows of these numbers."""
        rows = [self.rows[i] for i in chosen]
        return gp.fit(
            self.at(np.array([self.widths[i] for i in chosen])),
            [row.energy_j for row in rows],
            [row.error * row.energy_j for row in rows],
        )


def sweep(lab: Laboratory, bench: Bench, side: int, batch_size: int) -> Sweep:
    """A linear layer on square maps of 1 to 64 channels, evenly spaced."""
    from ampere.pytorch.models import linear_layer

    kind = linear_layer(CHANNELS, side, batch_size).kind
    count = min(max(lab.sizes(bench).sweep, 2), CHANNELS)
    widths = tuple(sorted({round(width) for width in np.linspace(1, CHANNELS, count)}))
    layers = [Layer("linear", kind, Widths({"in": width})) for width in widths]
    with lab.notebook(bench, f"linear{side}") as book:
        networks = [network(f"linear({layer.widths['in']})", [layer]) for layer in layers]
        rows = succeeded([row for (row,) in book.measure(networks)], "a network")
        return Sweep(widths, tuple(rows), book.header.provenance)
