"""What a layer does in one training step: floating-point operations, bytes, parameters.

Counted on the meta device, forward and backward (flops.py): on the CPU torch's counter misses
LSTMs and fused attention. 2 FLOPs a multiply-add, for the whole batch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ampere.core.layers import CHECKPOINTED, Features, Layer, Role, Work, structure_of
from ampere.core.program.sizes import shape_at
from ampere.core.program.widths import Widths
from ampere.core.training import PLAIN, training_of_kind
from ampere.pytorch.graph.flops import flop_counter
from ampere.pytorch.graph.recorder import tensors_in
from ampere.pytorch.graph.recurrence import RECURRENT, Shortened, left_out_flops, shorten
from ampere.pytorch.graph.shortcuts import QuickNorms, quick
from ampere.pytorch.runtime.builder import build_layer, example_inputs, is_shared
from ampere.pytorch.runtime.losses import scored
from ampere.pytorch.work.calls import work_of_call
from ampere.pytorch.work.sums import forward_again, summed, work_of_loss, work_of_update


def with_features(layer: Layer) -> Layer:
    """The same layer with its features and parameters filled in."""
    features, params, work = _count(replace(layer, name="", features=Features(), params=None))
    return replace(layer, features=features, params=params, work=work)


@lru_cache(maxsize=4096)
def _count(layer: Layer) -> tuple[Features, int, tuple[Work, ...]]:
    again = bool(layer.kind.attributes.get(CHECKPOINTED))
    with torch.device("meta"):
        module = build_layer(_kept(layer)).train()
    inputs = example_inputs(layer, "meta")
    written = _Watch()
    with torch.enable_grad(), flop_counter() as counter:
        # No leaves: the layer may work in place on what it is entering.
        entering = [x.clone() if x.requires_grad else x for x in inputs]
        written.counter = counter
        with written:
            result = module(*entering)
        forward_flops = counter.get_total_flops()
        backward(result)
    flops = counter.get_total_flops() + again * forward_flops
    for number, left_out in written.shortened:  # not before: counting them counts
        more = left_out_flops(left_out)
        flops += more
        written.work[number] = _with_flops(written.work[number], more)
    params = sum(p.numel() for p in module.parameters())
    size = sum(p.numel() * p.element_size() for p in module.parameters())
    features = Features(float(flops), float(written.total), float(size))
    return features, params, _work(layer, module, result, written, features)


def _kept(layer: Layer) -> Layer:
    """The layer with all that it makes kept: shortcuts of counting do not run twice alike."""
    attributes = {k: v for k, v in layer.kind.attributes.items() if k != CHECKPOINTED}
    return replace(layer, kind=replace(layer.kind, attributes=attributes))


def _with_flops(work: Work, more: float) -> Work:
    """Calls with some FLOPs more, of all of them together."""
    features = replace(work.features, flops=(work.features.flops or 0.0) + more / work.count)
    return replace(work, features=features)


def _work(
    layer: Layer, module: nn.Module, result: Any, written: _Watch, features: Features
) -> tuple[Work, ...]:
    """All that a layer does in a step: its calls, the updates of its parameters, and its loss."""
    training = training_of_kind(layer.kind.attributes)
    trained = [p for p in module.parameters() if p.requires_grad and not is_shared(p)]
    work = [*written.work, *work_of_update(trained, training.optimizer)]
    if layer.kind.attributes.get(CHECKPOINTED):
        work += map(forward_again, written.work)
    if layer.kind.role is Role.LAST:
        work += work_of_loss(scored(str(training.loss), result))
    held = {} if training.precision == PLAIN else {"precision": training.precision}
    return summed(work, features.flops or 0.0, held)


def backward(result: Any) -> None:
    """Send a gradient back through everything that came out and has one."""
    ends = [tensor for _, tensor in tensors_in(result) if tensor.requires_grad]
    if ends:
        torch.autograd.backward([end.sum() for end in ends])


def runs_resized(layer: Layer) -> bool:
    """Whether a layer runs at other widths, and delivers what it should there."""
    calls = structure_of(layer.kind).calls
    if all(call.is_module for call in calls):  # their sizes follow from rules, not from asking
        return True
    steps = tuple(sorted(structure_of(layer.kind).multiples.items()))  # no part of the kind's name
    return _runs_resized(replace(layer, name=""), steps)


@lru_cache(maxsize=4096)
def _runs_resized(layer: Layer, steps: tuple[tuple[str, int], ...]) -> bool:
    other = {
        name: width - step if width > step else width + step
        for name, width in layer.widths.items()
        for step in (dict(steps)[name],)
    }
    return _runs(replace(layer, widths=Widths(other)))


def _runs(layer: Layer) -> bool:
    structure = structure_of(layer.kind)
    batch = int(layer.kind.attributes["batch"])
    try:
        with torch.device("meta"):
            module = build_layer(layer).train()
        with torch.no_grad(), QuickNorms():
            result = module(*example_inputs(layer, "meta"))
        made = [tuple(tensor.shape) for _, tensor in tensors_in(result)]
        shapes = [shape_at(port.shape, layer.widths) for port in structure.outputs]
    except Exception:  # whatever torch or a size objects to
        return False
    return len(made) == len(shapes) and all(
        got in (want, (batch, *want)) for got, want in zip(made, shapes, strict=True)
    )


class _Watch(torch.overrides.TorchFunctionMode):
    """Adds up what the functions of a forward pass write, and tells what each of them does."""

    counter: FlopCounterMode

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.seen: set[int] = set()
        self.alive: list[torch.Tensor] = []
        self.shortened: list[tuple[int, Shortened]] = []  # each with the number of its work
        self.work: list[Work] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = self.counter.get_total_flops()
        if func in RECURRENT and not kwargs and (short := shorten(func, args)) is not None:
            result, left_out = short
            self.shortened.append((len(self.work), left_out))
        else:
            result = quick(func, args)(*args, **(kwargs or {}))
        flops = self.counter.get_total_flops() - before
        self.work += work_of_call(func, args, kwargs or {}, result, float(flops))
        if isinstance(result, torch.Tensor):
            storage = result.untyped_storage()._cdata  # views share it, and write nothing
            if storage not in self.seen and not isinstance(result, nn.Parameter):
                self.seen.add(storage)
                self.alive.append(result)
                self.total += result.numel() * result.element_size()
        return result
