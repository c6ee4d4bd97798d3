"""Draw a network like an architecture: a few of its calls, at their sizes, in other company.

Where a network is known by its calls, those that matter can be measured at the very sizes that it
has, maps and batches too: one is picked by its share of the FLOPs, and followed by others that take
what it puts out, at this very size of map where there are such: by one or by dozens, since calls in
company cost other than alone, and architectures have hundreds. What stands between them is left to
chance, as in any network that is drawn.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from torch import nn

from ampere.core.inputs import Inputs, InputSpec
from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.pytorch.generator import blocks
from ampere.pytorch.generator.blocks import MAP_NORMS, TOKEN_NORMS
from ampere.pytorch.generator.dice import OPTIMIZERS, Dice, Drawn, octaves

BATCHES = (1, 2, 4, 8, 16, 32)
MOST_SIDE, MOST_LENGTH, MOST_FEW = 256, 1024, 64
MOST_WEIGHTS = 5e7  # of all calls together
ON_MAPS = ("convolution", "grouped convolution", "depthwise")
MOST_CHAINED = 32  # calls in a row, each octave as likely as any other

Part = tuple[list[nn.Module], int]  # modules, and the channels or features that come out
Start = tuple[Part, Inputs, int]  # the first part, what it is fed, and the batch


def draw_like(rng: random.Random, calls: Sequence[Layer], flops: float) -> Drawn | None:
    """A network of some calls of an architecture; None if it has none that can be built."""
    known = [
        call for call in calls if call.kind.operation in _STARTS and _weights(call) < MOST_WEIGHTS
    ]
    if not known:
        return None
    dice = Dice(rng)
    chances = [1e6 + call.count * call.part * (call.features.flops or 0.0) for call in known]
    first = rng.choices(known, [math.sqrt(chance) for chance in chances])[0]
    chained = octaves(rng, 1, MOST_CHAINED)
    smaller = max(_flops(first) * chained / flops, 1.0)
    (parts, width), inputs, batch = _STARTS[first.kind.operation](dice, first, smaller)
    maps = first.kind.operation in ON_MAPS
    (fed,) = inputs
    side = -(-fed.shape[-1] // _kernel(first)[1]) if maps else 1
    left, weights = flops - _flops(first) / smaller, MOST_WEIGHTS - _weights(first)
    for _ in range(chained - 1):
        following = [
            call
            for call in known
            if _takes(call, width, maps)
            and _flops(call) / smaller < left
            and _weights(call) < weights
        ]
        if not following:
            break
        at_home = [call for call in following if maps and _side(call) == side]
        call = rng.choice(at_home or following)
        more, width = _convolution(dice, call, side) if maps else _linear(dice, call)
        side = -(-side // _kernel(call)[1])
        parts += more
        left, weights = left - _flops(call) / smaller, weights - _weights(call)
    classes = octaves(rng, 2, 100)
    pool: list[nn.Module] = [nn.AdaptiveAvgPool2d(1), nn.Flatten()] if maps else []
    if not maps and len(fed.shape) + (first.kind.operation == "embedding") > 1:
        pool = [blocks.Mean(1)]
    model = nn.Sequential(*parts, *pool, nn.Linear(width, classes))
    return Drawn(model, inputs, Training(batch, rng.choice(OPTIMIZERS)))


def _flops(call: Layer) -> float:
    """FLOPs of one call; a recurrent one is told step by step."""
    many = _number(call, "steps") * _number(call, "stacked")
    return many * (call.features.flops or 0.0)


def _weights(call: Layer) -> float:
    return (call.features.numbers[2] or 0.0) / 4


def _number(call: Layer, name: str, default: float = 1) -> int:
    return max(round(float(call.kind.attributes.get(name, default))), 1)


def _takes(call: Layer, width: int, maps: bool) -> bool:
    """Whether a call can follow one that puts out so much."""
    if not maps:
        return call.kind.operation == "linear" and call.widths["in"] == width
    if call.kind.operation == "depthwise":
        return call.widths["out"] == width
    return call.kind.operation in ON_MAPS and _entering(call) == width


def _entering(call: Layer) -> int:
    return call.widths["in"] * _number(call, "groups")


def _side(call: Layer) -> int:
    """Of the map of one sample; what does not say how its rows divide has one sample."""
    return max(round(math.sqrt(_number(call, "map", _number(call, "rows")))), 1)


def _kernel(call: Layer) -> tuple[int, int]:
    """Side of the kernel, and stride; those of one dimension are told as of two."""
    kernel, stride = _number(call, "kernel"), _number(call, "stride")
    side = max(round(math.sqrt(kernel)), 1)
    return side, min(max(round(math.sqrt(stride)), 1), 4)


def _convolution(dice: Dice, call: Layer, side: int = MOST_SIDE) -> Part:
    kernel, stride = _kernel(call)
    if side < 2 * stride:  # there is nothing left to pass over
        stride = 1
    depthwise = call.kind.operation == "depthwise"
    out = call.widths["out"] if depthwise else call.widths["out"] * _number(call, "groups")
    entering = out if depthwise else _entering(call)
    groups = out if depthwise else _number(call, "groups")
    module = nn.Conv2d(
        entering, out, kernel, stride, kernel // 2, groups=groups, bias=dice.rng.random() < 0.3
    )
    norm = MAP_NORMS[dice.rng.choice(("batch", "batch", "channel", "group"))]
    return [module, *dice.decorated(partial(norm, out))], out


def _linear(dice: Dice, call: Layer) -> Part:
    out = call.widths["out"]
    norm = TOKEN_NORMS[dice.rng.choice(("layer", "layer", "rms"))]
    return [nn.Linear(call.widths["in"], out), *dice.decorated(partial(norm, out))], out


def _split(dice: Dice, rows: float, most: int) -> tuple[int, int]:
    """Rows as a batch of so many positions."""
    fitting = [batch for batch in BATCHES if batch <= rows and rows / batch <= most]
    batch = dice.rng.choice(fitting) if fitting else 1
    return batch, max(min(round(rows / batch), most), 1)


def _start_maps(dice: Dice, call: Layer, smaller: float) -> Start:
    side = _side(call)
    batch = _number(call, "rows") / side**2
    # What is too large has fewer samples, and a smaller map only if one is still too much.
    side = min(max(round(side / math.sqrt(max(smaller / batch, 1))), 1), MOST_SIDE)
    batch = max(round(batch / smaller), 1)
    entering = call.widths["out"] if call.kind.operation == "depthwise" else _entering(call)
    # A sample with a single position has no variance over the batch.
    batch = max(batch, 2) if side <= 2 * _kernel(call)[1] else batch
    return _convolution(dice, call), Inputs((InputSpec((entering, side, side)),)), batch


def _start_linear(dice: Dice, call: Layer, smaller: float) -> Start:
    rows = max(_number(call, "rows") / smaller, 1)
    width = call.widths["in"]
    if rows <= MOST_FEW and dice.rng.random() < 0.5:
        return _linear(dice, call), Inputs((InputSpec((width,)),)), max(round(rows), 1)
    batch, length = _split(dice, rows, MOST_LENGTH)
    return _linear(dice, call), Inputs((InputSpec((length, width)),)), batch


def _start_attention(dice: Dice, call: Layer, smaller: float) -> Start:
    rng, length = dice.rng, min(_number(call, "rows"), MOST_LENGTH)
    matrices = max(round(_number(call, "matrices") / smaller), 1)
    batch = rng.choice([b for b in BATCHES if matrices % b == 0] or [1])
    heads = max(min(matrices // batch, 16), 1)
    width = heads * min(max(call.widths["in"], 8), 128)
    fused = call.kind.operation == "attention"
    body = blocks.Attention(width, heads, fused, rng.random() < 0.5, rng.random() < 0.3)
    norm = TOKEN_NORMS[rng.choice(("layer", "rms"))]
    parts: list[nn.Module] = [blocks.Residual(nn.Sequential(norm(width), body))]
    return (parts, width), Inputs((InputSpec((length, width)),)), batch


def _start_embedding(dice: Dice, call: Layer, smaller: float) -> Start:
    batch, length = _split(dice, _number(call, "rows"), MOST_LENGTH)
    entries, width = _number(call, "entries"), call.widths["out"]
    parts: list[nn.Module] = [nn.Embedding(entries, width)]
    return (parts, width), Inputs((InputSpec((length,), "int64", entries),)), batch


def _start_recurrent(dice: Dice, call: Layer, smaller: float) -> Start:
    length = max(round(min(_number(call, "steps"), MOST_LENGTH) / smaller), 2)
    width, hidden = call.widths["in"], call.widths["out"]
    cell = str(call.kind.attributes.get("of", "lstm"))
    stacked = min(_number(call, "stacked"), 3)
    parts: list[nn.Module] = [blocks.Recurrent(cell, width, hidden, stacked, both=False)]
    batch = min(_number(call, "rows"), MOST_FEW)
    return (parts, hidden), Inputs((InputSpec((length, width)),)), batch


_STARTS: Mapping[str, Callable[[Dice, Layer, float], Start]] = {
    **dict.fromkeys(ON_MAPS, _start_maps),
    "linear": _start_linear,
    "attention": _start_attention,
    "matmul": _start_attention,
    "embedding": _start_embedding,
    "recurrent": _start_recurrent,
}
