"""A model's forward pass as a list of calls: standard modules as they are, functions between them.

The run is on the meta device (shapes only) in training mode. Standard `torch.nn` modules are
recorded whole, because a network built from the same modules runs the same kernels with the same
overheads; what a user's own `forward` does between them is recorded as functions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name

from ampere.errors import ModelError
from ampere.inputs import InputSpec

# Standard modules with children of their own that are still one call.
WHOLE = (nn.MultiheadAttention, nn.RNNBase)


@dataclass(frozen=True)
class Value:
    """A tensor, by the call that made it; call 0 is the model's input."""

    call: int
    path: tuple[int, ...] = ()


@dataclass
class TracedCall:
    """One call: where it stands, what it was called with, what came out."""

    index: int
    op: str
    where: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    module: nn.Module | None = None
    parameter: torch.Tensor | None = None
    outputs: dict[tuple[int, ...], torch.Tensor] = field(default_factory=dict)
    before: tuple[int, ...] = ()  # shape of its first tensor input

    @property
    def inputs(self) -> list[Value]:
        """The values it reads, in order."""
        return list(values_in((self.args, self.kwargs)))

    @property
    def trains(self) -> bool:
        """Whether it holds parameters that are not frozen, neither by flag nor by `no_grad`."""
        if not any(tensor.requires_grad for tensor in self.outputs.values()):
            return False
        if self.parameter is not None:
            return self.parameter.requires_grad
        return self.module is not None and any(p.requires_grad for p in self.module.parameters())


@dataclass(frozen=True)
class Trace:
    """Every call of one forward pass, and the values that came out at the end."""

    calls: tuple[TracedCall, ...]
    outputs: tuple[Value, ...]
    input_shape: tuple[int, ...]


def values_in(tree: Any) -> Iterator[Value]:
    """All values inside nested arguments."""
    if isinstance(tree, Value):
        yield tree
    elif isinstance(tree, tuple | list):
        for part in tree:
            yield from values_in(part)
    elif isinstance(tree, dict):
        for part in tree.values():
            yield from values_in(part)


def _tensors_in(tree: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Any]]:
    if isinstance(tree, torch.Tensor):
        yield path, tree
    elif isinstance(tree, tuple | list):
        for i, part in enumerate(tree):
            yield from _tensors_in(part, (*path, i))
    elif isinstance(tree, dict):
        for i, part in enumerate(tree.values()):
            yield from _tensors_in(part, (*path, i))


class _Recorder(TorchFunctionMode):
    """Records functions; modules are recorded by the wrappers that `_whole_modules` puts around."""

    def __init__(self, parameters: dict[int, str]) -> None:
        super().__init__()
        self.calls: list[TracedCall] = []
        self.values: dict[int, Value] = {}
        self.alive: list[torch.Tensor] = []  # an id is only unique while its object lives
        self.parameters = parameters
        self.inside = 0
        self.scope: list[str] = []

    def know(self, tensor: torch.Tensor, value: Value) -> None:
        self.alive.append(tensor)
        self.values[id(tensor)] = value

    def add(self, op: str, args: Any, kwargs: Any, result: Any, module: nn.Module | None) -> None:
        entering = [tuple(tensor.shape) for _, tensor in _tensors_in((args, kwargs))]
        args, kwargs = self.refer(args), self.refer(kwargs)
        where = self.scope[-1] if self.scope else ""
        call = TracedCall(len(self.calls) + 1, op, where, args, kwargs, module)
        call.before = entering[0] if entering else ()
        self.calls.append(call)
        for path, tensor in _tensors_in(result):
            call.outputs[path] = tensor
            self.know(tensor, Value(call.index, path))

    def refer(self, tree: Any) -> Any:
        """Arguments with each tensor replaced by the value that it is."""
        if isinstance(tree, torch.Tensor):
            if id(tree) not in self.values:
                self.add_constant(tree)
            return self.values[id(tree)]
        if isinstance(tree, tuple | list):
            return tuple(self.refer(part) for part in tree)
        if isinstance(tree, dict):
            return {key: self.refer(part) for key, part in tree.items()}
        return tree

    def add_constant(self, tensor: torch.Tensor) -> None:
        """A tensor that no call made: a parameter or buffer that a user's module holds itself."""
        where = self.parameters.get(id(tensor), "")
        op = "parameter" if isinstance(tensor, nn.Parameter) or tensor.requires_grad else "buffer"
        call = TracedCall(len(self.calls) + 1, op, where, parameter=tensor)
        call.outputs[()] = tensor
        self.calls.append(call)
        self.know(tensor, Value(call.index))

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        made = args[0] if func is torch.Tensor.__setitem__ else result  # x[:, 0] = 0 is a call too
        if not self.inside and any(True for _ in _tensors_in(made)):
            self.add(resolve_name(func) or repr(func), args, kwargs, made, None)
        return result


def is_whole(module: nn.Module) -> bool:
    """Whether a module is recorded as one call: standard, and without children that run."""
    standard = type(module).__module__.startswith("torch.nn.modules")
    return standard and (isinstance(module, WHOLE) or not any(module.children()))


@contextmanager
def _whole_modules(model: nn.Module, recorder: _Recorder) -> Iterator[None]:
    """Wrap the forward of every module: standard ones record, others only say where we are."""
    wrapped = []
    for name, module in model.named_modules():
        original = module.forward

        def forward(
            *args: Any,
            _module: nn.Module = module,
            _name: str = name,
            _original: Callable[..., Any] = original,
            **kwargs: Any,
        ) -> Any:
            recorder.scope.append(_name)
            whole = is_whole(_module)
            recorder.inside += whole
            try:
                result = _original(*args, **kwargs)
            finally:
                recorder.inside -= whole
            same = bool(args) and result is args[0]  # identity, unless it works in place
            in_place = getattr(_module, "inplace", False)
            if whole and not recorder.inside and (in_place or not same):
                recorder.add(type(_module).__name__, args, kwargs, result, _module)
            recorder.scope.pop()
            return result

        wrapped.append((module, module.__dict__.get("forward")))
        module.__dict__["forward"] = forward
    try:
        yield
    finally:
        for module, before in wrapped:
            if before is None:
                module.__dict__.pop("forward", None)
            else:
                module.__dict__["forward"] = before


def synthetic_input(spec: InputSpec, batch: int, device: str = "cpu") -> torch.Tensor:
    """A batch of random data of this shape; token ids stay below the vocabulary's size."""
    shape = (batch, *spec.shape)
    if spec.dtype == "int64":
        return torch.randint(spec.below or 2, shape, device=device)
    return torch.randn(shape, device=device)


def trace(model: nn.Module, spec: InputSpec, batch: int) -> Trace:
    """Record one forward pass of `model`, on the meta device or, where that fails, for real."""
    modes = {module: module.training for module in model.modules()}
    model.train()
    try:
        try:
            return _trace_on(model, spec, batch, "meta")
        except Exception:  # a model may look at values, which meta tensors do not have
            return _trace_on(copy.deepcopy(model), spec, batch, "cpu")
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if "more than 1 value per channel" in reason:  # batch normalisation
            reason += "; use a batch size of 2 or more"
        elif "required positional argument" in reason:
            reason += "; models with several inputs cannot be read yet"
        raise ModelError(
            f"{type(model).__name__} does not run on an input of {batch}x{spec}: {reason}"
        ) from None
    finally:
        for module, training in modes.items():
            module.training = training


def _trace_on(model: nn.Module, spec: InputSpec, batch: int, device: str) -> Trace:
    names = dict(model.named_parameters()) | dict(model.named_buffers())
    tensors: dict[str, torch.Tensor] = {}
    for name, tensor in names.items():
        moved = torch.empty_like(tensor, device="meta") if device == "meta" else tensor
        tensors[name] = moved.detach().requires_grad_(tensor.requires_grad)
    recorder = _Recorder({id(tensor): name for name, tensor in tensors.items()})
    x = synthetic_input(spec, batch, device)
    recorder.know(x, Value(0))
    with torch.enable_grad(), _whole_modules(model, recorder), recorder:
        result = torch.func.functional_call(model, tensors, (x,))
    outputs = tuple(recorder.refer(tensor) for _, tensor in _tensors_in(result))
    if not outputs:
        raise ModelError("it returns no tensor")
    return Trace(tuple(recorder.calls), outputs, tuple(x.shape))
