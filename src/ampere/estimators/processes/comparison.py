"""Comparison: which of two processes of the same rows says better what it was not told.

Evidence alone takes the side of whoever has more coefficients to fit, since these are not
integrated over but near where they are best; so every row is also left out in its turn, with the
coefficients fitted anew. Hyper-parameters are kept.
"""

from __future__ import annotations

import numpy as np

from ampere.core.arrays import Array
from ampere.estimators.processes.linear_mean import fit_coefficients
from ampere.estimators.processes.mode import Solution
from ampere.estimators.processes.sum_process import SumProcess, condition

PARTS = 10  # that rows are left out in


def lead(one: SumProcess, other: SumProcess) -> float:
    """The logarithm of the odds of one process against another, of the same rows."""
    evidence = one.solution.log_density - other.solution.log_density
    told = left_out_density(one) - left_out_density(other)
    return float(evidence + told.sum()) / 2


def left_out_density(process: SumProcess) -> Array:
    """The log density of each row by what the others say, with coefficients of the others."""
    rows, density = process.rows, np.zeros(len(process.rows))
    part = np.arange(len(rows)) % PARTS
    for number in np.unique(part):
        others, own = np.flatnonzero(part != number), np.flatnonzero(part == number)
        if not len(others):
            continue
        beta = fit_coefficients(process.layers, rows.counts[others], rows.y[others])
        without = condition(process.layers, rows[others], Solution(process.hyper, beta))
        mean, covariance = without.predict(process.layers, rows.counts[own], rows.context[own])
        var = np.maximum(np.diagonal(covariance), 0.0) + without.noise_var(mean)
        off = np.log(rows.y[own] / mean)
        density[own] = -np.square(off) / (2 * var) - np.log(var) / 2
    return density
