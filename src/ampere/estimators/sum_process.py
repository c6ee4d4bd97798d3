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
    whitener      inverse of the Cholesky factor of cov(totals)                   (n, n)
    alpha         cov(totals)⁻¹ (y / scale − M)                                   (n,)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ampere.core.arrays import Array, Ints
from ampere.estimators.linear_mean import Layers, expand, fit_coefficients

COEFFICIENT = 1.0  # prior standard deviation of a coefficient, relative to its value
# Hyper-parameters are fitted on so many rows and layers at most; conditioned on are all.
FIT_ROWS, FIT_LAYERS = 200, 500
BLOCK = 400  # layers whose covariances with all others are held at once

# Log-normal priors: median, standard deviation of the logarithm, bounds.
PRIORS = (
    (0.20, 1.0, 1e-3, 3.0),  # operation
    (0.10, 1.0, 1e-3, 3.0),  # kind
    (0.03, 1.0, 1e-3, 1.0),  # rough
    (0.035, 0.45, 3e-3, 0.5),  # noise
    (0.05, 0.5, 1e-2, 0.5),  # context
)
LENGTH = (3.0, 0.8, 0.2, 50.0)  # in octaves of a width
SCALES = len(PRIORS)
# Relative drift that no correction takes out, and the seconds over which it forgets itself. Not
# fitted: kinds that are measured one after the other would be taken for drift.
DRIFT, LASTING = 0.03, 60.0


@dataclass(frozen=True, eq=False)
class Rows:
    """Measured networks: which layers each has, and what it took."""

    counts: Array
    y: Array
    known_std: Array
    context: Array
    when: Array

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, chosen: Ints | slice) -> Rows:
        return Rows(*(values[chosen] for values in vars(self).values()))


@dataclass(frozen=True)
class Hyper:
    """What is fitted: relative standard deviations, and a length for each coordinate."""

    operation: float
    kind: float
    rough: float
    noise: float
    context: float
    lengths: tuple[float, ...]


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

    hyper: Hyper
    beta: Array
    layers: Layers
    rows: Rows
    scale: Array
    whitener: Array
    alpha: Array
    log_density: float = 0.0  # of the rows and hyper-parameters that were fitted

    @cached_property
    def _terms(self) -> tuple[Array, Array, Array]:
        return _terms(self.layers, self.rows, self.beta, self.scale)

    @cached_property
    def _whitened(self) -> Array:
        return np.asarray(self.whitener @ self._terms[0])

    @property
    def left_out(self) -> tuple[Array, Array]:
        """What all other rows say of each row: mean, and standard deviation with its own noise.

        Hyper-parameters and coefficients are kept (Rasmussen and Williams, 2006, eq. 5.12).
        """
        precision = np.square(self.whitener).sum(0)
        mean = self.rows.y - self.scale * self.alpha / precision
        return mean, self.scale / np.sqrt(precision)

    @property
    def leave_one_out(self) -> Array:
        """How far each row is from what all others say, in standard deviations of that."""
        mean, std = self.left_out
        return np.asarray((self.rows.y - mean) / std)

    def walk(self, context: Array) -> Array:
        """Covariance of what these contexts cost with each row, (t, n)."""
        rows = self.rows.context
        return np.asarray(_walk(context, rows, self.hyper) * self._terms[2])

    def dearer(self, context: float) -> tuple[float, float]:
        """How much dearer, relatively, this context makes a network, and how sure that is."""
        walk = self.walk(np.array([context]))[0]
        cross = self.whitener @ walk
        var = context * self.hyper.context**2 - cross @ cross
        return float(walk @ self.alpha), float(np.sqrt(max(var, 0.0)))

    def means(self, layers: Layers) -> tuple[Array, Array]:
        """Prior and posterior means of these layers."""
        w, p, _ = self._terms
        parts = expand(layers, self.beta)
        m = parts.sum(1)
        mean = m + parts @ (COEFFICIENT**2 * p.T @ self.alpha)
        known = w.T @ self.alpha
        for start in range(0, len(layers), BLOCK):
            chosen = slice(start, start + BLOCK)
            k = covariance(layers[chosen], self.layers, self.hyper)
            mean[chosen] += m[chosen] * (k @ known)
        return m, mean

    def posterior(self, layers: Layers) -> Posterior:
        """Means of these layers, and what variances of their sums are made of."""
        w, p, _ = self._terms
        parts = expand(layers, self.beta)
        m = parts.sum(1)
        taught = COEFFICIENT**2 * p
        mean = m + parts @ (taught.T @ self.alpha)
        cross = self.whitener @ (taught @ parts.T)
        known = w.T @ self.alpha
        for start in range(0, len(layers), BLOCK):
            chosen = slice(start, start + BLOCK)
            k = covariance(layers[chosen], self.layers, self.hyper) * m[chosen, None]
            mean[chosen] += k @ known
            cross[:, chosen] += self._whitened @ k.T
        return Posterior(m, mean, parts, cross)

    def predict(self, layers: Layers, counts: Array, context: Array) -> tuple[Array, Array]:
        """Mean (t,) and covariance (t, t) of networks with these counts (t, L), without noise."""
        after = self.posterior(layers)
        weights = counts * after.m
        size = weights.sum(1)
        parts = COEFFICIENT * counts @ after.parts
        walk = self.walk(context) * size[:, None]
        prior = weights @ covariance(layers, layers, self.hyper) @ weights.T
        prior += parts @ parts.T + _walk(context, context, self.hyper) * np.outer(size, size)
        cross = after.cross @ counts.T + self.whitener @ walk.T
        return counts @ after.mean + walk @ self.alpha, prior - cross.T @ cross

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
        mine = np.flatnonzero(row.counts[0])
        after = self.posterior(layers[mine])
        scale = (row.y + row.counts[:, mine] @ after.m) / 2
        relative = row.counts[:, mine] / scale[:, None]
        size = relative @ after.m
        known = after.cross @ relative[0] + self.whitener @ (self.walk(row.context)[0] * size)
        cross = known + self.whitener @ _drift(row.when, self.rows.when)[0]
        _, left = self.predict(layers[mine], relative, row.context)
        hyper = self.hyper
        error = hyper.noise**2 + _drift(row.when, row.when)[0, 0] + row.known_std[0] ** 2
        rest = max(left[0, 0], 0.0) + known @ known + error - cross @ cross
        last = 1 / np.sqrt(max(rest, hyper.noise**2))
        n = len(self.rows)
        whitener = np.zeros((n + 1, n + 1))
        whitener[:n, :n] = self.whitener
        whitener[n, :n] = -last * (cross @ self.whitener)
        whitener[n, n] = last
        room = np.zeros((n, len(layers) - len(self.layers)))
        rows = Rows(
            np.vstack([np.hstack([self.rows.counts, room]), row.counts]),
            np.append(self.rows.y, row.y),
            np.append(self.rows.known_std, row.known_std),
            np.append(self.rows.context, row.context),
            np.append(self.rows.when, row.when),
        )
        scales = np.append(self.scale, scale)
        residual = rows.y / scales - np.append(self._terms[2], size)
        alpha = whitener.T @ (whitener @ residual)
        return SumProcess(
            self.hyper, self.beta, layers, rows, scales, whitener, alpha, self.log_density
        )


def covariance(a: Layers, b: Layers, hyper: Hyper) -> Array:
    """Prior covariance of relative deviations."""
    bulge, decay = np.ones((len(a), len(b))), np.zeros((len(a), len(b)))
    for i in _varying(np.vstack([a.x, b.x]), np.append(a.op, b.op)):
        r = np.sqrt(5.0) * np.abs(a.x[:, i, None] - b.x[:, i]) / hyper.lengths[i]
        bulge *= 1 + r + r * r / 3
        decay += r
    same_op, same_kind, same = _alike(a, b)
    share = hyper.operation**2 * same_op + hyper.kind**2 * same_kind
    return np.asarray(bulge * np.exp(-decay) * share + hyper.rough**2 * same)


def fit(
    layers: Layers, rows: Rows, hyper: Hyper | None = None, start: Hyper | None = None
) -> SumProcess:
    """Coefficients, hyper-parameters unless they are given, and conditioning on all rows.

    `start` is where the search for hyper-parameters begins: those of a similar quantity, if known.
    """
    beta = fit_coefficients(layers, rows.counts, rows.y)
    scale = (rows.y + rows.counts @ expand(layers, beta).sum(1)) / 2
    density = 0.0
    if hyper is None:
        hyper, density = _maximise(layers, rows, beta, scale, start)
    w, p, size = _terms(layers, rows, beta, scale)
    total = COEFFICIENT**2 * p @ p.T
    total += _walk(rows.context, rows.context, hyper) * np.outer(size, size)
    for first in range(0, len(layers), BLOCK):
        chosen = slice(first, first + BLOCK)
        total += w[:, chosen] @ (covariance(layers[chosen], layers, hyper) @ w.T)
    total += _drift(rows.when, rows.when)
    total[np.diag_indices_from(total)] += hyper.noise**2 + np.square(rows.known_std)
    whitener = np.linalg.inv(np.linalg.cholesky(total))
    alpha = whitener.T @ (whitener @ (rows.y / scale - size))
    return SumProcess(hyper, beta, layers, rows, scale, whitener, alpha, density)


def _terms(layers: Layers, rows: Rows, beta: Array, scale: Array) -> tuple[Array, Array, Array]:
    """W, P and M."""
    parts = expand(layers, beta)
    relative = rows.counts / scale[:, None]
    w = relative * parts.sum(1)
    return w, relative @ parts, w.sum(1)


def _walk(a: Array, b: Array, hyper: Hyper) -> Array:
    """Covariance of a random walk that starts at context 0."""
    return np.asarray(hyper.context**2 * np.minimum(a[:, None], b))


def _varying(x: Array, op: Ints) -> Ints:
    """Coordinates in which layers of one operation differ; between operations none matters."""
    return np.flatnonzero(np.any([np.ptp(x[op == each], axis=0) > 0 for each in np.unique(op)], 0))


def _drift(a: Array, b: Array) -> Array:
    """Covariance of the drift in measurements; those of unknown time have none, only noise."""
    shared = DRIFT**2 * np.exp(-np.abs(a[:, None] - b) / LASTING)
    return np.where(np.isnan(shared), 0.0, shared)


def _alike(a: Layers, b: Layers) -> tuple[npt.NDArray[np.bool_], ...]:
    """Same operation, same kind, same layer; what was never measured is like itself only."""
    same = a.id[:, None] == b.id
    same_op = (a.op[:, None] == b.op) & (a.op[:, None] >= 0)
    same_kind = (a.kind[:, None] == b.kind) & (a.kind[:, None] >= 0)
    return same_op | same, same_kind | same, same


def _few(rows: Rows) -> tuple[Ints, Ints]:
    """Rows and layers to fit hyper-parameters on: all, unless they are too many."""
    order = np.random.default_rng(0).permutation(len(rows))[:FIT_ROWS]
    present = rows.counts[order] != 0
    seen = np.logical_or.accumulate(present, axis=0).sum(1)
    chosen = np.sort(order[: max(1, int((seen <= FIT_LAYERS).sum()))])
    return chosen, np.flatnonzero((rows.counts[chosen] != 0).any(0))


class _Likelihood:
    """Marginal likelihood of some rows, and its gradient, as a function of log hyper-parameters."""

    def __init__(self, layers: Layers, rows: Rows, beta: Array, scale: Array) -> None:
        self.w, p, size = _terms(layers, rows, beta, scale)
        self.linear = COEFFICIENT**2 * p @ p.T
        self.context = np.minimum(rows.context[:, None], rows.context) * np.outer(size, size)
        self.known = np.diag(np.square(rows.known_std)) + _drift(rows.when, rows.when)
        self.residual = rows.y / scale - size
        self.same_op, self.same_kind, _ = _alike(layers, layers)
        self.varying = _varying(layers.x, layers.op)
        x = layers.x[:, self.varying].T
        self.distances = np.sqrt(5.0) * np.abs(x[:, :, None] - x[:, None])

    def __call__(self, theta: Array) -> tuple[float, Array]:
        operation, kind, rough, noise, context = np.exp(2 * theta[:SCALES])
        r = self.distances / np.exp(theta[SCALES:])[:, None, None]
        bulge = 1 + r + r * r / 3
        shape = bulge.prod(0) * np.exp(-r.sum(0))
        by_op, by_kind = operation * shape * self.same_op, kind * shape * self.same_kind
        k = by_op + by_kind
        k[np.diag_indices_from(k)] += rough
        total = self.w @ k @ self.w.T + self.linear + context * self.context + self.known
        total[np.diag_indices_from(total)] += noise
        whitener = np.linalg.inv(np.linalg.cholesky(total))
        alpha = whitener.T @ (whitener @ self.residual)
        value = np.log(whitener.diagonal()).sum() - self.residual @ alpha / 2
        g = np.outer(alpha, alpha) - whitener.T @ whitener  # the gradient is tr(g dT/dtheta) / 2
        h = self.w.T @ g @ self.w
        scales = [
            (h * by_op).sum(),
            (h * by_kind).sum(),
            rough * h.trace(),
            noise * g.trace(),
            context * (g * self.context).sum(),
        ]
        slope = r * r / 3 * (1 + r) / bulge  # d log k / d log length
        lengths = np.tensordot(slope, h * (by_op + by_kind)) / 2
        return float(value), np.append(scales, lengths)


def _maximise(
    layers: Layers, rows: Rows, beta: Array, scale: Array, start: Hyper | None
) -> tuple[Hyper, float]:
    """The hyper-parameters of largest posterior density, and its logarithm."""
    from scipy.optimize import minimize

    chosen, used = _few(rows)
    few = rows[chosen]
    few = replace(few, counts=few.counts[:, used])
    likelihood = _Likelihood(layers[used], few, beta, scale[chosen])
    priors = np.array([*PRIORS, *[LENGTH] * len(likelihood.varying)])
    median, spread, bounds = np.log(priors[:, 0]), priors[:, 1], np.log(priors[:, 2:])

    def loss(theta: Array) -> tuple[float, Array]:
        value, gradient = likelihood(theta)
        off = (theta - median) / spread
        return off @ off / 2 - value, off / spread - gradient

    begin = median
    if start is not None:
        known = [start.operation, start.kind, start.rough, start.noise, start.context]
        begin = np.log([*known, *np.array(start.lengths)[likelihood.varying]])
    best = minimize(
        loss,
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-6, "maxiter": 100},
    )
    values = np.exp(best.x)
    lengths = np.full(layers.x.shape[1], LENGTH[0])
    lengths[likelihood.varying] = values[SCALES:]
    operation, kind, rough, noise, context = map(float, values[:SCALES])
    fitted = Hyper(operation, kind, rough, noise, context, tuple(map(float, lengths)))
    return fitted, -float(best.fun)
