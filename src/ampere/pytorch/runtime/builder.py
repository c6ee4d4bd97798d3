"""Structures back to modules: a network of layers at any widths, ready to train."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ampere.core.layers import CHECKPOINTED, Layer, Source, sources_of, structure_of
from ampere.core.program.sizes import shape_at
from ampere.core.program.structure import Call, Port, Structure
from ampere.core.program.terms import DType, InputDevice, MemoryFormat, Term, ValueRef, number_at
from ampere.core.program.trees import leaves, map_leaves
from ampere.errors import ModelError
from ampere.pytorch.runtime.functions import find_function


def build(layers: Sequence[Layer]) -> nn.Module:
    """A network of these layers, wired as they say; a chain is what PyTorch would make of it."""
    pieces = [build_layer(layer) for layer in layers]
    if any(layer.reads for layer in layers):
        outputs = [len(structure_of(layer.kind).outputs) for layer in layers]
        return Network(pieces, sources_of(layers), outputs)
    return pieces[0] if len(pieces) == 1 else nn.Sequential(*pieces)


def build_layer(layer: Layer) -> nn.Module:
    """One layer at its widths."""
    structure = structure_of(layer.kind)
    modules: dict[int, nn.Module] = {}
    for k, call in enumerate(structure.calls, start=1):
        if call.is_module:
            modules[k] = modules[call.again] if call.again else build_module(call, layer.widths)
            if "dtype" in layer.kind.attributes:
                modules[k].to(dtype_named(layer.kind.attributes["dtype"]))
    chain = _as_chain(structure, modules)
    piece = chain if chain is not None else Piece(structure, modules, layer.widths)
    return Checkpointed(piece) if layer.kind.attributes.get(CHECKPOINTED) else piece


class Checkpointed(nn.Module):
    """A layer that keeps only what it is given, and runs forward again in the backward pass."""

    def __init__(self, piece: nn.Module) -> None:
        super().__init__()
        self.piece = piece

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Run it, now and once more."""
        return checkpoint(self.piece, *inputs, use_reentrant=False)


class Network(nn.Module):
    """Layers that are no chain: each reads what others, or the model's inputs, deliver.

    What no layer reads is `dangling`: it is returned behind the result, for a gradient of its own.
    """

    def __init__(
        self,
        pieces: Sequence[nn.Module],
        reads: Sequence[tuple[Source, ...]],
        outputs: Sequence[int],
    ) -> None:
        super().__init__()
        self.pieces = nn.ModuleList(pieces)
        self._reads = reads
        read = {source for sources in reads for source in sources}
        delivered = [(i, n) for i, count in enumerate(outputs[:-1]) for n in range(count)]
        self.dangling = [source for source in delivered if source not in read]

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Run the layers in order."""
        results: dict[int, Any] = {-1: inputs}
        result: Any = None
        for i, (piece, reads) in enumerate(zip(self.pieces, self._reads)):
            result = piece(*(results[layer][output] for layer, output in reads))
            results[i] = result if isinstance(result, tuple) else (result,)
        if not self.dangling:
            return result
        return result, tuple(results[layer][output] for layer, output in self.dangling)


def network_inputs(layers: Sequence[Layer], device: str = "cpu") -> tuple[torch.Tensor, ...]:
    """A batch of random data for each input of a network."""
    if not any(layer.reads for layer in layers):
        return example_inputs(layers[0], device)
    batches: dict[int, torch.Tensor] = {}
    for layer in layers:
        for (source, number), x in zip(layer.reads, example_inputs(layer, device)):
            if source < 0:
                batches.setdefault(number, x)
    unread = torch.empty(0, device=device)
    return tuple(batches.get(number, unread) for number in range(1 + max(batches)))


def example_inputs(layer: Layer, device: str = "cpu") -> tuple[torch.Tensor, ...]:
    """A batch of random data for each input; a gradient flows back where it would in a network."""
    batch = int(layer.kind.attributes["batch"])
    return tuple(
        _example(port, layer.widths, batch, device) for port in structure_of(layer.kind).inputs
    )


def _example(port: Port, widths: Mapping[str, int], batch: int, device: str) -> torch.Tensor:
    shape = shape_at(port.shape, widths)
    shape = shape if port.whole else (batch, *shape)
    dtype = dtype_named(port.dtype)
    if dtype == torch.bool:
        return torch.rand(shape, device=device) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(port.below or 2, shape, dtype=dtype, device=device)
    return torch.randn(shape, dtype=dtype, device=device).requires_grad_(port.grad)


def fill(tree: Term, widths: Mapping[str, int]) -> Any:
    """The same tree with numbers in the place of sizes, and torch's own names for its types."""

    def filled(leaf: Any) -> Any:
        if isinstance(leaf, DType):
            return dtype_named(leaf.name)
        if isinstance(leaf, MemoryFormat):
            return _named(leaf.name, torch.memory_format)
        return number_at(leaf, widths)

    return map_leaves(filled, tree)


def fill_each(arguments: Mapping[str, Term], widths: Mapping[str, int]) -> dict[str, Any]:
    """The same for arguments by name."""
    filled: dict[str, Any] = fill(dict(arguments), widths)
    return filled


def modules_in(piece: nn.Module, structure: Structure) -> dict[int, nn.Module]:
    """The modules of a layer that was built, by the number of the call."""
    numbers = [k for k, call in enumerate(structure.calls, start=1) if call.is_module]
    if isinstance(piece, Checkpointed):
        piece = piece.piece
    if isinstance(piece, Piece):
        return {k: piece.held[str(k)] for k in numbers}
    return dict(zip(numbers, [piece] if len(numbers) == 1 else list(piece.children())))


def build_module(call: Call, widths: Mapping[str, int]) -> nn.Module:
    """One module at these widths."""
    cls = getattr(nn, call.op, None)
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        raise ModelError(f"{call.op} is not a module of torch")
    module: nn.Module = cls(**_accepted(cls, fill_each(call.arguments, widths)))
    module.requires_grad_(not call.frozen)
    for name in call.frozen_parts:
        module.get_parameter(name).requires_grad_(False)
    for name in call.shared_parts:
        mark_shared(module.get_parameter(name))
    return module


def _accepted(cls: type[nn.Module], arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments that a class has: in an older torch, normalisations cannot be asked for a bias.

    They have it all the same, so asking can be left out; asking for none cannot.
    """
    names = inspect.signature(cls).parameters
    if arguments.get("bias") is True and not {"bias", "kwargs"} & set(names):
        return {name: value for name, value in arguments.items() if name != "bias"}
    return arguments


def mark_shared(parameter: torch.Tensor) -> None:
    """Another layer holds this parameter too, and its update is counted there."""
    parameter.shared = True  # type: ignore[attr-defined]


def is_shared(parameter: torch.Tensor) -> bool:
    """Whether the update of a parameter is counted elsewhere."""
    return getattr(parameter, "shared", False)


def _as_chain(structure: Structure, modules: Mapping[int, nn.Module]) -> nn.Module | None:
    """Layers that only call modules one after the other run as a user would write them."""
    for k, call in enumerate(structure.calls, start=1):
        plain = call.inputs == (ValueRef(k - 1),) and not call.options
        if k not in modules or not plain or call.again or call.detached:
            return None
    if structure.result != ValueRef(len(structure.calls)):
        return None
    chain = list(modules.values())
    return chain[0] if len(chain) == 1 else nn.Sequential(*chain)


class _Step(NamedTuple):
    """A call that is ready to run, but for what other calls make: only that is looked up."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    open_inputs: tuple[int, ...]  # positions of inputs that refer to values
    open_options: tuple[str, ...]


def _is_open(tree: Any) -> bool:
    return any(isinstance(leaf, (ValueRef, InputDevice)) for leaf in leaves(tree))


class Piece(nn.Module):
    """A layer with functions or branches inside: its calls, one after the other."""

    def __init__(
        self, structure: Structure, modules: Mapping[int, nn.Module], widths: Mapping[str, int]
    ) -> None:
        super().__init__()
        self.held = nn.ModuleDict({str(k): module for k, module in modules.items()})
        self._steps: list[_Step] = []
        for k, call in enumerate(structure.calls, start=1):
            inputs, options = fill(call.inputs, widths), fill_each(call.options, widths)
            function = modules.get(k) or self._function(k, call, widths)
            step = _Step(
                function=_detached(function) if call.detached else function,
                inputs=inputs,
                options=options,
                open_inputs=tuple(i for i, part in enumerate(inputs) if _is_open(part)),
                open_options=tuple(name for name, part in options.items() if _is_open(part)),
            )
            self._steps.append(step)
        self._several = len(structure.inputs) > 1
        self._result = structure.result

    def _function(self, k: int, call: Call, widths: Mapping[str, int]) -> Callable[..., Any]:
        if call.op not in ("parameter", "buffer"):
            return find_function(call.op)
        name = f"{call.op}_{k}"
        shape = fill(call.arguments["shape"], widths)
        dtype = dtype_named(str(call.arguments.get("dtype", "float32")))
        if call.op == "parameter":
            # Small numbers, not zeros: a weight that is normalised must have a length.
            start = torch.randn(shape, dtype=dtype) / 50
            parameter = nn.Parameter(start, not call.frozen)
            if call.shared_parts:
                mark_shared(parameter)
            self.register_parameter(name, parameter)
        else:  # ones: whatever is divided by them, or looked up with them, stays sound
            self.register_buffer(name, torch.ones(shape, dtype=dtype))
        return _Held(self, name)

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Run the calls."""
        values: list[Any] = [inputs if self._several else inputs[0]]
        for step in self._steps:
            args, kwargs = list(step.inputs), dict(step.options)
            for i in step.open_inputs:
                args[i] = _pick(values, args[i])
            for name in step.open_options:
                kwargs[name] = _pick(values, kwargs[name])
            result = step.function(*args, **kwargs)
            values.append(args[0] if result is None else result)  # None: an assignment, in place
        return _pick(values, self._result)


def _detached(step: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            return step(*args, **kwargs)

    return run


class _Held:
    """A parameter or buffer looked up at each step, so that moving the module moves it too."""

    def __init__(self, owner: nn.Module, name: str) -> None:
        self.owner, self.name = [owner], name  # in a list: not a submodule of itself

    def __call__(self) -> Any:
        return getattr(self.owner[0], self.name)


def _pick(values: list[Any], tree: Any) -> Any:
    """What a filled tree stands for, once the calls before have run."""
    if isinstance(tree, ValueRef):  # most are
        return _look_up(values, tree)
    return map_leaves(lambda leaf: _look_up(values, leaf), tree)


def _look_up(values: list[Any], leaf: Any) -> Any:
    if isinstance(leaf, ValueRef):
        value = values[leaf.number]
        for step in leaf.path:
            value = value[step]
        return value
    if isinstance(leaf, InputDevice):
        first = values[0]
        return (first[0] if isinstance(first, tuple) else first).device
    return leaf


def dtype_named(name: str) -> torch.dtype:
    """A type of numbers by its name, and nothing else that torch calls so."""
    dtype: torch.dtype = _named(name, torch.dtype)
    return dtype


def _named(name: str, sort: type) -> Any:
    thing = getattr(torch, name, None)
    if not isinstance(thing, sort):
        raise ModelError(f"torch has no {sort.__name__} {name!r}")
    return thing
