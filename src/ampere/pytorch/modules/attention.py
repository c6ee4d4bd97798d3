"""Attention of several heads, as torch has it in one module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ampere.core.graph.channels import Dims, free, must_divide, same
from ampere.core.program.terms import Term
from ampere.core.program.trees import Path
from ampere.pytorch.modules.base import (
    ModuleRecord,
    Naming,
    Physics,
    Place,
    Pruning,
    Sizing,
    no_attributes,
    signature_arguments,
)

if TYPE_CHECKING:
    from ampere.pytorch.graph.literals import Template
    from ampere.pytorch.graph.recorder import TracedCall
    from ampere.pytorch.pruning.coupling import Follower, Labels

WIDTH = 3  # the position of the width among the arguments of the function


def _arguments(attention: Any) -> dict[str, Term]:
    arguments = signature_arguments(attention)
    if attention.bias_k is not None:
        arguments["add_bias_kv"] = True
    arguments["bias"] = attention.in_proj_bias is not None
    if attention._qkv_same_embed_dim:  # they follow embed_dim
        del arguments["kdim"], arguments["vdim"]
    return arguments


def _sizes(
    call: TracedCall, inputs: list[Dims], shape: tuple[int, ...], sizes: dict[str, Any]
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


def _literals(call: TracedCall, inputs: list[Dims], behind: list[Dims]) -> Template:
    """F.multi_head_attention_forward says its width as a number."""
    width = inputs[0][-1]
    args = tuple(width if i == WIDTH and free(width) else a for i, a in enumerate(call.args))
    checked = call.kwargs.get("embed_dim_to_check")
    follows = {"embed_dim_to_check": width} if checked is not None and free(width) else {}
    return args, {**call.kwargs, **follows}


def _weights(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    """Outside, queries, keys and values have the same channels; inside, each head its own."""
    attention: Any = call.module
    outside = follower.entering(call, -1)
    if outside is not None:
        for value in call.inputs[1:3]:
            follower.join(outside, follower.along(value, -1))
        dim: Any = follower.argument(call, "embed_dim")
        heads = [follower.start(dim, attention.head_dim) for _ in range(attention.num_heads)]
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


RECORDS = (
    ModuleRecord(
        names=("MultiheadAttention",),
        functions=(),  # of its function the products inside are not told apart
        place=Place.CORE,
        parameters=True,
        whole=True,
        keeps_places=False,
        naming=Naming(arguments=_arguments, attributes=no_attributes),
        sizing=Sizing(
            rule=_sizes,
            entering=None,  # it takes three inputs: no head of a chain begins with it
            makes=None,
            ids_below=None,
            weight_sides=(),
            literals={"multi_head_attention_forward": _literals},
        ),
        shortcut=None,
        pruning=Pruning(rule=_weights, after_cut=None, batch_statistics=False),
        physics=Physics(products=(("embed_dim", "embed_dim"),), per_position=False),
    ),
)
