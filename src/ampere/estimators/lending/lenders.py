"""Lenders: other devices, whose profiles say what a layer costs before it was measured here.

What devices have in common is which layers are dear and which are cheap, far more than FLOPs and
bytes tell. In logarithms, and each lender less its own level,

    typical of a layer   =  mean over the lenders; those that know it better weigh more
    a new device         =  level + typical + Σ w (lender − typical) + Σ v share + what is its own

w is how much it resembles each of the lenders: if it is one more of their sort, it is as far from
the typical one as they are, so w ~ N(0, 1 / (lenders − 1)). `share` is the share of FLOPs, of bytes
and of what a layer costs anyway in the typical cost of a layer; v is by how much each of them is
dearer or cheaper here: the roofline, as a ratio to that of others. Where lenders are not sure of a
layer themselves, so much is open as well. What is its own are the processes of the additive method,
whose mean all of this is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.estimators.encoding.encoder import FEATURES, ROUNDED, STEP, Lent, distinct
from ampere.estimators.processes.covariance import variance

if TYPE_CHECKING:
    from ampere.estimators.additive import AdditiveFit

EVEN = 0.1  # deviation from which on a lender that knows a layer better weighs more
BALANCE = 0.5  # standard deviation of v: how far FLOPs and bytes are from costing alike elsewhere
POOL = 500  # layers by which the levels of devices are compared
ROUNDS = 20
FLOPS, SHARES = 2, FEATURES - len(ROUNDED)  # FLOPs on tiles are FLOPs


@dataclass(frozen=True)
class Lender:
    """Another device: its name, and what was learned of it."""

    name: str
    fit: AdditiveFit

    @cached_property
    def digest(self) -> str:
        """What tells its rows from all others'."""
        rows = [
            [row.energy_j, row.time_s_per_step, *((one.identity, one.count) for one in row.layers)]
            for row in self.fit.measurements
        ]
        return hashlib.blake2b(repr(rows).encode(), digest_size=8).hexdigest()


class _Said(NamedTuple):
    """What lenders say of a layer: one row of each of these."""

    logs: Array  # NaN of a lender that knows nothing of it
    var: Array
    shares: Array  # (lenders, shares)


@dataclass(frozen=True, eq=False)
class Lenders:
    """Several of them; their order does not matter."""

    each: tuple[Lender, ...]
    _known: dict[object, _Said] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        ordered = sorted(self.each, key=lambda lender: (lender.name, lender.digest))
        object.__setattr__(self, "each", tuple(ordered))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the devices, in order."""
        return tuple(lender.name for lender in self.each)

    @property
    def key(self) -> str:
        """What tells them from other lenders."""
        return " ".join(lender.digest for lender in self.each)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The distinct layers that were measured on any of them."""
        rows = [row.layers for lender in self.each for row in lender.fit.measurements]
        return tuple(distinct(rows)[0])

    def knows(self, layer: Layer) -> bool:
        """Whether layers of its operation were measured on any of them, and it can be asked."""
        return any(_knows(lender.fit, layer) for lender in self.each)

    def lend(self, layers: Sequence[Layer]) -> Lent:
        """What is typical of each layer, and the ways in which a new device may differ there."""
        logs, var, shares = self._ask(layers)
        known, weights = self._weights(logs, var)
        logs = np.where(known, logs - self.levels, 0.0)
        typical = (weights * logs).sum(1)
        apart = np.where(known, logs - typical[:, None], 0.0) * self.scale
        balance = BALANCE * np.einsum("ld,lds->ls", weights, shares)
        unsure = np.sqrt((np.square(weights) * var).sum(1))
        return Lent(
            typical=np.where(known.any(1), np.exp(typical), 0.0),
            apart=np.column_stack([apart, balance, unsure]),
        )

    @property
    def scale(self) -> float:
        """The standard deviation of w; a lender by itself differs from nothing."""
        return float(1 / np.sqrt(max(len(self.each) - 1, 1)))

    def parts(
        self, layers: Sequence[Layer], share: Array, w: Array, borrowed: float
    ) -> dict[str, float]:
        """How much of what is borrowed for a network comes from each of them.

        Args:
            layers: Of the network, distinct.
            share: Of each in what it costs.
            w: How much it resembles each of the lenders, as it was found.
            borrowed: Which part of what is said of the network is.
        """
        typical = share @ self._weights(*self._ask(layers)[:2])[1]
        like = self.scale * w[: len(self.each)]
        weights = np.maximum(typical * (1 - like.sum()) + like, 0.0)
        weights /= max(float(weights.sum()), 1e-300)
        return {
            name: borrowed * float(weight) for name, weight in zip(self.names, weights, strict=True)
        }

    def _weights(self, logs: Array, var: Array) -> tuple[Array, Array]:
        known = np.isfinite(logs)
        weights = np.where(known, 1 / (EVEN**2 + var), 0.0)
        return known, weights / np.maximum(weights.sum(1, keepdims=True), 1e-300)

    @cached_property
    def levels(self) -> Array:
        """The logarithm of how dear each device is, by the layers that they know; their mean is 0.

        A lender that does not know a layer must not make it look dear or cheap.
        """
        pool = self.layers[:: max(1, len(self.layers) // POOL)]
        logs, _, _ = self._ask((STEP, *pool))
        known = np.isfinite(logs)
        logs = np.where(known, logs, 0.0)
        levels = np.zeros(len(self.each))
        for _ in range(ROUNDS):
            off = np.where(known, logs - levels, 0.0)
            common = off.sum(1, keepdims=True) / np.maximum(known.sum(1, keepdims=True), 1)
            levels = np.where(known, logs - common, 0.0).sum(0) / np.maximum(known.sum(0), 1)
            levels -= levels.mean()
        return np.asarray(levels)

    def _ask(self, layers: Sequence[Layer]) -> _Said:
        """What each lender says of layers; asked once, since fits ask for the same ones often."""
        keys = [(layer.identity, layer.features.numbers) for layer in layers]
        new = {
            key: layer for key, layer in zip(keys, layers, strict=True) if key not in self._known
        }
        if new:
            answers = [_answers(lender.fit, list(new.values())) for lender in self.each]
            columns = [np.stack(column, axis=1) for column in zip(*answers, strict=True)]
            self._known.update(
                (key, _Said(*each)) for key, *each in zip(new, *columns, strict=True)
            )
        found = [self._known[key] for key in keys]
        d = len(self.each)
        return _Said(
            logs=np.array([each.logs for each in found]).reshape(len(layers), d),
            var=np.array([each.var for each in found]).reshape(len(layers), d),
            shares=np.array([each.shares for each in found]).reshape(len(layers), d, SHARES),
        )


def _knows(fit: AdditiveFit, layer: Layer) -> bool:
    encoder = fit.encoder
    if layer.kind == STEP.kind:  # every network has one
        return True
    return encoder.operation(layer) in encoder.operations and encoder.covers(layer)


def _answers(fit: AdditiveFit, layers: Sequence[Layer]) -> tuple[Array, Array, Array]:
    """What a device says of layers by themselves: logarithms, variances, shares of features."""
    n = len(layers)
    logs, var, shares = np.full(n, np.nan), np.zeros(n), np.zeros((n, SHARES))
    known = [i for i, layer in enumerate(layers) if _knows(fit, layer)]
    if known:
        encoded = fit.encoder.encode([layers[i] for i in known])
        after, hyper = fit.energy.posterior(encoded), fit.energy.hyper
        logs[known] = np.log(after.cost)
        prior = variance(encoded, hyper) + np.square(after.directions).sum(1)
        var[known] = np.maximum(prior - np.square(after.cross).sum(0), 0.0)
        by_b = after.directions[:, : fit.energy.beta.size] / hyper.coefficient
        fractions = by_b.reshape(len(known), -1, FEATURES).sum(1)
        fractions[:, FLOPS] += fractions[:, SHARES:].sum(1)
        shares[known] = fractions[:, :SHARES]
    return logs, var, shares
