"""Regressor: the additive method with scikit-learn's manners, so that others can compare.

    model = AdditiveRegressor().fit(networks, joules)
    joules, std = model.predict(others, return_std=True)

A network is a sequence of layers. A table of numbers will do as well: then each row is a network of
one layer whose coordinates are its columns, and the method is a Gaussian process of log joules.
Costs are above 0, and so is what they depend on. Needs scikit-learn, and nothing else here does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from ampere.core.arrays import Array
from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.errors import DataError
from ampere.estimators.drift import STEADY
from ampere.estimators.fitting import fit_additive
from ampere.records.measurement import Measurement

if TYPE_CHECKING:
    from sklearn.utils import Tags

Network = Sequence[Layer]


class AdditiveRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    """Joules of networks from joules of others.

    Args:
        drift: Relative drift that is usual of the device that was metered.
    """

    def __init__(self, drift: float = STEADY) -> None:
        self.drift = drift

    def fit(self, X: Any, y: Any, errors: Any = None) -> AdditiveRegressor:  # noqa: N803
        """Learn from networks and their joules, and relative standard errors if they are known."""
        networks, joules = self._learned(X, y)
        if not (joules > 0).all():
            raise DataError("joules are above 0: y has some that are not")
        known = np.zeros(len(joules)) if errors is None else np.asarray(errors, float)
        rows = [
            Measurement(tuple(layers), float(energy_j), spread=float(error))
            for layers, energy_j, error in zip(networks, joules, known, strict=True)
        ]
        self.fit_ = fit_additive(rows, self.drift)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:  # noqa: N803
        """Joules of networks, the median; and the deviation of one more metering, if wanted."""
        check_is_fitted(self)
        networks = X if is_networks(X) else _table(validate_data(self, X, reset=False))
        totals = [self.fit_.predict(layers).total for layers in networks]
        joules = np.array([total.energy_j for total in totals])
        if not return_std:
            return joules
        return joules, np.array([total.energy_j_std for total in totals])

    def _learned(self, X: Any, y: Any) -> tuple[Sequence[Network], Array]:  # noqa: N803
        if is_networks(X):
            _, joules = check_X_y(np.arange(len(X))[:, None], y, y_numeric=True)
            return X, np.asarray(joules, float)
        table, joules = validate_data(self, X, y, y_numeric=True)
        return _table(table), np.asarray(joules, float)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True  # of targets that are no costs
        return tags


def is_networks(X: Any) -> bool:  # noqa: N803
    """Whether these are networks of layers, and no table."""
    if not isinstance(X, Sequence) or not X:
        return False
    return isinstance(X[0], Sequence) and bool(X[0]) and isinstance(X[0][0], Layer)


def _table(numbers: Array) -> list[Network]:
    """Each row of a table as a network of one layer."""
    if numbers.min(initial=0.0) < 0:
        raise ValueError("Negative values in data passed to AdditiveRegressor: sizes are above 0")
    return [[_layer(row)] for row in np.asarray(numbers, float).tolist()]


def _layer(row: Sequence[float]) -> Layer:
    attributes = {f"x{i}": value for i, value in enumerate(row)}
    return Layer("row", LayerKind("row", Role.HIDDEN, "row", attributes), Widths())
