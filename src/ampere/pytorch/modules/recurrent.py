"""Recurrent layers, and their cells, whose sizes stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ampere.core.graph.channels import Dim, Dims, new, same, scale
from ampere.core.program.terms import Term
from ampere.core.program.trees import Path
from ampere.pytorch.modules.base import (
    ModuleRecord,
    Naming,
    Physics,
    Place,
    Pruning,
    Shortcut,
    Sizing,
    no_attributes,
    read_arguments,
    unresizable,
)

if TYPE_CHECKING:
    import torch

    from ampere.core.arrays import Ints
    from ampere.pytorch.graph.recorder import TracedCall
    from ampere.pytorch.pruning.coupling import Follower, Labels

_ARGUMENTS = (
    *("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout"),
    *("bidirectional", "nonlinearity"),
)
_PRODUCTS = (("input_size", "hidden_size"), ("hidden_size", "hidden_size"))


def _arguments(rnn: Any) -> dict[str, Term]:
    arguments = read_arguments(rnn, _ARGUMENTS)  # its signature says nothing
    return {**arguments, "proj_size": rnn.proj_size} if rnn.proj_size else arguments


def _sizes(
    call: TracedCall, inputs: list[Dims], shape: tuple[int, ...], sizes: dict[str, Any]
) -> dict[Path, Dims] | None:
    rnn: Any = call.module
    if rnn.proj_size > 0 or len(inputs[0]) != 3:
        return None
    x, *states = inputs
    hidden: Dim = new(rnn.hidden_size)
    for state_dims in states:
        hidden = same(hidden, state_dims[-1])
    sizes.update(input_size=x[-1], hidden_size=hidden)
    directions = 2 if rnn.bidirectional else 1
    batch = x[0 if rnn.batch_first else 1]
    state: Dims = (rnn.num_layers * directions, batch, hidden)
    output = (*x[:-1], scale(hidden, Fraction(directions)))
    return {(0,): output, (1,): state, (1, 0): state, (1, 1): state}


def _quick(rnn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Tensors of the right shapes; a gradient reaches the input and the weights by flag only."""
    import torch

    x, *states = args
    if x.dim() != 3 or kwargs:
        return None
    if x.shape[-1] != rnn.input_size:
        raise RuntimeError(f"an input of {x.shape[-1]} features, not {rnn.input_size}")
    entering = [x, *rnn.parameters()]
    for state in states:
        entering.extend(state if isinstance(state, tuple) else [] if state is None else [state])
    grad = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in entering)
    directions = 2 if rnn.bidirectional else 1
    batch = x.shape[0 if rnn.batch_first else 1]
    width = rnn.proj_size or rnn.hidden_size

    def made(*shape: int) -> torch.Tensor:
        tensor = torch.empty(shape, device="meta", dtype=x.dtype).requires_grad_(grad)
        return tensor.clone()  # no leaf: it may be worked on in place

    output = made(*x.shape[:2], width * directions)
    hidden = made(rnn.num_layers * directions, batch, width)
    if rnn.mode == "LSTM":
        return output, (hidden, made(rnn.num_layers * directions, batch, rnn.hidden_size))
    return output, hidden


def _weights(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    rnn: Any = call.module
    dim: Any = follower.argument(call, "hidden_size")
    varies = follower.varies(dim)
    entering = follower.entering(call, -1)
    directions = ("", "_reverse") if rnn.bidirectional else ("",)
    gates = {"LSTM": 4, "GRU": 3}.get(rnn.mode, 1)
    hidden_of_all: list[Ints] = []
    for layer in range(rnn.num_layers):
        made = [follower.start(dim, rnn.hidden_size) for _ in directions] if varies else []
        hidden_of_all += made
        for k, direction in enumerate(directions):
            end = f"_l{layer}{direction}"
            hidden = made[k] if varies else None
            of_gates = None if hidden is None else np.tile(hidden, gates)
            for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                follower.weight(call, part + end, 0, of_gates)
            follower.weight(call, f"weight_ih{end}", 1, entering)
            follower.weight(call, f"weight_hh{end}", 1, hidden)
        entering = np.concatenate(made) if varies else None
    states = [path for path in call.outputs if path != (0,)]
    if varies:
        _join_states(follower, call, hidden_of_all, states)
    state: Labels = {2: hidden_of_all[0]} if varies else {}
    return {
        (0,): follower.passed_on(call, -1, entering),
        **{path: dict(state) for path in states},
    }


def _join_states(
    follower: Follower, call: TracedCall, hidden: list[Ints], states: list[Path]
) -> None:
    """A state that is given or read holds all layers and directions in one tensor."""
    entering = [labels for labels in map(follower.labels_of, call.inputs[1:]) if labels]
    if entering or any(follower.is_read(call, path) for path in states):
        for other in hidden[1:]:
            follower.join(hidden[0], other)
        for labels in entering:
            follower.join(hidden[0], next(iter(labels.values())))


def _gather_weights(rnn: Any) -> None:
    """It keeps a list of its weights beside them."""
    rnn._flat_weights = [getattr(rnn, name) for name in rnn._flat_weights_names]


RECORDS = (
    ModuleRecord(
        names=("RNN", "LSTM", "GRU"),
        functions=(),
        place=Place.CORE,
        parameters=True,
        whole=True,
        keeps_places=False,
        naming=Naming(arguments=_arguments, attributes=no_attributes),
        sizing=Sizing(
            rule=_sizes,
            entering=("input_size", -1),
            makes=None,
            ids_below=None,
            weight_sides=(),
            literals={},
        ),
        shortcut=Shortcut(
            forward=_quick,
            functions={},
            per_position=("lstm", "gru", "rnn_tanh", "rnn_relu"),
        ),
        pruning=Pruning(rule=_weights, after_cut=_gather_weights, batch_statistics=False),
        physics=Physics(products=_PRODUCTS, per_position=True),
    ),
    unresizable(
        names=("RNNCell", "LSTMCell", "GRUCell"),
        physics=Physics(products=_PRODUCTS, per_position=False),
    ),
)
