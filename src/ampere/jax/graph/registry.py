"""What is known of modules of flax.nnx: one record each; `docs/frameworks.md` lists them.

To add a module, write a `ModuleRecord`: what it is to layers, and how channels pass through it. A
module without a record is opened: what its code does is read instead, which is as right, but it
keeps the sizes of its weights.

Channels come last. A size rule gets the call, the dimensions of its array inputs and a dict to fill
with those arguments that are sizes; it returns the dimensions of what comes out, by path, or None.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from flax import nnx

from ampere.core.graph.channels import Dim, Dims, must_divide, new, pin, same, scale
from ampere.core.program.terms import DType
from ampere.core.types import Json
from ampere.jax.runtime.modules import CELLS

if TYPE_CHECKING:
    from ampere.jax.graph.trace import TracedCall

Leaving: TypeAlias = "dict[tuple[int, ...], Dims] | None"
SizeRule: TypeAlias = Callable[["TracedCall", list[Dims], dict[str, Any]], Leaving]


@dataclass(frozen=True, kw_only=True)
class ModuleRecord:
    """What is known of a module.

    Attributes:
        name: Its class in `flax.nnx`.
        core: Whether a layer is made around it.
        normalises: Whether it joins the layer before it, or leads into the last one.
        rule: How channels pass through.
        attributes: Arguments that its kind shows, and what they are called there.
    """

    name: str
    core: bool
    rule: SizeRule
    normalises: bool = False
    attributes: Mapping[str, str] = None  # type: ignore[assignment]


def _linear(call: TracedCall, inputs: list[Dims], arguments: dict[str, Any]) -> Leaving:
    (entering,) = inputs
    arguments["in_features"] = entering[-1]
    arguments["out_features"] = new(call.module.out_features)
    return {(): (*entering[:-1], arguments["out_features"])}


def _linear_general(call: TracedCall, inputs: list[Dims], arguments: dict[str, Any]) -> Leaving:
    (entering,) = inputs
    module = call.module
    axes = [axis % len(entering) for axis in module.axis]
    if module.batch_axis:
        return None
    *fixed, last = module.out_features
    arguments["in_features"] = tuple(entering[axis] for axis in axes)
    arguments["out_features"] = (*fixed, new(last))
    rest = [dim for axis, dim in enumerate(entering) if axis not in axes]
    return {(): (*rest, *arguments["out_features"])}


def _convolution(call: TracedCall, inputs: list[Dims], arguments: dict[str, Any]) -> Leaving:
    (entering,) = inputs
    module, width = call.module, entering[-1]
    groups = getattr(module, "feature_group_count", 1)
    pin(entering[1:-1])
    arguments["in_features"] = width
    if groups > 1 and groups == module.in_features:  # depthwise
        arguments["feature_group_count"] = width
        leaving: Dim = scale(width, Fraction(module.out_features, module.in_features))
    else:
        leaving = new(module.out_features)
        must_divide(width, groups)
        must_divide(leaving, groups)
    arguments["out_features"] = leaving
    (shape,) = (out.shape for out in call.outputs.values())
    return {(): (*shape[:-1], leaving)}


def _embedding(call: TracedCall, inputs: list[Dims], arguments: dict[str, Any]) -> Leaving:
    (entering,) = inputs
    arguments["features"] = new(call.module.features)
    return {(): (*entering, arguments["features"])}


def _normalisation(call: TracedCall, inputs: list[Dims], arguments: dict[str, Any]) -> Leaving:
    entering = inputs[0]
    if getattr(call.module, "num_features", None) != _size(entering[-1]):
        return None
    arguments["num_features"] = entering[-1]
    must_divide(entering[-1], int(getattr(call.module, "num_groups", None) or 1))
    return {(): entering}


def _passing(call: TracedCall, inputs: list[Dims], arguments: dict[str, Any]) -> Leaving:
    return {(): inputs[0]}


def _attention(call: TracedCall, inputs: list[Dims], arguments: dict[str, Any]) -> Leaving:
    module, width = call.module, inputs[0][-1]
    others = [dims for dims in inputs[1:] if len(dims) == len(inputs[0])]  # not a mask
    pin([dim for dims in inputs[1:] if dims not in others for dim in dims])
    arguments["in_features"] = width
    arguments["in_kv_features"] = others[0][-1] if others else width
    for dims in others[1:]:
        same(arguments["in_kv_features"], dims[-1])
    arguments["qkv_features"] = _alike(width, module.qkv_features)
    leaving = _alike(width, module.out_features)
    arguments["out_features"] = new(module.out_features) if isinstance(leaving, int) else leaving
    must_divide(width, module.num_heads)
    return {(): (*inputs[0][:-1], arguments["out_features"])}


def _alike(width: Dim, size: int) -> Dim:
    """A size that is the width where both are equal."""
    return width if _size(width) == size else size


def _size(dim: Dim) -> int:
    return dim if isinstance(dim, int) else dim.size


def _cell(call: TracedCall, inputs: list[Dims], arguments: dict[str, Any]) -> Leaving:
    *carried, entering = inputs
    hidden: Dim = new(call.module.hidden_features)
    for dims in carried:
        same(hidden, dims[-1])
    arguments["in_features"], arguments["hidden_features"] = entering[-1], hidden
    return {path: (*entering[:-1], hidden) for path in call.outputs}


def _recurrent(call: TracedCall, inputs: list[Dims], arguments: dict[str, Any]) -> Leaving:
    if len(inputs) > 1:  # states or lengths are given
        return None
    (entering,) = inputs
    hidden: Dim = new(call.module.cell.hidden_features)
    arguments["in_features"], arguments["hidden_features"] = entering[-1], hidden
    leaving: dict[tuple[int, ...], Dims] = {}
    for path, out in call.outputs.items():
        positions = out.shape[:-1]
        leaving[path] = (*positions, hidden)
    return leaving


_SIDES = {"kernel_size": "kernel", "strides": "stride", "padding": "padding"}

RECORDS: dict[str, ModuleRecord] = {
    record.name: record
    for record in (
        ModuleRecord(name="Linear", core=True, rule=_linear),
        ModuleRecord(name="LinearGeneral", core=True, rule=_linear_general),
        ModuleRecord(name="Conv", core=True, rule=_convolution, attributes=_SIDES),
        ModuleRecord(name="ConvTranspose", core=True, rule=_convolution, attributes=_SIDES),
        ModuleRecord(name="Embed", core=True, rule=_embedding),
        ModuleRecord(name="MultiHeadAttention", core=True, rule=_attention),
        *(ModuleRecord(name=name, core=True, rule=_cell) for name in CELLS),
        ModuleRecord(name="RNN", core=True, rule=_recurrent),
        *(
            ModuleRecord(name=name, core=False, rule=_normalisation, normalises=True)
            for name in ("BatchNorm", "LayerNorm", "RMSNorm", "GroupNorm", "InstanceNorm")
        ),
        ModuleRecord(name="Dropout", core=False, rule=_passing),
    )
}
# Arguments that are read apart, or change nothing here.
_SILENT = ("rngs", "param_dtype", "dtype", "cell", "state_axes", "broadcast_rngs")


def record_of(module: object) -> ModuleRecord | None:
    """The record of a module, if it is of such a class itself."""
    cls = type(module)
    known = RECORDS.get(cls.__name__)
    return known if getattr(nnx, cls.__name__, None) is cls else None


def is_whole(module: object) -> bool:
    """Whether a module is one call: it has a record, and only plain arguments besides."""
    if record_of(module) is None:
        return False
    inner = getattr(module, "cell", None)
    if isinstance(module, nnx.RNN) and (inner is None or not is_whole(inner)):
        return False
    return not any(_is_own(module, name, each) for name, each in _parameters(module).items())


def _parameters(module: object) -> Mapping[str, inspect.Parameter]:
    parameters = inspect.signature(type(module).__init__).parameters
    return {name: each for name, each in parameters.items() if name != "self"}


def _is_own(module: object, name: str, parameter: inspect.Parameter) -> bool:
    """Whether an argument is code of the user's, such as an attention function."""
    if name in _SILENT or name.endswith(("_init", "_metadata")):
        return False
    value = getattr(module, name, None)
    return value is not None and not _is_plain(value) and value is not parameter.default


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return not value
    return value is None or isinstance(value, bool | int | float | str)


def arguments_of(module: Any) -> dict[str, Any]:
    """The arguments that build a module again, read back from its attributes."""
    arguments: dict[str, Any] = {}
    for name, parameter in _parameters(module).items():
        value = getattr(module, name, None)
        if name in ("dtype", "param_dtype"):
            usual = None if name == "dtype" else np.dtype(np.float32)
            if value is not None and np.dtype(value) != usual:
                arguments[name] = DType(str(np.dtype(value)))
        elif name != "rngs" and _is_said(value, parameter):
            arguments[name] = _with_tuples(value)
    if isinstance(module, nnx.RNN):
        arguments["cell"] = type(module.cell).__name__
        arguments.update(arguments_of(module.cell))
    return arguments


def _is_said(value: Any, parameter: inspect.Parameter) -> bool:
    """Whether an argument is plain, and not what it is anyway."""
    plain = _is_plain(value) and not isinstance(value, Mapping)
    return plain and value is not None and value != parameter.default


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list | tuple) else value


def attributes_of(op: str, arguments: Mapping[str, Any]) -> dict[str, Json]:
    """The numbers of a module that its kind shows."""
    record = RECORDS.get(op)
    if record is None or not record.attributes:
        return {}
    shown = {short: arguments.get(name) for name, short in record.attributes.items()}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in shown.items()
        if value is not None
    }
