"""Spaces: sizes and levels, scores, and what makes no sense."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ampere.errors import DataError
from pruning.spaces import linear, space_of


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"least": (3,)}, "from 3 to 8: use multiples of 2"),
        ({"least": (0,)}, "from 0 to 8"),
        ({"least": (10,)}, "from 10 to 8"),
        ({"largest": (9,)}, "from 2 to 9"),
        ({"worth": [linear(3)]}, "worth at each of its sizes"),
        ({"worth": [0.5 * linear(4)]}, "and 1 at 8"),
        ({"worth": [np.array([0, 0, 0.5, 0.7, 1])]}, "above 0"),
        ({"worth": [np.array([0, 0.6, 0.5, 0.7, 1])]}, "never fall"),
        ({"worth": [np.array([0, 0.6, math.nan, 0.7, 1])]}, "never fall"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(changes: dict[str, Any], says: str) -> None:
    space = space_of({(0,): np.arange(5.0)}, [linear(4)], steps=(2,))
    with pytest.raises(DataError, match=says):
        replace(space, **changes)


def test_levels_are_sizes_in_steps() -> None:
    space = space_of({(0,): np.arange(5.0), (1,): np.arange(3.0)}, [linear(4), linear(2)], (2, 8))
    assert (space.low.tolist(), space.high.tolist()) == ([1, 1], [4, 2])
    assert space.widths(np.array([[3, 2]])).tolist() == [[6, 16]]
    assert space.levels([[6, 16]]).tolist() == [[3, 2]]


def test_a_score_is_the_log_of_the_product_of_what_is_kept() -> None:
    space = space_of({(0,): np.arange(5.0), (1,): np.arange(3.0)}, [linear(4), linear(2)])
    assert space.score(np.array([[4, 2], [2, 1]])) == pytest.approx([0.0, math.log(0.5 * 0.5)])
