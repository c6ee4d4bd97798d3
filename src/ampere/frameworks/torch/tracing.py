"""A model's forward pass as a list of calls: standard modules as they are, functions between them.

The run is on the meta device (shapes only) in training mode. Standard `torch.nn` modules are
recorded whole, because a network built from the same modules runs the same kernels with the same
overheads; what a user's own `forward` does between them is recorded as functions.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name

from ampere.errors import ModelError
from ampere.frameworks.torch.building import is_shared, mark_shared
from ampere.frameworks.torch.quick import quick, run_quickly
from ampere.inputs import Inputs, InputSpec

# Standard modules with children of their own that are still one call.
WHOLE = (nn.MultiheadAttention, nn.RNNBase)


@dataclass(frozen=True)
class Value:
    """A tensor, by the call that made it; call 0 stands for the model's inputs, one a path."""

    call: int
    path: tuple[int, ...] = ()


@dataclass
class TracedCall:
    """One call: where it stands, what it was called with, what came out."""

    index: int
    op: str
    stack: tuple[tuple[str, int], ...]  # the module calls around it: name and number of each
    run: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    module: nn.Module | None = None
    parameter: torch.Tensor | None = None
    name: str = ""  # of the parameter
    outputs: dict[tuple[int, ...], torch.Tensor] = field(default_factory=dict)
    before: tuple[int, ...] = ()  # shape of its first tensor input
    after: tuple[Value, ...] = ()  # written in place before: to be run behind these
    through: Value | None = None  # the view through which it writes in place
    detached: bool = False
    reached: bool = True  # by a gradient from the model's outputs

    @property
    def where(self) -> str:
        """The innermost module that it belongs to."""
        return self.stack[-1][0] if self.stack else ""

    @property
    def inputs(self) -> list[Value]:
        """The values it reads, in order."""
        return list(values_in((self.args, self.kwargs)))

    @property
    def needs(self) -> list[Value]:
        """The values that must be there before it runs."""
        return [*self.inputs, *self.after]

    @property
    def trains(self) -> bool:
        """Whether it holds parameters that are not frozen, neither by flag nor by `no_grad`."""
        if not self.reached or not any(t.requires_grad for t in self.outputs.values()):
            return False
        if self.parameter is not None:
            return self.parameter.requires_grad
        return self.module is not None and any(p.requires_grad for p in self.module.parameters())


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

    def parameter(self, name: str) -> str:
        """The first name of a parameter: tied weights have more than one."""
        return self.names.get(name, name)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values inside the result."""
        return tuple(values_in(self.result))


def values_in(tree: Any) -> Iterator[Value]:
    """All values inside nested arguments."""
    if isinstance(tree, Value):
        yield tree
    elif isinstance(tree, slice):
        yield from values_in((tree.start, tree.stop, tree.step))
    elif isinstance(tree, tuple | list):
        for part in tree:
            yield from values_in(part)
    elif isinstance(tree, Mapping):
        for part in tree.values():
            yield from values_in(part)


def tensors_in(tree: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Any]]:
    """All tensors inside nested arguments or results, each with where it stands."""
    if isinstance(tree, torch.Tensor):
        yield path, tree
    elif isinstance(tree, tuple | list):
        for i, part in enumerate(tree):
            yield from tensors_in(part, (*path, i))
    elif isinstance(tree, Mapping):
        for i, part in enumerate(tree.values()):
            yield from tensors_in(part, (*path, i))
    elif isinstance(tree, slice):
        yield from tensors_in((tree.start, tree.stop, tree.step), path)


class _Recorder(TorchFunctionMode):
    """Records functions; modules are recorded by the wrappers that `_whole_modules` puts around."""

    def __init__(self, names: Mapping[int, str], parameters: Set[str]) -> None:
        super().__init__()
        self.calls: list[TracedCall] = []
        self.values: dict[int, Value] = {}
        self.alive: list[torch.Tensor] = []  # an id is only unique while its object lives
        self.names, self.parameters = names, parameters
        self.writers: dict[int, Value] = {}  # storages that were written in place, and by what
        self.inside = 0
        self.custom = 0
        self.scope: list[tuple[str, int]] = []
        self.entered = 0
        self.failed_in: str | None = None

    def know(self, tensor: torch.Tensor, value: Value) -> None:
        self.alive.append(tensor)
        self.values[id(tensor)] = value

    def record(
        self, op: str, run: Callable[..., Any], args: Any, kwargs: Any, module: nn.Module | None
    ) -> Any:
        """Run a call and write it down if a tensor comes out."""
        entering = [tensor for _, tensor in tensors_in((args, kwargs))]
        versions = [tensor._version for tensor in entering]
        detached = not torch.is_grad_enabled() and not self.custom
        result = quick(run, args)(*args, **kwargs)
        written = [t for t, v in zip(entering, versions, strict=True) if t._version != v]
        made = result
        if result is None and written:  # x[:, 0] = 0 is a call too
            made = written[0]
        same = module is not None and bool(args) and result is args[0]  # identity
        if not any(True for _ in tensors_in(made)) or (same and not written):
            return result
        references, options = self.refer(args), self.refer(kwargs)
        index = len(self.calls) + 1
        call = TracedCall(index, op, tuple(self.scope), run, references, options, module)
        call.before = tuple(entering[0].shape) if entering else ()
        call.detached = detached and any(t.requires_grad for t in entering)
        read = set(call.inputs)
        behind = [self.writers.get(_storage(tensor)) for tensor in entering]
        call.after = tuple({v for v in behind if v is not None and v not in read})
        if written and written[0]._is_view():
            call.through = self.values.get(id(written[0]))
        self.calls.append(call)
        for path, tensor in tensors_in(made):
            call.outputs[path] = tensor
            self.know(tensor, Value(index, path))
        for tensor in written:
            self.writers[_storage(tensor)] = Value(index, next(iter(call.outputs)))
        return result

    def refer(self, tree: Any) -> Any:
        """Arguments with each tensor replaced by the value that it is."""
        if isinstance(tree, torch.Tensor):
            if id(tree) not in self.values:
                self.add_constant(tree)
            return self.values[id(tree)]
        if isinstance(tree, list):  # x[[0, 2]] is not x[0, 2]
            return [self.refer(part) for part in tree]
        if isinstance(tree, tuple):
            return tuple(self.refer(part) for part in tree)
        if isinstance(tree, Mapping):
            return {key: self.refer(part) for key, part in tree.items()}
        if isinstance(tree, slice):
            return slice(*self.refer((tree.start, tree.stop, tree.step)))
        return tree

    def add_constant(self, tensor: torch.Tensor) -> None:
        """A tensor that no call made: a parameter or buffer that a user's module holds itself."""
        if tensor.grad_fn is not None:
            raise ModelError(
                "a tensor comes from code that cannot be followed, such as torch.jit.script"
            )
        name = self.names.get(id(tensor), "")
        op = "parameter" if name in self.parameters or tensor.requires_grad else "buffer"
        call = TracedCall(len(self.calls) + 1, op, tuple(self.scope), parameter=tensor, name=name)
        call.outputs[()] = tensor
        self.calls.append(call)
        self.know(tensor, Value(call.index))

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        return self.record(_full_name(func), func, args, kwargs, None)


_HOMES = {
    "torch": torch,
    "torch.Tensor": torch.Tensor,
    "torch.nn.functional": nn.functional,
    "torch._C._nn": torch._C._nn,
    "torch.special": torch.special,
    "torch.linalg": torch.linalg,
    "torch.fft": torch.fft,
}


@lru_cache(maxsize=4096)
def _full_name(func: Callable[..., Any]) -> str:
    """Where a function of torch can be found again."""
    name = getattr(func, "__name__", "")
    homes = (f"{home}.{name}" for home, at in _HOMES.items() if getattr(at, name, None) is func)
    return resolve_name(func) or next(homes, None) or repr(func)


def _storage(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):  # a sparse tensor has none
        return id(tensor)


def is_whole(module: nn.Module) -> bool:
    """Whether a module is recorded as one call: standard, and without children that run."""
    standard = type(module).__module__.startswith("torch.nn.modules")
    return standard and (isinstance(module, WHOLE) or not any(module.children()))


@contextmanager
def _whole_modules(model: nn.Module, recorder: _Recorder) -> Iterator[None]:
    """Wrap the forward of every module: standard ones record, others only say where we are."""
    before = {module: module.__dict__.get("forward") for module in model.modules()}

    def wrap(name: str, module: nn.Module) -> None:
        original = module.forward

        def forward(
            *args: Any,
            _module: nn.Module = module,
            _name: str = name,
            _original: Callable[..., Any] = original,
            **kwargs: Any,
        ) -> Any:
            recorder.entered += 1
            recorder.scope.append((_name, recorder.entered))
            try:
                if recorder.inside or not is_whole(_module):
                    return _original(*args, **kwargs)
                recorder.inside += 1  # what happens in a standard module is not recorded
                try:
                    with torch._C.DisableTorchFunction():
                        run = run_quickly(_module, _original)
                        return recorder.record(type(_module).__name__, run, args, kwargs, _module)
                finally:
                    recorder.inside -= 1
            except Exception:
                if recorder.failed_in is None:
                    recorder.failed_in = _name
                raise
            finally:
                recorder.scope.pop()

        module.__dict__["forward"] = forward

    try:
        for name, module in model.named_modules():
            wrap(name, module)
        yield
    finally:
        for module, forward in before.items():
            if forward is None:
                module.__dict__.pop("forward", None)
            else:
                module.__dict__["forward"] = forward


@contextmanager
def _open_functions(recorder: _Recorder) -> Iterator[None]:
    """A custom autograd function is read as what its forward does: gradients are recorded there."""
    original = torch.autograd.Function.__dict__["apply"]

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.custom += 1
        try:
            return original.__func__(cls, *args, **kwargs)
        finally:
            recorder.custom -= 1

    torch.autograd.Function.apply = classmethod(apply)  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.autograd.Function.apply = original  # type: ignore[method-assign]


def synthetic_input(spec: InputSpec, batch: int, device: str = "cpu") -> torch.Tensor:
    """A batch of random data of this shape; token ids stay below the vocabulary's size."""
    shape = (batch, *spec.shape)
    if spec.dtype == "int64":
        return torch.randint(spec.below or 2, shape, device=device)
    if spec.dtype == "bool":
        return torch.rand(shape, device=device) < 0.5
    return torch.randn(shape, device=device)


def synthetic_inputs(
    inputs: Inputs, batch: int, device: str = "cpu"
) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
    """A batch of random data for each input: those by position, and those by keyword."""
    return (
        tuple(synthetic_input(spec, batch, device) for spec in inputs.positional),
        {name: synthetic_input(spec, batch, device) for name, spec in inputs.named},
    )


def trace(model: nn.Module, inputs: Inputs, batch: int) -> Trace:
    """Record one forward pass of `model`, on the meta device or, where that fails, for real."""
    # Also what a forward pass keeps for the next one, such as a table of positions on meta.
    attributes = {module: dict(module.__dict__) for module in model.modules()}
    model.train()
    try:
        with _ONE_AT_A_TIME:
            try:
                return _trace_on(model, inputs, batch, "meta")
            except _Failed:  # a model may look at values, which meta tensors do not have
                _restore(attributes)
                real = _copy(model)
                if real is None:
                    raise
                return _trace_on(real.train(), inputs, batch, "cpu")
    except _Failed as error:
        raise ModelError(
            f"{type(model).__name__} does not run on an input of {batch}x({inputs}): {error}"
        ) from None
    finally:
        _restore(attributes)


_ONE_AT_A_TIME = threading.Lock()  # a trace replaces functions that all threads use


def _restore(attributes: Mapping[nn.Module, Mapping[str, Any]]) -> None:
    for module, held in attributes.items():
        module.__dict__.clear()
        module.__dict__.update(held)


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


def _trace_on(model: nn.Module, inputs: Inputs, batch: int, device: str) -> Trace:
    names = dict(model.named_parameters()) | dict(model.named_buffers())
    tensors: dict[str, torch.Tensor] = {}
    for name, tensor in names.items():
        moved = torch.empty_like(tensor, device="meta") if device == "meta" else tensor
        tensors[name] = moved.detach().requires_grad_(tensor.requires_grad)
        if is_shared(tensor):
            mark_shared(tensors[name])
    parameters = {name for name, _ in model.named_parameters()}
    recorder = _Recorder({id(tensor): name for name, tensor in tensors.items()}, parameters)
    args, kwargs = synthetic_inputs(inputs, batch, device)
    fed = {Value(0, (i,)): tensor for i, tensor in enumerate((*args, *kwargs.values()))}
    for value, tensor in fed.items():
        recorder.know(tensor, value)
    try:
        with torch.enable_grad(), _whole_modules(model, recorder), _open_functions(recorder):
            with recorder:
                result = torch.func.functional_call(model, tensors, args, kwargs)
            outputs = recorder.refer(_plain(result))
    except Exception as error:
        raise _Failed(_reason(error, recorder.failed_in)) from error
    if not any(True for _ in values_in(outputs)):
        raise _Failed("it returns no tensor")
    written = tuple(recorder.writers.values())
    return Trace(
        tuple(recorder.calls),
        outputs,
        fed,
        batch,
        _first_names(model),
        written,
        _reached(recorder.calls, (*values_in(outputs), *written)),
    )


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
    """Outputs as tuples and dicts; an object with attributes becomes a dict of its tensors."""
    if isinstance(result, torch.Tensor) or result is None:
        return result
    if isinstance(result, Mapping):
        return {key: _plain(part) for key, part in result.items()}
    if isinstance(result, tuple | list):
        return tuple(_plain(part) for part in result)
    held = vars(result).items() if hasattr(result, "__dict__") else ()
    return {key: _plain(part) for key, part in held if isinstance(part, torch.Tensor)}


def _reason(error: Exception, module: str | None) -> str:
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if "more than 1 value per channel" in text:  # batch normalisation
        text += "; use a batch size of 2 or more"
    elif "missing" in text and "required" in text and "argument" in text:
        text += "; name each input, e.g. --input '3x32x32, 10:int64<100'"
    return f"in {module}: {text}" if module else text
