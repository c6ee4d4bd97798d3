"""Recurrent layers, position by position, and attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Tuple  # two of them for Python 3.8, on old devices

import jax
from ampere.jax.runtime.sites import Operation, Site
from ampere.jax.runtime.translation.dense import drop, linear
from jax import lax
from jax import numpy as jnp

# From what the input adds to the gates, the states and the weights of the state, to new states.
Cell = Callable[[Any, Tuple[Any, ...], Any, Any], Tuple[Any, ...]]


def _lstm_cell(entering: Any, states: tuple[Any, ...], weight: Any, bias: Any) -> tuple[Any, ...]:
    hidden, memory = states
    gates = entering + linear(hidden, weight, bias)
    i, f, g, o = jnp.split(gates, 4, axis=-1)
    memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(memory), memory


def _gru_cell(entering: Any, states: tuple[Any, ...], weight: Any, bias: Any) -> tuple[Any, ...]:
    (hidden,) = states
    r, z, n = jnp.split(entering, 3, axis=-1)
    hr, hz, hn = jnp.split(linear(hidden, weight, bias), 3, axis=-1)
    reset, update = jax.nn.sigmoid(r + hr), jax.nn.sigmoid(z + hz)
    return ((1 - update) * jnp.tanh(n + reset * hn) + update * hidden,)


def _plain_cell(curve: Callable[[Any], Any]) -> Cell:
    def cell(entering: Any, states: tuple[Any, ...], weight: Any, bias: Any) -> tuple[Any, ...]:
        return (curve(entering + linear(states[0], weight, bias)),)

    return cell


def _cell_of(site: Site, name: str) -> Cell:
    if name == "lstm":
        return _lstm_cell
    if name == "gru":
        return _gru_cell
    return _plain_cell(jax.nn.relu if site.arguments.get("nonlinearity") == "relu" else jnp.tanh)


def _recurrent(name: str, states: int) -> Operation:
    def run(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        given = site.arguments
        if given.get("proj_size"):
            raise site.refuse("proj_size is not translated")
        if given.get("dropout") and given.get("num_layers", 1) > 1:
            raise site.refuse("dropout between its layers is not translated")
        x = args[0]
        x = jnp.swapaxes(x, 0, 1) if given.get("batch_first") else x
        hidden = args[1] if len(args) > 1 else options.get("hx")
        ends: list[tuple[Any, ...]] = []
        directions = ("", "_reverse") if given.get("bidirectional") else ("",)
        for layer in range(given.get("num_layers", 1)):
            made = []
            for direction in directions:
                first = _first_states(x, given["hidden_size"], states, hidden, len(ends))
                end = f"_l{layer}{direction}"
                y, last = _along(site, x, first, _cell_of(site, name), end, bool(direction))
                made.append(y)
                ends.append(last)
            x = jnp.concatenate(made, axis=-1) if len(made) > 1 else made[0]
        x = jnp.swapaxes(x, 0, 1) if given.get("batch_first") else x
        stacked = tuple(jnp.stack(parts) for parts in zip(*ends))
        return x, stacked if name == "lstm" else stacked[0]

    return run


def _first_states(x: Any, width: int, states: int, hidden: Any, number: int) -> tuple[Any, ...]:
    if hidden is None:
        return (jnp.zeros((x.shape[1], width), x.dtype),) * states
    given = hidden if isinstance(hidden, tuple) else (hidden,)
    return tuple(part[number] for part in given)


def _along(
    site: Site, x: Any, states: tuple[Any, ...], cell: Cell, end: str, backwards: bool
) -> tuple[Any, tuple[Any, ...]]:
    """One direction of one layer: all inputs multiplied at once, then states in turn."""
    weight, bias = site.part(f"weight_hh{end}"), site.part(f"bias_hh{end}")
    entering = linear(x, site.part(f"weight_ih{end}"), site.part(f"bias_ih{end}"))

    def turn(states: tuple[Any, ...], now: Any) -> tuple[tuple[Any, ...], Any]:
        after = cell(now, states, weight, bias)
        return after, after[0]

    last, y = lax.scan(turn, states, entering, reverse=backwards)
    return y, last


def _single(name: str) -> Operation:
    """One position of a sequence."""

    def run(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        x, width = args[0], site.arguments["hidden_size"]
        hidden = args[1] if len(args) > 1 else options.get("hx")
        count = 2 if name == "lstm" else 1
        zeros = (jnp.zeros((*x.shape[:-1], width), x.dtype),) * count
        states = zeros if hidden is None else hidden if isinstance(hidden, tuple) else (hidden,)
        entering = linear(x, site.part("weight_ih"), site.part("bias_ih"))
        weight, bias = site.part("weight_hh"), site.part("bias_hh")
        after = _cell_of(site, name)(entering, states, weight, bias)
        return after if name == "lstm" else after[0]

    return run


def attend(
    site: Site, parts: Sequence[Any], mask: Any, scale: Any = None, dropout: float = 0.0
) -> tuple[Any, Any]:
    """What is attended to, and the weights of it; over the last two dimensions."""
    query, key, value = parts
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = jnp.matmul(query * scale, jnp.swapaxes(key, -1, -2))
    if mask is not None:
        lowest = jnp.asarray(-jnp.inf, scores.dtype)
        scores = jnp.where(mask, scores, lowest) if mask.dtype == bool else scores + mask
    weights = drop(site, jax.nn.softmax(scores, axis=-1), dropout)
    return jnp.matmul(weights, value), weights


def _attention(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale")
    given = {**dict(zip(names, args)), **options}
    if given.get("enable_gqa"):
        raise site.refuse("grouped queries are not translated")
    mask = given.get("attn_mask")
    if given.get("is_causal"):
        mask = _causal(given["query"].shape[-2], given["key"].shape[-2])
    parts = [given[name] for name in ("query", "key", "value")]
    return attend(site, parts, mask, given.get("scale"), given.get("dropout_p") or 0.0)[0]


def _causal(queries: int, keys: int) -> Any:
    return jnp.tril(jnp.ones((queries, keys), bool))


def _multi_head(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    names = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask")
    given = {**dict(zip(names, args)), **options}
    for name in ("add_bias_kv", "add_zero_attn"):
        if site.arguments.get(name):
            raise site.refuse(f"{name} is not translated")
    if given.get("key_padding_mask") is not None:
        raise site.refuse("key_padding_mask is not translated")
    entering = [given[name] for name in ("query", "key", "value")]
    first = bool(site.arguments.get("batch_first"))
    if not first:
        entering = [jnp.swapaxes(part, 0, 1) for part in entering]
    heads = int(site.arguments["num_heads"])
    parts = [_split(part, heads) for part in _projected(site, entering)]
    mask = given.get("attn_mask")
    if mask is not None and mask.dtype == bool:
        mask = ~mask  # torch's says here what is left out
    out, weights = attend(site, parts, mask, dropout=site.arguments.get("dropout", 0.0))
    joined = jnp.swapaxes(out, 1, 2).reshape(*entering[0].shape[:2], -1)
    result = linear(joined, site.part("out_proj.weight"), site.part("out_proj.bias"))
    result = result if first else jnp.swapaxes(result, 0, 1)
    if not given.get("need_weights", True):
        return result, None
    return result, jnp.mean(weights, 1) if given.get("average_attn_weights", True) else weights


def _projected(site: Site, entering: Sequence[Any]) -> list[Any]:
    query, key, value = entering
    weight, bias = site.part("in_proj_weight"), site.part("in_proj_bias")
    if weight is not None and query is key is value:  # one product, as torch has it
        return list(jnp.split(linear(query, weight, bias), 3, axis=-1))
    names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
    weights = [site.part(n) for n in names] if weight is None else jnp.split(weight, 3)
    biases = [None] * 3 if bias is None else jnp.split(bias, 3)
    return [linear(x, w, b) for x, w, b in zip(entering, weights, biases)]


def _split(x: Any, heads: int) -> Any:
    batch, length, width = x.shape
    return jnp.swapaxes(x.reshape(batch, length, heads, width // heads), 1, 2)


MODULES: Mapping[str, Operation] = {
    "LSTM": _recurrent("lstm", 2),
    "GRU": _recurrent("gru", 1),
    "RNN": _recurrent("rnn", 1),
    "LSTMCell": _single("lstm"),
    "GRUCell": _single("gru"),
    "RNNCell": _single("rnn"),
    "MultiheadAttention": _multi_head,
}
FUNCTIONS: Mapping[str, Operation] = {"scaled_dot_product_attention": _attention}
