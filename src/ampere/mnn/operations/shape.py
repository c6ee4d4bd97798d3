"""Other shapes of the same numbers, parts and sums of them, and numbers from nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ampere.mnn.library import F, constant, permuted, plain, reshaped
from ampere.mnn.operations.base import Call, Operation, axes_of, axis_of


def _flatten(call: Call) -> Any:
    shape = list(call.x.shape)
    usual = 1 if call.step.op == "Flatten" else 0
    start = axis_of(int(call.argument("start_dim", call.given(1, "start_dim", usual))), len(shape))
    end = axis_of(int(call.argument("end_dim", call.given(2, "end_dim", -1))), len(shape))
    middle = math.prod(shape[start : end + 1])
    return reshaped(call.x, (*shape[:start], middle, *shape[end + 1 :]))


def _unflatten(call: Call) -> Any:
    shape = list(call.x.shape)
    axis = axis_of(int(call.argument("dim", call.given(1, "dim"))), len(shape))
    sizes = call.argument("unflattened_size", call.given(2, "sizes"))
    return reshaped(call.x, (*shape[:axis], *_known(sizes, shape[axis]), *shape[axis + 1 :]))


def _known(sizes: Sequence[int], total: int) -> tuple[int, ...]:
    """Sizes without −1."""
    rest = math.prod(size for size in sizes if size != -1)
    return tuple(total // max(rest, 1) if size == -1 else int(size) for size in sizes)


def _view(call: Call) -> Any:
    sizes = call.several(1, "shape") or call.several(1, "size")
    return reshaped(call.x, _known(sizes, math.prod(call.x.shape)))


def _permute(call: Call) -> Any:
    order = call.several(1, "dims")
    return permuted(call.x, axes_of(order, len(call.x.shape)))


def swapped(x: Any, first: int, second: int) -> Any:
    """With two dimensions exchanged."""
    rank = len(x.shape)
    order = list(range(rank))
    first, second = axis_of(first, rank), axis_of(second, rank)
    order[first], order[second] = second, first
    return permuted(x, order)


def _transpose(call: Call) -> Any:
    return swapped(call.x, int(call.given(1, "dim0")), int(call.given(2, "dim1")))


def _transposed(call: Call) -> Any:
    return swapped(call.x, -2, -1)


def _attribute(call: Call) -> Any:
    """`x.T`, `x.mT`: the name of the attribute stands before the last part."""
    name = call.step.op.split(".")[-2]
    if (name in ("T", "mT") and len(call.x.shape) == 2) or name == "mT":
        return swapped(call.x, -2, -1)
    raise call.refusal(f"it has no {name}")


def _unsqueeze(call: Call) -> Any:
    shape = list(call.x.shape)
    axis = axis_of(int(call.given(1, "dim")), len(shape) + 1)
    return reshaped(call.x, (*shape[:axis], 1, *shape[axis:]))


def _squeeze(call: Call) -> Any:
    shape = list(call.x.shape)
    axes = axes_of(call.given(1, "dim"), len(shape))
    return reshaped(call.x, [s for n, s in enumerate(shape) if not (n in axes and s == 1)])


def joined(parts: Sequence[Any], axis: int) -> Any:
    """Parts one after the other along a dimension."""
    rank = len(parts[0].shape)
    return F.concat([plain(part) for part in parts], axis_of(axis, rank))


def _cat(call: Call) -> Any:
    return joined(list(call.given(0, "tensors")), int(call.given(1, "dim", 0)))


def stacked(parts: Sequence[Any], axis: int) -> Any:
    """Parts along a new dimension; MNN's own has no gradient."""
    shape = list(parts[0].shape)
    axis = axis_of(axis, len(shape) + 1)
    wider = [reshaped(part, (*shape[:axis], 1, *shape[axis:])) for part in parts]
    return joined(wider, axis)


def _stack(call: Call) -> Any:
    return stacked(list(call.given(0, "tensors")), int(call.given(1, "dim", 0)))


def cut(x: Any, sizes: Sequence[int], axis: int) -> list[Any]:
    """Parts of these sizes along a dimension."""
    if len(sizes) == 1:
        return [x]
    return list(F.split(plain(x), [int(size) for size in sizes], axis_of(axis, len(x.shape))))


def _split(call: Call) -> Any:
    axis = axis_of(int(call.given(2, "dim", 0)), len(call.x.shape))
    asked, total = call.given(1, "split_size_or_sections"), call.x.shape[axis]
    if asked is None:
        asked = call.given(1, "split_size")
    return tuple(cut(call.x, _pieces(asked, total), axis))


def _pieces(asked: Any, total: int) -> list[int]:
    if isinstance(asked, (tuple, list)):
        return [int(size) for size in asked]
    return [min(int(asked), total - start) for start in range(0, total, int(asked))]


def _chunk(call: Call) -> Any:
    axis = axis_of(int(call.given(2, "dim", 0)), len(call.x.shape))
    total = call.x.shape[axis]
    return tuple(cut(call.x, _pieces(-(-total // int(call.given(1, "chunks"))), total), axis))


def unbound(x: Any, axis: int) -> list[Any]:
    """Parts along a dimension, without it."""
    shape = list(x.shape)
    axis = axis_of(axis, len(shape))
    rest = [*shape[:axis], *shape[axis + 1 :]]
    return [reshaped(part, rest) for part in cut(x, [1] * shape[axis], axis)]


def _unbind(call: Call) -> Any:
    return tuple(unbound(call.x, int(call.given(1, "dim", 0))))


def part_of(x: Any, axis: int, start: int, stop: int) -> Any:
    """What lies between two places of a dimension."""
    total = x.shape[axis]
    if (start, stop) == (0, total):
        return x
    sizes = [size for size in (start, stop - start, total - stop) if size]
    return cut(x, sizes, axis)[1 if start else 0]


def _getitem(call: Call) -> Any:
    """Slices, numbers, `...` and None; each a cut along one dimension."""
    x, index = call.plain_x, call.args[1]
    places = list(index) if isinstance(index, tuple) else [index]
    named = sum(1 for place in places if place is not None and place is not Ellipsis)
    if Ellipsis in [place for place in places if not hasattr(place, "shape")]:
        at = next(n for n, place in enumerate(places) if place is Ellipsis)
        places[at : at + 1] = [slice(None)] * (len(x.shape) - named)
    shape: list[int] = []
    axis = 0
    for place in places:
        if place is None:
            shape.append(1)
            continue
        total = x.shape[axis]
        if isinstance(place, slice):
            start, stop, step = place.indices(total)
            if step != 1 or stop <= start:
                raise call.refusal("it steps, or takes nothing")
            x = part_of(x, axis, start, stop)
            shape.append(stop - start)
        elif isinstance(place, int) and not isinstance(place, bool):
            at = axis_of(place, total)
            x = part_of(x, axis, at, at + 1)
        else:
            raise call.refusal("it looks up by a list or a tensor, which has no gradient")
        axis += 1
    return reshaped(x, (*shape, *list(x.shape)[axis:]))


def _select(call: Call) -> Any:
    axis = axis_of(int(call.given(1, "dim")), len(call.x.shape))
    at = axis_of(int(call.given(2, "index")), call.x.shape[axis])
    shape = list(call.x.shape)
    return reshaped(part_of(call.plain_x, axis, at, at + 1), (*shape[:axis], *shape[axis + 1 :]))


def _narrow(call: Call) -> Any:
    axis = axis_of(int(call.given(1, "dim")), len(call.x.shape))
    start, length = int(call.given(2, "start")), int(call.given(3, "length"))
    return part_of(call.plain_x, axis, start, start + length)


def widened(x: Any, shape: Sequence[int]) -> Any:
    """Repeated along dimensions of size one, or new ones before."""
    return F.broadcast_to(plain(x), constant(np.asarray(shape), "int"))


def _expand(call: Call) -> Any:
    asked = call.several(1, "size")
    own = [1] * (len(asked) - len(call.x.shape)) + list(call.x.shape)
    return widened(call.x, [o if size == -1 else int(size) for size, o in zip(asked, own)])


def _repeat(call: Call) -> Any:
    times = [int(each) for each in call.several(1, "repeats")]
    x = reshaped(call.x, [1] * (len(times) - len(call.x.shape)) + list(call.x.shape))
    for axis, count in enumerate(times):
        x = x if count == 1 else joined([x] * count, axis)
    return x


def mean(x: Any, axes: Sequence[int], keep: bool) -> Any:
    """The mean over dimensions."""
    return F.reduce_mean(plain(x), list(axes), keep)


def total(x: Any, axes: Sequence[int], keep: bool) -> Any:
    """The sum over dimensions."""
    return F.reduce_sum(plain(x), list(axes), keep)


def _reduction(function: Callable[[Any, Sequence[int], bool], Any]) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        axes = axes_of(call.given(1, "dim"), len(call.x.shape))
        return function(call.x, axes, bool(call.given(2, "keepdim", False)))

    return run


def variance(x: Any, axes: Sequence[int], keep: bool, less: int = 0) -> Any:
    """The mean square of what lies around the mean; `less` numbers are not counted."""
    x = plain(x)
    around = x - mean(x, axes, True)
    count = math.prod(x.shape[axis] for axis in axes)
    return mean(around * around, axes, keep) * (count / max(count - less, 1))


def _variance(call: Call) -> Any:
    axes = axes_of(call.given(1, "dim"), len(call.x.shape))
    less = int(call.options.get("correction", bool(call.options.get("unbiased", True))))
    return variance(call.x, axes, bool(call.options.get("keepdim", False)), less)


def _filled(number: float | None, at: int) -> Callable[[Call], Any]:
    """Numbers from nothing: of a shape that is given."""

    def run(call: Call) -> Any:
        if number is not None:
            return constant(np.full(call.several(at, "size"), number))
        return constant(
            np.full(tuple(call.given(at, "size")), float(call.given(at + 1, "fill_value")))
        )

    return run


def _like(number: float) -> Callable[[Call], Any]:
    return lambda call: constant(np.full(tuple(call.x.shape), number))


def _arange(call: Call) -> Any:
    ends = [int(end) for end in call.args] or [int(call.options["end"])]
    return constant(np.arange(*ends), "int")


OPERATIONS = (
    Operation(("Flatten", "flatten", "ravel"), _flatten, "reshape"),
    Operation(("Unflatten", "unflatten"), _unflatten, "reshape"),
    Operation(("view", "reshape"), _view, "reshape"),
    Operation(("permute",), _permute, "transpose"),
    Operation(("transpose", "swapaxes", "swapdims"), _transpose, "transpose"),
    Operation(("t",), _transposed, "transpose"),
    Operation(("__get__",), _attribute, "transpose", "attributes but T and mT"),
    Operation(("unsqueeze",), _unsqueeze, "reshape"),
    Operation(("squeeze",), _squeeze, "reshape"),
    Operation(("cat", "concat"), _cat, "concat"),
    Operation(("stack",), _stack, "concat: its own stack has no gradient"),
    Operation(("split", "split_with_sizes"), _split, "split"),
    Operation(("chunk",), _chunk, "split"),
    Operation(("unbind",), _unbind, "split"),
    Operation(("__getitem__",), _getitem, "split", "steps, lists and tensors as index"),
    Operation(("select",), _select, "split"),
    Operation(("narrow",), _narrow, "split"),
    Operation(("expand", "broadcast_to", "expand_as"), _expand, "broadcast_to"),
    Operation(("repeat",), _repeat, "concat"),
    Operation(("mean",), _reduction(mean), "reduce_mean"),
    Operation(("sum",), _reduction(total), "reduce_sum"),
    Operation(("var",), _variance, "reduce_mean"),
    Operation(("zeros",), _filled(0.0, 0), "a constant"),
    Operation(("ones",), _filled(1.0, 0), "a constant"),
    Operation(("full",), _filled(None, 0), "a constant"),
    Operation(("new_zeros",), _filled(0.0, 1), "a constant"),
    Operation(("new_ones",), _filled(1.0, 1), "a constant"),
    Operation(("zeros_like",), _like(0.0), "a constant"),
    Operation(("ones_like",), _like(1.0), "a constant"),
    Operation(("arange",), _arange, "a constant"),
)
