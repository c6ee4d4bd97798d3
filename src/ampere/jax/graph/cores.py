"""What JAX's calls are to layers: the `Knowledge` that cutting takes, and the `Dictionary`."""

from __future__ import annotations

from collections.abc import Set
from math import prod

from flax import nnx

import jax
from ampere.core.program.sizes import Shape
from ampere.core.program.structure import Call
from ampere.core.types import Json
from ampere.jax.graph.registry import RECORDS, attributes_of, record_of
from ampere.jax.graph.trace import TracedCall

POSITIONS = slice(1, -1)  # the batch comes first, channels last
_PICKS = ("lax.slice", "lax.dynamic_slice", "lax.gather")
_PRODUCTS = ("lax.dot_general", "lax.conv_general_dilated")


def multiplies(call: TracedCall, tainted: Set[int]) -> bool:
    """Whether a call multiplies by weights: what a layer is made around."""
    if call.index not in tainted:
        return False
    if call.module is not None:
        record = record_of(call.module)
        return record is not None and record.core
    by_weights = any(value.call not in tainted for value in call.inputs)
    return call.op in _PRODUCTS and by_weights


def work(call: TracedCall) -> float:
    """About how many multiplications a call makes; only to tell large segments from small."""
    made = next(iter(call.outputs.values()))
    if call.module is None:
        if call.op not in _PRODUCTS or not call.before:
            return 0.0
        return float(prod(made.shape) * call.before[-1])
    record = record_of(call.module)
    if record is None or not record.core or call.op == "Embed" or not made.shape:
        return 0.0
    sizes = [
        leaf.size for leaf in jax.tree.leaves(nnx.state(call.module, nnx.Param)) if leaf.ndim > 1
    ]
    return float(sum(sizes) * prod(made.shape[:-1]))


def normalises(call: TracedCall) -> bool:
    """Whether a call is a module that normalises."""
    record = record_of(call.module)
    return record is not None and record.normalises


def holds_parameters(call: TracedCall) -> bool:
    """Whether a call is of a module with parameters."""
    return call.module is not None and call.trains


def pools_all(call: TracedCall) -> bool:
    """Whether a call picks a position, such as the last; what pools to none drops the map."""
    return call.op in _PICKS


def has_weights(call: Call) -> bool:
    """Whether a layer is made around such a call of a structure."""
    record = RECORDS.get(call.op)
    return record is not None and record.core


def attributes(call: Call) -> dict[str, Json]:
    """The numbers of a call that its kind shows."""
    return attributes_of(call.op, call.arguments)


def positions(shape: Shape) -> list[int]:
    """The sizes of a map that are no channels: those come last."""
    return [size for size in shape[:-1] if isinstance(size, int)]
