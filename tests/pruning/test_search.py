"""Search: settings that make sense, and candidates by the names of their widths."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ampere.errors import DataError
from ampere.pruning.search import Search, WidthSearch
from pruning.spaces import linear, space_of


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"strategy": "magic"}, "unknown strategy 'magic': use one of random, gradient, evolution"),
        ({"guide": "time"}, "unknown guide 'time': use one of energy, flops"),
        ({"confidence": 1.0}, "confidence is 1.0: use 0.5 or more, and less than 1"),
        ({"confidence": math.nan}, "confidence is nan"),
        ({"least": 1.1}, "the least share of a width is 1.1: use a number from 0 to 1"),
        ({"round_to": 0}, "widths cannot be multiples of 0: use 1 or more"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError) as caught:
        Search(**settings)
    assert says in str(caught.value)


def search_by(guide: str) -> WidthSearch:
    """Ten acorns for the whole, one for each channel; it takes 4 J by the estimate."""
    space = space_of({(0,): np.arange(5.0), (1,): np.arange(7.0)}, [linear(4), linear(6)])
    settings = Search(strategy="gradient", guide=guide)
    return WidthSearch(space=space, settings=settings, whole_j=4.0, count=3, seed=0)


def test_candidates_are_known_by_name() -> None:
    search = search_by("energy")
    assert search.whole == {"layer0.out": 4, "layer1.out": 6}
    candidates = search.find(6.0)
    assert 1 <= len(candidates) <= 3
    for widths in candidates:
        assert widths.keys() == search.whole.keys()
        assert sum(widths.values()) == 6
    assert search.find(10.0) == [search.whole]
    assert search.find(6.0) == candidates


def test_by_flops_the_limit_is_the_same_share() -> None:
    search = search_by("flops")
    assert search.find(2.4) == search_by("energy").find(6.0)
    assert search.find(4.0) == [search.whole]
    with pytest.raises(DataError, match="the least possible is 2 acorns"):
        search_by("flops").find(0.4)
