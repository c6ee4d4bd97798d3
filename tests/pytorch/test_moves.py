"""Where numbers come from, for calls that only move them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ampere.core.graph.calls import Value
from ampere.pytorch.graph.recorder import TracedCall
from ampere.pytorch.pruning.moves import find_sources

X = torch.zeros(2, 3)


def sources(run: Callable[..., Any], *tensors: torch.Tensor) -> Any:
    """What a call of these tensors, one argument each, is found to move; as lists."""
    values = tuple(Value(k, ()) for k in range(len(tensors)))
    call = TracedCall(index=9, op="asked", stack=(), run=run, args=values)
    found = find_sources(call, tensors)
    return None if found is None else {path: places.tolist() for path, places in found.items()}


@pytest.mark.parametrize(
    ("run", "moved"),
    [
        (lambda x: x.t(), [[0, 3], [1, 4], [2, 5]]),
        (lambda x: x.flip(1), [[2, 1, 0], [5, 4, 3]]),
        (lambda x: x[:, 1:], [[1, 2], [4, 5]]),
        (lambda x: x.reshape(6), [0, 1, 2, 3, 4, 5]),
        (lambda x: torch.nn.functional.pad(x, (1, 0)), [[-1, 0, 1, 2], [-1, 3, 4, 5]]),
    ],
    ids=["transposed", "flipped", "sliced", "reshaped", "padded"],
)
def test_what_is_moved_is_found_again(run: Callable[..., Any], moved: Any) -> None:
    assert sources(run, X) == {(): moved}


def test_tensors_count_on_from_each_other() -> None:
    assert sources(lambda a, b: torch.cat([b, a]), torch.zeros(2), torch.zeros(3)) == {
        (): [2, 3, 4, 0, 1]
    }


def test_each_part_of_a_result_has_its_own() -> None:
    assert sources(lambda x: x.split([1, 2], dim=1), X) == {
        (0,): [[0], [3]],
        (1,): [[1, 2], [4, 5]],
    }


@pytest.mark.parametrize(
    "run",
    [
        lambda x: x.sum(1),
        lambda x: x + 1,
        lambda x: x / 2,
        lambda x: x.softmax(1),
        lambda x: x.argmax(1),
        lambda x: x.no_such_method(),
    ],
    ids=["sum", "shifted", "halved", "softmax", "indices", "refused"],
)
def test_what_is_computed_moves_nothing(run: Callable[..., Any]) -> None:
    assert sources(run, X) is None


def test_whole_numbers_and_nothing_at_all_are_not_followed() -> None:
    assert sources(lambda x: x, torch.zeros(3, dtype=torch.int64)) is None
    assert sources(lambda x: x, torch.zeros(0)) is None


def test_what_is_moved_by_what_the_numbers_are_moves_nothing() -> None:
    several = torch.zeros(8, 8)  # of a few numbers the same may be the largest every time
    assert sources(lambda x: x.amax(1), several) is None
    assert sources(lambda x: x.sort(1).values, several) is None
