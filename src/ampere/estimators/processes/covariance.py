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
    K             covariance of the relative deviations of layers                 (s, t)

Two shapes are made of them. A process over the widths of one kind takes the distance between two
points as a whole (paper, eq. 3). Layers of many kinds differ in many coordinates, and are alike in
proportion to the product over them: k = Π bulge · exp(−Σ r).
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
    return np.asarray(np.sqrt(5.0) * apart / length)


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
    """Relative standard deviations of layers and totals, and a length for each coordinate."""

    operation: float
    kind: float
    rough: float
    noise: float
    context: float
    lengths: tuple[float, ...]


def covariance(a: Layers, b: Layers, hyper: Hyper) -> Array:
    """Prior covariance K of the relative deviations of layers."""
    bulges, decay = np.ones((len(a), len(b))), np.zeros((len(a), len(b)))
    for i in varying(np.vstack([a.x, b.x]), np.append(a.op, b.op)):
        r = scaled_distance(np.abs(a.x[:, i, None] - b.x[:, i]), hyper.lengths[i])
        bulges *= bulge(r)
        decay += r
    same_op, same_kind, same = alike(a, b)
    share = hyper.operation**2 * same_op + hyper.kind**2 * same_kind
    return np.asarray(bulges * np.exp(-decay) * share + hyper.rough**2 * same)


def varying(x: Array, op: Ints) -> Ints:
    """Coordinates in which layers of one operation differ; between operations none matters."""
    return np.flatnonzero(np.any([np.ptp(x[op == each], axis=0) > 0 for each in np.unique(op)], 0))


def alike(a: Layers, b: Layers) -> tuple[npt.NDArray[np.bool_], ...]:
    """Same operation, same kind, same layer; what was never measured is like itself only."""
    same = a.id[:, None] == b.id
    same_op = (a.op[:, None] == b.op) & (a.op[:, None] >= 0)
    same_kind = (a.kind[:, None] == b.kind) & (a.kind[:, None] >= 0)
    return same_op | same, same_kind | same, same
