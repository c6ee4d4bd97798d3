"""What a layer does in one training step: floating-point operations, bytes, parameters.

Counted on the meta device, forward and backward, with torch's own counter: on the CPU it misses
LSTMs and fused attention. 2 FLOPs a multiply-add, for the whole batch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ampere.frameworks.torch.building import build_layer, input_of, structure_of
from ampere.frameworks.torch.tracing import synthetic_input
from ampere.layers import Features, Layer


def with_features(layer: Layer) -> Layer:
    """The same layer with its features and parameters filled in."""
    features, params = _count(replace(layer, name="", features=Features(), params=None))
    return replace(layer, features=features, params=params)


@lru_cache(maxsize=4096)
def _count(layer: Layer) -> tuple[Features, int]:
    structure = structure_of(layer)
    with torch.device("meta"):
        module = build_layer(layer).train()
    batch = int(layer.kind.attributes["batch"])
    x = synthetic_input(input_of(layer), batch, "meta")
    written = _BytesWritten()
    with torch.enable_grad(), FlopCounterMode(display=False) as counter:
        if structure.input_grad and x.is_floating_point():
            x = x.requires_grad_(True).clone()  # no leaf: the layer may work in place on it
        with written:
            result = module(x)
        if result.requires_grad:
            result.sum().backward()
    params = sum(p.numel() for p in module.parameters())
    size = sum(p.numel() * p.element_size() for p in module.parameters())
    return Features(float(counter.get_total_flops()), float(written.total), float(size)), params


class _BytesWritten(torch.overrides.TorchFunctionMode):
    """Adds up what the functions and modules of a forward pass write."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.seen: set[int] = set()
        self.alive: list[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            storage = result.untyped_storage()._cdata  # views share it, and write nothing
            if storage not in self.seen and not isinstance(result, nn.Parameter):
                self.seen.add(storage)
                self.alive.append(result)
                self.total += result.numel() * result.element_size()
        return result
