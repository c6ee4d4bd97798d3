"""Trees: tuples, lists, dicts and slices inside each other, walked in one way.

Arguments of calls, results of models and the terms of structures are such trees. Whatever is none
of these containers is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Tuple  # the latter for Python 3.8, on old devices

Path = Tuple[int, ...]


def leaves(tree: Any) -> Iterator[Any]:
    """All leaves, in order."""
    for _, leaf in places(tree):
        yield leaf


def places(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All leaves, each with the positions that lead to it."""
    if isinstance(tree, slice):
        tree = (tree.start, tree.stop, tree.step)
    elif isinstance(tree, Mapping):
        tree = tuple(tree.values())
    if isinstance(tree, (tuple, list)):
        for position, part in enumerate(tree):
            yield from places(part, (*path, position))
    else:
        yield path, tree


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same tree with another leaf in the place of each."""
    if isinstance(tree, tuple):
        return tuple([map_leaves(function, part) for part in tree])
    if isinstance(tree, list):
        return [map_leaves(function, part) for part in tree]
    if isinstance(tree, slice):
        return slice(*map_leaves(function, (tree.start, tree.stop, tree.step)))
    if isinstance(tree, Mapping):
        return {name: map_leaves(function, part) for name, part in tree.items()}
    return function(tree)
