"""From a model to its layers: trace it, group its calls, write each group down as a layer.

A layer that cannot be rebuilt at other widths is a kind without widths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from ampere.core.graph.borders import (
    Borders,
    borders_of,
    reads_of,
    role_of,
    without_plain_reads,
)
from ampere.core.graph.calls import tainted_calls
from ampere.core.graph.channels import Channels, Sizes
from ampere.core.graph.groups import group_calls, layer_names
from ampere.core.inputs import Inputs
from ampere.core.layers import Layer, Role
from ampere.core.program.sizes import Size
from ampere.core.training import PLAIN, Training
from ampere.errors import ModelError
from ampere.pytorch.graph import cores
from ampere.pytorch.graph.counter import runs_resized, with_features
from ampere.pytorch.graph.recorder import Segment, TracedCall
from ampere.pytorch.graph.sizes import follow
from ampere.pytorch.graph.trace import Trace, trace
from ampere.pytorch.graph.writer import Writer
from ampere.pytorch.modules.registry import keeps_sizes, missing_sizing
from ampere.pytorch.runtime.trainer import dtype_of
from ampere.pytorch.runtime.wrappers import unwrapped


@dataclass(frozen=True)
class Part:
    """What a layer was read from: its calls, and how it names the channels that vary in it."""

    calls: tuple[TracedCall, ...]
    names: Mapping[Channels, Size]


@dataclass(frozen=True)
class ModelReading:
    """The layers of a model, its parameters that belong to none, and what it was read from."""

    layers: tuple[Layer, ...]
    unused: Mapping[str, int]  # by name and size
    unknown: tuple[str, ...]  # a sentence for each module that holds parameters without a record
    parts: tuple[Part, ...]  # one a layer
    trace: Trace
    sizes: Sizes


def read_layers(
    model: nn.Module, inputs: Inputs, training: Training = Training()
) -> tuple[Layer, ...]:
    """The layers of a model: FIRST, HIDDEN..., LAST, with kinds, widths and features."""
    return read_model(model, inputs, training).layers


def read_model(model: nn.Module, inputs: Inputs, training: Training) -> ModelReading:
    """The layers of a model, and what belongs to none of them."""
    model = unwrapped(model)
    training = replace(training, dtype=training.dtype or dtype_of(model))
    traced = trace(model, inputs, training.batch_size, getattr(torch, training.dtype or PLAIN))
    tainted = tainted_calls(traced)
    groups = group_calls(traced, tainted, cores)
    if not groups:
        raise ModelError(f"{type(model).__name__} has no layer with parameters to estimate")
    calls = sorted((call for group in groups for call in group), key=lambda call: call.index)
    needed = replace(traced, calls=tuple({call.index: call for call in calls}.values()))
    sizes = follow(needed)
    writer = Writer(needed, sizes, inputs, training)
    borders = borders_of(groups, traced)
    writer.settle(groups, borders)
    names = layer_names(groups, tainted, cores)
    layers = []
    for i, (name, group) in enumerate(zip(names, groups, strict=True)):
        layer = _layer(writer, name, group, borders[i], role_of(i, borders, tainted))
        reads = reads_of(borders[i], borders[:i])
        layers.append(replace(layer, params=writer.hold(group), reads=reads))
    named = {traced.parameter(name): p for name, p in model.named_parameters()}
    unused = {name: p.numel() for name, p in named.items() if name not in writer.held}
    parts = tuple(
        Part(tuple(group), writer.names(group, border) if layer.widths else {})
        for layer, group, border in zip(layers, groups, borders, strict=True)
    )
    return ModelReading(
        layers=without_plain_reads(layers),
        unused=unused,
        unknown=_unknown(needed),
        parts=parts,
        trace=needed,
        sizes=sizes,
    )


def _unknown(traced: Trace) -> tuple[str, ...]:
    modules = [call.module for call in traced.calls if call.module is not None]
    sentences = [
        missing_sizing(module)
        for module in modules
        if keeps_sizes(module) and any(True for _ in module.parameters())
    ]
    return tuple(dict.fromkeys(sentences))


def _layer(writer: Writer, name: str, group: Segment, borders: Borders, role: Role) -> Layer:
    try:
        layer = writer.layer(name, group, borders, role)
        if layer.widths and not runs_resized(layer):
            layer = writer.layer(name, group, borders, role, resizable=False)
        return with_features(layer)
    except ModelError:
        raise
    except Exception as error:  # torch raises what it likes
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{name} cannot be rebuilt as it stands: {reason}") from error
