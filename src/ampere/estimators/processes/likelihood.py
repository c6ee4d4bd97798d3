"""Likelihood: the hyper-parameters under which measured totals are likeliest. Arrays only.

    symbol        meaning                                                         shape
    theta         logarithms of `SCALES`, `fading`, logarithms of the lengths     (13 + v,)
    v             coordinates in which layers of one operation differ
    S, B, Q, R    as in sum_process.py: what totals are made of, near the posterior
    z             what was measured, in logarithms, less what the mean says there (n,)
    T             covariance of z: S K S' + B B' + τ² Q Q' + ς² R R' + N          (n, n)
    alpha         T⁻¹ z                                                           (n,)
    g, h          alpha alpha' − T⁻¹, and S' g S of an operation                  (n, n), (l, l)

Where layers add up, totals are not linear in their logarithms: they are taken as linear near the
posterior, so this is Laplace's approximation of the evidence. Other symbols as in sum_process.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from ampere.core.arrays import Array, Ints
from ampere.estimators.processes.covariance import (
    LEVEL,
    ROOT,
    Hyper,
    alike,
    levels,
    scaled_distance,
    varying,
)
from ampere.estimators.processes.light import Light
from ampere.estimators.processes.linear_mean import Layers
from ampere.estimators.processes.totals import Rows, alike_blocks, lasting, together, walk

# Hyper-parameters are fitted on so many rows and layers at most; conditioned on are all.
FIT_ROWS, FIT_LAYERS = 200, 320


class Prior(NamedTuple):
    """Log-normal: median, standard deviation of the logarithm, bounds."""

    median: float
    spread: float
    least: float
    most: float


PRIORS: Mapping[str, Prior] = MappingProxyType(
    {
        "operation": Prior(0.15, 1.0, 1e-3, 3.0),
        "kind": Prior(0.07, 1.0, 1e-3, 3.0),
        "short": Prior(0.05, 1.0, 1e-3, 1.0),
        "rough": Prior(0.02, 1.0, 1e-3, 1.0),
        "noise": Prior(0.03, 0.6, 2e-3, 0.5),
        "depth": Prior(0.05, 0.5, 1e-2, 0.5),
        "block": Prior(0.10, 1.0, 1e-3, 1.0),
        "stairs": Prior(0.10, 1.0, 1e-3, 2.0),
        "trait": Prior(0.10, 1.0, 1e-3, 2.0),
        "sitting": Prior(0.02, 0.7, 1e-3, 0.5),
        "slow": Prior(0.03, 0.7, 1e-3, 0.5),
        "reach": Prior(0.30, 0.7, 0.02, 1.0),
    }
)
SCALES = tuple(PRIORS)
FADING, MOST_FADING = 0.2, 1.0  # standard deviation of its prior, which begins at 0; its bound
IMPOSSIBLE = -1e15
LENGTH = Prior(6.0, 1.0, 0.2, 50.0)  # in octaves of a width


@dataclass(frozen=True, eq=False)
class Linear:
    """Totals near a point: what each is made of, and what was measured less the mean there."""

    layers: Layers
    rows: Rows
    shares: Light  # S
    mean: Array  # B
    steps: Array  # Q
    traits: Array  # R
    z: Array
    log_size: Array


class _Block(NamedTuple):
    """Pairs of different layers of one operation, each pair once: k is symmetric."""

    pairs: Ints  # their places in a flat K
    varying: Ints
    distances: Array  # (v, pairs), for lengths of 1
    same_kind: Array
    same: Array
    levels: Array


class Likelihood:
    """Marginal likelihood of some rows, and its gradient, as a function of theta."""

    def __init__(self, at: Linear) -> None:
        self.at, self.n, self.l = at, len(at.z), len(at.layers)
        self.shares = at.shares
        self.blocks = list(_blocks(at.layers))
        self.varying = np.unique(np.concatenate([block.varying for block in self.blocks]))
        self.levels = LEVEL**2 * at.layers.unsized
        self.linear = at.mean @ at.mean.T
        self.fixed = np.diag(np.square(at.rows.known_std))
        self.named = {
            "depth": walk(at.rows.context.depth, at.rows.context.depth),
            "block": alike_blocks(at.rows.context, at.rows.context),
            "stairs": at.steps @ at.steps.T,
            "trait": at.traits @ at.traits.T,
            "sitting": together(at.rows),
            "slow": lasting(at.rows),
        }

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Its logarithm, but for a constant, and the gradient of that."""
        from scipy.linalg.lapack import dpotrf, dpotri  # predicting does without scipy

        scales = dict(zip(SCALES, np.exp(theta[: len(SCALES)]), strict=True))
        fading = float(theta[len(SCALES)])
        lengths = np.exp(theta[len(SCALES) + 1 :])
        total = self.linear + self.fixed
        for name, matrix in self.named.items():
            total += scales[name] ** 2 * matrix
        noise = scales["noise"] ** 2 * np.exp(-fading * self.at.log_size)
        total[np.diag_indices(self.n)] += noise
        shapes = [self._shapes(block, scales, lengths) for block in self.blocks]
        total += self.shares @ self._covariance(shapes, scales) @ self.shares.T
        lower, fault = dpotrf(total, lower=1)
        if fault:  # rounding: nothing is there, and the search goes another way
            return IMPOSSIBLE, np.zeros_like(theta)
        inverse, _ = dpotri(lower, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        alpha = inverse @ self.at.z
        value = -np.log(np.diagonal(lower)).sum() - self.at.z @ alpha / 2
        g = np.outer(alpha, alpha) - inverse
        slopes = {name: scales[name] ** 2 * np.vdot(g, each) for name, each in self.named.items()}
        slopes["noise"] = float(g.diagonal() @ noise)
        h = np.asarray(self.shares.T @ g @ self.shares)
        own = float(h.trace())
        for name in ("operation", "kind", "short", "rough"):
            slopes[name] = scales[name] ** 2 * own
        slopes["reach"] = 0.0
        by_length = np.zeros(len(self.varying))
        for shape in shapes:
            _add_slopes(shape, h, slopes, by_length)
        of_fading = -float(g.diagonal() @ (noise * self.at.log_size)) / 2
        return float(value), np.array([*(slopes[name] for name in SCALES), of_fading, *by_length])

    def _covariance(self, shapes: Sequence[_Shapes], scales: Mapping[str, float]) -> Array:
        """K of all layers: pairs of one operation, and each with itself."""
        flat = np.zeros(self.l**2)
        for shape in shapes:
            flat[shape.block.pairs] = shape.whole
        k = flat.reshape(self.l, self.l)
        k = k + k.T
        own = sum(scales[name] ** 2 for name in ("operation", "kind", "short", "rough"))
        k[np.diag_indices(self.l)] = own + self.levels
        return k

    def _shapes(self, block: _Block, scales: Mapping[str, float], lengths: Array) -> _Shapes:
        own = np.searchsorted(self.varying, block.varying)
        bulges, decay = np.ones(len(block.pairs)), np.zeros(len(block.pairs))
        slopes = np.empty_like(block.distances)
        for distance, length, slope in zip(block.distances, lengths[own], slopes, strict=True):
            # A coordinate at a time, in place: arrays that fit into a cache, made once.
            r = distance / length
            near = 1 + r
            np.multiply(r, r, out=slope)
            slope /= 3
            bulge = near + slope
            bulges *= bulge
            decay += r
            slope *= near
            slope /= bulge  # d log k / d log length
        smooth = bulges * np.exp(-decay)
        by_op = scales["operation"] ** 2 * smooth
        by_kind = scales["kind"] ** 2 * smooth * block.same_kind
        far = decay / (ROOT * scales["reach"])
        near = scales["short"] ** 2 * np.exp(-far)
        rough = scales["rough"] ** 2 * block.same
        whole = by_op + by_kind + near + rough + block.levels
        reach = ROOT * scales["reach"]
        return _Shapes(
            block, own, slopes, by_op, by_kind, near, far, rough, whole, lengths[own], reach
        )


class _Shapes(NamedTuple):
    """Covariances of the pairs of layers of an operation, part by part."""

    block: _Block
    own: Ints
    slopes: Array  # (v, pairs): d log k / d log length
    by_op: Array
    by_kind: Array
    near: Array
    far: Array
    rough: Array
    whole: Array
    lengths: Array
    reach: float  # ROOT times it


def _add_slopes(shape: _Shapes, h: Array, slopes: dict[str, float], by_length: Array) -> None:
    """What pairs of an operation add to the gradient: tr(g dT / dtheta) / 2, each pair twice."""
    twice = 2 * h.ravel()[shape.block.pairs]
    slopes["operation"] += float(twice @ shape.by_op)
    slopes["kind"] += float(twice @ shape.by_kind)
    near = twice * shape.near
    slopes["short"] += float(near.sum())
    slopes["rough"] += float(twice @ shape.rough)
    farther = near @ shape.far
    slopes["reach"] += float(farther) / 2
    both = shape.slopes @ (twice * (shape.by_op + shape.by_kind))
    both += shape.block.distances @ near / (shape.lengths * shape.reach)
    by_length[shape.own] += both / 2


def _blocks(layers: Layers) -> Iterator[_Block]:
    for operation in np.unique(layers.op):
        chosen = np.flatnonzero(layers.op == operation)
        few = layers[chosen]
        one, other = np.triu_indices(len(chosen), 1)
        same_kind, same = alike(few, few)
        differing = varying(few.x)
        x = few.x[:, differing].T
        yield _Block(
            pairs=chosen[one] * len(layers) + chosen[other],
            varying=differing,
            distances=scaled_distance(np.abs(x[:, one] - x[:, other]), length=1.0),
            same_kind=same_kind[one, other].astype(float),
            same=same[one, other].astype(float),
            levels=levels(few, few, same_kind)[one, other],
        )


def begin(
    coordinates: int, slow: float = PRIORS["slow"].median, expected: Hyper | None = None
) -> Hyper:
    """The priors' medians."""
    if expected is not None:
        return replace(expected, slow=slow)
    medians = {**{name: prior.median for name, prior in PRIORS.items()}, "slow": slow}
    return Hyper(**medians, fading=0.0, lengths=(LENGTH.median,) * coordinates)


def maximise(
    at: Linear,
    start: Hyper,
    slow: float = PRIORS["slow"].median,
    expected: Hyper | None = None,
) -> tuple[Hyper, float]:
    """The hyper-parameters of largest posterior density near a point, and its logarithm.

    `slow` is the median of its prior: what is usual on such a device; `expected` are those of the
    others, where more is known than what is usual.
    """
    from scipy.optimize import minimize  # slow to import, and not needed to predict

    likelihood = Likelihood(at)
    medians = begin(len(start.lengths), slow, expected)
    known = [prior._replace(median=getattr(medians, name)) for name, prior in PRIORS.items()]
    lengths = [LENGTH._replace(median=medians.lengths[i]) for i in likelihood.varying]
    priors = np.array([*known, *lengths])
    middle = len(SCALES)

    def with_fading(values: Array, fading: float) -> Array:
        return np.insert(values, middle, fading)

    median = with_fading(np.log(priors[:, 0]), 0.0)
    spread = with_fading(priors[:, 1], FADING)
    least = with_fading(np.log(priors[:, 2]), 0.0)
    most = with_fading(np.log(priors[:, 3]), MOST_FADING)

    def loss(theta: Array) -> tuple[float, Array]:
        value, gradient = likelihood(theta)
        off = (theta - median) / spread
        if not math.isfinite(value) or not np.isfinite(gradient).all():
            value, gradient = IMPOSSIBLE, np.zeros_like(theta)
        return float(off @ off) / 2 - value, off / spread - gradient

    scales = [getattr(start, name) for name in SCALES]
    first = np.log([*scales, *np.array(start.lengths)[likelihood.varying]])
    best = minimize(
        loss,
        np.clip(with_fading(first, start.fading), least, most),
        jac=True,
        method="L-BFGS-B",
        bounds=np.column_stack([least, most]),
        options={"ftol": 1e-6, "maxiter": 100},
    )
    every = np.array(start.lengths)
    every[likelihood.varying] = np.exp(best.x[middle + 1 :])
    fitted = dict(zip(SCALES, map(float, np.exp(best.x[:middle])), strict=True))
    found = replace(start, **fitted, fading=float(best.x[middle]), lengths=tuple(map(float, every)))
    return found, -float(best.fun)


def some_of(rows: Rows, most_layers: int = FIT_LAYERS) -> tuple[Ints, Ints]:
    """Rows and layers to fit hyper-parameters on: all, unless they are too many."""
    order = np.random.default_rng(0).permutation(len(rows))[:FIT_ROWS]
    present = rows.counts[order] != 0
    seen = np.logical_or.accumulate(present, axis=0).sum(1)
    chosen = np.sort(order[: max(1, int((seen <= most_layers).sum()))])
    return chosen, np.flatnonzero((rows.counts[chosen] != 0).any(0))
