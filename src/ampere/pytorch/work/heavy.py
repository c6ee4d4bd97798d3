"""Heavy calls: those that are told at their sizes, since what they cost depends on each of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from ampere.core.layers import Features, Work
from ampere.core.program.widths import Widths
from ampere.core.types import Json
from ampere.pytorch.work.sums import NOTHING, bytes_of, rounded


@dataclass(frozen=True)
class Call:
    """A function of torch that was called, with what it returned and the FLOPs that it took."""

    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    flops: float

    @property
    def output(self) -> Tensor:
        """What it returned first."""
        return self.outputs[0]

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        """An argument, however it was given."""
        return self.args[place] if len(self.args) > place else self.kwargs.get(name, default)


def _passes(*tensors: Tensor | None) -> int:
    """Forward, and one pass back for each of the tensors that want a gradient."""
    return 1 + sum(tensor is not None and tensor.requires_grad for tensor in tensors)


def _heavy(
    operation: str,
    widths: Mapping[str, int],
    attributes: Mapping[str, Json],
    features: Features,
    passes: int = 3,
) -> Work:
    """A call at its sizes; features are those of the forward pass."""
    flops, moved, held = (value or 0.0 for value in features.numbers)
    whole = Features(flops * passes, moved * (2 if passes > 1 else 1), held)
    return Work(operation, Widths(widths), {**attributes, "passes": passes}, whole)


def _convolution(call: Call) -> Work:
    x, weight = call.argument(0, "input"), call.argument(1, "weight")
    groups = int(call.argument(6, "groups", 1))  # of both sorts: dilation and padding differ
    spatial = weight.dim() - 2
    entering, leaving = (tensor.shape[-spatial - 1] for tensor in (x, call.output))
    before, after = x.numel() // entering, call.output.numel() // leaving
    attributes: dict[str, Json] = {
        "rows": max(before, after),
        "kernel": math.prod(weight.shape[2:]),
        "stride": round(max(before, after) / max(min(before, after), 1), 2),
        "dimensions": spatial,
    }
    features = Features(call.flops, bytes_of([x, call.output]), bytes_of([weight]))
    passes = _passes(x, weight)
    if groups > 1 and weight.shape[1] == 1:
        return _heavy("depthwise", {"out": leaving}, attributes, features, passes)
    widths = {"in": entering // groups, "out": leaving // groups}
    if groups > 1:  # libraries have other ways for these, and slow ones for narrow groups
        grouped = {**attributes, "groups": groups}
        return _heavy("grouped convolution", widths, grouped, features, passes)
    return _heavy("convolution", widths, attributes, features, passes)


def _linear(call: Call) -> Work:
    x, weight = call.inputs[0], call.inputs[1]
    width = x.shape[-1]
    widths = {"in": width, "out": weight.numel() // width}
    features = Features(call.flops, bytes_of([x, call.output]), bytes_of([weight]))
    return _heavy("linear", widths, {"rows": x.numel() // width}, features, _passes(x, weight))


def matmul(call: Call) -> Work:
    """Products of matrices, whatever they are called."""
    x, y = call.inputs[-2:] if len(call.inputs) > 1 else (call.inputs[0], call.inputs[0])
    shape = (1, 1, *call.output.shape)[-2:]
    size = max(call.output.numel(), 1)
    widths = {"in": max(round(call.flops / 2 / size), 1), "out": max(shape[1], 1)}
    attributes = {"rows": shape[0], "matrices": max(size // max(math.prod(shape), 1), 1)}
    features = Features(call.flops, bytes_of([x, y, call.output]), 0.0)
    return _heavy("matmul", widths, attributes, features, _passes(x, y))


def _attention(call: Call) -> Work:
    query, key = call.inputs[:2]
    attributes = {
        "rows": query.shape[-2],
        "keys": key.shape[-2],
        "matrices": math.prod(query.shape[:-2]),
        "masked": int(len(call.inputs) > 3),
    }
    features = Features(call.flops, bytes_of([*call.inputs, call.output]), 0.0)
    return _heavy("attention", {"in": query.shape[-1]}, attributes, features, _passes(query, key))


def _embedding(call: Call) -> Work:
    table = max(call.inputs, key=lambda tensor: (tensor.is_floating_point(), tensor.numel()))
    width = max(call.output.shape[-1], 1)
    attributes = {"rows": call.output.numel() // width, "entries": table.shape[0]}
    features = Features(0.0, bytes_of([call.output]), bytes_of([table]))
    return _heavy("embedding", {"out": width}, attributes, features, _passes(table))


def _recurrent(call: Call) -> Work:
    """A sequence is as many calls as it has steps and stacked layers: each reads all weights."""
    x = call.inputs[0]
    weights = [tensor for tensor in call.inputs if isinstance(tensor, nn.Parameter)]
    matrices = [tensor for tensor in weights if tensor.dim() == 2]
    steps = 1 if "cell" in call.name else x.shape[1 if call.args[-1] is True else 0]
    stacked = max(len(matrices) // 2, 1)
    attributes: dict[str, Json] = {
        "of": call.name.split("_")[0],
        "steps": steps,
        "rows": max(x.numel() // max(x.shape[-1] * steps, 1), 1),
        "stacked": stacked,
    }
    widths = {"in": x.shape[-1], "out": matrices[1].shape[-1] if len(matrices) > 1 else 1}
    many = steps * stacked
    moved, held = bytes_of([x, call.output]) / many, bytes_of(weights) / stacked
    features = Features(call.flops / many, moved, held)
    work = _heavy("recurrent", widths, attributes, features, _passes(x, *weights[:1]))
    return replace(work, count=float(many))


HEAVY: Mapping[str, Callable[[Call], Work]] = {
    "convolution": _convolution,
    "linear": _linear,
    "matmul": matmul,
    "attention": _attention,
    "embedding": _embedding,
    "recurrent": _recurrent,
}


def multi_head(call: Call) -> list[Work]:
    """Attention as `nn.MultiheadAttention` has it in one call: what it does inside."""
    query, key, _, embed, heads = call.args[:5]
    rows, keys = query.numel() // embed, key.numel() // key.shape[-1]
    samples = query.shape[1] if query.dim() > 2 else 1
    length, others = rows // samples, keys // samples
    matrices, size = samples * heads, float(query.element_size())
    projected = size * (rows + 2 * keys) * embed
    flops = 2.0 * samples * length * others * embed
    width, scores = embed // heads, size * matrices * length * others
    moved_in = size * rows * embed + projected
    entering = Features(2 / size * projected * embed, moved_in, 3 * size * embed**2)
    leaving = Features(2.0 * rows * embed**2, 2 * size * rows * embed, size * embed**2)
    moved = projected + size * rows * embed
    squares = {"rows": length, "matrices": matrices}
    masked = int(call.kwargs.get("attn_mask") is not None)
    if call.kwargs.get("need_weights", True):
        product = Features(flops, moved / 2 + scores, 0.0)
        inner = [
            _heavy("matmul", {"in": width, "out": others}, squares, product),
            rounded(Work("softmax", features=Features(0.0, 4 * scores, 0.0))),
            _heavy("matmul", {"in": others, "out": width}, squares, product),
        ]
    else:
        attributes = {**squares, "keys": others, "masked": masked}
        inner = [_heavy("attention", {"in": width}, attributes, Features(2 * flops, moved, 0.0))]
    return [
        _heavy("linear", {"in": embed, "out": 3 * embed}, {"rows": rows}, entering),
        *inner,
        _heavy("linear", {"in": embed, "out": embed}, {"rows": rows}, leaving),
        rounded(Work("copy", features=Features(0.0, 4 * moved, 0.0))),
        replace(NOTHING, count=12.0),
    ]
