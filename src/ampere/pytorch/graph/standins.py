"""Stand-ins: FIRST and LAST layers that fit a hidden layer's map, for its 3-layer variants.

A hidden layer deep in a network sees a smaller map than FIRST delivers. Its variants feed FIRST an
input at which it delivers that map, and let LAST take the map that the hidden layer delivers. These
are kinds of their own, profiled like any other.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import torch

from ampere.core.graph.kinds import describe
from ampere.core.layers import Layer, LayerKind, Role, structure_of
from ampere.core.program.sizes import Shape, Size, shape_at
from ampere.core.program.structure import Call, Port, Structure
from ampere.core.program.terms import Term, ValueRef, fill
from ampere.core.program.trees import map_leaves
from ampere.core.program.widths import Widths
from ampere.core.training import DTYPES, training_of_kind
from ampere.errors import ModelError
from ampere.pytorch.graph import cores
from ampere.pytorch.modules.base import Place
from ampere.pytorch.modules.registry import holds_parameters, record_named
from ampere.pytorch.runtime.builder import build_layer, example_inputs

CLASSES = 10
PROBE = 97  # a prime: whatever is a multiple of it came from the width


def first_for(first: LayerKind, target: Shape, input_grad: bool) -> LayerKind:
    """FIRST at an input for which it delivers `target`, frozen where no gradient flows back."""
    structure = structure_of(first)
    if not structure.chains:
        raise ModelError(f"{first.name} takes or delivers several tensors")
    have = [size if isinstance(size, int) else None for size in structure.output]
    extra: tuple[Call, ...] = ()
    if len(have) > len(target) == 1:  # the hidden layer takes a flat vector
        want = [None if size is None else 1 for size in have]
        extra = (_flatten_after(len(structure.calls)),)
    elif len(have) == len(target):  # the width of FIRST is free, the rest must fit
        want = [
            None if mine is None else _fixed(size) for mine, size in zip(have, target, strict=True)
        ]
    else:
        raise ModelError(f"{first.name} cannot deliver {_text(target)}")
    fitted = structure if want == have else _resized_input(first, structure, want)
    if fitted is None and extra:  # no input gives a 1×1 map: pool what comes
        fitted, extra = (
            structure,
            (_global_pool(structure), _flatten_after(len(structure.calls) + 1)),
        )
    if fitted is None:
        raise ModelError(f"no input makes {first.name} deliver {_text(target)}")
    if extra:
        widths = [size for size in structure.output if isinstance(size, Size)]
        if not widths:
            raise ModelError(f"{first.name} has no width to deliver {_text(target)} with")
        calls = (*fitted.calls, *extra)
        fitted = replace(
            fitted, calls=calls, outputs=(Port((widths[0],)),), result=ValueRef(len(calls))
        )
    if trains(fitted) and not input_grad:
        fitted = replace(
            fitted, calls=tuple(replace(c, frozen=holds_parameters(c)) for c in fitted.calls)
        )
    elif not trains(fitted) and input_grad:
        fitted = replace(fitted, calls=tuple(replace(c, frozen=False) for c in fitted.calls))
    return _same_settings(fitted, first)


def trains(structure: Structure) -> bool:
    """Whether a layer holds parameters that are not frozen."""
    return any(not call.frozen for call in structure.calls if holds_parameters(call))


def last_for(last: LayerKind, source: Shape, input_grad: bool) -> LayerKind:
    """LAST for an input of shape `source`, or a plain head where it cannot take such an input."""
    structure = structure_of(last)
    if structure.chains:
        unfit = (ModelError, RuntimeError, ValueError, LookupError, StopIteration)
        with suppress(*unfit):
            return _fitted(last, source, input_grad)
    return _plain_head(last, source, input_grad)


def _plain_head(last: LayerKind, source: Shape, input_grad: bool) -> LayerKind:
    """The mean over all positions, and a linear layer."""
    if not source:
        raise ModelError("no head takes a single number")
    widths = [i for i, size in enumerate(source) if isinstance(size, Size)] or [len(source) - 1]
    axes = tuple(i + 1 for i in range(len(source)) if i != widths[0])
    shape: Shape = tuple(
        Size("in") if isinstance(size, Size) and i == widths[0] else size
        for i, size in enumerate(source)
    )
    if any(isinstance(size, Size) for i, size in enumerate(shape) if i != widths[0]):
        raise ModelError(f"no head takes {_text(source)}: two of its sizes vary")
    size = shape[widths[0]]
    arguments: dict[str, Term] = {"in_features": size, "out_features": CLASSES, "bias": True}
    calls: tuple[Call, ...] = (
        Call("torch.mean", inputs=(ValueRef(0),), options={"dim": axes}),
        Call("Linear", arguments, inputs=(ValueRef(1),)),
    )
    if not axes:
        calls = (replace(calls[1], inputs=(ValueRef(0),)),)
    structure = Structure(
        inputs=(Port(shape, grad=input_grad),),
        outputs=(Port((CLASSES,)),),
        calls=calls,
        result=ValueRef(len(calls)),
        multiples={"in": 1} if isinstance(size, Size) else {},
    )
    return _same_settings(structure, replace(last, attributes=_plain_loss(last)))


def _plain_loss(last: LayerKind) -> dict[str, object]:
    """The user's own loss may not take what the plain head returns."""
    return {key: value for key, value in last.attributes.items() if key != "loss"}


def _fitted(last: LayerKind, source: Shape, input_grad: bool) -> LayerKind:
    """LAST with its first module taking what flattening leaves."""
    structure = structure_of(last)
    calls = structure.calls
    if structure.result != ValueRef(len(calls)):
        raise ModelError("what comes out is not the last value")
    if len(source) > len(structure.input):
        shifted = tuple(_renumber(call, 1) for call in calls)
        calls = (_flatten_after(0), *shifted)
    elif len(source) < len(structure.input):
        calls = _without_lead(calls)
    shape: Shape = tuple(Size("in") if isinstance(size, Size) else size for size in source)
    fitted = replace(
        structure,
        inputs=(Port(shape, grad=input_grad),),
        calls=calls,
        result=ValueRef(len(calls)),
        multiples={"in": 1} if any(isinstance(size, Size) for size in shape) else {},
    )
    return _same_settings(_fit_modules(fitted), last)


def _same_settings(structure: Structure, kind: LayerKind) -> LayerKind:
    training = training_of_kind(kind.attributes)
    if training.dtype is not None:
        structure = replace(
            structure,
            inputs=tuple(_cast(port, training.dtype) for port in structure.inputs),
            outputs=tuple(_cast(port, training.dtype) for port in structure.outputs),
        )
    return describe(structure, kind.role, training, cores)


def _cast(port: Port, dtype: str) -> Port:
    return replace(port, dtype=dtype) if port.dtype in DTYPES else port


def _fixed(size: int | Size) -> int:
    return size if isinstance(size, int) else -1  # a free width where FIRST has none: no fit


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape))


def _flatten_after(number: int) -> Call:
    return Call("torch.flatten", inputs=(ValueRef(number),), options={"start_dim": 1})


def _global_pool(structure: Structure) -> Call:
    delivered = ValueRef(len(structure.calls))
    if len(structure.output) == 3:
        return Call("torch.nn.functional.adaptive_avg_pool2d", inputs=(delivered, 1))
    return Call("torch.mean", inputs=(delivered,), options={"dim": 2, "keepdim": True})


def _delivered(structure: Structure, first: LayerKind, shape: tuple[int, ...]) -> list[int] | None:
    """What FIRST delivers at this input, or None where it cannot run."""
    widths = Widths({name: 2 * step for name, step in structure.multiples.items()})
    layer = Layer("", replace(first, structure=with_input(structure, shape)), widths)
    try:
        with torch.device("meta"):
            result = build_layer(layer)(*example_inputs(layer, "meta"))
    except (RuntimeError, ValueError, IndexError):
        return None
    return list(result.shape[1:])


def _resized_input(
    first: LayerKind, structure: Structure, want: list[int | None]
) -> Structure | None:
    """Change the positions of the input one by one until FIRST delivers the wanted map."""
    shape = [int(size) for size in shape_at(structure.input, {})]
    start = _delivered(structure, first, tuple(shape))
    for axis in range(len(shape)):
        for size in range(1, 4 * max(shape) + 1):
            trial = (*shape[:axis], size, *shape[axis + 1 :])
            got = _delivered(structure, first, trial)
            if got is None or start is None:
                continue
            moved = [i for i, (a, b) in enumerate(zip(got, start, strict=True)) if a != b]
            if moved and all(got[i] == want[i] for i in moved):
                shape[axis] = size
                break
    got = _delivered(structure, first, tuple(shape))
    if got is None or any(w is not None and w != g for w, g in zip(want, got, strict=True)):
        return None
    output = tuple(
        mine if size is None else size for mine, size in zip(structure.output, want, strict=True)
    )
    return replace(with_input(structure, tuple(shape)), outputs=(Port(output),))


def with_input(structure: Structure, shape: Shape) -> Structure:
    """The same structure at another shape of its one input."""
    (port,) = structure.inputs
    return replace(structure, inputs=(replace(port, shape=shape),))


def _renumber(call: Call, by: int) -> Call:
    """The same call where so many others stand before."""

    def moved(leaf: Term) -> Term:
        return leaf.moved(by) if isinstance(leaf, ValueRef) else leaf

    return replace(
        call,
        inputs=map_leaves(moved, call.inputs),
        options=map_leaves(moved, call.options),
        again=None if call.again is None else call.again + by,
    )


def _without_lead(calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """The calls from the first module with weights on; pooling and flattening are left out."""
    records = [record_named(call.op) for call in calls]
    start = next(k for k, r in enumerate(records) if r and r.place is not Place.FOLLOWING)
    kept = [_renumber(call, -start) for call in calls[start:]]
    return tuple(kept)


def _fit_modules(structure: Structure) -> Structure:
    """Let each module of a chain take the size that really arrives, at a probe width."""
    x: torch.Tensor = torch.empty(2, *shape_at(structure.input, {"in": PROBE}), device="meta")
    calls = []
    for k, call in enumerate(structure.calls, start=1):
        if call.inputs and call.inputs[0] != ValueRef(k - 1):
            raise ModelError(f"a last layer with branches cannot be fitted: {call.op}")
        record = record_named(call.op)
        if record is not None and record.sizing is not None and record.sizing.entering is not None:
            name, axis = record.sizing.entering
            size: Term = _as_size(x.shape[axis])
            if isinstance(call.arguments[name], tuple):
                size = (size,)
            call = replace(call, arguments={**call.arguments, name: size})
        layer = replace(
            with_input(structure, tuple(x.shape[1:])), calls=(_renumber(call, 1 - k),),
            result=ValueRef(1), multiples={},
        )  # fmt: skip
        with torch.device("meta"):
            kind = LayerKind("", Role.LAST, "", {}, _filled(layer))
            x = build_layer(Layer("", kind, Widths()))(x)
        calls.append(call)
    return replace(structure, calls=tuple(calls))


def _filled(structure: Structure) -> Structure:
    (call,) = structure.calls
    arguments = fill(dict(call.arguments), {"in": PROBE})
    return replace(structure, calls=(replace(call, arguments=arguments),))


def _as_size(size: int) -> int | Size:
    ratio = Fraction(size, PROBE)
    return Size("in", ratio.numerator) if ratio.denominator == 1 else size
