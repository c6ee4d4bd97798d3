"""Threads: one while something is fitted or asked, as many as before afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize  # noqa: F401 - brings a BLAS of its own
from threadpoolctl import threadpool_info, threadpool_limits

from ampere.core.arrays import Array
from ampere.estimators.fitting import fit_additive
from ampere.estimators.processes import gp
from ampere.estimators.processes.sum_process import Asked, SumProcess
from ampere.estimators.processes.threads import single_threaded
from fakes import exact, plain_model


def blas_threads() -> set[int]:
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_one_thread_while_it_runs_and_all_of_them_afterwards() -> None:
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        assert before == {2}  # or nothing is shown here
        assert single_threaded(blas_threads)() == {1}
        assert blas_threads() == before


def test_it_is_the_same_function_otherwise() -> None:
    def power(base: float, *, exponent: float) -> float:
        """A docstring."""
        return base**exponent

    limited = single_threaded(power)
    assert limited(2.0, exponent=3.0) == 8.0
    assert (limited.__name__, limited.__doc__) == ("power", "A docstring.")


def test_processes_are_fitted_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    rbf = gp.KERNELS["rbf"]

    def watched(q: Array) -> tuple[Array, Array]:
        seen.append(blas_threads())
        return rbf.shape(q)

    monkeypatch.setattr(gp, "KERNELS", {"rbf": rbf._replace(shape=watched)})
    x = np.linspace(0, 1, 5)[:, None]
    with threadpool_limits(limits=2, user_api="blas"):
        gp.fit(x, x[:, 0], kernel="rbf")
    assert seen
    assert all(threads == {1} for threads in seen)


def test_networks_are_asked_about_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = fit_additive([exact(plain_model(width)) for width in (4, 8, 16, 32)])
    seen: list[set[int]] = []
    ask = SumProcess.ask

    def watched(process: SumProcess, *args: Any) -> Asked:
        seen.append(blas_threads())
        return ask(process, *args)

    monkeypatch.setattr(SumProcess, "ask", watched)
    with threadpool_limits(limits=2, user_api="blas"):
        fit.predict(plain_model(12))
    assert seen and set.union(*seen) == {1}
