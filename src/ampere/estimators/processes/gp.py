"""Gaussian process regression on arrays: one process per kind of layer (paper, section 3.3).

Inputs are widths that the caller has scaled to about [0, 1]; targets are in any unit (joules,
seconds) and are standardised inside, z = (y - y_mean) / y_std. Hyper-parameters are in these units.

    symbol       meaning                                                     shape
    n, m, d      points observed, points asked about, widths (d may be 0)
    x, y         observed points and targets                                 (n, d), (n,)
    z            standardised targets                                        (n,)
    known_var    known measurement noise of each point, as variance of z     (n,)
    signal_var   prior variance of the function                              ()
    lengths      distance over which it changes, one per width               (d,)
    noise_var    fitted extra noise (nugget), as variance of z               ()
    theta        logarithms of signal_var, lengths, noise_var                (2 + d,)
    pairs        what a kernel makes of two points, width by width           (n, n, d)
    q            pairs summed with weights 1 / lengths²                      (n, n)
    factor       inverse of the Cholesky factor of K + noise, K the kernel's (n, n)
    alpha        (K + noise)⁻¹ z                                             (n,)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ampere.core.arrays import Array
from ampere.errors import DataError
from ampere.estimators.processes.covariance import KERNELS, Kernel
from ampere.estimators.processes.factor import Factor
from ampere.estimators.processes.threads import single_threaded


class Prior(NamedTuple):
    """A log-normal prior, weak, so that 2 to 5 points do not make hyper-parameters silly."""

    median: float
    log_std: float
    low: float
    high: float


# The bounds keep K + noise positive definite in floating point for hundreds of points.
SIGNAL_VAR = Prior(1.0, 1.5, 1e-4, 1e2)
LENGTH = Prior(0.7, 0.8, 0.05, 20.0)
NOISE_VAR = Prior(3e-3, 2.0, 1e-6, 10.0)
STARTS = ((0.7, 1e-2), (0.25, 1e-4), (2.0, 1e-1))  # (length, noise_var)


@dataclass(frozen=True)
class Hyperparameters:
    """What is fitted, in units of scaled widths and standardised targets."""

    signal_var: float
    lengths: tuple[float, ...]
    noise_var: float

    @property
    def theta(self) -> Array:
        """Logarithms, as one vector."""
        return np.log([self.signal_var, *self.lengths, self.noise_var])


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A fitted process; plain numbers and arrays, so it pickles, and numpy alone predicts.

    `noise_var` is that of one more measurement: what was fitted plus the mean of what is known.
    """

    kernel: str
    hyper: Hyperparameters
    x: Array
    weights: Array
    alpha: Array
    factor: Factor
    y_mean: float
    y_std: float
    noise_var: float
    log_marginal_likelihood: float

    @property
    def noise_std(self) -> float:
        """Standard deviation of one more measurement around the function, in units of y."""
        return self.y_std * float(np.sqrt(self.noise_var))

    def predict(self, x: npt.ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation, without noise, of the function at points (m, d)."""
        x = _points(x, self.x.shape[1])
        k = self._covariance(x[:, None], self.x)
        v = k @ self.factor.whitener.T
        var = self._prior_var(x) - np.einsum("ij,ij->i", v, v)
        mean = self.y_mean + self.y_std * (k @ self.alpha)
        return mean, self.y_std * np.sqrt(np.maximum(var, 0.0))

    def leave_one_out(self) -> Array:
        """What each observed target is above what the others predict there, in units of y.

        Hyper-parameters are kept (Rasmussen and Williams, 2006, eq. 5.12).
        """
        return np.asarray(self.y_std * self.alpha / self.factor.precision)

    def leave_one_out_std(self) -> Array:
        """How far off that may be, one more measurement's noise in it, in units of y."""
        return np.asarray(self.y_std / np.sqrt(self.factor.precision))

    def condition_on_location(self, x: npt.ArrayLike) -> GaussianProcess:
        """The process as if one point (d,) had been measured too, just as predicted.

        Variance does not depend on what is measured, so it is the variance that measuring there
        will leave; the mean and the hyper-parameters stay.
        """
        point = _points(np.asarray(x, float)[None], self.x.shape[1])
        whitened = self.factor.whiten(self._covariance(point, self.x))
        var = self._prior_var(point)[0] + self.noise_var
        return replace(
            self,
            x=np.vstack([self.x, point]),
            alpha=np.append(self.alpha, 0.0),  # of a residual of 0
            factor=self.factor.grown(whitened, var, least=self.noise_var),
        )

    def _covariance(self, a: Array, b: Array) -> Array:
        kernel = KERNELS[self.kernel]
        k, _ = kernel.shape(kernel.pair(a, b) @ self.weights)
        return self.hyper.signal_var * k

    def _prior_var(self, x: Array) -> Array:
        if KERNELS[self.kernel].stationary:
            return np.full(len(x), self.hyper.signal_var)
        return self._covariance(x, x)


@single_threaded
def fit(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    noise_std: npt.ArrayLike | None = None,
    kernel: str = "matern52",
    *,
    anisotropic: bool = True,
    hyper: Hyperparameters | None = None,
) -> GaussianProcess:
    """Fit a process to targets y (n,) at points x (n, d), scaled to about [0, 1].

    The unit y_std is the standard deviation of y, but at least |y_mean| / n: that few values are
    alike does not make the others certain, and one value alone says nothing of the spread.

    Args:
        x: Points; they may repeat, and d may be 0: then the function is a constant.
        y: Targets.
        noise_std: Known measurement noise in units of y, of each point or of all; a white noise
            is fitted on top of it.
        kernel: A name in `KERNELS`.
        anisotropic: One length per width, or the same for all.
        hyper: Kept as they are if given; else those that maximise the marginal likelihood times
            weak priors.
    """
    if kernel not in KERNELS:
        raise DataError(f"no kernel is named {kernel!r}; choose one of {', '.join(KERNELS)}")
    x, y, known_std = _observations(x, y, noise_std)
    n, d = x.shape
    y_mean = float(y.mean())
    y_std = float(max(y.std(), abs(y_mean) / n)) or 1.0
    z = (y - y_mean) / y_std
    known_var = np.square(known_std / y_std)
    pairs = KERNELS[kernel].pair(x[:, None], x)
    if hyper is None and d == 0:
        # Unless noise is known, one more value is imagined, 10 % off: two that agree prove little.
        imagined = [] if noise_std is not None else [0.1 * y_mean / y_std]
        hyper = _constant(np.append(z, imagined), known_var)
    elif hyper is None:
        summed = pairs if anisotropic else pairs.sum(-1, keepdims=True)
        signal, *lengths, noise = _maximise(summed, z, known_var, KERNELS[kernel])
        hyper = Hyperparameters(signal, tuple(lengths) if anisotropic else (*lengths,) * d, noise)
    likelihood, _ = log_marginal_likelihood(hyper.theta, pairs, z, known_var, KERNELS[kernel])
    _, _, factor, alpha = _factorise(hyper.theta, pairs, z, known_var, KERNELS[kernel])
    return GaussianProcess(
        kernel=kernel,
        hyper=hyper,
        x=x,
        weights=np.array(hyper.lengths, float) ** -2,
        alpha=alpha,
        factor=factor,
        y_mean=y_mean,
        y_std=y_std,
        noise_var=hyper.noise_var + float(known_var.mean()),
        log_marginal_likelihood=likelihood,
    )


def log_marginal_likelihood(
    theta: Array, pairs: Array, z: Array, known_var: Array, kernel: Kernel
) -> tuple[float, Array]:
    """Log density of standardised targets given theta, and its gradient with respect to theta."""
    k, slope, factor, alpha = _factorise(theta, pairs, z, known_var, kernel)
    whitener = factor.whitener
    value = np.log(whitener.diagonal()).sum() - (z @ alpha + len(z) * np.log(2 * np.pi)) / 2
    m = np.outer(alpha, alpha) - whitener.T @ whitener  # the gradient is tr(m dK/dtheta) / 2
    by_length = -np.tensordot(m * slope, pairs) * np.exp(-2 * theta[1:-1])
    by_noise = np.exp(theta[-1]) * m.trace() / 2
    return float(value), np.hstack([(m * k).sum() / 2, by_length, by_noise])


def pick_next(gp: GaussianProcess, candidates: npt.ArrayLike, n: int = 1) -> list[int]:
    """Indices of the n candidates (m, d) to measure next, each of largest variance after the last.

    No candidate is picked twice; of equals, the first.
    """
    points = _points(candidates, gp.x.shape[1])
    picked: list[int] = []
    for _ in range(min(n, len(points))):
        _, std = gp.predict(points)
        std[picked] = -1.0
        picked.append(int(std.argmax()))
        gp = gp.condition_on_location(points[picked[-1]])
    return picked


def _factorise(
    theta: Array, pairs: Array, z: Array, known_var: Array, kernel: Kernel
) -> tuple[Array, Array, Factor, Array]:
    """K, its derivative with respect to q, the factor of K + noise, and alpha."""
    k, slope = np.exp(theta[0]) * np.stack(kernel.shape(pairs @ np.exp(-2 * theta[1:-1])))
    factor = Factor.of(k + np.diag(np.exp(theta[-1]) + known_var))
    return k, slope, factor, factor.solve(z)


def _maximise(pairs: Array, z: Array, known_var: Array, kernel: Kernel) -> list[float]:
    """Signal variance, lengths and noise variance of the largest posterior density."""
    from scipy.optimize import minimize  # slow to import, and not needed to predict

    lengths = pairs.shape[-1]
    median, spread, low, high = np.array([SIGNAL_VAR, *[LENGTH] * lengths, NOISE_VAR]).T
    median, bounds = np.log(median), np.log([low, high]).T

    def loss(theta: Array) -> tuple[float, Array]:
        value, gradient = log_marginal_likelihood(theta, pairs, z, known_var, kernel)
        off = (theta - median) / spread
        return off @ off / 2 - value, off / spread - gradient

    runs = [
        minimize(
            loss,
            np.log([1.0, *[length] * lengths, noise]),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"ftol": 1e-10, "gtol": 1e-5},
        )
        for length, noise in STARTS
    ]
    # Rounded, so that starts which end in the same place do not compete on rounding errors.
    best = min(runs, key=lambda run: round(float(run.fun), 5))
    return [float(value) for value in np.exp(best.x)]


def _constant(z: Array, known_var: Array) -> Hyperparameters:
    """Without widths: noise is the scatter beyond what is known, the prior too wide to matter."""
    scatter = z @ z / max(len(z) - 1, 1) - known_var.mean()
    return Hyperparameters(1e4, (), float(max(scatter, NOISE_VAR.low)))


def _points(x: npt.ArrayLike, d: int) -> Array:
    """Points as an array (m, d), checked."""
    x = np.asarray(x, float)
    if x.ndim != 2 or x.shape[1] != d:
        raise DataError(f"points must have shape (m, {d}), not {x.shape}; give a row per point")
    if not (np.abs(x) < 1e100).all():  # their squares must be finite too
        raise DataError("points must be finite; check the range that widths are scaled with")
    return x


def _observations(
    x: npt.ArrayLike, y: npt.ArrayLike, noise_std: npt.ArrayLike | None
) -> tuple[Array, Array, Array]:
    """Points, targets and known noise, checked, and sorted so that their order changes nothing."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    x = _points(x, x.shape[-1] if x.ndim else 0)
    if y.shape != (len(x),) or not len(y):
        raise DataError(f"{len(x)} points need as many targets, and at least 1, not {y.shape}")
    known_std = np.zeros(len(y)) if noise_std is None else np.asarray(noise_std, float)
    if (
        known_std.shape not in ((), y.shape)
        or not np.isfinite(known_std).all()
        or (known_std < 0).any()
    ):
        raise DataError("noise_std must be one number or one per target, each finite and >= 0")
    if not np.isfinite(y).all():
        raise DataError("targets must be finite; leave failed measurements out")
    known_std = np.broadcast_to(known_std, y.shape)
    order = np.lexsort((known_std, y, *x.T))
    return x[order], y[order], known_std[order]
