"""Stand-ins: FIRST and LAST layers that fit a hidden layer's map, for its 3-layer variants.

FIRST is fed an input at which it delivers the map that the hidden layer sees, where there is one.
LAST is the model's own where it takes the map, and otherwise the mean over all positions and a
linear layer. These are kinds of their own, profiled like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ampere.core.graph.kinds import describe
from ampere.core.layers import Layer, LayerKind, structure_of
from ampere.core.program.sizes import Shape, Size
from ampere.core.program.structure import Call, Port, Structure
from ampere.core.program.terms import DType, Term, ValueRef
from ampere.core.program.widths import Widths
from ampere.core.training import PLAIN, training_of_kind
from ampere.errors import ModelError
from ampere.jax.graph import cores
from ampere.jax.graph.counter import delivered
from ampere.jax.graph.writer import DIALECT

CLASSES = 10
NEAR = 8  # sizes of an input around the one that looks right


def first_for(first: LayerKind, target: Shape, input_grad: bool) -> LayerKind:
    """FIRST at an input for which it delivers `target`, frozen where no gradient flows back."""
    structure = structure_of(first)
    fits = len(structure.output) == len(target) and all(
        isinstance(mine, Size) or isinstance(size, int)
        for mine, size in zip(structure.output, target, strict=False)
    )
    if not structure.chains or not fits:
        raise ModelError(f"{first.name} cannot deliver {_text(target)}")
    fitted = _with_map(first, structure, target)
    frozen = trains(fitted) and not input_grad
    calls = tuple(replace(call, frozen=frozen and holds_parameters(call)) for call in fitted.calls)
    return _same_settings(replace(fitted, calls=calls), first)


def trains(structure: Structure) -> bool:
    """Whether a layer holds parameters that are not frozen."""
    return any(not call.frozen for call in structure.calls if holds_parameters(call))


def holds_parameters(call: Call) -> bool:
    """Whether a call of a structure brings parameters of its own, trained or frozen."""
    return call.op == "parameter" or cores.has_weights(call) or call.op.endswith("Norm")


def last_for(last: LayerKind, source: Shape, input_grad: bool) -> LayerKind:
    """LAST for an input of shape `source`, or a plain head where it takes another."""
    structure = structure_of(last)
    if structure.chains and _alike(structure.input, source):
        port = replace(structure.inputs[0], grad=input_grad)
        return _same_settings(replace(structure, inputs=(port,)), last)
    return _plain_head(last, source, input_grad)


def _alike(mine: Shape, other: Shape) -> bool:
    """Whether two shapes are the same, whatever the widths in them are called."""
    if len(mine) != len(other):
        return False
    pairs = list(zip(mine, other, strict=True))
    return all(a == b or (isinstance(a, Size) and isinstance(b, Size)) for a, b in pairs)


def _plain_head(last: LayerKind, source: Shape, input_grad: bool) -> LayerKind:
    """The mean over all positions, and a linear layer."""
    if not source or any(isinstance(size, Size) for size in source[:-1]):
        raise ModelError(f"no head takes {_text(source)}")
    *positions, width = source
    entering: int | Size = Size("in") if isinstance(width, Size) else width
    arguments: dict[str, Term] = {"in_features": entering, "out_features": CLASSES}
    training = training_of_kind(last.attributes)
    if training.dtype not in (None, PLAIN):
        arguments["param_dtype"] = DType(str(training.dtype))
    axes = tuple(range(1, 1 + len(positions)))
    calls: list[Call] = []
    if axes:  # the sum: what a mean divides by costs nothing that is seen
        options: dict[str, Term] = {"axes": axes, "out_sharding": None}
        calls.append(Call("lax.reduce_sum", inputs=(ValueRef(0),), options=options))
    calls.append(Call("Linear", arguments, inputs=(ValueRef(len(calls)),)))
    structure = Structure(
        inputs=(Port((*positions, entering), training.dtype or PLAIN, grad=input_grad),),
        outputs=(Port((CLASSES,), training.dtype or PLAIN),),
        calls=tuple(calls),
        result=ValueRef(len(calls)),
        multiples={"in": 1} if isinstance(entering, Size) else {},
        dialect=DIALECT,
    )
    plain = {key: value for key, value in last.attributes.items() if key != "loss"}
    return _same_settings(structure, replace(last, attributes=plain))


def _with_map(first: LayerKind, structure: Structure, target: Shape) -> Structure:
    """FIRST at an input for which the positions of its map are those of `target`."""
    want = [
        mine if isinstance(mine, Size) else size
        for mine, size in zip(structure.output, target, strict=True)
    ]
    if tuple(want) == structure.output:
        return structure
    shape = list(structure.input)
    for axis, (have, size) in enumerate(zip(structure.output[:-1], want[:-1], strict=True)):
        if have == size or axis >= len(shape) - 1:
            continue
        for trial in _near(int(str(shape[axis])), int(str(have)), int(str(size))):
            shape[axis] = trial
            if _delivers(first, structure, tuple(shape), axis) == size:
                break
    (port,) = structure.inputs
    fitted = replace(
        structure,
        inputs=(replace(port, shape=tuple(shape)),),
        outputs=(replace(structure.outputs[0], shape=tuple(want)),),
    )
    if any(
        _delivers(first, structure, tuple(shape), i) != size for i, size in enumerate(want[:-1])
    ):
        raise ModelError(f"no input makes {first.name} deliver {_text(target)}")
    return fitted


def _near(entering: int, have: int, want: int) -> Iterator[int]:
    """Sizes of an input at which a map may have a size, the likeliest first."""
    guess = round(entering * want / max(have, 1))
    for away in range(NEAR + 1):
        yield guess + away
        if away and guess > away:
            yield guess - away


def _delivers(first: LayerKind, structure: Structure, shape: Shape, axis: int) -> int | None:
    """The size of FIRST's map along an axis at this input, or None where it does not run."""
    (port,) = structure.inputs
    widths = Widths({name: 2 * step for name, step in structure.multiples.items()})
    kind = replace(first, structure=replace(structure, inputs=(replace(port, shape=shape),)))
    try:
        ((_, *made),) = delivered(Layer("", kind, widths))
    except (ModelError, TypeError, ValueError, IndexError):
        return None
    return made[axis]


def _same_settings(structure: Structure, kind: LayerKind) -> LayerKind:
    return describe(structure, kind.role, training_of_kind(kind.attributes), cores)


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape))
