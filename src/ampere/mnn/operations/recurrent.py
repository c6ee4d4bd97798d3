"""Recurrent layers, position by position: MNN's own LSTM has no gradient.

all positions times the weights of the input, at once
each position: + the state times its own weights, gates, the next state
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Callable, Tuple  # for Python 3.8, on old devices

import numpy as np

from ampere.mnn.library import F, constant, plain, reshaped
from ampere.mnn.operations.activation import dropped, relu, sigmoid, tanh
from ampere.mnn.operations.base import Call, Operation
from ampere.mnn.operations.linear import linear
from ampere.mnn.operations.shape import cut, joined, stacked, swapped, unbound

State = Tuple[Any, ...]  # hidden, and the cell of an LSTM
# From what the input and the state contribute to the gates, and the state, to the next state.
Cell = Callable[[Any, Any, State], State]


def _lstm_cell(given: Any, kept: Any, state: State) -> State:
    _, cell = state
    size = int(cell.shape[-1])
    enter, forget, new, leave = cut(given + kept, [size] * 4, 1)
    cell = sigmoid(forget) * cell + sigmoid(enter) * tanh(new)
    return sigmoid(leave) * tanh(cell), cell


def _gru_cell(given: Any, kept: Any, state: State) -> State:
    (hidden,) = state
    size = int(hidden.shape[-1])
    reset, update, new = cut(given, [size] * 3, 1)
    kept_reset, kept_update, kept_new = cut(kept, [size] * 3, 1)
    share = sigmoid(update + kept_update)
    new = tanh(new + sigmoid(reset + kept_reset) * kept_new)
    return (new + share * (hidden - new),)


def _tanh_cell(given: Any, kept: Any, state: State) -> State:
    return (tanh(given + kept),)


def _relu_cell(given: Any, kept: Any, state: State) -> State:
    return (relu(given + kept),)


def _cell_of(call: Call) -> Cell:
    if call.step.op != "RNN":
        return {"LSTM": _lstm_cell, "GRU": _gru_cell}[call.step.op]
    return _relu_cell if call.argument("nonlinearity", "tanh") == "relu" else _tanh_cell


def _recurrent(call: Call) -> Any:
    if call.argument("proj_size", 0):
        raise call.refusal("it projects its state")
    if len(call.x.shape) != 3:
        raise call.refusal("it is not given a batch")
    first = bool(call.argument("batch_first", False))
    x = call.plain_x if first else swapped(call.x, 0, 1)
    layers = int(call.argument("num_layers", 1))
    ends = ("", "_reverse") if call.argument("bidirectional") else ("",)
    states = _first_states(call, int(x.shape[0]), layers * len(ends))
    last: list[State] = []
    for layer in range(layers):
        if layer:
            x = dropped(call, x, float(call.argument("dropout", 0.0)))
        passes = [
            _one_way(call, x, f"_l{layer}{end}", states[len(last) + n])
            for n, end in enumerate(ends)
        ]
        last += [state for _, state in passes]
        x = joined([out for out, _ in passes], 2) if len(ends) > 1 else passes[0][0]
    out = x if first else swapped(x, 0, 1)
    final = tuple(stacked(parts, 0) for parts in zip(*last))
    return out, final if call.step.op == "LSTM" else final[0]


def _first_states(call: Call, batch: int, count: int) -> Sequence[State]:
    """What is given, or zeros, for each layer and direction."""
    parts = 2 if call.step.op == "LSTM" else 1
    given = call.given(1, "hx")
    if given is None:
        nothing = constant(np.zeros((batch, int(call.argument("hidden_size")))))
        return [(nothing,) * parts] * count
    whole = given if parts == 2 else (given,)
    return list(zip(*(unbound(plain(part), 0) for part in whole)))


def _one_way(call: Call, x: Any, end: str, state: State) -> tuple[Any, State]:
    """One layer in one direction: the hidden states of all positions, and the last state."""
    cell = _cell_of(call)
    batch, length, width = list(x.shape)
    flat = reshaped(x, (math.prod((batch, length)), width))
    given = linear(flat, call.part(f"weight_ih{end}"), call.part(f"bias_ih{end}"))
    steps = unbound(reshaped(given, (batch, length, given.shape[-1])), 1)
    weight, bias = call.part(f"weight_hh{end}"), call.part(f"bias_hh{end}")
    backwards = end.endswith("_reverse")
    hidden = []
    for step in reversed(steps) if backwards else steps:
        kept = F.matmul(state[0], weight, False, True)
        state = cell(step, kept if bias is None else kept + bias, state)
        hidden.append(state[0])
    return stacked(hidden[::-1] if backwards else hidden, 1), state


OPERATIONS = (
    Operation(
        ("LSTM", "GRU", "RNN"), _recurrent, "matmul, sigmoid, tanh at each position", "proj_size"
    ),
)
