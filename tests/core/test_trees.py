"""Trees: every leaf is met once, in order, and containers stay what they are."""

from __future__ import annotations

from collections import UserDict
from typing import Any

from hypothesis import given

from ampere.core.program.trees import leaves, map_leaves, places
from structures import terms


@given(terms)
def test_leaves_left_as_they_are_leave_the_tree_as_it_is(tree: Any) -> None:
    assert map_leaves(lambda leaf: leaf, tree) == tree


@given(terms)
def test_both_ways_to_walk_meet_the_same_leaves(tree: Any) -> None:
    met: list[Any] = []
    map_leaves(met.append, tree)
    assert met == list(leaves(tree)) == [leaf for _, leaf in places(tree)]


@given(terms)
def test_the_places_of_leaves_differ(tree: Any) -> None:
    paths = [path for path, _ in places(tree)]
    assert len(set(paths)) == len(paths)


def test_containers_inside_each_other() -> None:
    tree = {"a": (1, [2, slice(3, None, 4)]), "b": UserDict(c=5)}
    assert list(leaves(tree)) == [1, 2, 3, None, 4, 5]
    assert list(places((1, [2, 3]))) == [((0,), 1), ((1, 0), 2), ((1, 1), 3)]
    doubled = map_leaves(lambda leaf: leaf and 2 * leaf, tree)
    assert doubled == {"a": (2, [4, slice(6, None, 8)]), "b": {"c": 10}}
