"""Mode: where the posterior of costs is densest, and what totals are like there. Arrays only.

Symbols as in sum_process.py. The logarithm of a sum is not linear in u, b, γ and δ: steps of Gauss
and Newton take it as linear. Many rows make a narrow valley of the density, and it is curved: steps
are damped until the density grows (Levenberg and Marquardt). With θ all that is searched for, in
its prior standard deviations, and J what it does to log totals, a step at damping s goes to

    θ + s (J' α − θ)    α = (s J J' + N)⁻¹ (log y − log total + s J θ)

which is Gauss and Newton's step for s = 1, and a small one up the density for s near 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ampere.core.arrays import Array
from ampere.estimators.processes.covariance import Hyper, covariance
from ampere.estimators.processes.factor import Factor
from ampere.estimators.processes.light import light, weighed
from ampere.estimators.processes.likelihood import Linear
from ampere.estimators.processes.linear_mean import Layers, by_operation, expand
from ampere.estimators.processes.totals import Rows, besides

# Steps get smaller by a tenth to a half each; what is left of logarithms then is nobody's joules.
MOST_STEPS, SETTLED = 300, 1e-6
DAMPING, LEAST = 0.25, 1e-9  # how much shorter a step is tried that went too far; and the shortest
NEARLY = 1e-4  # where totals are only taken as linear, to search on from there
FARTHEST = 100.0  # that a logarithm may be off on the way: beyond, numbers end


class Point(NamedTuple):
    """Where totals are taken as linear: u = K weights; others in their standard deviations."""

    weights: Array
    b: Array
    gamma: Array
    delta: Array
    w: Array

    def towards(self, other: Point, step: float) -> Point:
        """A part of the way to another point."""
        return Point(*(ours + step * (to - ours) for ours, to in zip(self, other, strict=True)))


@dataclass(frozen=True, eq=False)
class Solution:
    """What is searched for: with it and the same rows, a process is made without searching."""

    hyper: Hyper
    beta: Array
    log_density: float = 0.0  # of the rows and hyper-parameters, where these were searched for
    rounded: bool = False  # whether FLOPs on tiles are among the features
    lent: bool = False  # whether what other devices say stands in the place of features
    stretch: float = 1.0  # how much wider intervals are, as rows that were left out have shown
    at: Point | None = None  # where the search for the densest point ended, of these very rows


class Costs(NamedTuple):
    """What layers cost at a point, and which way their logarithms go with b and w, γ and δ."""

    cost: Array
    by_b: Array
    by_gamma: Array
    by_delta: Array


class Mode(NamedTuple):
    """The densest point, totals as linear functions near it, and what conditioning needs."""

    at: Point  # where the search ended
    point: Point  # where the density is largest, if totals are as linear as they are there
    linear: Linear
    factor: Factor
    alpha: Array


def costs_at(layers: Layers, solution: Solution, point: Point, u: Array) -> Costs:
    """What layers cost where b and γ are as they are at a point, and u is given."""
    hyper, beta = solution.hyper, solution.beta
    op = np.maximum(layers.op, -1)
    varied = hyper.coefficient * point.b[op] + hyper.trait * layers.traits @ point.delta
    parts = layers.features * beta[op] * np.exp(np.clip(varied, -FARTHEST, FARTHEST))
    m = parts.sum(1)
    gamma = hyper.stairs * point.gamma[op]
    gamma[:, -1] += hyper.odd
    logarithm = (layers.stairs * gamma).sum(1) + layers.lent @ point.w + u
    cost = m * np.exp(np.clip(logarithm, -FARTHEST, FARTHEST))
    fractions = parts / m[:, None]
    by_b = hyper.coefficient * by_operation(layers, fractions, len(beta))
    return Costs(
        cost=cost,
        by_b=np.hstack([by_b, layers.lent]),
        by_gamma=by_operation(layers, layers.stairs, len(beta)),
        by_delta=(layers.traits[:, :, None] * fractions[:, None]).reshape(len(layers), -1),
    )


class Search:
    """The search for the posterior's largest density."""

    def __init__(self, layers: Layers, rows: Rows, solution: Solution) -> None:
        self.layers, self.rows, self.solution = layers, rows, solution
        self.k = covariance(layers, layers, solution.hyper)
        self.counts = light(rows.counts)
        size = rows.counts @ expand(layers, solution.beta).sum(1) / solution.hyper.size
        self.log_size = np.log(size)
        self.besides = besides(rows, size, solution.hyper)
        self.whitener = Factor.of(self.besides)
        self.log_y = np.log(rows.y)

    def run(self, start: Point | None, settled: float = SETTLED) -> Mode:
        """Go from a point to the largest density, and condition there on all rows."""
        if self.solution.at is not None:
            return self._there(self.solution.at)
        point = start or self._zero()
        at, log_total = self._linear(point)
        loss, damping = self._loss(point, log_total), 1.0
        for _ in range(MOST_STEPS):
            made, tried = self._made_of_layers(at), damping
            while damping > LEAST:
                trial = point.towards(self._damped(at, log_total, made, damping), damping)
                trial_at, trial_total = self._linear(trial)
                trial_loss = self._loss(trial, trial_total)
                if trial_loss <= loss + 1e-12 * abs(loss):
                    break
                damping *= DAMPING
            else:
                break
            moved = float(np.abs(trial_total - log_total).max())
            point, at, log_total, loss = trial, trial_at, trial_total, trial_loss
            if moved < settled * damping:
                break
            if damping == tried:  # it went well: dare more
                damping = min(1.0, damping / DAMPING)
        return self._there(point)

    def _there(self, point: Point) -> Mode:
        """Condition on all rows, totals being taken as linear near a point."""
        if [each.shape for each in point] != [each.shape for each in self._zero()]:
            raise ValueError("a point of other layers")
        at, _ = self._linear(point)
        factor = Factor.of(self._made_of_layers(at) + self.besides)
        alpha = factor.solve(at.z)
        return Mode(point, self._target(at, alpha), at, factor, alpha)

    def _zero(self) -> Point:
        operations, features = self.solution.beta.shape
        return Point(
            weights=np.zeros(len(self.layers)),
            b=np.zeros((operations, features)),
            gamma=np.zeros((operations, self.layers.stairs.shape[1])),
            delta=np.zeros((self.layers.traits.shape[1], features)),
            w=np.zeros(self.layers.lent.shape[1]),
        )

    def _linear(self, point: Point) -> tuple[Linear, Array]:
        """Totals as linear functions near a point, and their logarithms there."""
        hyper = self.solution.hyper
        u = self.k @ point.weights
        cost, by_b, by_gamma, by_delta = costs_at(self.layers, self.solution, point, u)
        shares, total = weighed(self.counts, cost)
        mean, steps, traits = shares @ by_b, shares @ by_gamma, shares @ by_delta
        linear = shares @ u + mean @ np.append(point.b, point.w)
        linear += hyper.stairs * steps @ point.gamma.ravel()
        linear += hyper.trait * traits @ point.delta.ravel()
        z = self.log_y - np.log(total) + linear
        at = Linear(self.layers, self.rows, shares, mean, steps, traits, z, self.log_size)
        return at, np.log(total)

    def _made_of_layers(self, at: Linear) -> Array:
        """J J': the covariance of totals through their layers, if they were linear everywhere."""
        hyper = self.solution.hyper
        made = at.shares @ self.k @ at.shares.T + at.mean @ at.mean.T
        made += hyper.stairs**2 * at.steps @ at.steps.T
        made += hyper.trait**2 * at.traits @ at.traits.T
        return np.asarray(made)

    def _damped(self, at: Linear, log_total: Array, made: Array, damping: float) -> Point:
        """Where a damped step leads to, which goes but a part of the way."""
        off = self.log_y - log_total
        linear = at.z - off
        alpha = np.linalg.solve(damping * made + self.besides, off + damping * linear)
        return self._target(at, np.asarray(alpha, float))

    def _target(self, at: Linear, alpha: Array) -> Point:
        """Where the density would be largest then."""
        hyper, (operations, features) = self.solution.hyper, self.solution.beta.shape
        both = at.mean.T @ alpha
        return Point(
            weights=at.shares.T @ alpha,
            b=both[: operations * features].reshape(operations, features),
            gamma=hyper.stairs * (at.steps.T @ alpha).reshape(operations, -1),
            delta=hyper.trait * (at.traits.T @ alpha).reshape(-1, features),
            w=both[operations * features :],
        )

    def _loss(self, point: Point, log_total: Array) -> float:
        """Minus the logarithm of the density, but for a constant."""
        off = self.whitener.whiten(self.log_y - log_total)
        prior = point.weights @ self.k @ point.weights
        others = (point.b, point.gamma, point.delta, point.w)
        return float(off @ off + prior + sum(np.square(each).sum() for each in others))
