"""Forecast: what a run will come to, from an estimate made before it and what was metered since.

Notation (k a lap: steps between two looks that are about a second apart)

    y_k   log of joules a step in lap k, interludes left out
    µ     level of the job                       N(log of the estimate + LOADING, its doubt²)
    x_k   mood of the device: heat, clock        Ornstein-Uhlenbeck: deviation σ, memory τ
    ε_k   noise of a lap                         N(0, ρ² / seconds + what the meter cannot tell²)
    J     a level that is another from now on    N(0, JUMP²), rarely: a device that throttles

    y_k = µ + x_k + ε_k

What a step takes beside its estimate, such as data loading, µ learns; interludes (validation,
checkpoints: long pauses between steps) are counted apart (interludes.py). σ, τ and ρ are
not known: a Kalman filter runs for each of a few values, and their evidence weighs them, so that a
steady device gets a narrow interval and a moody one a wide one. Each filter takes a lap that it
cannot believe for a jump of the level, where that is likelier in spite of jumps being rare.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from ampere.core.arrays import Array
from ampere.core.boundary.fields import Fields
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.gates.interludes import Interludes, Validation

CONFIDENCE = 0.9
LAP_S = 1.0  # that a lap usually has
LOADING = 0.04  # usual share of loading in a step, beyond what was estimated
LOADING_STD = 0.12
TOLD_LOADING_STD = 0.05  # where the estimate has it
UNKNOWN_STD = 10.0  # of a level that nobody estimated
COLD_STD = 0.3  # the first lap has compilation, caches and allocation in it
MOODS = ((0.005, 0.35), (0.03, 0.35), (0.1, 0.2), (0.25, 0.1))  # σ and how usual it is
MEMORIES_S = (10.0, 100.0, 1000.0)
NOISES = (0.01, 0.03, 0.1, 0.3)
JUMP = 0.3
RARE = 0.01  # laps with a jump
WARM = 3  # laps before one can be unbelievable
MOST_JUMPS = 4.0
JUMPS_AHEAD = 0.05  # in a whole run, as long as none was seen
MOST_LOG = 700.0


@dataclass(frozen=True)
class Prior:
    """What was estimated of a step before the run.

    Args:
        energy_j: Joules of a step.
        std_j: Their standard deviation.
        time_s: Seconds of it, if they are known.
        loading: Whether data loading is in both.
        validation: What comes between steps, if anything was said of it.
    """

    energy_j: float
    std_j: float
    time_s: float | None = None
    loading: bool = False
    validation: Validation | None = None

    def __post_init__(self) -> None:
        if not (0 < self.energy_j < math.inf and 0 <= self.std_j < math.inf):
            raise DataError(f"{self.energy_j} ± {self.std_j} J is no estimate of a step")


@dataclass(frozen=True)
class Lap:
    """Some steps that were metered together."""

    steps: int
    energy_j: float
    time_s: float
    doubt_j: float = 0.0  # of the meter


@dataclass(frozen=True)
class Forecast:
    """Joules that are still to come: the middle, and how far off in its logarithm."""

    energy_j: float
    std: float

    def quantile(self, probability: float) -> float:
        """What is not exceeded with this probability."""
        reach = NormalDist().inv_cdf(probability) * self.std
        return self.energy_j * math.exp(max(-MOST_LOG, min(reach, MOST_LOG)))

    def probability_within(self, limit_j: float) -> float:
        """The probability that no more than this is to come."""
        if self.energy_j == 0:
            return float(limit_j >= 0)
        if limit_j <= 0:
            return 0.0
        if self.std == 0:
            return float(self.energy_j <= limit_j)
        return NormalDist().cdf(math.log(limit_j / self.energy_j) / self.std)


class Forecaster:
    """Learns from laps what steps take, and says what those that are left will."""

    def __init__(self, prior: Prior | None = None) -> None:
        self._prior = prior
        level, doubt = 0.0, UNKNOWN_STD
        if prior is not None:
            loading, unsure = (0.0, TOLD_LOADING_STD) if prior.loading else (LOADING, LOADING_STD)
            level = math.log(prior.energy_j) + loading
            doubt = math.hypot(prior.std_j / prior.energy_j, unsure)
        cells = list(itertools.product(MOODS, MEMORIES_S, NOISES))
        self._sigma = np.array([mood for (mood, _), _, _ in cells])
        self._tau_s = np.array([memory_s for _, memory_s, _ in cells])
        self._rho = np.array([noise for _, _, noise in cells])
        self._evidence = np.log([usual for (_, usual), _, _ in cells])
        n = len(cells)
        self._mean = np.stack([np.full(n, level), np.zeros(n)])  # of µ and x
        self._cov = np.stack([np.full(n, doubt**2), np.zeros(n), self._sigma**2])  # µµ, µx, xx
        self.laps = 0
        self._jumps = 0.0
        self.step_s = math.nan if prior is None or prior.time_s is None else prior.time_s
        self.interludes = Interludes(None if prior is None else prior.validation)

    @property
    def known(self) -> bool:
        """Whether anything can be said yet."""
        return self._prior is not None or self.laps > 0

    def tell(self, lap: Lap) -> None:
        """Learn from a lap; one without joules or steps tells nothing."""
        if lap.steps < 1 or not lap.energy_j > 0 or not lap.time_s > 0:
            return
        cold = 0.0 if self.laps else COLD_STD**2
        short = max(1.0, LAP_S / lap.time_s)  # an interlude may cut a lap to a single step
        noise = short * self._rho**2 + (lap.doubt_j / lap.energy_j) ** 2 + cold
        fade = np.exp(-lap.time_s / self._tau_s)
        (level, mood), (vll, vlm, vmm) = self._mean, self._cov
        mood, vlm = fade * mood, fade * vlm
        vmm = fade**2 * vmm + self._sigma**2 * (1 - fade**2)
        surprise = math.log(lap.energy_j / lap.steps) - level - mood
        plain = vll + 2 * vlm + vmm + noise
        jumps = _likelihood(surprise, plain + JUMP**2) + math.log(RARE) > _likelihood(
            surprise, plain
        )
        jumps &= self.laps >= WARM
        vll = vll + np.where(jumps, JUMP**2, 0.0)
        total = vll + 2 * vlm + vmm + noise
        gain_l, gain_m = (vll + vlm) / total, (vlm + vmm) / total
        self._evidence = self._evidence + _likelihood(surprise, total)
        self._evidence += np.where(jumps, math.log(RARE), math.log1p(-RARE))
        self._evidence -= self._evidence.max()
        self._mean = np.stack([level + gain_l * surprise, mood + gain_m * surprise])
        self._cov = np.stack(
            [vll - gain_l**2 * total, vlm - gain_l * gain_m * total, vmm - gain_m**2 * total]
        )
        self._jumps += float(self._weights @ jumps)
        step_s = lap.time_s / lap.steps
        share = 0.2 if self.laps > 1 else 1.0  # the first lap is no guide to the next
        self.step_s = (
            step_s if math.isnan(self.step_s) else (self.step_s + share * (step_s - self.step_s))
        )
        self.laps += 1

    def step(self) -> Forecast:
        """Joules of a step of the lap that comes next, noise of one lap included."""
        mean, variance = self._mixed(0.0)
        return Forecast(math.exp(mean), math.sqrt(variance + float(self._weights @ self._rho**2)))

    def rest(self, steps: int, done: int, epoch_steps: int | None = None) -> Forecast:
        """Joules of the steps that are left, with the interludes between and after them.

        Args:
            steps: That are left.
            done: Steps before them, in which interludes were seen or not.
            epoch_steps: After how many steps an interlude comes, where that is known.
        """
        if steps < 1:
            return Forecast(0.0, 0.0)
        left_s = steps * self.step_s if math.isfinite(self.step_s) else 0.0
        mean, variance = self._mixed(left_s)
        share = steps / (steps + done)
        ahead = (self._jumps + JUMPS_AHEAD) * (share / (1 - share) if self._jumps >= 1 else share)
        variance += min(ahead, MOST_JUMPS) * JUMP**2 / 3  # each at any time, so in part of the rest
        plain_j = steps * math.exp(mean)
        extra_j, extra_std_j = self.interludes.ahead(plain_j, steps, done, epoch_steps)
        total_j = plain_j + extra_j
        std = plain_j * math.sqrt(variance)
        return Forecast(total_j, math.hypot(std, extra_std_j) / total_j)

    def overhead(self) -> float | None:
        """Joules a step, interludes among them, as a multiple of the estimate's."""
        if self._prior is None or not self.laps:
            return None
        mean, _ = self._mixed(0.0)
        return math.exp(mean) * (1 + self.interludes.share) / self._prior.energy_j

    @property
    def _weights(self) -> Array:
        weights = np.exp(self._evidence - self._evidence.max())
        return np.asarray(weights / weights.sum())

    def _mixed(self, ahead_s: float) -> tuple[float, float]:
        """Mean and variance of the logarithm of what a step takes on average from now on."""
        ratio = ahead_s / self._tau_s
        small = ratio < 1e-6
        safe = np.where(small, 1.0, ratio)
        seen = np.where(small, 1.0, -np.expm1(-safe) / safe)  # how much of today's mood stays
        spread = np.where(small, 1.0, 2.0 / safe * (1.0 - seen))  # of the mean of a mood
        (level, mood), (vll, vlm, vmm) = self._mean, self._cov
        means = level + seen * mood
        fresh = self._sigma**2 * np.maximum(spread - seen**2, 0.0)
        variances = vll + 2 * seen * vlm + seen**2 * vmm + fresh
        weights = self._weights
        mean = float(weights @ means)
        return mean, float(weights @ (variances + (means - mean) ** 2))

    def state(self) -> dict[str, Json]:
        """Plain data, from which another process goes on."""
        return {
            "mean": self._mean.tolist(),
            "cov": self._cov.tolist(),
            "evidence": self._evidence.tolist(),
            "laps": self.laps,
            "jumps": self._jumps,
            "step_s": self.step_s if math.isfinite(self.step_s) else None,
            "interludes": self.interludes.state(),
        }

    def restore(self, row: Mapping[str, Any]) -> None:
        """Go on from what `state` told; a new process may be in another mood.

        Raises:
            DataError: It is not what `state` tells.
        """
        fields = Fields(row, "forecast")
        n = len(self._sigma)
        mean, cov = _matrix(fields, "mean", (2, n)), _matrix(fields, "cov", (3, n))
        evidence = _matrix(fields, "evidence", (n,))
        self._mean = np.stack([mean[0], np.zeros(n)])
        self._cov = np.stack([np.maximum(cov[0], 0.0), np.zeros(n), self._sigma**2])
        self._evidence = evidence
        self.laps = fields.whole("laps")
        self._jumps = fields.number("jumps", 0.0, least=0)
        self.step_s = fields.number("step_s", math.nan, above=0)
        self.interludes.restore(fields.inner("interludes", {}))


def _likelihood(surprise: Array, variance: Array) -> Array:
    """The logarithm of a Gaussian density, without its constant."""
    return np.asarray(-0.5 * (np.log(variance) + surprise**2 / variance))


def _matrix(fields: Fields, name: str, shape: tuple[int, ...]) -> Array:
    try:
        values = np.array(fields.plain(name), dtype=float)
    except (TypeError, ValueError):
        values = np.array([])
    if values.shape != shape or not np.isfinite(values).all():
        fields.refuse(name, f"numbers in {' × '.join(map(str, shape))}")
    return values
