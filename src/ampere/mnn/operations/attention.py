"""Attention, made of products and softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ampere.mnn.library import F, constant, permuted, plain, reshaped
from ampere.mnn.operations.activation import dropped
from ampere.mnn.operations.base import Call, Operation
from ampere.mnn.operations.linear import linear, product
from ampere.mnn.operations.shape import cut, swapped

NEVER = -1e9  # before softmax: as good as −∞, and finite


def attended(
    call: Call, parts: tuple[Any, Any, Any], mask: Any, chance: float, scale: float
) -> Any:
    """What each position gathers: queries, keys and values as (..., length, width)."""
    queries, keys, values = (plain(part) for part in parts)
    scores = product(queries * scale, keys, turned=True)
    if mask is not None:
        scores = scores + mask
    weights = F.softmax(scores, len(scores.shape) - 1)
    return product(dropped(call, weights, chance), values)


def causal_mask(rows: int, columns: int) -> Any:
    """Nothing sees what comes after it."""
    return constant(np.triu(np.full((rows, columns), NEVER), 1))


def _fused(call: Call) -> Any:
    queries, keys, values = (
        call.given(n, name) for n, name in enumerate(("query", "key", "value"))
    )
    mask = call.given(3, "attn_mask")
    if mask is not None:
        raise call.refusal("it is given a mask")
    if call.options.get("enable_gqa"):
        raise call.refusal("several heads of queries share one of keys")
    if call.given(5, "is_causal", False):
        mask = causal_mask(queries.shape[-2], keys.shape[-2])
    scale = call.options.get("scale")
    scale = 1 / math.sqrt(queries.shape[-1]) if scale is None else float(scale)
    chance = float(call.given(4, "dropout_p", 0.0))
    return attended(call, (queries, keys, values), mask, chance, scale)


def _module(call: Call) -> Any:
    """`nn.MultiheadAttention`; the weights that it may return as well are not made."""
    _check(call)
    heads, width = int(call.argument("num_heads")), int(call.argument("embed_dim"))
    first = bool(call.argument("batch_first", False))
    sequences = [plain(part) if first else swapped(part, 0, 1) for part in call.args[:3]]
    parts = _projected(call, sequences, width)
    split = [_heads(part, heads) for part in parts]
    scale = 1 / math.sqrt(width // heads)
    out = attended(
        call, (split[0], split[1], split[2]), None, float(call.argument("dropout", 0.0)), scale
    )
    batch, length = sequences[0].shape[0], sequences[0].shape[1]
    out = reshaped(permuted(out, (0, 2, 1, 3)), (batch, length, width))
    out = linear(out, call.part("out_proj.weight"), call.part("out_proj.bias"))
    return (out if first else swapped(out, 0, 1)), None


def _check(call: Call) -> None:
    if len(call.args[0].shape) != 3:
        raise call.refusal("it is not given a batch")
    for name in ("add_bias_kv", "add_zero_attn"):
        if call.argument(name):
            raise call.refusal(f"{name} is set")
    masks = (call.given(3, "key_padding_mask"), call.given(5, "attn_mask"))
    if any(mask is not None for mask in masks):
        raise call.refusal("it is given a mask")
    if call.part("in_proj_weight") is None:
        raise call.refusal("keys or values have a width of their own")


def _projected(call: Call, sequences: list[Any], width: int) -> list[Any]:
    """Queries, keys and values; in one product where they are of the same sequence."""
    weight, bias = call.part("in_proj_weight"), call.part("in_proj_bias")
    queries, keys, values = call.args[:3]
    if queries is keys and keys is values:
        return cut(linear(sequences[0], weight, bias), [width] * 3, -1)
    weights = cut(weight, [width] * 3, 0)
    biases = [None] * 3 if bias is None else cut(bias, [width] * 3, 0)
    return [linear(x, w, b) for x, w, b in zip(sequences, weights, biases)]


def _heads(x: Any, heads: int) -> Any:
    batch, length, width = list(x.shape)
    return permuted(reshaped(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


OPERATIONS = (
    Operation(
        ("MultiheadAttention",), _module, "matmul, softmax", "masks, added keys, its weights"
    ),
    Operation(("scaled_dot_product_attention",), _fused, "matmul, softmax", "masks that are given"),
)
