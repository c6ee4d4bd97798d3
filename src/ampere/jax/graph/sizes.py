"""Which sizes of a traced model vary together: channels followed from call to call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ampere.core.graph.calls import Value
from ampere.core.graph.channels import Dim, Dims, Scaled, Sizes, new, pin, same
from ampere.jax.graph.registry import record_of
from ampere.jax.graph.rules import keep, rule_of
from ampere.jax.graph.trace import Trace, TracedCall


def follow(trace: Trace) -> Sizes:
    """Follow channels through every call of a trace; what comes out of the model stays fixed."""
    sizes = Sizes()
    for value, shape in trace.inputs.items():
        sizes.dims[value] = tuple(shape.shape)
    built: dict[int, Mapping[str, Any]] = {}  # what a module was built with, by its identity
    for call in trace.calls:
        for path, dims in zip(call.outputs, _leaving(call, sizes), strict=True):
            sizes.dims[Value(call.index, path)] = dims
        if call.module is not None:
            _tie(built.setdefault(id(call.module), sizes.arguments[call.index]), call, sizes)
    for value in trace.outputs:
        pin(sizes.of(value))
    for dims in sizes.dims.values():
        for dim in dims:
            if isinstance(dim, Scaled) and not dim.root.named:
                dim.root.pinned = True
    return sizes


def _tie(first: Mapping[str, Any], call: TracedCall, sizes: Sizes) -> None:
    """A module that runs twice has one shape: what both calls make of it varies together."""
    again = sizes.arguments[call.index]
    if again is first:
        return
    for name, dim in again.items():
        pairs = (
            zip(dim, first[name], strict=True) if isinstance(dim, tuple) else [(dim, first[name])]
        )
        for a, b in pairs:
            if a != b:
                same(a, b)


def _leaving(call: TracedCall, sizes: Sizes) -> list[Dims]:
    operands = [sizes.of(value) for value in call.inputs]
    if call.is_constant:
        (shape,) = (out.shape for out in call.outputs.values())
        return [tuple(size if size == 1 else new(size, named=False) for size in shape)]
    if call.module is not None:
        return _by_module(call, operands, sizes.arguments.setdefault(call.index, {}))
    passed = rule_of(call.op)(call, operands)
    if _sizes_of(passed.leaving) != _sizes_of(keep_shapes(call)):
        passed = keep(call, operands)
    sizes.templates[call.index] = (call.args, {**call.kwargs, **passed.sizes})
    return list(passed.leaving)


def keep_shapes(call: TracedCall) -> list[Dims]:
    """What came out, as plain numbers."""
    return [tuple(out.shape) for out in call.outputs.values()]


def _by_module(call: TracedCall, operands: list[Dims], arguments: dict[str, Any]) -> list[Dims]:
    record = record_of(call.module)
    leaving = record.rule(call, operands, arguments) if record is not None and operands else None
    found = [] if leaving is None else [leaving.get(path, ()) for path in call.outputs]
    if _sizes_of(found) == _sizes_of(keep_shapes(call)):
        return found
    for dims in operands:
        pin(dims)
    for dim in arguments.values():
        pin(dim if isinstance(dim, tuple) else (dim,))
    return keep_shapes(call)


def _sizes_of(many: Any) -> list[tuple[int, ...]]:
    return [tuple(_size(dim) for dim in dims) for dims in many]


def _size(dim: Dim) -> int:
    return dim if isinstance(dim, int) else dim.size
