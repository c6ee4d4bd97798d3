"""Terms: what stands in a call, as plain Python and a few classes for what a framework fills in.

Numbers, text, None, tuples, lists (`x[[0, 2]]` is not `x[0, 2]`), dicts, slices and `...` stand for
themselves. In JSON, what is not plain there has a tag:

    list            {"list": [0, 2]}             Size          {"size": "4*out"}
    dict            {"dict": {"logits": ...}}    SizePower     {"power": ["out", -0.5]}
    slice           {"slice": [0, 2, null]}      ValueRef      {"value": 3}, {"value": [3, 0]}
    ...             {"ellipsis": true}           DType         {"dtype": "int64"}
    infinity        {"float": "inf"}             MemoryFormat  {"memory_format": "channels_last"}
    tuple           [3, 3]                       InputDevice   {"device": "input"}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple, Union  # for Python 3.8, on old devices

from ampere.core.program.sizes import Size, SizePower
from ampere.core.program.trees import map_leaves
from ampere.core.types import Json
from ampere.errors import DataError


@dataclass(frozen=True)
class ValueRef:
    """What a call made: the result of call `number`, or the part of it that `path` leads to.

    Number 0 is what the layer is given, so calls count from 1; with several inputs `(0, 1)` is the
    second of them.
    """

    number: int
    path: tuple[int | str, ...] = ()

    def moved(self, by: int) -> ValueRef:
        """The same value where so many calls stand before."""
        return ValueRef(self.number + by, self.path)


INPUT = ValueRef(0)


@dataclass(frozen=True)
class DType:
    """A type of numbers by the framework's name for it."""

    name: str


@dataclass(frozen=True)
class MemoryFormat:
    """An order of dimensions in memory by the framework's name for it."""

    name: str


@dataclass(frozen=True)
class InputDevice:
    """The device on which the layer's input is."""


# And `...`, whose type has no name before Python 3.10.
Term = Union[
    None, bool, int, float, str, Size, SizePower, ValueRef, DType, MemoryFormat, InputDevice,
    slice, Tuple["Term", ...], List["Term"], Dict[str, "Term"],
]  # fmt: skip


def fill(tree: Term, widths: Mapping[str, int]) -> Any:
    """The same tree with numbers in the place of all sizes."""
    return map_leaves(lambda leaf: number_at(leaf, widths), tree)


def number_at(leaf: Any, widths: Mapping[str, int]) -> Any:
    """A size, or a power of one, as a number; other leaves as they are."""
    return leaf.at(widths) if isinstance(leaf, (Size, SizePower)) else leaf


def term_to_json(tree: Any) -> Json:
    """Plain data; `term_from_json` reads it back."""
    if isinstance(tree, tuple):
        return [term_to_json(part) for part in tree]
    if isinstance(tree, list):
        return {"list": [term_to_json(part) for part in tree]}
    if isinstance(tree, dict):
        return {"dict": {name: term_to_json(part) for name, part in tree.items()}}
    if isinstance(tree, slice):
        return {"slice": [term_to_json(part) for part in (tree.start, tree.stop, tree.step)]}
    if isinstance(tree, Size):
        return {"size": str(tree)}
    if isinstance(tree, SizePower):
        return {"power": [str(tree.size), tree.exponent]}
    if isinstance(tree, ValueRef):
        return {"value": [tree.number, *tree.path] if tree.path else tree.number}
    if isinstance(tree, DType):
        return {"dtype": tree.name}
    if isinstance(tree, MemoryFormat):
        return {"memory_format": tree.name}
    if isinstance(tree, InputDevice):
        return {"device": "input"}
    if tree is Ellipsis:
        return {"ellipsis": True}
    if isinstance(tree, float) and math.isinf(tree):
        return {"float": str(tree)}
    return tree


def term_from_json(row: Json) -> Term:
    """Read back what `term_to_json` wrote."""
    if isinstance(row, (list, tuple)):
        return tuple(map(term_from_json, row))
    if not isinstance(row, dict):
        return row  # type: ignore[no-any-return]
    (tag, *others) = row or [""]
    if others or tag not in _READ:
        raise DataError(f"not a term of a call: {str(row)[:80]}")
    try:
        term: Term = _READ[tag](row[tag])
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise DataError(f"not a term of a call ({error!s:.80}): {str(row)[:80]}") from None
    return term


def _value_from_json(place: Json) -> ValueRef:
    number, *path = place if isinstance(place, list) else [place]
    if type(number) is not int or not all(type(step) in (int, str) for step in path):
        raise TypeError("a value is the number of a call, and what leads into its result")
    return ValueRef(number, tuple(path))


def _text(name: Json) -> str:
    if not isinstance(name, str):
        raise TypeError("it takes a text")
    return name


_READ: Mapping[str, Callable[[Json], Any]] = {
    "list": lambda parts: list(map(term_from_json, parts)),
    "dict": lambda parts: {name: term_from_json(part) for name, part in parts.items()},
    "slice": lambda parts: slice(*map(term_from_json, parts)),
    "ellipsis": lambda _: Ellipsis,
    "float": lambda text: {"inf": math.inf, "-inf": -math.inf}[text],
    "size": lambda text: Size.parse(_text(text)),
    "power": lambda power: SizePower(Size.parse(_text(power[0])), float(power[1])),
    "value": _value_from_json,
    "dtype": lambda name: DType(_text(name)),
    "memory_format": lambda name: MemoryFormat(_text(name)),
    "device": lambda _: InputDevice(),
}
