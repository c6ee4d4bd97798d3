"""Covariances: how much two points, or two layers, deviate alike. Arrays only.

    symbol        meaning                                                         shape
    a, b          layers, s and t of them
    x             coordinates of a layer: log2 of widths, attributes              (s, d)
    lengths       distance over which the function changes, one a coordinate      (d,)
    q             squared distance in units of lengths                            any
    r             √(2ν) times a distance in units of its length                   any
    bulge         1 + r + r² / 3: what Matérn 5/2 is besides exp(−r)              any
    k             covariance; 1 at a distance of 0                                any
    slope         dk / dq                                                         any
    K             covariance of the deviations of layers, in logarithms           (s, t)

Three shapes are made of them. A process over the widths of one kind takes the distance between two
points as a whole (paper, eq. 3). Layers of many kinds differ in many coordinates, and are alike in
proportion to the product over them: k = Π bulge · exp(−Σ r); and what is rough over short distances
is alike in proportion to exp(−Σ r / √5 reach), a product of Matérn 1/2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ampere.core.arrays import Array, Ints
from ampere.estimators.processes.linear_mean import Layers

ROOT = np.sqrt(5.0)  # of Matérn 5/2 distances, which short ones are made of, too
CACHED = 16_384  # pairs of layers that are worked on at once
LEVEL = 3.0  # standard deviation of the logarithm of what costs nobody knows how much


class Kernel(NamedTuple):
    """A covariance and its derivative as functions of q, and the pairs that q is summed from."""

    shape: Callable[[Array], tuple[Array, Array]]
    pair: Callable[[Array, Array], Array] = lambda a, b: np.square(a - b)
    stationary: bool = True  # the covariance of a point with itself is 1


def bulge(r: Array) -> Array:
    """What Matérn 5/2 is besides exp(−r)."""
    return np.asarray(1 + r + r * r / 3)


def matern52(r: Array) -> Array:
    """The covariance over one coordinate; r is a `scaled_distance`."""
    return np.asarray(bulge(r) * np.exp(-r))


def scaled_distance(apart: Array, length: float) -> Array:
    """How far apart two points are in one coordinate, as Matérn 5/2 takes it."""
    return np.asarray(ROOT * apart / length)


def _matern12(q: Array) -> tuple[Array, Array]:
    r = np.sqrt(np.maximum(q, 1e-24))  # the slope is infinite at 0, where it meets a pair of 0
    k = np.exp(-r)
    return k, -k / (2 * r)


def _matern32(q: Array) -> tuple[Array, Array]:
    r = np.sqrt(3 * q)
    decay = np.exp(-r)
    return (1 + r) * decay, -1.5 * decay


def _matern52(q: Array) -> tuple[Array, Array]:
    r = np.sqrt(5 * q)
    decay = np.exp(-r)
    return bulge(r) * decay, -5 / 6 * (1 + r) * decay


def _rbf(q: Array) -> tuple[Array, Array]:
    k = np.exp(-q / 2)
    return k, -k / 2


def _dot(q: Array) -> tuple[Array, Array]:
    return 1 + q, np.ones_like(q)


# Matérn (eq. 3) in closed form for ν = 1/2, 3/2 and the paper's choice 5/2; q is d(x, x')² / l².
# The dot product is σ0² + x·x' divided by σ0², so that lengths stand in the place of σ0.
KERNELS: Mapping[str, Kernel] = MappingProxyType(
    {
        "matern12": Kernel(_matern12),
        "matern32": Kernel(_matern32),
        "matern52": Kernel(_matern52),
        "rbf": Kernel(_rbf),
        "dot": Kernel(_dot, np.multiply, stationary=False),
    }
)


@dataclass(frozen=True)
class Hyper:
    """Standard deviations of logarithms of layers and totals, and a length for each coordinate."""

    operation: float  # of layers of one operation, smooth
    kind: float  # of layers of one kind, on top
    short: float  # of layers of one operation, rough over short distances
    rough: float  # of a layer by itself
    noise: float  # of a total of usual size
    depth: float  # of a network an octave deeper
    block: float  # of a block of calls as a whole
    stairs: float  # of an octave that widths are short of what a device does in one go
    trait: float  # of a coefficient of layers that have a value of an attribute in common
    sitting: float  # of networks that were measured together
    slow: float  # of what was measured within a minute or two
    reach: float  # lengths of `short`, in units of the smooth ones
    fading: float  # noise falls with the size to minus this half power
    lengths: tuple[float, ...]
    size: float = 1.0  # the usual one
    coefficient: float = 1.0  # not fitted: of a coefficient of the mean
    beyond: float = 0.0  # not fitted: of an octave beyond the sizes that were measured
    odd: float = 0.0  # not fitted: the mean of what an odd width costs


def covariance(a: Layers, b: Layers, hyper: Hyper) -> Array:
    """Prior covariance K of the deviations of layers; operations deviate each by itself."""
    k = np.zeros((len(a), len(b)))
    for operation in np.intersect1d(a.op, b.op):
        rows, columns = np.flatnonzero(a.op == operation), np.flatnonzero(b.op == operation)
        few = a[rows]
        k[np.ix_(rows, columns)] = _of_one_operation(few, few if a is b else b[columns], hyper)
    return k


def _of_one_operation(a: Layers, b: Layers, hyper: Hyper) -> Array:
    """A few rows at a time, that stay in a cache; of layers with themselves each pair once."""
    k = np.empty((len(a), len(b)))
    differing = varying(np.vstack([a.x, b.x]))
    lengths = [hyper.lengths[i] for i in differing]
    x, y = a.x[:, differing].T, b.x[:, differing].T
    sized = not (a.unsized.any() and b.unsized.any())
    few = max(CACHED // max(len(b), 1), 1)
    for first in range(0, len(a), few):
        rows, columns = slice(first, first + few), slice(first if a is b else 0, None)
        some, others = a[rows], b[columns]
        decay = np.zeros((len(some), len(others)))
        smooth = np.ones_like(decay)
        for one, other, length in zip(x[:, rows], y[:, columns], lengths, strict=True):
            r = scaled_distance(np.abs(one[:, None] - other), length)
            smooth *= bulge(r)
            decay += r
        same_kind, same = alike(some, others)
        smooth *= np.exp(-decay)
        smooth *= hyper.operation**2 + hyper.kind**2 * same_kind
        decay /= -ROOT * hyper.reach
        smooth += hyper.short**2 * np.exp(decay)
        if not sized:
            smooth += levels(some, others, same_kind)
        smooth += hyper.rough**2 * same
        k[rows, columns] = smooth
        if a is b:
            k[columns, rows] = smooth.T
    return k


def variance(layers: Layers, hyper: Hyper) -> Array:
    """The diagonal of K."""
    own = hyper.operation**2 + hyper.kind**2 + hyper.short**2 + hyper.rough**2
    return np.asarray(own + LEVEL**2 * layers.unsized)


def levels(a: Layers, b: Layers, same_kind: npt.NDArray[np.bool_]) -> Array:
    """Covariance of the levels of kinds whose FLOPs nobody knows: each has one of its own."""
    return np.asarray(LEVEL**2 * (same_kind & a.unsized[:, None] & b.unsized))


def varying(x: Array) -> Ints:
    """Coordinates in which layers differ."""
    return np.flatnonzero(np.ptp(x, axis=0) > 0)


def alike(a: Layers, b: Layers) -> tuple[npt.NDArray[np.bool_], ...]:
    """Same kind, same layer; of layers of one operation."""
    return a.kind[:, None] == b.kind, a.id[:, None] == b.id
