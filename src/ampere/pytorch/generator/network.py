"""Draw a network: its blocks, sizes, batch and optimiser, all independent of each other.

Calls that always occur together cannot be told apart, so what follows what is left to chance: any
activation after any normalisation, twice or not at all, in blocks that no architecture has. Sizes
are drawn over the octaves that public architectures have, and no larger than a step affords. Blocks
stand once or up to a dozen times in a row: what calls cost in company is learned from deep ones.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import torch
from torch import nn

from ampere.core.inputs import Inputs, InputSpec
from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.errors import ModelError
from ampere.pytorch.generator import blocks
from ampere.pytorch.generator.blocks import ACTIVATIONS, MAP_NORMS, TOKEN_NORMS
from ampere.pytorch.generator.dice import OPTIMIZERS, Dice, Drawn, octaves
from ampere.pytorch.generator.likeness import draw_like
from ampere.pytorch.graph.model_reading import read_model

GENRES = ("maps", "mobile", "tokens", "language", "recurrent", "rows")
GIVE_UP = 50  # draws
TOO_MUCH = 4.0  # times the FLOPs that were asked for
MOST_BYTES = 3e8  # of one value in a network
MOST_AGAIN = 12  # blocks in a row, each octave as likely as any other
LEAST_BLOCK = 3e6  # FLOPs of a block that is repeated


def drawn_layers(
    rng: random.Random,
    genre: str,
    flops: float,
    training: Training,
    like: Sequence[Layer] = (),
) -> tuple[Layer, ...]:
    """The layers of a network of a genre, or of calls like these; precision is a training's."""
    for _ in range(GIVE_UP):
        with torch.device("meta"):
            drawn = (draw_like(rng, like, flops) if like else None) or draw(rng, genre, flops)
        settings = drawn.training.but(dtype=training.dtype, amp=training.amp or None)
        with suppress(ModelError):  # widths that do not fit, once in a thousand
            layers = read_model(drawn.model, drawn.inputs, settings).layers
            if sum(layer.features.flops or 0.0 for layer in layers) <= TOO_MUCH * flops:
                return layers
    raise ModelError(f"no network of {genre} can be read here: please report this")


def draw(rng: random.Random, genre: str, flops: float) -> Drawn:
    """A network of a genre whose step takes about so many FLOPs."""
    batch = min(octaves(rng, 1, 64), max(int(flops / 1e6), 1))
    make = {
        "maps": _maps,
        "mobile": _mobile,
        "tokens": _tokens,
        "language": _language,
        "recurrent": _recurrent,
        "rows": _rows,
    }[genre]
    again = octaves(rng, 1, min(MOST_AGAIN, max(flops / LEAST_BLOCK, 1)))
    # There, and twice as much back.
    model, inputs = make(Dice(rng, again), batch, flops / 3 / again)
    return Drawn(model, inputs, Training(batch, rng.choice(OPTIMIZERS)))


def _maps(dice: Dice, batch: int, flops: float) -> tuple[nn.Module, Inputs]:
    """Convolutions on maps: plain, residual, bottlenecks, groups, dense, with pooling between."""
    rng = dice.rng
    stages = rng.randint(1, 4)
    budget = flops / (stages + 0.3)
    side = octaves(rng, 6, min(224, max(8, math.sqrt(flops / batch / 500))))
    norm = MAP_NORMS[rng.choice(list(MAP_NORMS))]
    parts: list[nn.Module] = []
    size, width = side, rng.choice((1, 3, 3, 3, dice.width(4, 64)))
    entering = width
    kernel, stride = rng.choice(((3, 1), (3, 2), (7, 2), (5, 1), (1, 1), (4, 4)))
    if size >= 4 * stride:
        out = dice.width(8, _most_out(flops * 0.3, batch, size // stride, width, kernel))
        parts += _convolution(dice, width, out, kernel, stride, norm)
        width, size = out, -(-size // stride) if kernel != 4 else size // 4
    for _ in range(stages):
        form = rng.choice(("plain", "plain", "basic", "bottleneck", "dense", "pool", "large"))
        most = _most_out(budget, batch, size, width, 9)
        if form == "pool" and size >= 4:
            parts.append(rng.choice((nn.MaxPool2d(2), nn.AvgPool2d(2), nn.MaxPool2d(3, 2, 1))))
            size = parts[-1](torch.empty((1, 1, size, size))).shape[-1]
        elif form == "basic" and 2 * _cost(batch, size, width, width, 9) < budget:
            basic = [(width, width, 3, 1), (width, width, 3, 1)]
            parts += dice.repeated(_residual(dice, basic, norm))
        elif form == "bottleneck":
            groups = rng.choice((1, 1, 1, 2, 4, 8, 16, 32))
            inner = min(dice.width(4, max(width // 2, 4)), int(max(most, 4)))
            inner = groups * max(inner // groups, rng.choice((1, 2, 4, 8)) if groups > 1 else 1)
            kernel = rng.choice((3, 3, 5))
            narrow = [(width, inner, 1, 1), (inner, inner, kernel, groups), (inner, width, 1, 1)]
            parts += dice.repeated(_residual(dice, narrow, norm))
        elif form == "dense":
            more = octaves(rng, 8, max(min(most, 64), 8), 8)
            parts.append(blocks.Dense(nn.Sequential(*_convolution(dice, width, more, 3, 1, norm))))
            width += more
        else:
            kernel = rng.choice((1, 1, 3, 3, 3, 5) if form != "large" else (1, 3))
            stride = rng.choice((1, 1, 2)) if size >= 4 else 1
            out = dice.width(
                8, min(2048, _most_out(budget * stride**2, batch, size, width, kernel**2))
            )
            groups = rng.choice((1, 1, 1, *_divisors(math.gcd(width, out))))
            parts += _convolution(dice, width, out, kernel, stride, norm, groups)
            width, size = out, -(-size // stride)
        parts += dice.some(lambda: ACTIVATIONS[dice.activation()](), 0.7, 0.2, 0.1)
    classes = octaves(rng, 2, 1000)
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]
    if width * size**2 * classes < 4e6 and rng.random() < 0.3:
        head = [nn.Flatten(), nn.Linear(width * size**2, classes)]
    return nn.Sequential(*parts, *head), Inputs((InputSpec((entering, side, side)),))


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def _cost(batch: int, size: int, width: int, out: int, kernel: int) -> float:
    return 2.0 * batch * size**2 * width * out * kernel


def _most_out(budget: float, batch: int, size: int, width: int, kernel: int) -> float:
    """The most channels that a convolution may put out, for its FLOPs and its bytes."""
    by_flops = budget / (2.0 * batch * size**2 * width * kernel)
    return max(min(by_flops, MOST_BYTES / 4 / batch / size**2, 2048), 8)


def _convolution(
    dice: Dice,
    width: int,
    out: int,
    kernel: int,
    stride: int,
    norm: Callable[[int], nn.Module],
    groups: int = 1,
) -> list[nn.Module]:
    if width % groups or out % groups:
        groups = 1
    padding = 0 if kernel == stride == 4 else kernel // 2
    bias = dice.rng.random() < 0.4
    first = nn.Conv2d(width, out, kernel, stride, padding, groups=groups, bias=bias)
    return [first, *dice.decorated(lambda: norm(out))]


def _residual(
    dice: Dice, sizes: Sequence[tuple[int, int, int, int]], norm: Callable[[int], nn.Module]
) -> nn.Module:
    """Convolutions around which their input is carried: channels in and out, kernel, groups."""
    body: list[nn.Module] = []
    for width, out, kernel, groups in sizes:
        body += _convolution(dice, width, out, kernel, 1, norm, groups)
    return blocks.Residual(nn.Sequential(*body))


def _mobile(dice: Dice, batch: int, flops: float) -> tuple[nn.Module, Inputs]:
    """Depthwise convolutions between 1×1 ones, squeeze and excitation, ConvNeXt's blocks."""
    rng = dice.rng
    stages = rng.randint(1, 4)
    side = octaves(rng, 8, min(224, max(8, math.sqrt(flops / batch / 400))), 2)
    norm = MAP_NORMS[rng.choice(("batch", "batch", "group", "channel"))]
    width = dice.width(8, _most_out(flops / 8, batch, side // 2, 3, 9))
    parts = _convolution(dice, 3, width, 3, 2, norm)
    size = -(-side // 2)
    for _ in range(stages):
        form = rng.choice(("inverted", "inverted", "separable", "convnext"))
        kernel = rng.choice((3, 3, 5, 7))
        if form == "convnext":
            ratio = rng.choice((2, 4))
            parts += dice.repeated(blocks.Convnext(width, kernel, ratio, dice.activation()))
            continue
        stride = rng.choice((1, 1, 2)) if size >= 4 else 1
        most = _most_out(flops / stages / 3, batch, size, width, 1)
        inner = min(width * rng.choice((1, 2, 3, 4, 6)), int(most)) if form == "inverted" else width
        inner = max(inner, 1)
        body = _convolution(dice, width, inner, 1, 1, norm) if form == "inverted" else []
        depthwise = nn.Conv2d(inner, inner, kernel, stride, kernel // 2, groups=inner, bias=False)
        body += [depthwise, *dice.decorated(partial(norm, inner))]
        body += dice.some(partial(blocks.Squeeze, inner, 4, dice.activation()), 0.6, 0.4)
        out = dice.width(8, min(most, 512)) if stride > 1 or rng.random() < 0.5 else width
        body += _convolution(dice, inner, out, 1, 1, norm)
        block = nn.Sequential(*body)
        same = (out, stride) == (width, 1)
        parts += dice.repeated(blocks.Residual(block)) if same else [block]
        width, size = out, -(-size // stride)
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, octaves(rng, 2, 1000))]
    return nn.Sequential(*parts, *head), Inputs((InputSpec((3, side, side)),))


def _tokens(dice: Dice, batch: int, flops: float) -> tuple[nn.Module, Inputs]:
    """Patches of images, attention or mixing, and linear layers."""
    rng = dice.rng
    patch, grid = rng.choice((4, 8, 16, 16)), octaves(rng, 2, 14)
    length = grid**2
    width, depth = _token_width(dice, batch * length, flops, rng.randint(1, 3))
    parts: list[nn.Module] = [nn.Conv2d(3, width, patch, patch), blocks.Tokens()]
    parts += dice.repeated(nn.Sequential(*_token_blocks(dice, width, length, depth)))
    parts.append(blocks.Mean(1) if rng.random() < 0.6 else blocks.First())
    parts.append(nn.Linear(width, octaves(rng, 2, 1000)))
    return nn.Sequential(*parts), Inputs((InputSpec((3, patch * grid, patch * grid)),))


def _token_width(dice: Dice, rows: int, flops: float, depth: int) -> tuple[int, int]:
    """The width that blocks of about 12 squares of it may have."""
    most = math.sqrt(max(flops, 1e5) / 24 / rows / depth)
    step = dice.rng.choice((8, 16, 32, 64, 64))
    most = min(max(most, step), 2048)
    return octaves(dice.rng, max(step, most / 4), most, step), depth


def _token_blocks(dice: Dice, width: int, length: int, depth: int) -> list[nn.Module]:
    rng = dice.rng
    norm = TOKEN_NORMS[rng.choice(("layer", "layer", "rms", "none"))]
    parts: list[nn.Module] = []
    for _ in range(depth):
        heads = rng.choice(
            [h for h in (1, 2, 4, 8, 12, 16) if width % h == 0 and width // h >= 8] or [1]
        )
        attention = blocks.Attention(
            width, heads, rng.random() < 0.6, rng.random() < 0.5, rng.random() < 0.4
        )
        mixing = blocks.Mixing(length, octaves(rng, 8, 512, 8), dice.activation())
        body = rng.choice((attention, attention, mixing, None))
        if body is not None:
            inner = [norm(width), body, *dice.some(lambda: nn.Dropout(0.1), 0.7, 0.3)]
            parts.append(blocks.Residual(nn.Sequential(*inner), rng.choice((0, 0, width))))
        ratio = rng.choice((1, 2, 4, 4))
        form = rng.choice(("plain", "plain", "gated", "none"))
        if form == "gated":
            gated = blocks.Gated(width, ratio * width, dice.activation())
            parts.append(blocks.Residual(nn.Sequential(norm(width), gated)))
        elif form == "plain":
            inner = [norm(width), nn.Linear(width, ratio * width), ACTIVATIONS[dice.activation()]()]
            inner += dice.some(lambda: nn.Dropout(0.1), 0.6, 0.4)
            inner.append(nn.Linear(ratio * width, width))
            parts.append(blocks.Residual(nn.Sequential(*inner)))
    return parts


def _language(dice: Dice, batch: int, flops: float) -> tuple[nn.Module, Inputs]:
    """Tables of tokens, attention, and scores of all tokens or of some classes."""
    rng = dice.rng
    length = octaves(rng, 8, 512, 8)
    entries = octaves(rng, 100, 32000)
    width, depth = _token_width(dice, batch * length, flops, rng.randint(1, 3))
    parts: list[nn.Module] = [blocks.Embedded(entries, length, width, rng.random() < 0.5)]
    parts += dice.repeated(nn.Sequential(*_token_blocks(dice, width, length, depth)))
    scores = 2.0 * batch * length * width * entries
    if scores < flops and batch * length * entries * 4 < MOST_BYTES and rng.random() < 0.6:
        parts.append(nn.Linear(width, entries, bias=False))
    else:
        parts += [blocks.Mean(1), nn.Linear(width, octaves(rng, 2, 1000))]
    return nn.Sequential(*parts), Inputs((InputSpec((length,), "int64", entries),))


def _recurrent(dice: Dice, batch: int, flops: float) -> tuple[nn.Module, Inputs]:
    """Recurrent layers over tokens or signals."""
    rng = dice.rng
    length, layers, both = octaves(rng, 8, 256), rng.choice((1, 1, 2)), rng.random() < 0.3
    most = math.sqrt(max(flops, 1e5) / 16 / batch / length / layers / (1 + both))
    hidden = dice.width(8, min(max(most, 8), 1024))
    cell = rng.choice(("lstm", "lstm", "gru", "rnn"))
    entries = octaves(rng, 100, 20000)
    if rng.random() < 0.6:
        width = dice.width(8, 512)
        parts: list[nn.Module] = [nn.Embedding(entries, width)]
        spec = InputSpec((length,), "int64", entries)
    else:
        width, parts = octaves(rng, 1, 128), []
        spec = InputSpec((length, width))
    parts.append(blocks.Recurrent(cell, width, hidden, layers, both))
    leaving = hidden * (1 + both)
    every = rng.random() < 0.4 and 2.0 * batch * length * leaving * entries < flops
    if every and batch * length * entries * 4 < MOST_BYTES:
        parts.append(nn.Linear(leaving, entries))
    else:
        parts += [
            rng.choice((blocks.First(), blocks.Mean(1))),
            nn.Linear(leaving, octaves(rng, 2, 100)),
        ]
    return nn.Sequential(*parts), Inputs((spec,))


def _rows(dice: Dice, batch: int, flops: float) -> tuple[nn.Module, Inputs]:
    """Linear layers on rows of numbers, with anything between."""
    rng = dice.rng
    batch_rows = batch
    width = entering = octaves(rng, 4, 4096)
    parts: list[nn.Module] = []
    depth = rng.randint(1, 4)
    for _ in range(depth * dice.again):
        most = flops / depth / 2 / batch_rows / width
        out = dice.width(8, min(max(most, 8), 8192, 3e7 / width))
        parts.append(nn.Linear(width, out))
        parts += dice.decorated(_row_norm(rng, out))
        width = out
    parts.append(nn.Linear(width, octaves(rng, 2, 1000)))
    return nn.Sequential(*parts), Inputs((InputSpec((entering,)),))


def _row_norm(rng: random.Random, width: int) -> Callable[[], nn.Module]:
    # One sample has no variance, so normalisation over the batch is left to maps.
    return lambda: nn.LayerNorm(width)
