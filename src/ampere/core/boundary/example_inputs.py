"""What a model is fed, from what people write: a text, shapes, or an example batch.

An example is a tensor of any framework: it has a shape, a type of numbers, and a least and largest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Protocol, TypeAlias

from ampere.core.boundary.code import in_words
from ampere.core.inputs import Inputs, InputSpec, parse_inputs
from ampere.errors import ModelError


class Example(Protocol):
    """A tensor of any framework."""

    @property
    def shape(self) -> Sequence[int]:
        """Its sizes, the batch first."""
        ...

    @property
    def dtype(self) -> Any:
        """The type of its numbers; its text ends in a name such as `float32`."""
        ...


Part: TypeAlias = InputSpec | str | int | Sequence[int] | Example
Input: TypeAlias = (
    Inputs
    | Part
    | Sequence[Part]
    | Mapping[str, Part]
    | tuple[Part | Sequence[Part], Mapping[str, Part]]
)


def as_inputs(input: Input) -> Inputs:
    """What a sample is, from a text, from shapes without the batch or from an example batch.

    Args:
        input: `Inputs`, a text (`"3x32x32, mask=16:bool"`), one input, several in a sequence, a
            dict of those that go by keyword, or a pair of a sequence and a dict. An input is a
            shape, a text, an `InputSpec` or an example tensor with the batch first, of which floats
            count as float32 and integers as int64 ids below the largest of them.
    """
    if isinstance(input, Inputs):
        return input
    if isinstance(input, str):
        return parse_inputs(input)
    positional: Any = input
    named: Mapping[str, Any] = {}
    if isinstance(input, Mapping):
        positional, named = (), input
    elif isinstance(input, tuple) and len(input) == 2 and isinstance(input[1], Mapping):
        positional, named = input
    if _is_shape(positional) or isinstance(positional, str) or not isinstance(positional, Sequence):
        positional = (positional,)
    examples = [x for x in (*positional, *named.values()) if _is_example(x)]
    batches = sorted({int(x.shape[0]) for x in examples if len(x.shape)})
    if len(batches) > 1:
        raise ModelError(
            f"the example inputs hold {' and '.join(map(str, batches))} samples:"
            " each needs the batch first, and the same"
        )
    return Inputs(
        tuple(_as_spec(x) for x in positional),
        tuple((name, _as_spec(x)) for name, x in named.items()),
    )


def _is_example(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and not _is_size(value)


def _is_shape(value: Any) -> bool:
    return isinstance(value, Sequence) and bool(value) and all(_is_size(size) for size in value)


def _is_size(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _as_spec(part: Any) -> InputSpec:
    if isinstance(part, InputSpec):
        return part
    if isinstance(part, str):
        return InputSpec.parse(part)
    if _is_example(part):
        return _spec_of_example(part)
    if _is_size(part) or _is_shape(part):
        return InputSpec((int(part),) if _is_size(part) else tuple(int(size) for size in part))
    raise ModelError(
        f"an input is a shape, a text or an example tensor, not {in_words(part)}:"
        " pass e.g. (3, 32, 32)"
    )


def _spec_of_example(example: Any) -> InputSpec:
    shape = tuple(int(size) for size in example.shape)
    dtype = str(example.dtype).rpartition(".")[2]  # `torch.int64`, `int64`
    if len(shape) < 2 or not math.prod(shape):
        raise ModelError(
            f"an example input of shape {shape} holds no sample with a size: put the batch first,"
            " and at least one size behind it"
        )
    if "float" in dtype:  # whatever its precision: mixed precision is the device's
        return InputSpec(shape[1:])
    if dtype == "bool":
        return InputSpec(shape[1:], "bool")
    if "int" not in dtype:
        raise ModelError(f"an example input is {dtype}: use real numbers, ids or booleans")
    if getattr(example, "is_meta", False):
        return InputSpec(shape[1:], "int64")
    if int(example.min()) < 0:
        raise ModelError("an example input has ids below 0: pass ids from 0 on")
    return InputSpec(shape[1:], "int64", int(example.max()) + 1)
