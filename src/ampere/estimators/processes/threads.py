"""Threads: one fits and estimates, since on matrices this small several wait for each other.

A fit of 40 networks takes several times as long with two threads on two cores that others use, too,
and so does an estimate of a deep network from a survey. What runs besides, such as training on a
device, keeps the threads that it has.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")


def single_threaded(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with linear algebra in one thread while it runs; its libraries are loaded."""

    @functools.wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited


@functools.lru_cache(maxsize=2)
def _controller(with_scipy: bool) -> ThreadpoolController:
    """The libraries that are loaded; to look for them takes milliseconds, a small fit as long."""
    return ThreadpoolController()
