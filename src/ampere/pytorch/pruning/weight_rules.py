"""How the weights of torch's modules serve channels: which index of which weight is which element.

A rule notes the dimensions of a module's weights that follow channels, and says which channels come
out of it. Sizes are the business of `rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from ampere.core.arrays import Ints
from ampere.core.trees import Path
from ampere.pytorch.graph.recorder import TracedCall, Value

if TYPE_CHECKING:
    from ampere.pytorch.pruning.coupling import Follower

Labels = dict[int, Ints]  # of a tensor: for each dimension that varies, the element of each index


class Uncoupled(Exception):
    """Nobody can say which channels come out of a call."""


def _conv(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    conv: Any = call.module
    entering = follower.entering(call, 1)
    into, out = (0, 1) if conv.transposed else (1, 0)
    if conv.groups > 1 and conv.groups == conv.in_channels and entering is not None:  # depthwise
        made: Ints | None = np.repeat(entering, conv.out_channels // conv.in_channels)
        follower.weight(call, "weight", 0, entering if conv.transposed else made)
    else:
        made = follower.made(call, "out_channels", conv.out_channels)
        follower.together(entering, conv.groups)
        follower.together(made, conv.groups)
        first = slice(0, conv.in_channels // (1 if conv.transposed else conv.groups))
        follower.weight(call, "weight", into, None if entering is None else entering[first])
        first = slice(0, conv.out_channels // (conv.groups if conv.transposed else 1))
        follower.weight(call, "weight", out, None if made is None else made[first])
    follower.weight(call, "bias", 0, made)
    return {(): follower.passed_on(call, 1, made)}


def _linear(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    linear: Any = call.module
    made = follower.made(call, "out_features", linear.out_features)
    follower.weight(call, "weight", 0, made)
    follower.weight(call, "weight", 1, follower.entering(call, -1))
    follower.weight(call, "bias", 0, made)
    return {(): follower.passed_on(call, -1, made)}


def _embedding(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    table: Any = call.module
    made = follower.made(call, "embedding_dim", table.embedding_dim)
    follower.weight(call, "weight", 1, made)
    rank = len(follower.sizes.dims[Value(call.index)])
    return {(): {} if made is None else {rank - 1: made}}


def _recurrent(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    rnn: Any = call.module
    sizes = follower.sizes.arguments.get(call.index, {})
    entering = follower.entering(call, -1)
    directions = ("", "_reverse") if rnn.bidirectional else ("",)
    varies = follower.varies(sizes.get("hidden_size"))
    dim: Any = sizes.get("hidden_size")
    start = follower.coupling.start
    everything: list[Ints] = []
    for layer in range(rnn.num_layers):
        made = [start(dim, rnn.hidden_size) for _ in directions] if varies else []
        everything += made
        for k, direction in enumerate(directions):
            end = f"_l{layer}{direction}"
            hidden = made[k] if varies else None
            gates = None if hidden is None else np.tile(hidden, _gates(rnn))
            for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                follower.weight(call, part + end, 0, gates)
            follower.weight(call, f"weight_ih{end}", 1, entering)
            follower.weight(call, f"weight_hh{end}", 1, hidden)
        entering = np.concatenate(made) if varies else None
    states = [path for path in call.outputs if path != (0,)]
    given = [value for value in call.inputs[1:] if follower.labels[value]]
    if varies and (given or any(follower.is_read(call, path) for path in states)):
        for other in everything[1:]:  # a state holds all layers and directions in one tensor
            follower.coupling.join(everything[0], other)
        for value in given:
            follower.coupling.join(everything[0], next(iter(follower.labels[value].values())))
    state: Labels = {2: everything[0]} if varies else {}
    return {
        (0,): follower.passed_on(call, -1, entering),
        **{path: dict(state) for path in states},
    }


def _gates(rnn: nn.RNNBase) -> int:
    return {"LSTM": 4, "GRU": 3}.get(rnn.mode, 1)


def _attention(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    """Outside, queries, keys and values have the same channels; inside, each head its own."""
    attention: Any = call.module
    outside = follower.entering(call, -1)
    if outside is not None:
        for value in call.inputs[1:3]:
            follower.coupling.join(outside, follower.along(value, -1))
        dim: Any = follower.sizes.arguments[call.index]["embed_dim"]
        heads = [
            follower.coupling.start(dim, attention.head_dim) for _ in range(attention.num_heads)
        ]
        inside = np.concatenate(heads)
        for part in ("in_proj_weight", "in_proj_bias"):
            follower.weight(call, part, 0, np.tile(inside, 3))
        follower.weight(call, "in_proj_weight", 1, outside)
        follower.weight(call, "out_proj.weight", 0, outside)
        follower.weight(call, "out_proj.weight", 1, inside)
        follower.weight(call, "out_proj.bias", 0, outside)
        follower.weight(call, "bias_k", 2, inside)
        follower.weight(call, "bias_v", 2, inside)
    return {path: follower.passed_on(call, -1, outside) if path == (0,) else {}
            for path in (call.outputs.keys() | {()})}  # fmt: skip


def _channel_norm(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    elements = follower.entering(call, 1)
    if isinstance(call.module, nn.GroupNorm):
        follower.together(elements, call.module.num_groups)
    for part in ("weight", "bias", "running_mean", "running_var"):
        follower.weight(call, part, 0, elements)
    return {(): follower.passed_on(call, 1, elements)}


def _layer_norm(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    norm: Any = call.module
    rank = len(norm.normalized_shape)
    for k in range(rank):
        elements = follower.entering(call, k - rank)
        for part in ("weight", "bias"):
            follower.weight(call, part, k, elements)
    return {(): dict(follower.labels[call.inputs[0]])}


def _prelu(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    prelu: Any = call.module
    if prelu.num_parameters > 1:
        follower.weight(call, "weight", 0, follower.entering(call, 1))
    return {(): dict(follower.labels[call.inputs[0]])}


Rule = Callable[["Follower", TracedCall], "dict[Path, Labels]"]
RULES: tuple[tuple[tuple[type, ...], Rule], ...] = (
    ((nn.modules.conv._ConvNd,), _conv),
    ((nn.Linear,), _linear),
    ((nn.Embedding,), _embedding),
    ((nn.RNNBase,), _recurrent),
    ((nn.MultiheadAttention,), _attention),
    ((nn.modules.batchnorm._NormBase, nn.GroupNorm), _channel_norm),
    ((nn.LayerNorm, nn.RMSNorm), _layer_norm),
    ((nn.PReLU,), _prelu),
)


def serve(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    """The labels that come out of a module with weights; its weights are noted."""
    rule = next((rule for kinds, rule in RULES if isinstance(call.module, kinds)), None)
    if rule is None or not call.inputs:
        raise Uncoupled
    return rule(follower, call)
