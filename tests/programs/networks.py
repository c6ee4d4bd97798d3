"""Layers for tests of programs, and what torch makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ampere.core.inputs import parse_inputs
from ampere.core.layers import Layer, structure_of
from ampere.core.training import Training
from ampere.pytorch.graph.model_reading import read_layers
from ampere.pytorch.runtime.builder import build, modules_in
from ampere.zoo.families import find_family

SHALLOW: dict[str, dict[str, Any]] = {"resnet": {"depth": 8}, "transformer": {"layers": 1}}


def still(model: nn.Module) -> nn.Module:
    """The same model, with nothing dropped out."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    return model


def layers_of(model: nn.Module, inputs: str, training: Training | None = None) -> list[Layer]:
    """A model as layers."""
    return list(read_layers(still(model), parse_inputs(inputs), training or Training(4)))


def family_layers(name: str, training: Training | None = None, **arguments: Any) -> list[Layer]:
    """A shallow member of a family as layers."""
    family = find_family(name)
    model = family.build(**{**SHALLOW.get(name, {}), **arguments})
    return layers_of(model, str(family.input), training)


def built(layers: Sequence[Layer]) -> tuple[nn.Module, dict[tuple[int, int, str], torch.Tensor]]:
    """What torch trains, and its parameters and buffers by the keys of programs."""
    network = build(layers)
    pieces = [network] if len(layers) == 1 else list(network.children())
    if hasattr(network, "pieces"):
        pieces = list(network.pieces)
    found: dict[tuple[int, int, str], torch.Tensor] = {}
    for i, (layer, piece) in enumerate(zip(layers, pieces, strict=True)):
        structure = structure_of(layer.kind)
        modules = modules_in(piece, structure)
        for k, call in enumerate(structure.calls, start=1):
            if call.op in ("parameter", "buffer"):
                found[i, k, call.op] = getattr(piece, f"{call.op}_{k}")
            elif k in modules and not call.again:
                found.update(_held(modules[k], i, k))
    return network, found


def _held(module: nn.Module, i: int, k: int) -> Mapping[tuple[int, int, str], torch.Tensor]:
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {(i, k, name): tensor for name, tensor in tensors.items() if tensor.dim()}
