"""Lenders: other devices, whose profiles say what a layer costs before it was measured here.

What devices have in common is which layers are dear and which are cheap, far more than FLOPs and
bytes tell. In logarithms, and each less its own level,

    typical of a layer   =  mean over the lenders, those that know it better weighing more
    a new device         =  level + typical + Σ w (lender − typical) + what is its own

w is what the new device resembles each of the lenders by. If it is one more of their sort, its
deviation from the typical one is as large as theirs are: w ~ N(0, 1 / (lenders − 1)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.estimators.encoding import distinct
from ampere.estimators.processes.covariance import variance
from ampere.estimators.processes.sum_process import NOVEL

if TYPE_CHECKING:
    from ampere.estimators.additive import AdditiveFit

EVEN = 0.1  # deviation from which on a lender that knows a layer better weighs more
POOL = 500  # layers by which the levels of devices are compared
ROUNDS = 20


@dataclass(frozen=True)
class Lender:
    """Another device: its name, and what was learned of it."""

    name: str
    fit: AdditiveFit


@dataclass(frozen=True, eq=False)
class Lenders:
    """Several of them."""

    each: tuple[Lender, ...]
    _known: dict[object, tuple[Array, Array]] = field(default_factory=dict, repr=False)

    def lend(self, layers: Sequence[Layer]) -> tuple[Array, Array, Array]:
        """What is typical of each layer, how lenders differ there, and doubts in NOVELs."""
        logs, var = self._logs(layers)
        known = np.isfinite(logs)
        logs = np.where(known, logs - self.levels, 0.0)
        weights = np.where(known, 1 / (EVEN**2 + var), 0.0)
        total = weights.sum(1, keepdims=True)
        share = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
        typical = (share * logs).sum(1)
        apart = np.where(known, logs - typical[:, None], 0.0)
        doubt = np.sqrt((np.square(share) * np.where(known, var, 0.0)).sum(1))
        scale = 1 / np.sqrt(max(len(self.each) - 1, 1))
        lent = apart * scale if len(self.each) > 1 else np.zeros((len(layers), 0))
        return np.where(known.any(1), np.exp(typical), 0.0), lent, doubt / NOVEL

    @cached_property
    def levels(self) -> Array:
        """The logarithm of how dear each device is, their mean being 0 ... of layers they share."""
        rows = [row.layers for lender in self.each for row in lender.fit.measurements]
        pool, _ = distinct(rows)
        logs, _ = self._logs(pool[:: max(1, len(pool) // POOL)])
        levels = np.zeros(len(self.each))
        for _ in range(ROUNDS):
            common = np.nanmean(logs - levels, axis=1, keepdims=True)
            levels = np.nanmean(logs - common, axis=0)
        return np.asarray(levels - levels.mean())

    def _logs(self, layers: Sequence[Layer]) -> tuple[Array, Array]:
        """Logarithms of what each lender says of layers, NaN where it knows nothing; variances."""
        keys = [(layer.identity, layer.features.numbers) for layer in layers]
        new = {key: layer for key, layer in zip(keys, layers) if key not in self._known}
        if new:
            columns = [_asked(lender.fit, list(new.values())) for lender in self.each]
            logs = np.column_stack([each[0] for each in columns])
            var = np.column_stack([each[1] for each in columns])
            self._known.update(zip(new, zip(logs, var)))
        found = [self._known[key] for key in keys]
        shape = (len(layers), len(self.each))
        return tuple(np.array([pair[i] for pair in found]).reshape(shape) for i in (0, 1))


def _asked(fit: AdditiveFit, layers: Sequence[Layer]) -> tuple[Array, Array]:
    """What a device says of layers by themselves."""
    logs, var = np.full(len(layers), np.nan), np.zeros(len(layers))
    encoder = fit.encoder
    known = [
        i
        for i, layer in enumerate(layers)
        if encoder.operation(layer) in encoder.operations and encoder.covers(layer)
    ]
    if known:
        encoded = encoder.encode([layers[i] for i in known])
        after = fit.energy.posterior(encoded)
        logs[known] = np.log(after.cost)
        prior = variance(encoded, fit.energy.hyper) + np.square(after.directions).sum(1)
        var[known] = np.maximum(prior - np.square(after.cross).sum(0), 0.0)
    return logs, var
