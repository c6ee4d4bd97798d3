"""Log process: a plain Gaussian process on the logarithm of energy, as anybody would try it first.

It knows no sums: a row is a list of numbers of fixed length, and energy any smooth function of it.

    single layers    log2 of each width, log2(1 + v) of each attribute of the layer
    networks         for each operation log1p of its FLOPs, bytes of activations, bytes of
                     parameters and number of layers, summed over the network; log1p of the depth;
                     attributes that all layers have in common, such as batch and optimiser

Attributes that are words are 0 or 1. scikit-learn's process has a Matérn 5/2 kernel with a length
for each number, and noise.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ampere.core.arrays import Array
from ampere.core.layers import Layer
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.estimators.intervals import CONFIDENCE
from ampere.records.measurement import Measurement
from ampere_paper.published.answers import Answer

RESTARTS = 3
SEED = 0
REACH = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
# Of numbers with a standard deviation of 1, and of logarithms of energy likewise.
LENGTHS, SCALES, NOISES = (0.05, 1e3), (1e-3, 1e3), (1e-6, 1.0)

Layers = Sequence[Layer]
Numbers = dict[str, float]


@dataclass(frozen=True)
class LogProcess:
    """A process over descriptions of networks, scaled by those that it was told of."""

    describe: Callable[[Layers], Numbers]
    columns: tuple[str, ...]
    middle: Array
    spread: Array
    process: Any  # scikit-learn's, which has no types

    def answers(self, asked: Sequence[Measurement]) -> list[Answer]:
        """Joules of each network: the median, with an interval that is even in logarithms."""
        described = [self.describe(row.layers) for row in asked]
        x = (_matrix(described, self.columns) - self.middle) / self.spread
        means, stds = self.process.predict(x, return_std=True)
        return [
            Answer(math.exp(mean), math.exp(mean - REACH * std), math.exp(mean + REACH * std))
            for mean, std in zip(means.tolist(), stds.tolist(), strict=True)
        ]


def fit_log_process(rows: Sequence[Measurement]) -> LogProcess:
    """Fit logarithms of energy; hyper-parameters are the likeliest of a few starts.

    Raises:
        DataError: There is no row, or scikit-learn is missing.
    """
    if not rows:
        raise DataError("there is no measurement to fit")
    describe = _description(rows)
    described = [describe(row.layers) for row in rows]
    every = sorted({name for numbers in described for name in numbers})
    # What never varies teaches nothing; one column stays, so that there is something to fit.
    varied = [c for c in every if len({numbers.get(c, 0.0) for numbers in described}) > 1]
    columns = tuple(varied or every[:1])
    x = _matrix(described, columns)
    middle, spread = x.mean(0), x.std(0)
    spread[spread == 0] = 1.0
    process = _process(len(columns))
    with warnings.catch_warnings(), threadpool_limits(1):  # several wait for each other
        warnings.simplefilter("ignore")  # of lengths at their bound, as useless numbers have
        process.fit((x - middle) / spread, np.log([row.energy_j for row in rows]))
    return LogProcess(describe, columns, middle, spread, process)


def _process(columns: int) -> Any:
    try:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    except ImportError:
        raise DataError(
            "the log process needs scikit-learn: pip install 'ampere-energy[prune]'"
        ) from None
    smooth = Matern(np.ones(columns), LENGTHS, nu=2.5)
    kernel = ConstantKernel(1.0, SCALES) * smooth + WhiteKernel(1e-2, NOISES)
    return GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=RESTARTS, random_state=SEED
    )


def _description(rows: Sequence[Measurement]) -> Callable[[Layers], Numbers]:
    """How to describe networks like these."""
    layers = [row.layers for row in rows]
    if all(len(each) == 1 and each[0].count == 1 for each in layers):
        return lambda network: describe_layer(network[0])
    common = set.intersection(*(set(_common(each)) for each in layers))
    return lambda network: describe_network(network, common)


def describe_layer(layer: Layer) -> Numbers:
    """A layer by itself, as numbers by name."""
    widths = {name: math.log2(width) for name, width in layer.widths.items()}
    return {**widths, **_attributes(layer.kind.attributes)}


def describe_network(layers: Layers, common: set[str]) -> Numbers:
    """A network as sums over its layers, by name, and what its layers have in common."""
    sums: Numbers = {}
    for layer in layers:
        flops, activations, parameters = (value or 0.0 for value in layer.features.numbers)
        parts = {"flops": flops, "activations": activations, "parameters": parameters, "layers": 1}
        for name, value in parts.items():
            key = f"{layer.kind.operation} {name}"
            sums[key] = sums.get(key, 0.0) + layer.count * value
    sums["depth"] = sum(layer.count for layer in layers)
    shared = {name: value for name, value in _common(layers).items() if name in common}
    return {**{name: math.log1p(value) for name, value in sums.items()}, **_attributes(shared)}


def _common(layers: Layers) -> Mapping[str, Json]:
    """Attributes that have one value in a network, wherever layers have them."""
    found: dict[str, list[Json]] = {}
    for layer in layers:
        for name, value in layer.kind.attributes.items():
            found.setdefault(name, []).append(value)
    return {
        name: values[0] for name, values in found.items() if values.count(values[0]) == len(values)
    }


def _attributes(attributes: Mapping[str, Json]) -> Numbers:
    numbers = {}
    for name, value in attributes.items():
        if isinstance(value, (int, float)) and value >= 0:
            numbers[f"@{name}"] = math.log2(1 + value)
        else:
            numbers[f"@{name}={value}"] = 1.0
    return numbers


def _matrix(described: Sequence[Numbers], columns: Sequence[str]) -> Array:
    """Descriptions as rows; what a network does not have, and what nobody was told of, is 0."""
    return np.array([[numbers.get(name, 0.0) for name in columns] for numbers in described])
