"""Small models, one for each operation that MNN trains: what goes in has weights before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

SMALL_FAMILIES: dict[str, dict[str, Any]] = {  # of the zoo, for a single step
    "lstm": {"embedding": 12, "hidden": 10},
    "transformer": {"d_model": 16},
}
STEMS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "maps": ("3x8x8", lambda: nn.Conv2d(3, 4, 3, padding=1)),
    "signals": ("3x12", lambda: nn.Conv1d(3, 4, 3, padding=1)),
    "rows": ("6", lambda: nn.Linear(6, 8)),
    "tokens": ("5x6", lambda: nn.Linear(6, 8)),
}


class Between(nn.Module):
    """An operation between a stem and a head."""

    def __init__(self, over: str, run: Any) -> None:
        super().__init__()
        self.stem = STEMS[over][1]()
        self.run = run
        size = STEMS[over][0].split("x")
        with torch.no_grad():
            out = self.run(self.stem(torch.zeros(2, *map(int, size))))
        self.head = nn.Linear(out[0].numel(), 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.run(self.stem(x)).flatten(1))


@dataclass(frozen=True)
class Case:
    """A name, what goes in, and what is done with it."""

    name: str
    over: str
    make: Callable[[], Any]
    tolerance: float = 2e-5

    @property
    def inputs(self) -> str:
        return STEMS[self.over][0]

    def model(self) -> nn.Module:
        torch.manual_seed(1)
        return Between(self.over, self.make())


def of_modules(over: str, *modules: Any, tolerance: float = 2e-5) -> list[Case]:
    """Cases of modules: each is built by calling what is given."""
    made = [(make().__class__.__name__, make) for make in modules]
    return [Case(f"{name}-{n}", over, make, tolerance) for n, (name, make) in enumerate(made)]


def of_functions(over: str, **functions: Callable[[Tensor], Tensor]) -> list[Case]:
    """Cases of functions."""
    return [Case(name, over, lambda run=run: run) for name, run in functions.items()]


class Own(nn.Module):
    """A function beside a parameter of its own."""

    def __init__(self, shape: tuple[int, ...], run: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.own, self.run = nn.Parameter(torch.randn(shape)), run

    def forward(self, x: Tensor) -> Tensor:
        return self.run(x, self.own)


class Recurrent(nn.Module):
    def __init__(self, inner: nn.Module, part: int = 0) -> None:
        super().__init__()
        self.inner, self.part = inner, part

    def forward(self, x: Tensor) -> Tensor:
        out = self.inner(x)[self.part]
        return out[0] if isinstance(out, tuple) else out


class WithState(nn.Module):
    """A state that is made elsewhere enters a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.GRU(8, 8, batch_first=True), nn.GRU(8, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        _, state = self.first(x)
        return self.second(x, state)[0]


class SelfAttention(nn.Module):
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, **settings)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x, need_weights=False)[0]


class CrossAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x * 2.0, x * 3.0, need_weights=False)[0]


def heads(x: Tensor) -> Tensor:
    return x.view(-1, 5, 2, 4).transpose(1, 2)


def depthwise(over: int) -> nn.Module:
    return [nn.Conv1d, nn.Conv2d][over - 1](4, 4, 3, padding=1, groups=4)


CASES = [
    *of_modules(
        "maps",
        lambda: nn.Conv2d(4, 5, 3, stride=2, padding=1),
        lambda: nn.Conv2d(4, 5, (2, 3), stride=(1, 2), padding=(0, 1), bias=False),
        lambda: nn.Conv2d(4, 5, 3, padding="same", dilation=2),
        lambda: depthwise(2),
        lambda: nn.BatchNorm2d(4),
        lambda: nn.GroupNorm(2, 4),
        lambda: nn.InstanceNorm2d(4, affine=True),
        lambda: nn.MaxPool2d(2),
        lambda: nn.MaxPool2d(3, 2),
        lambda: nn.AvgPool2d((1, 2)),
        lambda: nn.AdaptiveAvgPool2d(1),
        lambda: nn.AdaptiveAvgPool2d((2, 4)),
        lambda: nn.AdaptiveMaxPool2d(2),
        lambda: nn.PReLU(4),
        lambda: nn.Flatten(2),
        nn.Identity,
    ),
    *of_modules(
        "signals",
        lambda: nn.Conv1d(4, 5, 5, stride=2, padding=2),
        lambda: depthwise(1),
        lambda: nn.BatchNorm1d(4),
        lambda: nn.InstanceNorm1d(4),
        lambda: nn.MaxPool1d(2),
        lambda: nn.AvgPool1d(3),
        lambda: nn.AdaptiveAvgPool1d(1),
    ),
    *of_modules(
        "rows",
        lambda: nn.Linear(8, 5, bias=False),
        lambda: nn.BatchNorm1d(8),
        nn.ReLU,
        lambda: nn.ReLU(inplace=True),
        nn.ReLU6,
        nn.Hardtanh,
        lambda: nn.LeakyReLU(0.1),
        nn.PReLU,
        nn.ELU,
        nn.SELU,
        nn.SiLU,
        nn.Sigmoid,
        nn.Hardsigmoid,
        nn.Hardswish,
        nn.Tanh,
        lambda: nn.Softplus(2.0),
        nn.Mish,
        lambda: nn.Softmax(-1),
        lambda: nn.LogSoftmax(1),
        lambda: nn.GELU("tanh"),
        lambda: nn.Unflatten(1, (2, 4)),
        lambda: nn.Dropout(0.0),
    ),
    # MNN's own differs in the third digit after the point.
    *of_modules("rows", nn.GELU, tolerance=2e-3),
    *of_modules(
        "tokens",
        lambda: nn.LayerNorm(8),
        lambda: nn.LayerNorm((5, 8), bias=False),
        lambda: nn.RMSNorm(8),
        lambda: Recurrent(nn.LSTM(8, 6, batch_first=True)),
        lambda: Recurrent(nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True)),
        lambda: Recurrent(nn.LSTM(8, 6, bias=False), 1),
        lambda: Recurrent(nn.GRU(8, 6, batch_first=True, bidirectional=True)),
        lambda: Recurrent(nn.RNN(8, 6, batch_first=True)),
        lambda: Recurrent(nn.RNN(8, 6, batch_first=True, nonlinearity="relu")),
        WithState,
        lambda: SelfAttention(batch_first=True),
        lambda: SelfAttention(bias=False),
        CrossAttention,
        lambda: Own((8, 8), lambda x, w: x @ w),
        lambda: Own((5, 8), lambda x, w: x + w),
        lambda: Own((8, 8), F.linear),
        lambda: Own((8,), lambda x, w: F.layer_norm(x, (8,), w)),
        lambda: Own((5,), lambda x, w: F.group_norm(x, 5, w)),
        lambda: Own((8,), lambda x, w: F.prelu(x.transpose(1, 2), w)),
        lambda: Own((3, 5, 3), lambda x, w: F.conv1d(x, w, None, 1, 1)),
    ),
    *of_modules("maps", lambda: Own((5, 4, 3, 3), lambda x, w: F.conv2d(x, w, padding=1))),
    *of_functions(
        "maps",
        max_pool2d=lambda x: F.max_pool2d(x, 2),
        avg_pool2d=lambda x: F.avg_pool2d(x, 2),
        adaptive_avg_pool2d=lambda x: F.adaptive_avg_pool2d(x, 1),
        adaptive_max_pool2d=lambda x: F.adaptive_max_pool2d(x, 2),
        permute=lambda x: x.permute(0, 2, 3, 1),
        squeeze_excite=lambda x: x * x.mean((2, 3), keepdim=True).sigmoid(),
        residual=lambda x: x + F.relu(x),
        cat=lambda x: torch.cat([x, x * x], 1),
    ),
    *of_functions(
        "signals",
        max_pool1d=lambda x: F.max_pool1d(x, 2),
        avg_pool1d=lambda x: F.avg_pool1d(x, 2),
        adaptive_avg_pool1d=lambda x: F.adaptive_avg_pool1d(x, 3),
    ),
    *of_functions(
        "rows",
        relu=torch.relu,
        relu_=lambda x: x.relu_(),
        relu6=F.relu6,
        hardtanh=lambda x: F.hardtanh(x, -0.5, 0.5),
        clamp=lambda x: x.clamp(-0.3, 0.4),
        clamp_min=lambda x: x.clamp(min=0.1),
        leaky_relu=F.leaky_relu,
        elu=F.elu,
        selu=F.selu,
        silu=F.silu,
        sigmoid=torch.sigmoid,
        tanh=torch.tanh,
        softplus=F.softplus,
        mish=F.mish,
        softmax=lambda x: x.softmax(-1),
        log_softmax=lambda x: F.log_softmax(x, -1),
        dropout=lambda x: F.dropout(x, 0.0),
        rsub=lambda x: 1 - x,
        rsub_alpha=lambda x: torch.rsub(x, x * x, alpha=3),
        radd=lambda x: 2 + x,
        rmul=lambda x: 2 * x,
        rdiv=lambda x: 1 / (x * x + 1),
        iadd=lambda x: (x * 1.0).add_(1.0),
        add_alpha=lambda x: torch.add(x, x * x, alpha=2),
        sub=lambda x: x - x * x,
        isub=lambda x: (x * 1.0).sub_(1.0).mul_(2.0).div_(3.0),
        div=lambda x: x / 3,
        neg=lambda x: -x,
        exp=torch.exp,
        log=lambda x: (x * x + 1).log(),
        sqrt=lambda x: (x * x + 1).sqrt(),
        rsqrt=lambda x: (x * x + 1).rsqrt(),
        reciprocal=lambda x: (x * x + 1).reciprocal(),
        square=torch.square,
        abs=torch.abs,
        pow=lambda x: x.pow(2) + x**3,
        masked_fill=lambda x: x.masked_fill(torch.ones_like(x) > 2, -1.0),
        where=lambda x: torch.where(x > 0, x, x * 0.5),
        compare=lambda x: x * (x < 0.5) + x * (x >= 0.1) + x * (x <= 0.0) + x * (x == 1.0),
        detach=lambda x: x * x.detach(),
        clone=lambda x: x.clone().contiguous().float(),
        t=lambda x: (x.t() * 2.0).t() + x.T.T,
        chunk=lambda x: x.chunk(2, 1)[1] * x.chunk(2, 1)[0],
        split=lambda x: x.split([3, 5], 1)[1],
        narrow=lambda x: x.narrow(1, 2, 4),
        select=lambda x: x.select(1, 2).unsqueeze(1),
        repeat=lambda x: x.repeat(1, 2),
        expand=lambda x: x.unsqueeze(1).expand(-1, 3, -1),
        zeros=lambda x: x + torch.zeros(8, device=x.device) + torch.ones(8, device=x.device),
        full=lambda x: x + torch.full((8,), 2.0, device=x.device),
        like=lambda x: x + torch.zeros_like(x) + torch.ones_like(x),
        new=lambda x: x + x.new_zeros(8) + x.new_ones(8),
        var=lambda x: x / (x.var(1, keepdim=True) + 1.0),
        sum=lambda x: x.sum(1, keepdim=True) * x,
    ),
    *of_functions(
        "tokens",
        matmul=lambda x: x @ x.transpose(-2, -1),
        bmm=lambda x: torch.bmm(x, x.mT),
        attention=lambda x: F.scaled_dot_product_attention(heads(x), heads(x), heads(x)),
        causal=lambda x: F.scaled_dot_product_attention(
            heads(x), heads(x), heads(x), is_causal=True
        ),
        stack=lambda x: torch.stack([x, x * x], 1),
        unbind=lambda x: x.unbind(1)[0] * x.unbind(1)[3],
        last=lambda x: x[:, -1],
        slices=lambda x: x[:, 1:4, ..., 2:] * x[:, 0:3, None, 2:].squeeze(2),
        view=lambda x: x.reshape(-1, 40).view(-1, 8, 5),
        mean=lambda x: x.mean(1),
        positions=lambda x: x * torch.arange(5, device=x.device).unsqueeze(1),
    ),
]
