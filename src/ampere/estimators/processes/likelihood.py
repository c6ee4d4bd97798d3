"""Likelihood: the hyper-parameters under which measured totals are likeliest. Arrays only.

    symbol        meaning                                                         shape
    theta         logarithms of `SCALES` and of the lengths that matter           (5 + v,)
    v             coordinates in which layers of one operation differ
    T             covariance of the totals: W K W' + P P' + G + D + noise         (n, n)
    alpha         T⁻¹ (y / scale − M)                                             (n,)
    g, h          alpha alpha' − T⁻¹, and W' g W                                  (n, n), (L, L)

Other symbols as in sum_process.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.estimators.processes.covariance import Hyper, alike, bulge, scaled_distance, varying
from ampere.estimators.processes.factor import Factor
from ampere.estimators.processes.linear_mean import Layers
from ampere.estimators.processes.totals import COEFFICIENT, Rows, drift, terms

# Hyper-parameters are fitted on so many rows and layers at most; conditioned on are all.
FIT_ROWS, FIT_LAYERS = 200, 500

SCALES = ("operation", "kind", "rough", "noise", "context")
# Log-normal priors: median, standard deviation of the logarithm, bounds.
PRIORS = (
    (0.20, 1.0, 1e-3, 3.0),  # operation
    (0.10, 1.0, 1e-3, 3.0),  # kind
    (0.03, 1.0, 1e-3, 1.0),  # rough
    (0.035, 0.45, 3e-3, 0.5),  # noise
    (0.05, 0.5, 1e-2, 0.5),  # context
)
LENGTH = (3.0, 0.8, 0.2, 50.0)  # in octaves of a width


class Likelihood:
    """Marginal likelihood of some rows, and its gradient, as a function of log hyper-parameters."""

    def __init__(self, layers: Layers, rows: Rows, beta: Array, scale: Array) -> None:
        self.w, p, size = terms(layers, rows, beta, scale)
        self.linear = COEFFICIENT**2 * p @ p.T
        self.context = np.minimum(rows.context[:, None], rows.context) * np.outer(size, size)
        self.fixed = np.diag(np.square(rows.known_std)) + drift(rows.when, rows.when)
        self.residual = rows.y / scale - size
        self.same_op, self.same_kind, _ = alike(layers, layers)
        self.varying = varying(layers.x, layers.op)
        x = layers.x[:, self.varying].T
        self.distances = scaled_distance(np.abs(x[:, :, None] - x[:, None]), length=1.0)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Its logarithm, but for a constant, and the gradient of that."""
        operation, kind, rough, noise, context = np.exp(2 * theta[: len(SCALES)])
        r = self.distances / np.exp(theta[len(SCALES) :])[:, None, None]
        bulges = bulge(r)
        shape = bulges.prod(0) * np.exp(-r.sum(0))
        by_op, by_kind = operation * shape * self.same_op, kind * shape * self.same_kind
        k = by_op + by_kind
        k[np.diag_indices_from(k)] += rough
        total = self.w @ k @ self.w.T + self.linear + context * self.context + self.fixed
        total[np.diag_indices_from(total)] += noise
        factor = Factor.of(total)
        alpha = factor.solve(self.residual)
        value = np.log(factor.whitener.diagonal()).sum() - self.residual @ alpha / 2
        # The gradient is tr(g dT/dtheta) / 2.
        g = np.outer(alpha, alpha) - factor.whitener.T @ factor.whitener
        h = self.w.T @ g @ self.w
        scales = [
            (h * by_op).sum(),
            (h * by_kind).sum(),
            rough * h.trace(),
            noise * g.trace(),
            context * (g * self.context).sum(),
        ]
        slope = r * r / 3 * (1 + r) / bulges  # d log k / d log length
        lengths = np.tensordot(slope, h * (by_op + by_kind)) / 2
        return float(value), np.append(scales, lengths)


def maximise(
    layers: Layers, rows: Rows, beta: Array, scale: Array, start: Hyper | None
) -> tuple[Hyper, float]:
    """The hyper-parameters of largest posterior density, and its logarithm.

    The search begins at `start`, or at the priors' medians.
    """
    from scipy.optimize import minimize  # slow to import, and not needed to predict

    chosen, used = some_of(rows)
    few = rows[chosen]
    few = replace(few, counts=few.counts[:, used])
    likelihood = Likelihood(layers[used], few, beta, scale[chosen])
    priors = np.array([*PRIORS, *[LENGTH] * len(likelihood.varying)])
    median, spread, bounds = np.log(priors[:, 0]), priors[:, 1], np.log(priors[:, 2:])

    def loss(theta: Array) -> tuple[float, Array]:
        value, gradient = likelihood(theta)
        off = (theta - median) / spread
        return off @ off / 2 - value, off / spread - gradient

    begin = median
    if start is not None:
        scales = [getattr(start, name) for name in SCALES]
        begin = np.log([*scales, *np.array(start.lengths)[likelihood.varying]])
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
    lengths[likelihood.varying] = values[len(SCALES) :]
    fitted = dict(zip(SCALES, map(float, values), strict=False))
    return Hyper(**fitted, lengths=tuple(map(float, lengths))), -float(best.fun)


def some_of(rows: Rows) -> tuple[Ints, Ints]:
    """Rows and layers to fit hyper-parameters on: all, unless they are too many."""
    order = np.random.default_rng(0).permutation(len(rows))[:FIT_ROWS]
    present = rows.counts[order] != 0
    seen = np.logical_or.accumulate(present, axis=0).sum(1)
    chosen = np.sort(order[: max(1, int((seen <= FIT_LAYERS).sum()))])
    return chosen, np.flatnonzero((rows.counts[chosen] != 0).any(0))
