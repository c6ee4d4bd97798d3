"""Sizes that stand in a call as plain numbers: which of them would follow the channels.

`x.view(b, n, 3, heads, d)` holds five. A proposal replaces those that belong to a dimension by the
dimension; whether the call then really runs at other sizes is for `sizes` to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import isclose
from typing import Any

from ampere.core.graph.channels import Dim, Dims, Power, Scaled, free, new, scale
from ampere.pytorch.graph.recorder import TracedCall
from ampere.pytorch.modules.registry import RECORDS

# A proposal gets the call, the dimensions of its tensor inputs, and those of the tensors that the
# call before was given (a product q·kᵀ no longer has the size d that scales it).
Template = tuple[tuple[Any, ...], dict[str, Any]]
Proposal = Callable[[TracedCall, list[Dims], list[Dims]], Template]


def propose(call: TracedCall, inputs: list[Dims], behind: list[Dims]) -> Template:
    """The arguments of a call, with sizes in the place of numbers that would follow them."""
    proposal = _PROPOSALS.get(call.op.rpartition(".")[2])
    return proposal(call, inputs, behind) if proposal else (call.args, call.kwargs)


def _reshape(call: TracedCall, inputs: list[Dims], behind: list[Dims]) -> Template:
    shape = tuple(next(iter(call.outputs.values())).shape)
    dims = regroup(inputs[0], shape)
    flat = not (len(call.args) > 1 and isinstance(call.args[1], tuple | list))
    sizes = call.args[1:] if flat else call.args[1]
    if not sizes and "shape" in call.kwargs:
        return call.args, {**call.kwargs, "shape": _where_equal(call.kwargs["shape"], dims)}
    written = _where_equal(sizes, dims)
    return (call.args[0], *(written if flat else (written,))), call.kwargs


def _where_equal(sizes: Sequence[Any], dims: Dims) -> tuple[Any, ...]:
    if len(sizes) != len(dims):  # a dtype, or something else that is no shape
        return tuple(sizes)
    return tuple(
        dim if isinstance(dim, Scaled) and size == dim.size else size
        for size, dim in zip(sizes, dims, strict=True)
    )


def regroup(dims: Dims, shape: Sequence[int]) -> Dims:
    """The dimensions of a reshaped tensor: groups of equal size on both sides belong together."""
    old = [dim if isinstance(dim, int) else dim.size for dim in dims]
    out: list[Dim] = []
    i = j = 0
    while j < len(shape):
        start_i, start_j = i, j
        i, j = i + 1, j + 1
        if start_i >= len(old):  # ones at the end
            out.append(shape[start_j])
            continue
        left, right = old[start_i], shape[start_j]
        while left != right:
            if left < right and i < len(old):
                left, i = left * old[i], i + 1
            elif right < left and j < len(shape):
                right, j = right * shape[j], j + 1
            else:
                return tuple(shape)
        out.extend(_group(dims[start_i:i], shape[start_j:j]))
    return tuple(out)


def _group(dims: Dims, shape: Sequence[int]) -> Dims:
    symbolic = [dim for dim in dims if isinstance(dim, Scaled)]
    if len(symbolic) != 1:
        return tuple(shape)
    (dim,) = symbolic
    at = _carrier(shape, dim)
    out: list[Dim] = list(shape)
    out[at] = scale(dim, Fraction(shape[at], dim.size))
    return tuple(out)


def _carrier(shape: Sequence[int], dim: Scaled) -> int:
    """Which part of a split dimension grows with it: (3, heads, d) -> d, (c, 3, 3) -> c."""
    if len(shape) == 1:
        return 0
    if dim.size in shape:
        return shape.index(dim.size)
    last = len(shape) - 1
    if shape[last] == shape[last - 1] and max(shape) > shape[last]:  # a kernel's window
        return shape.index(max(shape))
    return last if shape[last] > 1 else shape.index(max(shape))


def _expand(call: TracedCall, inputs: list[Dims], behind: list[Dims]) -> Template:
    shape = tuple(next(iter(call.outputs.values())).shape)
    x = inputs[0]
    lead = len(shape) - len(x)
    dims = (*shape[:lead], *(d if free(d) else s for d, s in zip(x, shape[lead:], strict=True)))
    flat = not (len(call.args) > 1 and isinstance(call.args[1], tuple | list))
    written = _where_equal(call.args[1:] if flat else call.args[1], dims)
    return (call.args[0], *(written if flat else (written,))), call.kwargs


def _axis(call: TracedCall, position: int, name: str, default: int, rank: int) -> int:
    axis = call.args[position] if len(call.args) > position else call.kwargs.get(name, default)
    return int(axis) % rank


def _split(call: TracedCall, inputs: list[Dims], behind: list[Dims]) -> Template:
    x = inputs[0]
    dim = x[_axis(call, 2, "dim", 0, len(x))]
    key = next((k for k in ("split_size_or_sections", "split_size") if k in call.kwargs), None)
    sizes = call.kwargs[key] if key else call.args[1]
    if not isinstance(dim, Scaled):
        return call.args, call.kwargs
    part = dim

    def share(size: int) -> Dim:
        return scale(part, Fraction(size, part.size))

    written = share(sizes) if isinstance(sizes, int) else tuple(share(size) for size in sizes)
    if key:
        return call.args, {**call.kwargs, key: written}
    return (call.args[0], written, *call.args[2:]), call.kwargs


def _narrow(call: TracedCall, inputs: list[Dims], behind: list[Dims]) -> Template:
    x = inputs[0]
    if len(call.args) != 4:
        return call.args, call.kwargs
    dim = x[int(call.args[1]) % len(x)]
    return (*call.args[:2], _share(dim, call.args[2]), _share(dim, call.args[3])), call.kwargs


def _share(dim: Dim, bound: Any) -> Any:
    """A bound of a slice, as the same part of a dimension that varies."""
    inside = isinstance(bound, int) and not isinstance(bound, bool)
    if not inside or not isinstance(dim, Scaled) or bound == 0 or abs(bound) > dim.size:
        return bound
    return scale(dim, Fraction(bound, dim.size))


def _slices(call: TracedCall, inputs: list[Dims], behind: list[Dims]) -> Template:
    x = inputs[0]
    index = call.args[1] if isinstance(call.args[1], tuple) else (call.args[1],)
    if not all(isinstance(i, int | slice | None) or i is Ellipsis for i in index):
        return call.args, call.kwargs
    rest = sum(1 for i in index if i is not None and i is not Ellipsis)
    out: list[Any] = []
    axis = 0
    for i in index:
        if i is Ellipsis:
            axis += len(x) - rest
        elif i is not None:
            if isinstance(i, slice) and i.step in (None, 1):
                i = slice(_share(x[axis], i.start), _share(x[axis], i.stop), i.step)
            axis += 1
        out.append(i)
    written = tuple(out) if isinstance(call.args[1], tuple) else out[0]
    return (call.args[0], written, *call.args[2:]), call.kwargs


def _product(call: TracedCall, inputs: list[Dims], behind: list[Dims]) -> Template:
    """A matrix product: the longer side of a matrix that a module holds is channels of a layer.

    The shorter one follows what it meets, or is a choice of its own, such as an adapter's rank.
    """
    for dims in inputs:
        sides = [dim for dim in dims[-2:] if isinstance(dim, Scaled)]
        for dim in sides:
            if len(sides) == 2 and dim.size == max(side.size for side in sides):
                dim.root.named = True
    return call.args, call.kwargs


def _scaling(call: TracedCall, inputs: list[Dims], behind: list[Dims]) -> Template:
    """A factor d^-½ or √d follows the size d: the last one here, or in the product it scales."""
    ends = [dims[-1] for dims in (*inputs[:1], *behind) if len(dims) > 2]
    sizes = [dim for dim in ends if isinstance(dim, Scaled) and free(dim) and dim.size > 1]

    def follow(number: Any) -> Any:
        for dim, exponent in product(sizes, (-0.5, 0.5)):
            if isinstance(number, float) and isclose(number, dim.size**exponent, rel_tol=1e-6):
                return Power(dim, exponent)
        return number

    return tuple(map(follow, call.args)), {k: follow(v) for k, v in call.kwargs.items()}


def _factory(call: TracedCall, inputs: list[Dims], behind: list[Dims]) -> Template:
    """A tensor made from nothing has sizes that follow whatever it meets."""

    def soft(part: Any) -> Any:
        if isinstance(part, tuple | list):
            return tuple(soft(p) for p in part)
        whole = isinstance(part, int) and not isinstance(part, bool)
        return new(part, named=False) if whole and part > 1 else part

    if call.op.rpartition(".")[2] in ("full", "new_full"):
        at = 0 if call.op.endswith(".full") else 1
        args = tuple(soft(a) if i == at else a for i, a in enumerate(call.args))
        return args, {k: soft(v) if k == "size" else v for k, v in call.kwargs.items()}
    return tuple(map(soft, call.args)), {
        k: soft(v) if k == "size" else v for k, v in call.kwargs.items()
    }


def _named(proposal: Proposal, names: str) -> dict[str, Proposal]:
    return dict.fromkeys(names.split(), proposal)


FACTORIES = "zeros ones empty full rand randn new_zeros new_ones new_empty new_full"

_PROPOSALS: Mapping[str, Proposal] = {
    **_named(_reshape, "view reshape"),
    **_named(_expand, "expand broadcast_to"),
    **_named(_split, "split split_with_sizes"),
    **_named(_slices, "__getitem__ __setitem__"),
    **_named(_product, "matmul __matmul__ __rmatmul__ bmm mm addmm baddbmm einsum tensordot"),
    **_named(
        _scaling,
        "mul __mul__ __rmul__ div __truediv__ true_divide mul_ div_ __imul__ __itruediv__"
        " scaled_dot_product_attention",
    ),
    **_named(_factory, FACTORIES),
    "narrow": _narrow,
    **{
        name: proposal
        for record in RECORDS.values()
        if record.sizing is not None
        for name, proposal in record.sizing.literals.items()
    },
}
