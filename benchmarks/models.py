"""Five small models as their users would write them, none of them in the zoo.

Each factory says its input, so `benchmarks/models.py:vit_tiny(width=64, depth=2)` names a model
wherever ampere takes one. `tune` is how it is trained: all of it, the head alone, or the head and
adapters of low rank inside a body that is frozen.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

CLASSES = 10
RANK = 4
Factory = TypeVar("Factory", bound=Callable[..., nn.Module])


def fed(input: str) -> Callable[[Factory], Factory]:
    """Let a factory say what its models are fed."""

    def mark(factory: Factory) -> Factory:
        factory.input = input  # type: ignore[attr-defined]
        return factory

    return mark


# --- Fine-tuning ----------------------------------------------------------------------------------


class LoRA(nn.Module):
    """A frozen linear layer and a trained correction of low rank."""

    def __init__(self, base: nn.Linear, rank: int = RANK, alpha: float = 8.0) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        self.scale = alpha / rank
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Both together."""
        y: Tensor = self.base(x) + self.scale * self.up(self.down(x))
        return y


def add_adapters(module: nn.Module) -> None:
    """Put an adapter on every linear layer inside."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, LoRA(child))
        else:
            add_adapters(child)


def tuned(model: nn.Module, tune: str, *head: nn.Module) -> nn.Module:
    """The model with only the head trained, or the head and adapters in the blocks."""
    if tune == "all":
        return model
    if tune not in ("head", "lora"):
        raise ValueError(f"tune is {tune!r}: use all, head or lora")
    model.requires_grad_(False)
    if tune == "lora":
        add_adapters(model.get_submodule("blocks"))
    for part in head:
        part.requires_grad_(True)
    return model


# --- A vision transformer -------------------------------------------------------------------------


class Attention(nn.Module):
    """Self-attention written out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Every token looks at every other."""
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attention = (q @ k.transpose(-2, -1) * self.scale).softmax(dim=-1)
        y: Tensor = self.proj((attention @ v).transpose(1, 2).reshape(b, n, c))
        return y


class ViTBlock(nn.Module):
    """Attention and an MLP, each normalised first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Both are added to what comes in."""
        x = x + self.attn(self.norm1(x))
        x = x + self.mlp(self.norm2(x))
        return x


class ViT(nn.Module):
    """Patches of 4×4 of a 32×32 image, with a class token that the head reads."""

    def __init__(self, width: int, depth: int, heads: int = 4) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, kernel_size=4, stride=4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, 65, width))
        self.blocks = nn.Sequential(*[ViTBlock(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes."""
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        scores: Tensor = self.head(self.norm(self.blocks(x))[:, 0])
        return scores


@fed("3x32x32")
def vit_tiny(width: int = 96, depth: int = 3, tune: str = "all") -> nn.Module:
    model = ViT(width, depth)
    return tuned(model, tune, model.head)


# --- A mobile network -----------------------------------------------------------------------------


class ConvNormAct(nn.Sequential):
    """Convolution, batch norm, ReLU6."""

    def __init__(self, entering: int, leaving: int, kernel: int, stride: int = 1, groups: int = 1):
        super().__init__(
            nn.Conv2d(entering, leaving, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(leaving),
            nn.ReLU6(inplace=True),
        )


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project."""

    def __init__(self, entering: int, leaving: int, stride: int, expand: int) -> None:
        super().__init__()
        inner = entering * expand
        layers: list[nn.Module] = [] if expand == 1 else [ConvNormAct(entering, inner, 1)]
        layers += [
            ConvNormAct(inner, inner, 3, stride, groups=inner),
            nn.Conv2d(inner, leaving, 1, bias=False),
            nn.BatchNorm2d(leaving),
        ]
        self.conv = nn.Sequential(*layers)
        self.use_res_connect = stride == 1 and entering == leaving

    def forward(self, x: Tensor) -> Tensor:
        """With a skip where the sizes allow it."""
        y: Tensor = self.conv(x)
        return x + y if self.use_res_connect else y


class MobileNet(nn.Module):
    """Stages of inverted residuals; the first of each halves the map and widens."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        blocks: list[nn.Module] = [InvertedResidual(width, width, 1, 1)]
        entering = width
        for leaving in (2 * width, 3 * width, 4 * width):
            for i in range(depth):
                blocks.append(InvertedResidual(entering, leaving, 1 if i else 2, 4))
                entering = leaving
        self.stem = ConvNormAct(3, width, 3, 2)
        self.blocks = nn.Sequential(*blocks)
        self.last = ConvNormAct(entering, 8 * width, 1)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(8 * width, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes."""
        x = self.last(self.blocks(self.stem(x)))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        scores: Tensor = self.classifier(x)
        return scores


@fed("3x32x32")
def mobilenet(width: int = 24, depth: int = 2, tune: str = "all") -> nn.Module:
    model = MobileNet(width, depth)
    return tuned(model, tune, model.classifier)


# --- A language model -----------------------------------------------------------------------------


class CausalSelfAttention(nn.Module):
    """Each token looks at those before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """By torch's own kernel."""
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(self.width, dim=2)
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))
        return out


class GPTBlock(nn.Module):
    """Attention and an MLP, each normalised first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Both are added to what comes in."""
        x = x + self.attn(self.ln_1(x))
        x = x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x))))
        return x


class GPT(nn.Module):
    """A decoder over 64 tokens whose head is its embedding."""

    def __init__(self, vocabulary: int, width: int, depth: int, heads: int = 4) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(64, width)
        self.drop = nn.Dropout(0.1)
        self.blocks = nn.ModuleList([GPTBlock(width, heads) for _ in range(depth)])
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of the next token at every place."""
        places = torch.arange(tokens.size(1), device=tokens.device)
        x = self.drop(self.wte(tokens) + self.wpe(places))
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.lm_head(self.ln_f(x))
        return scores


@fed("64:int64<500")
def gpt(width: int = 96, depth: int = 2, tune: str = "all") -> nn.Module:
    return tuned(GPT(500, width, depth), tune)  # a head that is tied stays as it was trained


# --- A segmentation network -----------------------------------------------------------------------


class DoubleConv(nn.Module):
    """Twice convolution, batch norm and ReLU."""

    def __init__(self, entering: int, leaving: int) -> None:
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(entering, leaving, 3, padding=1, bias=False),
            nn.BatchNorm2d(leaving),
            nn.ReLU(inplace=True),
            nn.Conv2d(leaving, leaving, 3, padding=1, bias=False),
            nn.BatchNorm2d(leaving),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        """One after the other."""
        y: Tensor = self.double_conv(x)
        return y


class Down(nn.Module):
    """Half the map, then twice the channels."""

    def __init__(self, entering: int, leaving: int) -> None:
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(entering, leaving))

    def forward(self, x: Tensor) -> Tensor:
        """One after the other."""
        y: Tensor = self.maxpool_conv(x)
        return y


class Up(nn.Module):
    """Twice the map, joined with what came down at that size."""

    def __init__(self, entering: int, leaving: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(entering, leaving, kernel_size=2, stride=2)
        self.conv = DoubleConv(2 * leaving, leaving)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """What came down stands first."""
        y: Tensor = self.conv(torch.cat([skip, self.up(x)], dim=1))
        return y


class UNet(nn.Module):
    """Down and up again, with a skip at every size, and classes for every pixel."""

    def __init__(self, width: int, levels: int, classes: int) -> None:
        super().__init__()
        sizes = [width * 2**level for level in range(levels + 1)]
        self.inc = DoubleConv(3, width)
        self.downs = nn.ModuleList([Down(a, b) for a, b in pairwise(sizes)])
        self.ups = nn.ModuleList([Up(b, a) for a, b in pairwise(sizes)][::-1])
        self.outc = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes of each pixel."""
        skips = [self.inc(x)]
        for down in self.downs:
            skips.append(down(skips[-1]))
        x = skips.pop()
        for up in self.ups:
            x = up(x, skips.pop())
        scores: Tensor = self.outc(x)
        return scores


@fed("3x24x24")
def unet(width: int = 16, levels: int = 3) -> nn.Module:
    return UNet(width, levels, classes=4)


# --- An image and a question about it -------------------------------------------------------------


class ResBlock(nn.Module):
    """Two convolutions and what came in."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """With a skip around both."""
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(x + self.bn2(self.conv2(y)))


class QuestionAnswering(nn.Module):
    """Convolutions look, a GRU reads; an answer from both, and the kind of question beside it."""

    def __init__(self, width: int, hidden: int, depth: int, joint: int = 128) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.image = nn.Sequential(*[ResBlock(width) for _ in range(depth)])
        self.embed = nn.Embedding(200, 48)
        self.gru = nn.GRU(48, hidden, batch_first=True)
        self.look = nn.Linear(width, joint)
        self.read = nn.Linear(hidden, joint)
        self.answer = nn.Linear(joint, 50)
        self.asked = nn.Linear(hidden, 5)

    def forward(self, image: Tensor, *, question: Tensor) -> dict[str, Any]:
        """Scores of answers and of kinds of questions."""
        seen = self.image(self.stem(image)).mean((2, 3))
        _, state = self.gru(self.embed(question))
        words = state[-1]
        both = torch.tanh(self.look(seen)) * torch.tanh(self.read(words))
        return {"answer": self.answer(both), "asked": self.asked(words)}


@fed("3x32x32, question=12:int64<200")
def question_answering(width: int = 32, hidden: int = 96, depth: int = 2) -> nn.Module:
    return QuestionAnswering(width, hidden, depth)


# --- Digits ---------------------------------------------------------------------------------------


class RowLSTM(nn.Module):
    """Reads an image row by row: an embedding of each, an LSTM, and a head on its last state."""

    def __init__(self, embedding: int = 64, hidden: int = 256) -> None:
        super().__init__()
        self.embed = nn.Linear(32, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.head = nn.Linear(hidden, CLASSES)

    def forward(self, rows: Tensor) -> Tensor:
        """Logits of a batch of images."""
        x: Tensor
        x, _ = self.lstm(F.relu(self.embed(rows)))
        x = self.head(x[:, -1])
        return x


@fed("32x32")
def row_lstm(embedding: int = 64, hidden: int = 256) -> nn.Module:
    """A recurrent classifier of images of 32 rows."""
    return RowLSTM(embedding, hidden)
