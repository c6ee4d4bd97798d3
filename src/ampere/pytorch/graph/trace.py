"""A model's forward pass as a list of calls, and what comes out of it.

The run is on the meta device (shapes only) in training mode. A model that looks at values is shown
those that follow from its inputs alone (shadows.py). If it looks at others, it is run for real with
a few samples first, and then on the meta device with what it saw; where that does not do, for real
as a whole. The user's model is left as it was.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ampere.core.graph.calls import Value, values_in
from ampere.core.inputs import Inputs
from ampere.core.program.trees import map_leaves
from ampere.errors import ModelError
from ampere.pytorch.graph.recorder import (
    Looks,
    Recorder,
    Sight,
    TracedCall,
    open_functions,
    whole_modules,
)
from ampere.pytorch.graph.shadows import Shadows
from ampere.pytorch.runtime.builder import is_shared, mark_shared
from ampere.pytorch.runtime.trainer import synthetic_inputs

FEW = 2  # samples: one has no variance over a batch


@dataclass(frozen=True)
class Trace:
    """Every call of one forward pass, and what came out at the end: values in a tree."""

    calls: tuple[TracedCall, ...]
    result: Any
    inputs: Mapping[Value, torch.Tensor]
    batch: int
    names: Mapping[str, str] = field(default_factory=dict)  # of parameters that have several
    written: tuple[Value, ...] = ()  # made by writing in place: needed, whoever reads them
    reached: frozenset[Value] = frozenset()  # where a gradient comes back to
    looked: bool = False  # whether what ran may depend on values

    def parameter(self, name: str) -> str:
        """The first name of a parameter: tied weights have more than one."""
        return self.names.get(name, name)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values inside the result."""
        return tuple(values_in(self.result))


def trace(
    model: nn.Module, inputs: Inputs, batch: int, dtype: torch.dtype = torch.float32
) -> Trace:
    """Record one forward pass of `model`, on the meta device or, where that fails, for real."""
    # Also what a forward pass keeps for the next one, such as a table of positions on meta.
    attributes = {module: _copied(module.__dict__) for module in model.modules()}
    model.train()
    try:
        with _ONE_AT_A_TIME:
            try:
                return _trace_on(model, inputs, batch, "meta", dtype)
            except _Failed:  # a model may look at values, which meta tensors do not have
                _restore(attributes)
                with suppress(_Failed):
                    return _trace_on(model, inputs, batch, "meta", dtype, Shadows())
                _restore(attributes)
                real = _copy(model)
                if real is None:
                    raise
                seen = _with_what_two_see(model, real, inputs, batch, dtype)
                _restore(attributes)
                return seen or _trace_on(real.train(), inputs, batch, "cpu", dtype)
    except _Failed as error:
        raise ModelError(
            f"{type(model).__name__} does not run on an input of {batch}x({inputs}): {error}"
        ) from None
    finally:
        _restore(attributes)


def _with_what_two_see(
    model: nn.Module, real: nn.Module, inputs: Inputs, batch: int, dtype: torch.dtype
) -> Trace | None:
    """A trace on the meta device with the values that two samples showed.

    None where three samples run otherwise: how many there are matters then, too.
    """
    if batch <= FEW + 1:
        return None
    looks = Looks()
    try:
        small, larger = (
            _trace_on(copy.deepcopy(real).train(), inputs, samples, "cpu", dtype, seen)
            for samples, seen in ((FEW, looks), (FEW + 1, Looks()))
        )
        whole = _trace_on(model, inputs, batch, "meta", dtype, looks.replayed())
    except _Failed:
        return None
    ran = [[call.op for call in each.calls] for each in (small, larger, whole)]
    return whole if ran[0] == ran[1] == ran[2] else None


_ONE_AT_A_TIME = threading.Lock()  # a trace replaces functions that all threads use


def _restore(attributes: Mapping[nn.Module, Mapping[str, Any]]) -> None:
    for module, held in attributes.items():
        module.__dict__.clear()
        module.__dict__.update(_copied(held))


def _copied(held: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a module; torch leaves other tensors in one that stands at two places."""
    tensors = ("_parameters", "_buffers")
    return {name: dict(part) if name in tensors else part for name, part in held.items()}


def _copy(model: nn.Module) -> nn.Module | None:
    """A copy to run for real, if there can be one."""
    homes = {parameter.device.type for parameter in model.parameters()}
    if "meta" in homes:
        return None
    try:
        copied = copy.deepcopy(model)
        return copied if homes <= {"cpu"} else copied.to("cpu")
    except Exception:  # whatever the user's objects object to
        return None


class _Failed(Exception):
    """A forward pass that did not end, with the module and the reason."""


def _trace_on(
    model: nn.Module,
    inputs: Inputs,
    batch: int,
    device: str,
    dtype: torch.dtype,
    looks: Sight | None = None,
) -> Trace:
    names = dict(model.named_parameters()) | dict(model.named_buffers())
    tensors: dict[str, torch.Tensor] = {}
    for name, tensor in names.items():
        moved = torch.empty_like(tensor, device="meta") if device == "meta" else tensor
        tensors[name] = moved.detach().requires_grad_(tensor.requires_grad)
        if is_shared(tensor):
            mark_shared(tensors[name])
    parameters = {name for name, _ in model.named_parameters()}
    recorder = Recorder({id(tensor): name for name, tensor in tensors.items()}, parameters, looks)
    args, kwargs = synthetic_inputs(inputs, batch, device, dtype)
    fed = {Value(0, (i,)): tensor for i, tensor in enumerate((*args, *kwargs.values()))}
    for value, tensor in fed.items():
        recorder.know(tensor, value)
    if isinstance(looks, Shadows):
        seen, named = synthetic_inputs(inputs, batch, "cpu", dtype)
        for tensor, shown in zip(fed.values(), (*seen, *named.values()), strict=True):
            looks.know(tensor, shown)
        for name, buffer in model.named_buffers():
            if not buffer.is_meta:
                looks.know(tensors[name], buffer.detach().cpu().clone())
    try:
        with (
            _eager(),
            torch.enable_grad(),
            whole_modules(model, recorder),
            open_functions(recorder),
        ):
            with recorder:
                result = torch.func.functional_call(model, tensors, args, kwargs)
            outputs = recorder.refer(_plain(result))
    except Exception as error:
        raise _Failed(_reason(error, recorder.failed_in)) from error
    if not any(True for _ in values_in(outputs)):
        raise _Failed("it returns no tensor")
    written = tuple(recorder.writers.values())
    return Trace(
        calls=tuple(recorder.calls),
        result=outputs,
        inputs=fed,
        batch=batch,
        names=_first_names(model),
        written=written,
        reached=_reached(recorder.calls, (*values_in(outputs), *written)),
        looked=device != "meta" or looks is not None,
    )


def _eager() -> AbstractContextManager[object]:
    """Parts that `torch.compile` made run as they were written: compiling takes half a minute."""
    if "torch._dynamo" not in sys.modules:  # nothing was compiled, and importing it takes seconds
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


def _reached(calls: Sequence[TracedCall], ends: Sequence[Value]) -> frozenset[Value]:
    """The values that a gradient from these ends comes back to; `detach` stops it."""
    reached = set(ends)
    for call in reversed(calls):
        made = [Value(call.index, path) for path, t in call.outputs.items() if t.requires_grad]
        call.reached = any(value in reached for value in made)
        if call.reached and "detach" not in call.op:
            reached.update(call.needs)
    return frozenset(reached)


def _first_names(model: nn.Module) -> dict[str, str]:
    first: dict[int, str] = {}
    named = model.named_parameters(remove_duplicate=False)
    return {name: first.setdefault(id(parameter), name) for name, parameter in named}


def _plain(result: Any) -> Any:
    """Outputs as tuples, lists and dicts; an object with attributes is a dict of its tensors."""

    def plain(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) or leaf is None:
            return leaf
        held = vars(leaf).items() if hasattr(leaf, "__dict__") else ()
        return {key: part for key, part in held if isinstance(part, torch.Tensor)}

    return map_leaves(plain, result)


def _reason(error: Exception, module: str | None) -> str:
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if "more than 1 value per channel" in text:  # batch normalisation
        text += "; use a batch size of 2 or more"
    elif "missing" in text and "required" in text and "argument" in text:
        text += "; name each input, e.g. '3x32x32, 10:int64<100'"
    return f"in {module}: {text}" if module else text
