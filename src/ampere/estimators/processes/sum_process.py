"""Gaussian processes over sums: networks are measured, layers are learned. Arrays only.

A measured total is a sum over layers, and a sum of Gaussian processes is one too: so totals are
conditioned on directly, and no layer need be isolated. Costs are relative to a mean that is linear
in the layers' features, so that a small layer and a large one deviate alike:

    cost of a layer      = m · (1 + u),               m = features · beta,      u ~ N(0, K)
    total of a network   = sum of costs + g(context) · sum of m,                g ~ random walk
    cov(totals)          = W K W' + P P' + G + D + noise,                       relative to scale

K has three parts: layers of one operation deviate alike, layers of one kind alike once more, and
what is left is rough: it belongs to a layer at its widths and says nothing of its neighbours. P is
the coefficients' own uncertainty, each by `COEFFICIENT` of its value. G is that of the context: it
costs nothing at context 0, is learned where networks of that context were measured, and is the more
open the further a network is from them. D is the drift that no correction took out of the rows:
those of one minute share it, so many rows of one minute are not many witnesses. Rows are relative
to the middle between what was measured and what the mean says: relative to what was measured, one
reading that is far too low would outweigh all the others.

    symbol        meaning                                                         shape
    n, L, d       networks measured, distinct layers, coordinates
    o, f, p       operations, features, p = (o + 1) f
    y             measured totals, in any unit                                    (n,)
    scale         the middle between y and the mean's totals                      (n,)
    counts        how many of each layer a network has                            (n, L)
    known_std     relative error of each total, as its repeats show it            (n,)
    context       what rows differ in besides their layers (log of the depth)     (n,)
    when          time of each measurement in seconds; NaN if nobody knows        (n,)
    features      what the mean is linear in                                      (L, f)
    beta          cost of one unit of each; in the last row for any operation     (o + 1, f)
    m             mean cost of each layer                                         (L,)
    x             coordinates of a layer: log2 of widths, attributes              (L, d)
    op, kind      numbers; −1 for an operation or kind that was never measured    (L,)
    parts         features times beta, in the columns of the operation            (L, p)
    W             counts times m, relative to scale                               (n, L)
    P             counts times parts, relative to scale                           (n, p)
    M             prior mean of each network, relative to scale                   (n,)
    factor        inverse of the Cholesky factor of cov(totals)                   (n, n)
    alpha         cov(totals)⁻¹ (y / scale − M)                                   (n,)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ampere.core.arrays import Array
from ampere.estimators.processes.covariance import Hyper, covariance
from ampere.estimators.processes.factor import Factor
from ampere.estimators.processes.likelihood import maximise
from ampere.estimators.processes.linear_mean import Layers, expand, fit_coefficients
from ampere.estimators.processes.threads import single_threaded
from ampere.estimators.processes.totals import COEFFICIENT, DRIFT, Rows, Terms, drift, terms, walk

BLOCK = 400  # layers whose covariances with all others are held at once


@dataclass(frozen=True, eq=False)
class Solution:
    """What is searched for: with it and the same rows, a process is made without searching."""

    hyper: Hyper
    beta: Array
    log_density: float = 0.0  # of the rows and hyper-parameters, where these were searched for


@dataclass(frozen=True, eq=False)
class Posterior:
    """What layers cost by themselves, in parts that add up over the layers of a network."""

    m: Array
    mean: Array
    parts: Array
    cross: Array  # whitened covariance with each measured row, (n, L)


@dataclass(frozen=True, eq=False)
class SumProcess:
    """A fitted process: numpy alone predicts, and one more row is added in O(n²)."""

    solution: Solution
    layers: Layers
    rows: Rows
    scale: Array
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

    @cached_property
    def _terms(self) -> Terms:
        return terms(self.layers, self.rows, self.beta, self.scale)

    @cached_property
    def _whitened(self) -> Array:
        return self.factor.whiten(self._terms.w)

    @property
    def left_out(self) -> tuple[Array, Array]:
        """What all other rows say of each row: mean, and standard deviation with its own noise.

        Hyper-parameters and coefficients are kept (Rasmussen and Williams, 2006, eq. 5.12).
        """
        precision = self.factor.precision
        mean = self.rows.y - self.scale * self.alpha / precision
        return mean, self.scale / np.sqrt(precision)

    @property
    def leave_one_out(self) -> Array:
        """How far each row is from what all others say, in standard deviations of that."""
        mean, std = self.left_out
        return np.asarray((self.rows.y - mean) / std)

    def walk(self, context: Array) -> Array:
        """Covariance of what these contexts cost with each row, (t, n)."""
        return np.asarray(walk(context, self.rows.context, self.hyper) * self._terms.m)

    def dearer(self, context: float) -> tuple[float, float]:
        """How much dearer, relatively, this context makes a network, and how sure that is."""
        with_rows = self.walk(np.array([context]))[0]
        cross = self.factor.whiten(with_rows)
        var = context * self.hyper.context**2 - float(cross @ cross)
        return float(with_rows @ self.alpha), float(np.sqrt(max(var, 0.0)))

    def means(self, layers: Layers) -> tuple[Array, Array]:
        """Prior and posterior means of these layers."""
        w, p, _ = self._terms
        parts = expand(layers, self.beta)
        m = parts.sum(1)
        mean = m + parts @ (COEFFICIENT**2 * p.T @ self.alpha)
        weights = w.T @ self.alpha
        for start in range(0, len(layers), BLOCK):
            chosen = slice(start, start + BLOCK)
            k = covariance(layers[chosen], self.layers, self.hyper)
            mean[chosen] += m[chosen] * (k @ weights)
        return m, mean

    def posterior(self, layers: Layers) -> Posterior:
        """Means of these layers, and what variances of their sums are made of."""
        w, p, _ = self._terms
        parts = expand(layers, self.beta)
        m = parts.sum(1)
        by_coefficient = COEFFICIENT**2 * p
        mean = m + parts @ (by_coefficient.T @ self.alpha)
        cross = self.factor.whiten(by_coefficient @ parts.T)
        weights = w.T @ self.alpha
        for start in range(0, len(layers), BLOCK):
            chosen = slice(start, start + BLOCK)
            k = covariance(layers[chosen], self.layers, self.hyper) * m[chosen, None]
            mean[chosen] += k @ weights
            cross[:, chosen] += self._whitened @ k.T
        return Posterior(m=m, mean=mean, parts=parts, cross=cross)

    def predict(self, layers: Layers, counts: Array, context: Array) -> tuple[Array, Array]:
        """Mean (t,) and covariance (t, t) of networks with these counts (t, L), without noise."""
        after = self.posterior(layers)
        weights = counts * after.m
        size = weights.sum(1)
        parts = COEFFICIENT * counts @ after.parts
        with_rows = self.walk(context) * size[:, None]
        prior = weights @ covariance(layers, layers, self.hyper) @ weights.T
        prior += parts @ parts.T + walk(context, context, self.hyper) * np.outer(size, size)
        cross = after.cross @ counts.T + self.factor.whiten(with_rows.T)
        return counts @ after.mean + with_rows @ self.alpha, prior - cross.T @ cross

    def noise_var(self, mean: Array) -> Array:
        """Variance of one more measurement of networks that cost this much."""
        typical = float(np.median(self.rows.known_std)) ** 2
        timed = float(np.isfinite(self.rows.when).mean())
        error = self.hyper.noise**2 + DRIFT**2 * timed + typical
        return np.asarray(error * np.square(mean))

    def add(self, layers: Layers, row: Rows) -> SumProcess:
        """The process with one more row; `layers` are the known ones, and new ones behind them.

        Hyper-parameters and coefficients stay, the factor grows by a line.
        """
        own = np.flatnonzero(row.counts[0])
        after = self.posterior(layers[own])
        scale = (row.y + row.counts[:, own] @ after.m) / 2
        relative = row.counts[:, own] / scale[:, None]
        size = relative @ after.m
        with_rows = self.walk(row.context)[0] * size
        without_drift = after.cross @ relative[0] + self.factor.whiten(with_rows)
        cross = without_drift + self.factor.whiten(drift(row.when, self.rows.when)[0])
        _, left = self.predict(layers[own], relative, row.context)
        least = self.hyper.noise**2
        error = least + drift(row.when, row.when)[0, 0] + row.known_std[0] ** 2
        var = max(left[0, 0], 0.0) + without_drift @ without_drift + error
        factor = self.factor.grown(cross, var, least)
        rows = self.rows.joined(row)
        scales = np.append(self.scale, scale)
        residual = rows.y / scales - np.append(self._terms.m, size)
        return replace(
            self,
            layers=layers,
            rows=rows,
            scale=scales,
            factor=factor,
            alpha=factor.solve(residual),
        )


@single_threaded
def fit(
    layers: Layers, rows: Rows, hyper: Hyper | None = None, start: Hyper | None = None
) -> SumProcess:
    """Coefficients, hyper-parameters unless they are given, and conditioning on all rows.

    `start` is where the search for hyper-parameters begins: those of a similar quantity, if known.
    """
    beta = fit_coefficients(layers, rows.counts, rows.y)
    if hyper is not None:
        return condition(layers, rows, Solution(hyper, beta))
    hyper, density = maximise(layers, rows, beta, _scale(layers, rows, beta), start)
    return condition(layers, rows, Solution(hyper, beta, density))


@single_threaded
def condition(layers: Layers, rows: Rows, solution: Solution) -> SumProcess:
    """The process of all rows, with hyper-parameters and coefficients that are known."""
    hyper, beta = solution.hyper, solution.beta
    scale = _scale(layers, rows, beta)
    w, p, size = terms(layers, rows, beta, scale)
    total = COEFFICIENT**2 * p @ p.T
    total += walk(rows.context, rows.context, hyper) * np.outer(size, size)
    for first in range(0, len(layers), BLOCK):
        chosen = slice(first, first + BLOCK)
        total += w[:, chosen] @ (covariance(layers[chosen], layers, hyper) @ w.T)
    total += drift(rows.when, rows.when)
    total[np.diag_indices_from(total)] += hyper.noise**2 + np.square(rows.known_std)
    factor = Factor.of(total)
    alpha = factor.solve(rows.y / scale - size)
    return SumProcess(
        solution=solution, layers=layers, rows=rows, scale=scale, factor=factor, alpha=alpha
    )


def _scale(layers: Layers, rows: Rows, beta: Array) -> Array:
    """The middle between what was measured and what the mean says."""
    return np.asarray((rows.y + rows.counts @ expand(layers, beta).sum(1)) / 2)
