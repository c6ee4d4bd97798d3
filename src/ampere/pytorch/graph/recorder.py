"""What happens while a model runs, call by call: standard modules whole, functions between them.

Standard `torch.nn` modules are recorded as one call, because a network built from the same modules
runs the same kernels with the same overheads; what a user's own `forward` does between them is
recorded as functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils import checkpoint

from ampere.core.graph.calls import Value, values_in
from ampere.core.program.trees import Path, map_leaves, places
from ampere.errors import ModelError
from ampere.pytorch.graph.shortcuts import quick, run_quickly
from ampere.pytorch.modules.registry import is_standard, record_of


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
    checkpointed: bool = False  # run once more in the backward pass

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
    def is_constant(self) -> bool:
        """Whether it is a parameter or buffer that a user's module holds itself."""
        return self.parameter is not None

    @property
    def trains(self) -> bool:
        """Whether it holds parameters that are not frozen, neither by flag nor by `no_grad`."""
        if not self.reached or not any(t.requires_grad for t in self.outputs.values()):
            return False
        if self.parameter is not None:
            return self.parameter.requires_grad
        return self.module is not None and any(p.requires_grad for p in self.module.parameters())


Segment = list[TracedCall]


def tensors_in(tree: Any) -> Iterator[tuple[Path, torch.Tensor]]:
    """All tensors inside nested arguments or results, each with where it stands."""
    return ((path, leaf) for path, leaf in places(tree) if isinstance(leaf, torch.Tensor))


@dataclass
class Looks:
    """What a forward pass saw where it looked at values; a later one without any sees the same."""

    seen: list[Any] = field(default_factory=list)
    again: Iterator[Any] | None = None  # None while they are seen for the first time

    def replayed(self) -> Looks:
        """The same, to be seen once more."""
        return Looks(again=iter(self.seen))

    def look(self, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """See for real, or what was seen."""
        if self.again is None:
            self.seen.append(run(*args, **kwargs))
            return self.seen[-1]
        return next(self.again)

    def follow(self, run: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """Nothing: what a function does is of no matter until it is looked at."""


class Sight(Protocol):
    """Whoever knows what a forward pass sees where it looks at values."""

    def look(self, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What a function that looks at tensors sees."""
        ...

    def follow(self, run: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """A function of torch has made this of its arguments."""
        ...


class Recorder(TorchFunctionMode):
    """Records functions; modules are recorded by the wrappers that `whole_modules` puts around."""

    def __init__(
        self, names: Mapping[int, str], parameters: Set[str], looks: Sight | None = None
    ) -> None:
        super().__init__()
        self.looks = looks
        self.calls: list[TracedCall] = []
        self.values: dict[int, Value] = {}
        self.alive: list[torch.Tensor] = []  # an id is only unique while its object lives
        self.names, self.parameters = names, parameters
        self.writers: dict[int, Value] = {}  # storages that were written in place, and by what
        self.inside = 0
        self.custom = 0
        self.checkpoints = 0  # that are open
        self.scope: list[tuple[str, int]] = []
        self.entered = 0
        self.failed_in: str | None = None

    def know(self, tensor: torch.Tensor, value: Value) -> None:
        """From now on this tensor is this value."""
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
        call = TracedCall(
            index=index,
            op=op,
            stack=tuple(self.scope),
            run=run,
            args=references,
            kwargs=options,
            module=module,
            checkpointed=self.checkpoints > 0,
        )
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
        return map_leaves(self._refer_to, tree)

    def _refer_to(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in self.values:
            self.add_constant(leaf)
        return self.values[id(leaf)]

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
        if self.looks is not None and getattr(func, "__name__", "") in LOOKS:
            return self.looks.look(func, args, kwargs)
        result = self.record(_full_name(func), func, args, kwargs, None)
        if self.looks is not None:
            self.looks.follow(func, args, kwargs, result)
        return result


WITHOUT_REENTRY = "_checkpoint_without_reentrant_generator"  # what torch runs around a block
_CASTS = ("__bool__", "__int__", "__float__", "__index__", "item", "tolist")
LOOKS = frozenset((*_CASTS, "__contains__", "is_nonzero", "equal", "allclose"))
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
    if not is_standard(module):
        return False
    record = record_of(module)
    return (record is not None and record.whole) or not any(module.children())


@contextmanager
def whole_modules(model: nn.Module, recorder: Recorder) -> Iterator[None]:
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
def open_functions(recorder: Recorder) -> Iterator[None]:
    """A custom autograd function is read as what its forward does: gradients are recorded there.

    What is checkpointed is run as it is written, and marked: it runs once more on the way back.
    """
    original = torch.autograd.Function.__dict__["apply"]
    without_reentry = getattr(checkpoint, WITHOUT_REENTRY, None)

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if cls is checkpoint.CheckpointFunction:
            function, _, *entering = args
            with checkpointing():
                return function(*entering)
        recorder.custom += 1
        try:
            return original.__func__(cls, *args, **kwargs)
        finally:
            recorder.custom -= 1

    @contextmanager
    def checkpointing() -> Iterator[None]:
        recorder.checkpoints += 1
        try:
            yield
        finally:
            recorder.checkpoints -= 1

    def around(*_: Any, **__: Any) -> Iterator[None]:
        with checkpointing():
            yield

    torch.autograd.Function.apply = classmethod(apply)  # type: ignore[assignment]
    if without_reentry is not None:
        setattr(checkpoint, WITHOUT_REENTRY, around)
    try:
        yield
    finally:
        torch.autograd.Function.apply = original  # type: ignore[method-assign]
        if without_reentry is not None:
            setattr(checkpoint, WITHOUT_REENTRY, without_reentry)
