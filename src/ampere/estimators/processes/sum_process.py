"""Gaussian processes over sums: networks are measured, layers are learned. Arrays only.

A measured total is a sum over layers, so totals are conditioned on directly, and no layer need be
isolated. Deviations stand in the exponent, so that a small layer and a large one deviate alike, and
nothing costs less than 0:

    log cost of a layer     =  log m + s · γ + l · w + u
                          m =  features · beta · exp(b + traits · δ)
    log total of a network  =  log Σ cost + g(depth) + share · v
    log measured total      =  log total + drift of the sitting + slow drift + noise

    u ~ N(0, K)   b ~ N(0, coefficient²)   γ ~ N(0, stairs²)   δ ~ N(0, trait²)   g ~ random walk
    v ~ N(0, block²)

K has four parts: layers of one operation deviate alike, layers of one kind alike once more, near
ones alike in what is rough over short distances, and what is left belongs to a layer by itself. b
is what the coefficients are off by, δ what they vary by with values of attributes, γ what widths
cost that are short of what a device does in one go, g what depth costs: nothing at depth 0, learned
where networks of that depth were measured, and the more open the further a network is from them. v
is what a block of calls costs as a whole, where layers are told in calls: a third of its variance
is shared by all blocks of its operation, a third by its kind. Where other devices lend (see
lenders.py), what is typical of them is the feature, l are the ways in which devices differ, and
w ~ N(0, 1) is what this one has of each.

A logarithm of a sum is not linear in u, b, γ and δ. It is taken as linear near the posterior's
largest density, which is searched for (in damped steps: mode.py). There, with S a layer's share
in a network's cost,

    cov(log totals)  =  S K S' + B B' + τ² Q Q' + ς² R R' + N    (a single layer: S = 1, exact)

    symbol        meaning                                                         shape
    n, L, d       networks measured, distinct layers, coordinates
    o, f, s       operations, features, kinds of stairs; p = (o + 1) f, q = (o + 1) s
    y             measured totals, in any unit                                    (n,)
    counts        how many of each layer a network has                            (n, L)
    features      what the mean is linear in                                      (L, f)
    beta          cost of one unit of each; in the last row for any operation     (o + 1, f)
    x             coordinates of a layer: log2 of widths, attributes              (L, d)
    op, kind      numbers; below 0 for what was never measured                    (L,)
    cost          of each layer                                                   (L,)
    S             share of each layer in the cost of a network                    (n, L)
    B             what b and w do to log totals, in their standard deviations     (n, p + e)
    Q, R          what γ and δ do to log totals                                   (n, q), (n, a f)
    N             covariance of depth, blocks, drifts and noise (see totals.py)   (n, n)
    z             log y, less what is linear in nothing                           (n,)
    factor        inverse of the Cholesky factor of cov(log totals)               (n, n)
    alpha         cov(log totals)⁻¹ z                                             (n,)
    weights       S' alpha: u = K weights                                         (L,)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.estimators.intervals import inflation
from ampere.estimators.processes.covariance import Hyper, covariance
from ampere.estimators.processes.factor import Factor
from ampere.estimators.processes.likelihood import (
    FIT_LAYERS,
    PRIORS,
    Linear,
    begin,
    maximise,
    some_of,
)
from ampere.estimators.processes.linear_mean import Layers, by_operation, expand, fit_coefficients
from ampere.estimators.processes.mode import NEARLY, SETTLED, Point, Search, Solution, costs_at
from ampere.estimators.processes.threads import single_threaded
from ampere.estimators.processes.totals import (
    Context,
    Rows,
    beside,
    beside_var,
    besides,
    noise_var,
)

BLOCK = 400  # layers whose covariances with all others are held at once
SEARCHES = 3  # for hyper-parameters, each near the posterior that the one before has found
COEFFICIENT = 1.0  # prior standard deviation of the logarithm of a coefficient
# Beyond what was measured of an operation nobody knows: so much for each octave of its features,
# and for each thing about a layer that was never seen (an operation, a precision, an optimiser).
BEYOND, NOVEL = 0.12, 0.4
# Widths that cannot be loaded as vectors cost more, on any device that has them.
ODD = 0.05
SIZES = slice(2, 7)  # features that are sizes of a layer
DRIFTS = ("sitting", "slow")  # of moments, in which networks were measured


@dataclass(frozen=True, eq=False)
class Posterior:
    """What layers cost, in parts that add up over the layers of a network."""

    cost: Array
    directions: Array  # of independent doubts about their logarithms, (L, ...)
    cross: Array  # whitened covariance of their logarithms with each measured row, (n, L)


class Asked(NamedTuple):
    """Networks that are asked about."""

    cost: Array  # of each of their layers, (L,)
    total: Array  # of each network, (t,)
    prior: Array  # variances of the logarithms of totals, before rows are heeded, (t,)
    with_rows: Array  # covariances of these with each measured row, (n, t)


@dataclass(frozen=True, eq=False)
class SumProcess:
    """A fitted process: numpy alone predicts."""

    solution: Solution
    layers: Layers
    rows: Rows
    at: Point
    point: Point
    linear: Linear
    factor: Factor
    alpha: Array

    @property
    def hyper(self) -> Hyper:
        """Deviations and lengths."""
        return self.solution.hyper

    @property
    def beta(self) -> Array:
        """Coefficients of the mean."""
        return self.solution.beta

    @property
    def widening(self) -> float:
        """By how much intervals are wider than those of the process itself."""
        return inflation(self.rows.moments) * self.solution.stretch

    @property
    def left_out(self) -> tuple[Array, Array]:
        """What all others say of each row: logarithm, and its deviation with the row's own noise.

        Hyper-parameters and coefficients are kept (Rasmussen and Williams, 2006, eq. 5.12).
        """
        precision = self.factor.precision
        return np.log(self.rows.y) - self.alpha / precision, 1 / np.sqrt(precision)

    @property
    def leave_one_out(self) -> Array:
        """How far each row is from what all others say, in standard deviations of that."""
        return np.asarray(self.alpha / np.sqrt(self.factor.precision))

    def beside(self, context: Context) -> Array:
        """Covariance of what these contexts cost with each row, (t, n)."""
        return beside(context, self.rows.context, self.hyper)

    def dearer(self, depth: float) -> tuple[float, float]:
        """The logarithm by which this depth makes a network dearer, and how sure that is."""
        with_rows = self.beside(Context.at(np.array([depth])))[0]
        cross = self.factor.whiten(with_rows)
        var = depth * self.hyper.depth**2 - float(cross @ cross)
        return float(with_rows @ self.alpha), float(np.sqrt(max(var, 0.0)))

    def costs(self, layers: Layers) -> Array:
        """What these layers cost by themselves."""
        cost = np.empty(len(layers))
        for first in range(0, len(layers), BLOCK):
            some = layers[first : first + BLOCK]
            u = covariance(some, self.layers, self.hyper) @ self.point.weights
            cost[first : first + BLOCK] = costs_at(some, self.solution, self.point, u).cost
        return cost

    def posterior(self, layers: Layers) -> Posterior:
        """What these layers cost, and what variances of their sums are made of."""
        cost, with_rows, directions = self._before(layers)
        return Posterior(cost=cost, directions=directions, cross=self.factor.whiten(with_rows))

    def _before(self, layers: Layers) -> tuple[Array, Array, Array]:
        """What layers cost, their covariances with rows, and directions of independent doubts."""
        cost, every = np.empty(len(layers)), np.empty((len(self.rows), len(layers)))
        directions = []
        at, tau, varsigma = self.linear, self.hyper.stairs, self.hyper.trait
        for first in range(0, len(layers), BLOCK):
            chosen = slice(first, first + BLOCK)
            some = layers[chosen]
            k = covariance(some, self.layers, self.hyper)
            found = costs_at(some, self.solution, self.point, k @ self.point.weights)
            cost[chosen] = found.cost
            with_rows = at.shares @ k.T + at.mean @ found.by_b.T
            with_rows += tau**2 * at.steps @ found.by_gamma.T
            with_rows += varsigma**2 * at.traits @ found.by_delta.T
            every[:, chosen] = with_rows
            known = found.by_b, tau * found.by_gamma, varsigma * found.by_delta
            directions.append(np.hstack([*known, self._doubts(some)]))
        return cost, every, np.vstack(directions)

    def predict(self, layers: Layers, counts: Array, context: Context) -> tuple[Array, Array]:
        """Totals (t,) of networks with these counts (t, L), and the covariance of their logarithms.

        Without noise.
        """
        after = self.posterior(layers)
        parts = counts * after.cost
        total = parts.sum(1)
        shares = parts / total[:, None]
        with_rows = self.beside(context)
        directions = shares @ after.directions
        prior = shares @ covariance(layers, layers, self.hyper) @ shares.T
        prior += directions @ directions.T + beside(context, context, self.hyper)
        cross = after.cross @ shares.T + self.factor.whiten(with_rows.T)
        return total * np.exp(with_rows @ self.alpha), prior - cross.T @ cross

    def expected(self, layers: Layers, counts: Array, context: Context) -> tuple[Array, Array]:
        """Totals of networks, and the variances of their logarithms; without noise."""
        asked = self.ask(layers, counts, context)
        return asked.total, self.left_open(asked)

    def ask(self, layers: Layers, counts: Array, context: Context) -> Asked:
        """What networks with these counts (t, L) cost; each by itself."""
        cost, with_rows, directions = self._before(layers)
        parts = counts * cost
        total = parts.sum(1)
        shares = parts / total[:, None]
        prior = (shares @ covariance(layers, layers, self.hyper) * shares).sum(1)
        prior += np.square(shares @ directions).sum(1) + beside_var(context, self.hyper)
        beside_rows = self.beside(context)
        return Asked(
            cost=cost,
            total=total * np.exp(beside_rows @ self.alpha),
            prior=prior,
            with_rows=with_rows @ shares.T + beside_rows.T,
        )

    def left_open(self, asked: Asked) -> Array:
        """Variances of the logarithms of networks' totals, that the rows leave."""
        known = np.square(self.factor.whiten(asked.with_rows)).sum(0)
        return np.asarray(np.maximum(asked.prior - known, 0.0))

    def openness(self, layers: Layers, shares: Array) -> float:
        """Which part of what deviates from the mean the rows leave open, of a sum of layers.

        0 where the rows say all, 1 where they say nothing; shares add up to 1.
        """
        k = covariance(layers, self.layers, self.hyper)
        cross = self.factor.whiten(np.asarray(self.linear.shares @ k.T) @ shares)
        prior = float(shares @ covariance(layers, layers, self.hyper) @ shares)
        return max(0.0, 1 - float(cross @ cross) / prior)

    def as_exact_as(self, other: SumProcess, chosen: Ints) -> SumProcess:
        """The process of some of its rows, as sure as if these had the noise of another's.

        The other one has the chosen rows, in this order. Whoever is more exact counts; what is
        expected of networks is not touched.
        """
        at, hyper, rows = self.linear, self.hyper, self.rows[chosen]
        few = Linear(
            layers=at.layers,
            rows=rows,
            shares=at.shares[chosen],
            mean=at.mean[chosen],
            steps=at.steps[chosen],
            traits=at.traits[chosen],
            z=at.z[chosen],
            log_size=at.log_size[chosen],
        )
        size = np.exp(few.log_size)
        own, theirs = noise_var(size, hyper), other.hyper
        lower = np.linalg.inv(self.factor.whitener)[chosen]
        total = lower @ lower.T - besides(rows, size, hyper)
        shared = {name: min(getattr(hyper, name), getattr(theirs, name)) for name in DRIFTS}
        rows = replace(rows, known_std=np.minimum(rows.known_std, other.rows.known_std))
        total += besides(rows, size, replace(hyper, **shared))
        read = noise_var(np.exp(other.linear.log_size), theirs)
        total[np.diag_indices_from(total)] -= np.maximum(own - read, 0.0)
        return replace(self, linear=few, rows=rows, factor=Factor.of(total), alpha=few.z * 0.0)

    def noise_var(self, total: Array) -> Array:
        """Variance of the logarithm of one more measurement of networks that cost this much."""
        sizes = np.exp(self.linear.log_size)
        size = np.clip(total / self.hyper.size, sizes.min(), sizes.max())
        typical = float(np.median(self.rows.known_std)) ** 2
        return np.asarray(noise_var(size, self.hyper) + self.drift_var + typical)

    @property
    def drift_var(self) -> float:
        """What a measurement at another time is off by, with all others of that time."""
        seated = float((self.rows.sitting >= 0).mean())
        timed = float(np.isfinite(self.rows.when).mean())
        return self.hyper.sitting**2 * seated + self.hyper.slow**2 * timed

    def _doubts(self, layers: Layers) -> Array:
        """How far layers are beyond what was measured, in standard deviations of logarithms."""
        low, high = self._measured_sizes
        sizes, op = layers.features[:, SIZES], np.maximum(layers.op, -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            above, below = np.log2(sizes / high[op]), np.log2(low[op] / sizes)
        known = (sizes > 0) & (high[op] > 0)
        beyond = np.where(known, np.maximum(above, 0.0) + np.maximum(below, 0.0), 0.0)
        return np.hstack(
            [
                self.hyper.beyond * by_operation(layers, beyond, len(self.beta)),
                NOVEL * layers.novel[:, None],
            ]
        )

    @cached_property
    def _measured_sizes(self) -> tuple[Array, Array]:
        """The least and largest of each feature of each operation, and of all in the last row."""
        measured = self.layers[np.flatnonzero(self.rows.counts.any(0))]
        sizes = measured.features[:, SIZES]
        chosen = [measured.op == number for number in range(len(self.beta) - 1)]
        chosen.append(np.ones(len(measured), bool))
        high = [sizes[each].max(0, initial=0.0) for each in chosen]
        positive = np.where(sizes > 0, sizes, np.inf)
        low = [positive[each].min(0, initial=np.inf) for each in chosen]
        return np.array(low), np.array(high)


@dataclass(frozen=True)
class Assumed:
    """What is assumed where rows do not tell, in logarithms."""

    slow: float = PRIORS["slow"].median  # the usual drift of such a device
    coefficient: float = COEFFICIENT  # prior standard deviation of a coefficient
    beyond: float = BEYOND  # of an octave beyond the sizes that were measured
    odd: float = ODD  # what an odd width costs
    most_layers: int = FIT_LAYERS  # that hyper-parameters are searched for with
    expected: Hyper | None = None  # deviations and lengths, where others tell what is usual


@single_threaded
def search(
    layers: Layers, rows: Rows, assumed: Assumed = Assumed(), start: Hyper | None = None
) -> Solution:
    """Coefficients and hyper-parameters.

    Args:
        layers: The distinct ones.
        rows: What was measured.
        assumed: Where they do not tell.
        start: Where the search begins: what was found for nearly the same rows.
    """
    beta = fit_coefficients(layers, rows.counts, rows.y)
    sizes = rows.counts @ expand(layers, beta).sum(1)
    usual = float(np.exp(np.log(sizes).mean()))
    hyper = replace(
        start or begin(layers.x.shape[1], assumed.slow, assumed.expected),
        coefficient=assumed.coefficient,
        beyond=assumed.beyond,
        odd=assumed.odd,
        size=usual,
    )
    chosen, used = some_of(rows, assumed.most_layers)
    few = rows[chosen]
    few = replace(few, counts=few.counts[:, used])
    point, density = None, 0.0
    for _ in range(SEARCHES if start is None else 1):
        near = condition(layers[used], few, Solution(hyper, beta), point, NEARLY)
        point = near.point
        hyper, density = maximise(near.linear, hyper, assumed.slow, assumed.expected)
    return Solution(hyper, beta, density)


def fit(
    layers: Layers, rows: Rows, assumed: Assumed = Assumed(), start: Hyper | None = None
) -> SumProcess:
    """What was searched for, and conditioning on all rows."""
    return condition(layers, rows, search(layers, rows, assumed, start))


def unsearched(process: SumProcess) -> SumProcess:
    """The process of the same rows under the priors' medians: no row has bent them to its will."""
    hyper, known = process.hyper, begin(len(process.hyper.lengths))
    medians = {name: getattr(known, name) for name in PRIORS}
    hyper = replace(hyper, **medians, fading=0.0, lengths=known.lengths)
    return condition(process.layers, process.rows, Solution(hyper, process.beta), settled=NEARLY)


@single_threaded
def condition(
    layers: Layers,
    rows: Rows,
    solution: Solution,
    start: Point | None = None,
    settled: float = SETTLED,
) -> SumProcess:
    """The process of all rows, with hyper-parameters and coefficients that are known."""
    at, point, linear, factor, alpha = Search(layers, rows, solution).run(start, settled)
    return SumProcess(
        solution=replace(solution, at=None),  # of these rows: with others the solution has none
        layers=layers,
        rows=rows,
        at=at,
        point=point,
        linear=linear,
        factor=factor,
        alpha=alpha,
    )
