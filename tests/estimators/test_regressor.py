"""The additive method among scikit-learn's estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.utils import estimator_checks

from ampere.errors import DataError
from ampere.estimators.fitting import fit_additive
from ampere.estimators.regressor import AdditiveRegressor
from priced_rows import OTHERS, ROWS, joules

NETWORKS = [row.layers for row in ROWS]
JOULES = [row.energy_j for row in ROWS]
CHECKS = list(estimator_checks.estimator_checks_generator(AdditiveRegressor()))
NAMES = [getattr(check, "func", check).__name__ for _, check in CHECKS]


@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=NAMES)
@pytest.mark.filterwarnings("ignore")
def test_it_behaves_as_scikit_learn_asks(
    estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, target = estimator_checks._regression_dataset()  # 200 rows take seconds to fit
    monkeypatch.setattr(estimator_checks, "REGRESSION_DATASET", (table[:30], target[:30]))
    check(estimator)


def test_networks_and_joules_go_in_as_they_are() -> None:
    model = AdditiveRegressor().fit(NETWORKS, JOULES)
    said, std = model.predict(OTHERS, return_std=True)
    expected = [fit_additive(_untimed()).predict(layers).total for layers in OTHERS]
    np.testing.assert_allclose(said, [total.energy_j for total in expected])
    np.testing.assert_allclose(std, [total.energy_j_std for total in expected])
    np.testing.assert_allclose(said, [joules(layers) for layers in OTHERS], rtol=0.05)


def _untimed() -> list[Any]:
    from dataclasses import replace

    return [replace(row, time_s_per_step=None) for row in ROWS]


def test_known_errors_widen_what_it_says() -> None:
    _, sure = AdditiveRegressor().fit(NETWORKS, JOULES).predict(OTHERS, return_std=True)
    errors = [0.2] * len(JOULES)
    _, unsure = AdditiveRegressor().fit(NETWORKS, JOULES, errors).predict(OTHERS, return_std=True)
    assert (unsure > 2 * sure).all()


def test_a_table_is_a_process_of_logarithms() -> None:
    rng = np.random.default_rng(0)
    table = 2.0 ** rng.uniform(2, 8, (40, 2))
    cost = table[:, 0] ** 1.3 * table[:, 1] ** 0.6
    score = cross_val_score(AdditiveRegressor(), table, cost, scoring="r2", cv=4)
    assert score.min() > 0.9


def test_joules_are_above_zero() -> None:
    with pytest.raises(DataError, match="joules are above 0"):
        AdditiveRegressor().fit(NETWORKS, [0.0, *JOULES[1:]])
