"""Shapes, names and order of what modules hold: those that torch has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ampere.core.program.structure import Call
from ampere.programs.parameters import RULES, held_by
from ampere.programs.values import first_value

WIDTHS = (
    *("in_features", "out_features", "in_channels", "out_channels", "in1_features"),
    *("input_size", "hidden_size", "embed_dim", "embedding_dim"),
)
CASES: list[tuple[str, dict[str, Any]]] = [
    ("Linear", {"in_features": 5, "out_features": 3}),
    ("Linear", {"in_features": 5, "out_features": 3, "bias": False}),
    ("Bilinear", {"in1_features": 5, "in2_features": 4, "out_features": 3}),
    ("Conv1d", {"in_channels": 4, "out_channels": 6, "kernel_size": 3}),
    ("Conv2d", {"in_channels": 4, "out_channels": 6, "kernel_size": (3, 5), "groups": 2}),
    ("Conv3d", {"in_channels": 4, "out_channels": 6, "kernel_size": 2, "bias": False}),
    ("ConvTranspose1d", {"in_channels": 4, "out_channels": 6, "kernel_size": 2}),
    ("ConvTranspose2d", {"in_channels": 4, "out_channels": 6, "kernel_size": 2, "groups": 2}),
    ("ConvTranspose3d", {"in_channels": 4, "out_channels": 6, "kernel_size": 2}),
    ("BatchNorm1d", {"num_features": 5}),
    ("BatchNorm2d", {"num_features": 5, "affine": False}),
    ("BatchNorm3d", {"num_features": 5, "track_running_stats": False}),
    ("InstanceNorm1d", {"num_features": 5}),
    ("InstanceNorm2d", {"num_features": 5, "affine": True, "track_running_stats": True}),
    ("InstanceNorm3d", {"num_features": 5, "affine": True}),
    ("LayerNorm", {"normalized_shape": (4, 5)}),
    ("LayerNorm", {"normalized_shape": (5,), "bias": False}),
    ("RMSNorm", {"normalized_shape": (5,)}),
    ("GroupNorm", {"num_groups": 2, "num_channels": 6}),
    ("Embedding", {"num_embeddings": 7, "embedding_dim": 3, "padding_idx": 2}),
    ("EmbeddingBag", {"num_embeddings": 7, "embedding_dim": 3}),
    ("LSTM", {"input_size": 3, "hidden_size": 4, "num_layers": 2, "bidirectional": True}),
    ("LSTM", {"input_size": 3, "hidden_size": 4, "proj_size": 2, "num_layers": 2}),
    ("GRU", {"input_size": 3, "hidden_size": 4, "bias": False}),
    ("RNN", {"input_size": 3, "hidden_size": 4}),
    ("LSTMCell", {"input_size": 3, "hidden_size": 4}),
    ("GRUCell", {"input_size": 3, "hidden_size": 4}),
    ("RNNCell", {"input_size": 3, "hidden_size": 4, "bias": False}),
    ("MultiheadAttention", {"embed_dim": 4, "num_heads": 2}),
    ("MultiheadAttention", {"embed_dim": 4, "num_heads": 2, "kdim": 3, "vdim": 5}),
    ("MultiheadAttention", {"embed_dim": 4, "num_heads": 2, "bias": False, "add_bias_kv": True}),
    ("PReLU", {"num_parameters": 3}),
]


def test_there_is_a_case_for_every_rule() -> None:
    assert {op for op, _ in CASES} == set(RULES)


@pytest.mark.parametrize(
    ("op", "arguments"), CASES, ids=lambda part: part if isinstance(part, str) else ""
)
def test_a_module_holds_what_torch_makes_for_it(op: str, arguments: dict[str, Any]) -> None:
    held = held_by(Call(op, arguments), arguments, (2, 1), "float32")
    module = getattr(nn, op)(**arguments)
    parameters = {name: tuple(p.shape) for name, p in module.named_parameters()}
    buffers = {name: tuple(b.shape) for name, b in module.named_buffers() if b.dim()}
    assert {each.key[2]: each.shape for each in held if not each.buffer} == parameters
    assert {each.key[2]: each.shape for each in held if each.buffer} == buffers
    assert {each.key[:2] for each in held} <= {(2, 1)}


@pytest.mark.parametrize(
    ("op", "arguments"), CASES, ids=lambda part: part if isinstance(part, str) else ""
)
def test_values_begin_as_large_as_those_of_torch(op: str, arguments: dict[str, Any]) -> None:
    wide = {name: value * 16 if name in WIDTHS else value for name, value in arguments.items()}
    torch.manual_seed(0)
    module = getattr(nn, op)(**wide)
    rng = np.random.default_rng(0)
    for each in held_by(Call(op, wide), wide, (0, 1), "float32"):
        theirs = {**dict(module.named_parameters()), **dict(module.named_buffers())}[each.key[2]]
        ours = first_value(each, rng)
        if ours.size >= 48:
            assert ours.std() == pytest.approx(theirs.detach().std(correction=0).item(), rel=0.35)


def test_frozen_and_shared_parts_are_told() -> None:
    arguments = {"in_features": 5, "out_features": 3}
    call = Call("Linear", arguments, frozen_parts=("bias",), shared_parts=("weight",))
    weight, bias = held_by(call, arguments, (0, 1), "float32")
    assert (weight.trains, weight.shared) == (True, True)
    assert (bias.trains, bias.shared) == (False, False)
    assert not any(
        each.trains
        for each in held_by(Call("Linear", arguments, frozen=True), arguments, (0, 1), "float32")
    )


def test_a_parameter_that_stands_by_itself_is_small_and_a_buffer_is_ones() -> None:
    arguments: dict[str, Any] = {"shape": (3, 2)}
    (parameter,) = held_by(Call("parameter", arguments), arguments, (0, 1), "float32")
    (buffer,) = held_by(Call("buffer", arguments), arguments, (0, 2), "float32")
    rng = np.random.default_rng(0)
    assert parameter.trains and 0 < abs(first_value(parameter, rng)).max() < 0.2
    assert not buffer.trains and (first_value(buffer, rng) == 1).all()
