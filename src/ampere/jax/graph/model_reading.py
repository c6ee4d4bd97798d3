"""From a model of flax.nnx to its layers: trace it, group its calls, write each group down.

A layer that cannot be rebuilt at other widths is a kind without widths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ampere.core.graph.borders import (
    Borders,
    borders_of,
    reads_of,
    role_of,
    without_plain_reads,
)
from ampere.core.graph.calls import tainted_calls
from ampere.core.graph.groups import group_calls, layer_names
from ampere.core.inputs import Inputs
from ampere.core.layers import Layer, Role
from ampere.core.training import PLAIN, Training
from ampere.errors import ModelError
from ampere.jax.graph import cores
from ampere.jax.graph.counter import runs_resized, with_features
from ampere.jax.graph.sizes import follow
from ampere.jax.graph.trace import TracedCall, trace
from ampere.jax.graph.writer import Writer
from ampere.jax.runtime.modules import in_dtype


@dataclass(frozen=True)
class ModelReading:
    """The layers of a model, its parameters that belong to none, and modules that keep sizes."""

    layers: tuple[Layer, ...]
    unused: Mapping[str, int]  # by name and size
    unknown: tuple[str, ...]


def read_model(model: Any, inputs: Inputs, training: Training) -> ModelReading:
    """The layers of a model, and what belongs to none of them."""
    if training.dtype:
        model = in_dtype(model, training.dtype)
    traced = trace(model, inputs, training.batch_size, training.dtype or PLAIN)
    tainted = tainted_calls(traced)
    groups = group_calls(traced, tainted, cores)
    if not groups:
        raise ModelError(f"{type(model).__name__} has no layer with parameters to estimate")
    calls = sorted((call for group in groups for call in group), key=lambda call: call.index)
    needed = replace(traced, calls=tuple({call.index: call for call in calls}.values()))
    writer = Writer(needed, follow(needed), inputs, training)
    borders = borders_of(groups, traced)
    writer.settle(groups, borders)
    layers = []
    for i, name in enumerate(layer_names(groups, tainted, cores)):
        layer = _layer(writer, name, groups[i], borders[i], role_of(i, borders, tainted))
        reads = reads_of(borders[i], borders[:i])
        layers.append(replace(layer, params=writer.hold(groups[i]), reads=reads))
    unused = {
        name: size for name, size in traced.parameters.items() if _key(name) not in _keys(writer)
    }
    return ModelReading(without_plain_reads(layers), unused, ())


def _key(name: str) -> str:
    """The name of a variable, however its steps are joined."""
    return name.replace("/", ".")


def _keys(writer: Writer) -> set[str]:
    return {_key(name) for name in writer.held}


def _layer(
    writer: Writer, name: str, group: Sequence[TracedCall], borders: Borders, role: Role
) -> Layer:
    try:
        layer = writer.layer(name, group, borders, role)
        if layer.widths and not runs_resized(layer):
            layer = writer.layer(name, group, borders, role, resizable=False)
        return with_features(layer)
    except ModelError:
        raise
    except Exception as error:  # JAX raises what it likes
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{name} cannot be rebuilt as it stands: {reason}") from error
