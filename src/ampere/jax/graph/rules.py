"""How channels pass through JAX's own primitives, which state every shape in full.

A rule gets the call and the dimensions of its operands (none for a plain number); it returns the
dimensions of what comes out, and those parameters of the call that are sizes, as dimensions. A
primitive without a rule keeps the sizes that enter it. Nothing is guessed: what is read this way is
built at other widths, and compared, before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Any, TypeAlias

from ampere.core.graph.channels import Dim, Dims, Scaled, free, must_divide, new, pin, same, scale
from ampere.jax.graph.trace import TracedCall

Operands: TypeAlias = list[Dims]


@dataclass(frozen=True)
class Passed:
    """The dimensions of each result, and the call's parameters that follow them."""

    leaving: Sequence[Dims]
    sizes: Mapping[str, Any] = field(default_factory=dict)


Rule: TypeAlias = Callable[[TracedCall, Operands], Passed]

_ELEMENTWISE = """abs add and atan2 cbrt ceil clamp convert_element_type copy cos cosh cumlogsumexp
    cummax cummin cumprod cumsum div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow
    is_finite le log log1p logistic lt max min mul ne neg nextafter not or pow real rem rev round
    reduce_precision rsqrt select_n sign sin sinh sqrt square stop_gradient sub tan tanh xor"""
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
REDUCTIONS = frozenset(
    f"reduce_{each}" for each in ("sum", "max", "min", "prod", "and", "or", "xor")
) | {"argmax", "argmin"}
WINDOWS = frozenset(("reduce_window_max", "reduce_window_sum", "reduce_window_min"))


def rule_of(op: str) -> Rule:
    """The rule of a call of a primitive or a function."""
    name = op.rpartition(".")[2]
    if name in ELEMENTWISE or name == "relu":
        return _elementwise
    if name in REDUCTIONS:
        return _reduced
    if name in WINDOWS:
        return _window
    return RULES.get(name, keep)


def keep(call: TracedCall, operands: Operands) -> Passed:
    """Sizes stay as they are."""
    for dims in operands:
        pin(dims)
    return Passed([tuple(shape.shape) for shape in call.outputs.values()])


def _first_shape(call: TracedCall) -> tuple[int, ...]:
    return tuple(next(iter(call.outputs.values())).shape)


def _open(size: int) -> Dim:
    """A size that stands in a call as a plain number: it follows whatever it meets."""
    return size if size == 1 else new(size, named=False)


def _elementwise(call: TracedCall, operands: Operands) -> Passed:
    shape = _first_shape(call)
    alike = [dims for dims in operands if dims and len(dims) == len(shape)]
    if not alike:
        return keep(call, operands)
    first, *others = alike
    leaving = list(first)
    for dims in others:
        leaving = [same(a, b) if a is not b else a for a, b in zip(leaving, dims, strict=True)]
    return Passed([tuple(leaving)] * len(call.outputs))


def _reduced(call: TracedCall, operands: Operands) -> Passed:
    axes = set(call.kwargs["axes"])
    return Passed([tuple(dim for i, dim in enumerate(operands[0]) if i not in axes)])


def _transpose(call: TracedCall, operands: Operands) -> Passed:
    return Passed([tuple(operands[0][i] for i in call.kwargs["permutation"])])


def _squeeze(call: TracedCall, operands: Operands) -> Passed:
    gone = set(call.kwargs["dimensions"])
    return Passed([tuple(dim for i, dim in enumerate(operands[0]) if i not in gone)])


def _broadcast(call: TracedCall, operands: Operands) -> Passed:
    shape = call.kwargs["shape"]
    leaving = [_open(size) for size in shape]
    entering = operands[0] if operands else ()
    for dim, place in zip(entering, call.kwargs["broadcast_dimensions"], strict=True):
        if _size(dim) == shape[place]:
            leaving[place] = dim
        else:
            pin((dim,))
    return Passed([tuple(leaving)], {"shape": tuple(leaving)})


def _size(dim: Dim) -> int:
    return dim if isinstance(dim, int) else dim.size


def _iota(call: TracedCall, operands: Operands) -> Passed:
    leaving = tuple(_open(size) for size in call.kwargs["shape"])
    return Passed([leaving], {"shape": leaving})


def _reshape(call: TracedCall, operands: Operands) -> Passed:
    if call.kwargs.get("dimensions") is not None:
        return keep(call, operands)
    leaving: list[Dim] = []
    for entering, sizes in _matched(operands[0], call.kwargs["new_sizes"]):
        leaving += _regrouped(entering, sizes)
    return Passed([tuple(leaving)], {"new_sizes": tuple(leaving)})


def _matched(dims: Dims, sizes: Sequence[int]) -> list[tuple[list[Dim], list[int]]]:
    """Dimensions and new sizes in the smallest groups that hold as many numbers."""
    groups: list[tuple[list[Dim], list[int]]] = []
    left, right = list(dims), list(sizes)
    while left or right:
        mine: list[Dim] = [left.pop(0)] if left else []
        theirs: list[int] = [right.pop(0)] if right else []
        while prod(map(_size, mine)) != prod(theirs):
            if (prod(map(_size, mine)) < prod(theirs) and left) or not right:
                mine.append(left.pop(0))
            else:
                theirs.append(right.pop(0))
        groups.append((mine, theirs))
    return groups


def _regrouped(entering: list[Dim], sizes: list[int]) -> list[Dim]:
    """Channels go into the last of the new sizes, times what is joined with them."""
    varying = [dim for dim in entering if free(dim)]
    if len(varying) != 1:
        pin(varying)
        return list(sizes)
    (dim,) = varying
    places = [i for i, size in enumerate(sizes) if size != 1]
    if not places:  # a channel that is 1 wide
        pin((dim,))
        return list(sizes)
    last = places[-1]
    share = Fraction(sizes[last], _size(dim))
    if share.numerator != 1 and share.denominator != 1:
        pin((dim,))
        return list(sizes)
    must_divide(dim, share.denominator)
    return [scale(dim, share) if i == last else size for i, size in enumerate(sizes)]


def _concatenate(call: TracedCall, operands: Operands) -> Passed:
    axis = call.kwargs["dimension"]
    leaving = list(operands[0])
    for dims in operands[1:]:
        for i, dim in enumerate(dims):
            if i != axis and leaving[i] is not dim:
                leaving[i] = same(leaving[i], dim)
    joined = [dims[axis] for dims in operands]
    total = sum(map(_size, joined))
    first = joined[0]
    if all(free(dim) for dim in joined) and isinstance(first, Scaled):
        for dim in joined[1:]:
            if isinstance(dim, Scaled):
                first.channels.join(dim.channels)
        leaving[axis] = scale(first, Fraction(total, first.size))
    else:
        pin(joined)
        leaving[axis] = total
    return Passed([tuple(leaving)])


def _slice(call: TracedCall, operands: Operands) -> Passed:
    starts, limits = call.kwargs["start_indices"], call.kwargs["limit_indices"]
    strides = call.kwargs["strides"] or (1,) * len(starts)
    shape = _first_shape(call)
    leaving: list[Dim] = []
    bounds: list[tuple[Any, Any]] = []
    for dim, start, limit, stride, size in zip(
        operands[0], starts, limits, strides, shape, strict=True
    ):
        part = limit - start
        whole = stride == 1 and size and _size(dim) % size == 0 and start % size == 0
        if not free(dim) or not whole:
            pin((dim,))
            leaving.append(size)
            bounds.append((start, limit))
            continue
        must_divide(dim, _size(dim) // part)
        leaving.append(scale(dim, Fraction(part, _size(dim))))
        first = scale(dim, Fraction(start, _size(dim))) if start else 0
        bounds.append((first, scale(dim, Fraction(limit, _size(dim)))))
    sizes = {
        "start_indices": tuple(start for start, _ in bounds),
        "limit_indices": tuple(limit for _, limit in bounds),
    }
    return Passed([tuple(leaving)], sizes)


def _split(call: TracedCall, operands: Operands) -> Passed:
    axis, sizes = call.kwargs["axis"], call.kwargs["sizes"]
    dims, dim = operands[0], operands[0][axis]
    if not free(dim) or len(set(sizes)) > 1:
        pin((dim,))
        parts: list[Dim] = list(sizes)
    else:
        must_divide(dim, len(sizes))
        parts = [scale(dim, Fraction(1, len(sizes)))] * len(sizes)
    return Passed(
        [(*dims[:axis], part, *dims[axis + 1 :]) for part in parts], {"sizes": tuple(parts)}
    )


def _pad(call: TracedCall, operands: Operands) -> Passed:
    shape = _first_shape(call)
    leaving: list[Dim] = []
    for dim, padding, size in zip(operands[0], call.kwargs["padding_config"], shape, strict=True):
        padded = any(padding)
        if padded:
            pin((dim,))
        leaving.append(size if padded else dim)
    return Passed([tuple(leaving)])


def _product(call: TracedCall, operands: Operands) -> Passed:
    left, right = operands
    (over_left, over_right), (batch_left, batch_right) = call.kwargs["dimension_numbers"]
    for a, b in zip((*over_left, *batch_left), (*over_right, *batch_right), strict=True):
        if left[a] is not right[b]:
            same(left[a], right[b])
    batch = [left[a] for a in batch_left]
    rest = [dim for i, dim in enumerate(left) if i not in (*over_left, *batch_left)]
    rest += [dim for i, dim in enumerate(right) if i not in (*over_right, *batch_right)]
    return Passed([(*batch, *rest)])


def _window(call: TracedCall, operands: Operands) -> Passed:
    shape, given = _first_shape(call), call.kwargs
    ones = (1,) * len(shape)
    leaving: list[Dim] = []
    for i, dim in enumerate(operands[0]):
        passes = (
            given["window_dimensions"][i] == given["window_strides"][i] == 1
            and not any(given["padding"][i])
            and (given.get("base_dilation") or ones)[i] == 1
        )
        if not passes:
            pin((dim,))
        leaving.append(dim if passes else shape[i])
    return Passed([tuple(leaving)])


def _gather(call: TracedCall, operands: Operands) -> Passed:
    """Whole dimensions pass; those that are looked up in stay."""
    numbers, slices = call.kwargs["dimension_numbers"], call.kwargs["slice_sizes"]
    dims, indices = operands
    pin(indices)
    left_out = (*numbers["collapsed_slice_dims"], *numbers.get("operand_batching_dims", ()))
    shape: list[Dim] = list(_first_shape(call))
    sizes: list[Dim] = list(slices)
    kept = [i for i in range(len(dims)) if i not in left_out]
    for place, i in zip(numbers["offset_dims"], kept, strict=True):
        if slices[i] == _size(dims[i]):
            shape[place] = sizes[i] = dims[i]
        else:
            pin((dims[i],))
    pin([dims[i] for i in left_out])
    return Passed([tuple(shape)], {"slice_sizes": tuple(sizes)})


def _dynamic_slice(call: TracedCall, operands: Operands) -> Passed:
    sizes: list[Dim] = list(call.kwargs["slice_sizes"])
    for i, dim in enumerate(operands[0]):
        if sizes[i] == _size(dim):
            sizes[i] = dim
        else:
            pin((dim,))
    return Passed([tuple(sizes)], {"slice_sizes": tuple(sizes)})


RULES: Mapping[str, Rule] = {
    "transpose": _transpose,
    "squeeze": _squeeze,
    "broadcast_in_dim": _broadcast,
    "iota": _iota,
    "reshape": _reshape,
    "concatenate": _concatenate,
    "slice": _slice,
    "split": _split,
    "pad": _pad,
    "dot_general": _product,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
}
