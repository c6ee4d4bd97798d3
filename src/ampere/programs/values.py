"""First values of what a program holds, and batches of data, drawn by numpy.

Types that numpy does not have (bfloat16) are drawn as float32: an engine casts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ampere.errors import ModelError
from ampere.programs.program import Held, Input, Key, Program, Start

BY_NAME: Mapping[str, Any] = {
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
    "bfloat16": np.float32,
    "int64": np.int64,
    "int32": np.int32,
    "uint8": np.uint8,
    "uint32": np.uint32,
    "int8": np.int8,
    "bool": np.bool_,
}


def numpy_type(name: str) -> Any:
    """Numpy's type of this name."""
    if name not in BY_NAME:
        raise ModelError(f"numbers of the type {name} can be trained by the runtime torch only")
    return BY_NAME[name]


def first_values(program: Program, rng: np.random.Generator) -> dict[Key, Any]:
    """A value for all that the program holds."""
    return {held.key: first_value(held, rng) for held in program.held}


def first_value(held: Held, rng: np.random.Generator) -> Any:
    """The value that one tensor begins with."""
    drawn = _drawn(held.start, held.shape, rng)
    if held.start.empty_row is not None:
        drawn[held.start.empty_row] = 0.0
    return drawn.astype(numpy_type(held.dtype))


def _drawn(start: Start, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if start.how == "uniform":
        return rng.uniform(-start.size, start.size, shape)
    if start.how == "normal":
        return start.size * rng.standard_normal(shape)
    return np.full(shape, start.size)


def batches(program: Program, rng: np.random.Generator) -> list[Any]:
    """A batch of random data for each input."""
    return [batch_of(entering, rng) for entering in program.inputs]


def batch_of(entering: Input, rng: np.random.Generator) -> Any:
    """A batch of random data; token ids stay below their limit."""
    sort = numpy_type(entering.dtype)
    if sort is np.bool_:
        return rng.random(entering.shape) < 0.5
    if np.issubdtype(sort, np.integer):
        return rng.integers(entering.below or 2, size=entering.shape, dtype=sort)
    return rng.standard_normal(entering.shape).astype(sort)
