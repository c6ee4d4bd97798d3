"""How channels pass through the modules of torch that hold parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from torch import nn

from ampere.core.trees import Path
from ampere.pytorch.graph.channels import (
    Dim,
    Dims,
    Scaled,
    free,
    must_divide,
    new,
    pin,
    same,
    scale,
)
from ampere.pytorch.graph.recorder import TracedCall

# A rule gets the call, the dimensions of its tensor inputs, the shape of its first output and a
# dict for the module's size arguments; it returns the dimensions of the output (by path, where
# there are several), or None to give up.
Rule = Callable[
    [TracedCall, list[Dims], tuple[int, ...], dict[str, Any]], "Dims | dict[Path, Dims] | None"
]


def _conv(call: TracedCall, inputs: list[Dims], shape: tuple[int, ...], sizes: Any) -> Dims | None:
    conv: Any = call.module
    x = inputs[0]
    if not len(shape) == len(x) > 2:
        return None
    across = any(free(dim) for dim in x[2:])  # it runs over channels, as in a gate
    out: Dim = conv.out_channels if across else new(conv.out_channels)
    channels = out
    if conv.groups > 1 and conv.groups == conv.in_channels and isinstance(x[1], Scaled):
        channels = scale(x[1], Fraction(conv.out_channels, conv.in_channels))  # depthwise
        sizes["groups"] = x[1]
    elif conv.groups > 1:
        must_divide(x[1], conv.groups)
        must_divide(out, conv.groups)
    sizes.update(in_channels=x[1], out_channels=channels)
    along = [  # a convolution over channels keeps their number
        dim if isinstance(dim, Scaled) and dim.size == size else size
        for dim, size in zip(x[2:], shape[2:], strict=True)
    ]
    pin([dim for dim, kept in zip(x[2:], along, strict=True) if isinstance(kept, int)])
    return (x[0], channels, *along)


def _linear(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims:
    (x,) = inputs
    # Along positions, as in an MLP-Mixer, sizes do not belong to the channels.
    along_positions = isinstance(x[-1], int) and any(free(dim) for dim in x[:-1])
    out = shape[-1] if along_positions else new(shape[-1])
    sizes.update(in_features=x[-1], out_features=out)
    return (*x[:-1], out)


def _embedding(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims:
    (x,) = inputs
    out = new(shape[-1])
    sizes.update(embedding_dim=out)
    return (*x, out)


def _recurrent(
    call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any
) -> dict[Path, Dims] | None:
    rnn: Any = call.module
    if rnn.proj_size > 0 or len(inputs[0]) != 3:
        return None
    x, *states = inputs
    hidden: Dim = new(rnn.hidden_size)
    for given in states:
        hidden = same(hidden, given[-1])
    sizes.update(input_size=x[-1], hidden_size=hidden)
    directions = 2 if rnn.bidirectional else 1
    batch = x[0 if rnn.batch_first else 1]
    state: Dims = (rnn.num_layers * directions, batch, hidden)
    output = (*x[:-1], scale(hidden, Fraction(directions)))
    return {(0,): output, (1,): state, (1, 0): state, (1, 1): state}


def _attention(
    call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any
) -> dict[Path, Dims] | None:
    attention: Any = call.module
    if not attention._qkv_same_embed_dim:
        return None
    query, key, value = inputs[:3]  # masks behind them have sizes of positions
    width = same(same(query[-1], key[-1]), value[-1])
    must_divide(width, attention.num_heads)
    sizes.update(embed_dim=width)
    weights = call.outputs.get((1,))  # None unless they are asked for
    return {(0,): query} if weights is None else {(0,): query, (1,): tuple(weights.shape)}


def _channel_norm(name: str) -> Rule:
    def rule(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims:
        x = inputs[0]
        sizes[name] = x[1]
        if isinstance(call.module, nn.GroupNorm):
            must_divide(x[1], call.module.num_groups)
        return x

    return rule


def _layer_norm(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims | None:
    norm: Any = call.module
    sizes["normalized_shape"] = inputs[0][-len(norm.normalized_shape) :]
    return inputs[0]


def _prelu(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims | None:
    prelu: Any = call.module
    if prelu.num_parameters > 1:
        sizes["num_parameters"] = inputs[0][1]
    return inputs[0]


RULES: tuple[tuple[tuple[type, ...], Rule], ...] = (
    ((nn.modules.conv._ConvNd,), _conv),
    ((nn.Linear,), _linear),
    ((nn.Embedding,), _embedding),
    ((nn.RNNBase,), _recurrent),
    ((nn.MultiheadAttention,), _attention),
    ((nn.modules.batchnorm._NormBase,), _channel_norm("num_features")),
    ((nn.GroupNorm,), _channel_norm("num_channels")),
    ((nn.LayerNorm, nn.RMSNorm), _layer_norm),
    ((nn.PReLU,), _prelu),
)


def weight_dims(call: TracedCall, sizes: Mapping[str, Any]) -> Dims | None:
    """The dimensions of a table or a matrix, which two modules may share."""
    module = call.module
    if isinstance(module, nn.Embedding):
        return (module.num_embeddings, sizes.get("embedding_dim", module.embedding_dim))
    if isinstance(module, nn.Linear):
        out = sizes.get("out_features", module.out_features)
        return (out, sizes.get("in_features", module.in_features))
    return None


def has_rule(module: nn.Module) -> bool:
    """Whether a module holds parameters, or sizes that a rule knows."""
    return any(True for _ in module.parameters()) or any(
        isinstance(module, kinds) for kinds, _ in RULES
    )


def apply_rule(call: TracedCall, inputs: list[Dims], sizes: dict[str, Any]) -> dict[Path, Dims]:
    """The dimensions that come out of a module with parameters; pinned if no rule knows it."""
    shapes = {path: tuple(t.shape) for path, t in call.outputs.items()}
    first = min(shapes)
    rule = next((rule for kinds, rule in RULES if isinstance(call.module, kinds)), None)
    found = rule(call, inputs, shapes[first], sizes) if rule and inputs else None
    by_path = found if isinstance(found, dict) else {first: found} if found else {}
    if all(_at_size(by_path.get(path)) == shape for path, shape in shapes.items()):
        return by_path
    for dims in inputs:
        pin(dims)
    for dim in sizes.values():
        pin((dim,) if isinstance(dim, int | Scaled) else dim)
    return dict(shapes)


def _at_size(dims: Dims | None) -> tuple[int, ...] | None:
    """The shape that dimensions stand for in the traced model."""
    if dims is None:
        return None
    return tuple(dim if isinstance(dim, int) else dim.size for dim in dims)
