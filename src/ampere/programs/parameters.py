"""What modules hold: the shapes of their parameters, by torch's names, and how these begin.

One rule a module, of its arguments with numbers filled in; a module without a rule holds nothing.
Names, order and shapes are those of `named_parameters()`, and a test compares. How values begin is
torch's way, too: sizes matter, since what is dead or infinite costs less, or more, than training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Tuple  # for Python 3.8, on old devices

from ampere.core.program.structure import Call
from ampere.programs.program import Held, Start

Part = Tuple[str, Tuple[int, ...], Start]

ONES, ZEROS = Start("constant", 1.0), Start("constant", 0.0)
SMALL = Start("normal", 1 / 50)  # a weight that is normalised must have a length
STATISTICS = (("running_mean", ZEROS), ("running_var", ONES))


def held_by(
    call: Call, arguments: Mapping[str, Any], place: tuple[int, int], dtype: str
) -> tuple[Held, ...]:
    """What a call holds, at the place of its layer and its number there."""
    if call.op in ("parameter", "buffer"):
        return (_own(call, arguments, place),)
    rule = RULES.get(call.op)
    if rule is None or not call.is_module:
        return ()
    return tuple(_part(call, part, place, dtype) for part in rule(arguments))


def _own(call: Call, arguments: Mapping[str, Any], place: tuple[int, int]) -> Held:
    """A parameter or buffer that stands by itself; ones can be divided by, and looked up with."""
    parameter = call.op == "parameter"
    return Held(
        key=(*place, call.op),
        shape=tuple(arguments["shape"]),
        start=SMALL if parameter else ONES,
        dtype=str(arguments.get("dtype", "float32")),
        trains=parameter and not call.frozen,
        shared=bool(call.shared_parts),
        buffer=not parameter,
    )


def _part(call: Call, part: Part, place: tuple[int, int], dtype: str) -> Held:
    name, shape, start = part
    buffer = name in dict(STATISTICS)
    return Held(
        key=(*place, name),
        shape=shape,
        start=start,
        dtype=dtype,
        trains=not (buffer or call.frozen or name in call.frozen_parts),
        shared=name in call.shared_parts,
        buffer=buffer,
    )


def _even(fan_in: float) -> Start:
    return Start("uniform", 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0)


def sides(value: Any, count: int) -> tuple[int, ...]:
    """A kernel, stride or padding with a number for each side."""
    return tuple(value) if isinstance(value, (tuple, list)) else (int(value),) * count


def _linear(arguments: Mapping[str, Any]) -> Iterator[Part]:
    entering, leaving = arguments["in_features"], arguments["out_features"]
    yield "weight", (leaving, entering), _even(entering)
    if arguments.get("bias", True):
        yield "bias", (leaving,), _even(entering)


def _bilinear(arguments: Mapping[str, Any]) -> Iterator[Part]:
    first, second = arguments["in1_features"], arguments["in2_features"]
    leaving = arguments["out_features"]
    yield "weight", (leaving, first, second), _even(first)
    if arguments.get("bias", True):
        yield "bias", (leaving,), _even(first)


def _convolution(rank: int, transposed: bool) -> Callable[[Mapping[str, Any]], Iterator[Part]]:
    def rule(arguments: Mapping[str, Any]) -> Iterator[Part]:
        kernel = sides(arguments["kernel_size"], rank)
        entering, leaving = arguments["in_channels"], arguments["out_channels"]
        groups = arguments.get("groups", 1)
        if transposed:
            shape = (entering, leaving // groups, *kernel)
        else:
            shape = (leaving, entering // groups, *kernel)
        start = _even(shape[1] * math.prod(kernel))
        yield "weight", shape, start
        if arguments.get("bias", True):
            yield "bias", (leaving,), start

    return rule


def _scaled(arguments: Mapping[str, Any], shape: tuple[int, ...]) -> Iterator[Part]:
    yield "weight", shape, ONES
    if arguments.get("bias", True):
        yield "bias", shape, ZEROS


def _layer_norm(arguments: Mapping[str, Any]) -> Iterator[Part]:
    if arguments.get("elementwise_affine", True):
        yield from _scaled(arguments, sides(arguments["normalized_shape"], 1))


def _rms_norm(arguments: Mapping[str, Any]) -> Iterator[Part]:
    if arguments.get("elementwise_affine", True):
        yield "weight", sides(arguments["normalized_shape"], 1), ONES


def _group_norm(arguments: Mapping[str, Any]) -> Iterator[Part]:
    if arguments.get("affine", True):
        yield from _scaled(arguments, (arguments["num_channels"],))


def _with_statistics(usual: bool) -> Callable[[Mapping[str, Any]], Iterator[Part]]:
    """Normalisation over the batch, which keeps statistics and is affine unless it says not so."""

    def rule(arguments: Mapping[str, Any]) -> Iterator[Part]:
        shape = (arguments["num_features"],)
        if arguments.get("affine", usual):
            yield from _scaled(arguments, shape)
        if arguments.get("track_running_stats", usual):
            for name, start in STATISTICS:
                yield name, shape, start

    return rule


def _embedding(arguments: Mapping[str, Any]) -> Iterator[Part]:
    shape = (arguments["num_embeddings"], arguments["embedding_dim"])
    yield "weight", shape, Start("normal", 1.0, arguments.get("padding_idx"))


def _recurrent(gates: int) -> Callable[[Mapping[str, Any]], Iterator[Part]]:
    def rule(arguments: Mapping[str, Any]) -> Iterator[Part]:
        hidden, projected = arguments["hidden_size"], arguments.get("proj_size", 0)
        start, leaving = _even(hidden), projected or hidden
        directions = ("", "_reverse") if arguments.get("bidirectional") else ("",)
        for layer in range(arguments.get("num_layers", 1)):
            entering = arguments["input_size"] if not layer else leaving * len(directions)
            for direction in directions:
                end = f"_l{layer}{direction}"
                yield f"weight_ih{end}", (gates * hidden, entering), start
                yield f"weight_hh{end}", (gates * hidden, leaving), start
                if arguments.get("bias", True):
                    yield f"bias_ih{end}", (gates * hidden,), start
                    yield f"bias_hh{end}", (gates * hidden,), start
                if projected:
                    yield f"weight_hr{end}", (projected, hidden), start

    return rule


def _cell(gates: int) -> Callable[[Mapping[str, Any]], Iterator[Part]]:
    def rule(arguments: Mapping[str, Any]) -> Iterator[Part]:
        hidden = arguments["hidden_size"]
        yield "weight_ih", (gates * hidden, arguments["input_size"]), _even(hidden)
        yield "weight_hh", (gates * hidden, hidden), _even(hidden)
        if arguments.get("bias", True):
            yield "bias_ih", (gates * hidden,), _even(hidden)
            yield "bias_hh", (gates * hidden,), _even(hidden)

    return rule


def _attention(arguments: Mapping[str, Any]) -> Iterator[Part]:
    width = arguments["embed_dim"]
    keys, values = arguments.get("kdim") or width, arguments.get("vdim") or width
    if keys == values == width:
        yield "in_proj_weight", (3 * width, width), _glorot(width, 3 * width)
    else:
        for name, size in (("q", width), ("k", keys), ("v", values)):
            yield f"{name}_proj_weight", (width, size), _glorot(size, width)
    biased = arguments.get("bias", True)
    if biased:
        yield "in_proj_bias", (3 * width,), ZEROS
    if arguments.get("add_bias_kv"):
        yield "bias_k", (1, 1, width), _normal(width)
        yield "bias_v", (1, 1, width), _normal(width)
    yield "out_proj.weight", (width, width), _even(width)
    if biased:
        yield "out_proj.bias", (width,), ZEROS


def _glorot(entering: int, leaving: int) -> Start:
    return Start("uniform", math.sqrt(6 / (entering + leaving)))


def _normal(width: int) -> Start:
    return Start("normal", 1 / math.sqrt(width))


def _prelu(arguments: Mapping[str, Any]) -> Iterator[Part]:
    size = float(arguments.get("init", 0.25))
    yield "weight", (arguments.get("num_parameters", 1),), Start("constant", size)


RULES: Mapping[str, Callable[[Mapping[str, Any]], Iterator[Part]]] = {
    "Linear": _linear,
    "Bilinear": _bilinear,
    **{f"Conv{rank}d": _convolution(rank, False) for rank in (1, 2, 3)},
    **{f"ConvTranspose{rank}d": _convolution(rank, True) for rank in (1, 2, 3)},
    **{f"BatchNorm{rank}d": _with_statistics(True) for rank in (1, 2, 3)},
    **{f"InstanceNorm{rank}d": _with_statistics(False) for rank in (1, 2, 3)},
    "LayerNorm": _layer_norm,
    "RMSNorm": _rms_norm,
    "GroupNorm": _group_norm,
    "Embedding": _embedding,
    "EmbeddingBag": _embedding,
    "LSTM": _recurrent(4),
    "GRU": _recurrent(3),
    "RNN": _recurrent(1),
    "LSTMCell": _cell(4),
    "GRUCell": _cell(3),
    "RNNCell": _cell(1),
    "MultiheadAttention": _attention,
    "PReLU": _prelu,
}
