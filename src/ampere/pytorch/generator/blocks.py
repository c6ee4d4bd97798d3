"""Blocks that networks are drawn from: those of public architectures, in forms that vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "leaky": lambda: nn.LeakyReLU(0.1),
    "hardswish": nn.Hardswish,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "elu": nn.ELU,
}


class RMSNorm(nn.Module):
    """As language models write it themselves."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Each position divided by its size."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class ChannelNorm(nn.Module):
    """Layer normalisation over the channels of maps, between two permutations."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Maps, as they came."""
        result: Tensor = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return result


MAP_NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm2d,
    "group": lambda width: nn.GroupNorm(next(g for g in (8, 4, 2, 1) if width % g == 0), width),
    "channel": ChannelNorm,
    "none": lambda width: nn.Identity(),
}
TOKEN_NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layer": nn.LayerNorm,
    "rms": RMSNorm,
    "none": lambda width: nn.Identity(),
}


class Residual(nn.Module):
    """What a body makes of its input, added to it."""

    def __init__(self, body: nn.Module, scaled: int = 0) -> None:
        super().__init__()
        self.body = body
        self.scale = nn.Parameter(torch.ones(scaled)) if scaled else None

    def forward(self, x: Tensor) -> Tensor:
        """Both."""
        out = self.body(x)
        result: Tensor = x + (out if self.scale is None else out * self.scale)
        return result


class Squeeze(nn.Module):
    """Squeeze and excitation: channels weighed by what all positions say."""

    def __init__(self, width: int, ratio: int, activation: str) -> None:
        super().__init__()
        inner = max(width // ratio, 1)
        self.down, self.up = nn.Conv2d(width, inner, 1), nn.Conv2d(inner, width, 1)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, x: Tensor) -> Tensor:
        """Maps, weighed."""
        weights = self.up(self.activation(self.down(x.mean((2, 3), keepdim=True))))
        result: Tensor = x * weights.sigmoid()
        return result


class Dense(nn.Module):
    """New channels beside the old ones."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        """Both."""
        return torch.cat([x, self.body(x)], 1)


class Convnext(nn.Module):
    """A depthwise convolution, and two linear layers over channels that come last."""

    def __init__(self, width: int, kernel: int, ratio: int, activation: str) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, ratio * width), nn.Linear(ratio * width, width)
        self.activation = ACTIVATIONS[activation]()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Maps, as they came."""
        out = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        out = self.scale * self.down(self.activation(self.up(out)))
        result: Tensor = x + out.permute(0, 3, 1, 2)
        return result


class Attention(nn.Module):
    """Self-attention: fused, or by matrices and softmax; of one projection, or of three."""

    def __init__(self, width: int, heads: int, fused: bool, joint: bool, causal: bool) -> None:
        super().__init__()
        self.heads, self.fused, self.joint, self.causal = heads, fused, joint, causal
        if joint:
            self.qkv = nn.Linear(width, 3 * width)
        else:
            self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.project = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """What each position gathers."""
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        if self.joint:
            parts = self.qkv(x).reshape(batch, length, 3, *split[2:]).permute(2, 0, 3, 1, 4)
            q, k, v = parts.unbind(0)
        else:
            q, k, v = (
                each(x).view(split).transpose(1, 2) for each in (self.query, self.key, self.value)
            )
        if self.fused:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = (q * split[-1] ** -0.5) @ k.transpose(-2, -1)
            out = scores.softmax(-1) @ v
        result: Tensor = self.project(out.transpose(1, 2).reshape(batch, length, width))
        return result


class Gated(nn.Module):
    """Two linear layers whose product enters a third, as in recent language models."""

    def __init__(self, width: int, inner: int, activation: str) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, x: Tensor) -> Tensor:
        """As wide as before."""
        result: Tensor = self.down(self.activation(self.gate(x)) * self.up(x))
        return result


class Mixing(nn.Module):
    """Two linear layers over the positions of a sequence."""

    def __init__(self, length: int, inner: int, activation: str) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(length, inner), nn.Linear(inner, length)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, x: Tensor) -> Tensor:
        """As long as before."""
        out = self.down(self.activation(self.up(x.transpose(1, 2))))
        result: Tensor = x + out.transpose(1, 2)
        return result


class Tokens(nn.Module):
    """Maps as a sequence of positions."""

    def forward(self, x: Tensor) -> Tensor:
        """Channels last."""
        return x.flatten(2).transpose(1, 2)


class Embedded(nn.Module):
    """Tokens by a table, and positions by another."""

    def __init__(self, entries: int, length: int, width: int, positions: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(entries, width)
        self.positions = nn.Parameter(torch.zeros(length, width)) if positions else None

    def forward(self, x: Tensor) -> Tensor:
        """A vector for each token."""
        out = self.table(x)
        result: Tensor = out if self.positions is None else out + self.positions
        return result


class Mean(nn.Module):
    """The mean over the positions of a sequence, or of maps."""

    def __init__(self, *axes: int) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: Tensor) -> Tensor:
        """Without these axes."""
        return x.mean(self.axes)


class First(nn.Module):
    """The first position of a sequence."""

    def forward(self, x: Tensor) -> Tensor:
        """Without the others."""
        return x[:, 0]


class Recurrent(nn.Module):
    """A recurrent layer without its last state."""

    def __init__(self, cell: str, width: int, hidden: int, layers: int, both: bool) -> None:
        super().__init__()
        made: Any = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[cell]
        self.inner = made(width, hidden, layers, batch_first=True, bidirectional=both)

    def forward(self, x: Tensor) -> Tensor:
        """All positions."""
        out: Tensor = self.inner(x)[0]
        return out
