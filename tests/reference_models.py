"""Models as users write them, one for each structure that must be read as it is.

All sizes of a model follow from one `width`, so the same class at another width is the truth that
a rebuilt layer is compared with. What is usually initialised to (almost) nothing, such as layer
scales and the second matrix of an adapter, starts at a size at which a mistake would be seen, and
nothing is dropped out at random.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils.parametrizations import weight_norm

CLASSES = 10
VOCABULARY = 50
LENGTH = 16
HEADS = 4
PATCHES = 16


class Network(nn.Module):
    """A stem, a body of blocks one after the other, and a head."""

    def __init__(self, stem: nn.Module, body: list[nn.Module], head: nn.Module) -> None:
        super().__init__()
        self.stem, self.body, self.head = stem, nn.Sequential(*body), head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.stem(x)))


def conv_norm(
    entering: int, leaving: int, kernel: int = 3, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    conv = nn.Conv2d(entering, leaving, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(leaving))


def conv_norm_relu(
    entering: int, leaving: int, kernel: int = 3, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    return conv_norm(entering, leaving, kernel, stride, groups).append(nn.ReLU(inplace=True))


def pooled_head(channels: int) -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


# --- Chains and residual blocks -------------------------------------------------------------------


class Plain(nn.Module):
    """Convolutions, activations, pools, and two linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Linear(2 * width * 4 * 4, 4 * width), nn.ReLU(), nn.Linear(4 * width, CLASSES)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.features(x), 1))


def shortcut(entering: int, leaving: int, stride: int) -> nn.Module:
    """Nothing, or a projection where the sizes change."""
    if stride == 1 and entering == leaving:
        return nn.Identity()
    return conv_norm(entering, leaving, 1, stride)


class BasicBlock(nn.Module):
    def __init__(self, entering: int, leaving: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(entering, leaving, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(leaving)
        self.conv2 = nn.Conv2d(leaving, leaving, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(leaving)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = shortcut(entering, leaving, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.shortcut(x)
        return self.relu(y)


class Bottleneck(nn.Module):
    """1x1 down to a quarter, 3x3, 1x1 up."""

    def __init__(self, entering: int, leaving: int, stride: int = 1) -> None:
        super().__init__()
        inner = leaving // 4
        self.down = conv_norm_relu(entering, inner, 1)
        self.conv = conv_norm_relu(inner, inner, 3, stride)
        self.up = conv_norm(inner, leaving, 1)
        self.shortcut = shortcut(entering, leaving, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.up(self.conv(self.down(x))) + self.shortcut(x))


class SqueezeExcite(nn.Module):
    """Scales every channel by what the mean of all channels says."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(channels, channels // 4)
        self.fc2 = nn.Linear(channels // 4, channels)

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, _, _ = x.size()
        scale = torch.sigmoid(self.fc2(F.relu(self.fc1(x.mean((2, 3))))))
        return x * scale.view(batch, channels, 1, 1)


class SqueezeExciteBlock(nn.Module):
    def __init__(self, entering: int, leaving: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = conv_norm_relu(entering, leaving, 3, stride)
        self.conv2 = conv_norm(leaving, leaving)
        self.se = SqueezeExcite(leaving)
        self.shortcut = shortcut(entering, leaving, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.se(self.conv2(self.conv1(x))) + self.shortcut(x))


def staged(block: Callable[..., nn.Module], width: int) -> Network:
    """Two stages of two blocks; the second starts at half the map and twice the channels."""
    stages = [
        nn.Sequential(block(width, width), block(width, width)),
        nn.Sequential(block(width, 2 * width, 2), block(2 * width, 2 * width)),
    ]
    return Network(conv_norm_relu(3, width), stages, pooled_head(2 * width))


# --- Branches, concatenation, depthwise convolutions ----------------------------------------------


class Inception(nn.Module):
    """Four branches of a quarter of the channels each."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        part, half = channels // 4, channels // 2
        self.branch1 = conv_norm_relu(channels, part, 1)
        self.branch2 = nn.Sequential(
            conv_norm_relu(channels, half, 1), conv_norm_relu(half, part, 3)
        )
        self.branch3 = nn.Sequential(
            conv_norm_relu(channels, part, 1), conv_norm_relu(part, part, 5)
        )
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1), conv_norm_relu(channels, part, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


def inception(width: int) -> Network:
    body = [Inception(width), Inception(width), nn.MaxPool2d(2), Inception(width)]
    return Network(conv_norm_relu(3, width), body, pooled_head(width))


class DenseLayer(nn.Module):
    def __init__(self, entering: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(entering)
        self.conv1 = nn.Conv2d(entering, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, features: list[Tensor]) -> Tensor:
        x = self.conv1(F.relu(self.norm1(torch.cat(features, 1))))
        return self.conv2(F.relu(self.norm2(x)))


class DenseBlock(nn.Module):
    """Every layer reads what all layers before it wrote."""

    def __init__(self, entering: int, growth: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            DenseLayer(entering + index * growth, growth) for index in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.layers:
            features.append(layer(features))
        return torch.cat(features, 1)


class Transition(nn.Sequential):
    def __init__(self, entering: int, leaving: int) -> None:
        conv = nn.Conv2d(entering, leaving, 1, bias=False)
        super().__init__(nn.BatchNorm2d(entering), nn.ReLU(), conv, nn.AvgPool2d(2))


def dense(width: int) -> Network:
    growth, layers = width // 2, 2
    grown = width + layers * growth
    body = [
        DenseBlock(width, growth, layers),
        Transition(grown, grown // 2),
        DenseBlock(grown // 2, growth, layers),
        nn.BatchNorm2d(grown // 2 + layers * growth),
        nn.ReLU(),
    ]
    head = pooled_head(grown // 2 + layers * growth)
    return Network(nn.Conv2d(3, width, 3, padding=1), body, head)


class SeparableBlock(nn.Module):
    """A convolution within the channels, then one across them."""

    def __init__(self, entering: int, leaving: int, stride: int = 1) -> None:
        super().__init__()
        self.depthwise = conv_norm_relu(entering, entering, 3, stride, groups=entering)
        self.pointwise = conv_norm_relu(entering, leaving, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.pointwise(self.depthwise(x))


class InvertedResidual(nn.Module):
    """Six times wider inside; the narrow ends have no activation."""

    def __init__(self, entering: int, leaving: int, stride: int = 1) -> None:
        super().__init__()
        inner = 6 * entering
        self.residual = stride == 1 and entering == leaving
        self.conv = nn.Sequential(
            nn.Conv2d(entering, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU6(inplace=True),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU6(inplace=True),
            nn.Conv2d(inner, leaving, 1, bias=False),
            nn.BatchNorm2d(leaving),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.residual else self.conv(x)


class ConvNeXtBlock(nn.Module):
    """Depthwise 7x7, then a channels-last MLP whose result a learned vector scales."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.act = nn.GELU()
        self.pwconv2 = nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(0.5 * torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.pwconv2(self.act(self.pwconv1(self.norm(y))))
        return x + (self.gamma * y).permute(0, 3, 1, 2)


def convnext(width: int) -> Network:
    body = [
        ConvNeXtBlock(width),
        ConvNeXtBlock(width),
        nn.Conv2d(width, 2 * width, 2, stride=2),
        ConvNeXtBlock(2 * width),
        ConvNeXtBlock(2 * width),
    ]
    return Network(nn.Conv2d(3, width, 2, stride=2), body, pooled_head(2 * width))


# --- Attention over patches -----------------------------------------------------------------------


class PatchEmbedding(nn.Module):
    """An image of 16x16 as a sequence of patches of 4x4."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = nn.Conv2d(3, width, kernel_size=4, stride=4)

    def forward(self, x: Tensor) -> Tensor:
        return self.project(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    """Written by hand, with a scale that no parameter shape tells."""

    def __init__(self, width: int, heads: int = HEADS) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        weights = ((q * self.scale) @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))


class AttentionBlock(nn.Module):
    def __init__(self, width: int, attention: Callable[[int], nn.Module] = Attention) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), attention(width)
        self.norm2, self.mlp = nn.LayerNorm(width), Mlp(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ParallelBlock(nn.Module):
    """Attention and MLP read the same normalised input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attn, self.mlp = Attention(width), Mlp(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return x + self.attn(y) + self.mlp(y)


class ViT(nn.Module):
    """Patches with a class token, of which the head reads only that token."""

    def __init__(self, block: Callable[[int], nn.Module], width: int) -> None:
        super().__init__()
        self.patches = PatchEmbedding(width)
        self.cls_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, 1 + PATCHES, width))
        self.blocks = nn.ModuleList(block(width) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class MixerBlock(nn.Module):
    """An MLP over the patches, whose sizes are no widths, and one over the channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.tokens = nn.LayerNorm(width), Mlp(PATCHES, 36)
        self.norm2, self.channels = nn.LayerNorm(width), Mlp(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class MixerHead(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.norm(x).mean(dim=1))


def mixer(width: int) -> Network:
    return Network(PatchEmbedding(width), [MixerBlock(width) for _ in range(3)], MixerHead(width))


def split_windows(x: Tensor, window: int) -> Tensor:
    """From (batch, height, width, channels) to (batch × windows, tokens, channels)."""
    batch, height, width, channels = x.shape
    x = x.view(batch, height // window, window, width // window, window, channels)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window * window, channels)


def join_windows(x: Tensor, window: int, side: int) -> Tensor:
    """What `split_windows` split, for square maps."""
    count = side // window
    x = x.view(-1, count, count, window, window, x.shape[-1])
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, side, side, x.shape[-1])


class WindowAttention(nn.Module):
    """Attention within a window, with a bias for each pair of places relative to each other."""

    def __init__(self, width: int, window: int, heads: int = HEADS) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.bias_table = nn.Parameter(0.02 * torch.randn((2 * window - 1) ** 2, heads))
        places = torch.arange(window)
        grid = torch.stack(torch.meshgrid(places, places, indexing="ij")).flatten(1)
        apart = grid[:, :, None] - grid[:, None, :] + window - 1
        self.register_buffer("bias_index", apart[0] * (2 * window - 1) + apart[1])

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        windows, tokens, width = x.shape
        qkv = self.qkv(x).reshape(windows, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.bias_table[self.bias_index.view(-1)].view(tokens, tokens, self.heads)
        weights = weights + bias.permute(2, 0, 1).contiguous().unsqueeze(0)
        if mask is not None:
            weights = weights.view(-1, mask.shape[0], self.heads, tokens, tokens)
            weights = weights + mask.unsqueeze(1).unsqueeze(0)
            weights = weights.view(-1, self.heads, tokens, tokens)
        x = weights.softmax(dim=-1) @ v
        return self.proj(x.transpose(1, 2).reshape(windows, tokens, width))


class SwinBlock(nn.Module):
    """Attention in windows of a map (batch, height, width, channels), shifted or not."""

    def __init__(self, width: int, side: int, shift: int, window: int = 4) -> None:
        super().__init__()
        self.side, self.shift, self.window = side, shift, window
        self.norm1, self.attn = nn.LayerNorm(width), WindowAttention(width, window)
        self.norm2, self.mlp = nn.LayerNorm(width), Mlp(width, 4 * width)
        self.register_buffer("mask", self.mask_of_shift() if shift else None)

    def mask_of_shift(self) -> Tensor:
        """Keeps apart what only the roll brought into one window."""
        regions = torch.zeros(1, self.side, self.side, 1)
        cuts = (slice(-self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
        for index, (rows, columns) in enumerate((r, c) for r in cuts for c in cuts):
            regions[:, rows, columns] = index
        tokens = split_windows(regions, self.window).squeeze(-1)
        return -100.0 * (tokens[:, None, :] != tokens[:, :, None]).float()

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        if self.shift:
            y = torch.roll(y, shifts=(-self.shift, -self.shift), dims=(1, 2))
        y = self.attn(split_windows(y, self.window), self.mask)
        y = join_windows(y, self.window, self.side)
        if self.shift:
            y = torch.roll(y, shifts=(self.shift, self.shift), dims=(1, 2))
        x = x + y
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    """Four neighbours become one patch of twice the channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width)
        self.reduction = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        quarters = [x[:, row::2, column::2, :] for column in (0, 1) for row in (0, 1)]
        return self.reduction(self.norm(torch.cat(quarters, -1)))


class Swin(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, kernel_size=2, stride=2)
        self.stage1 = nn.Sequential(SwinBlock(width, 16, 0), SwinBlock(width, 16, 2))
        self.merge = PatchMerging(width)
        self.stage2 = nn.Sequential(SwinBlock(2 * width, 8, 0), SwinBlock(2 * width, 8, 2))
        self.norm = nn.LayerNorm(2 * width)
        self.head = nn.Linear(2 * width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).permute(0, 2, 3, 1)
        x = self.stage2(self.merge(self.stage1(x)))
        return self.head(self.norm(x).mean(dim=(1, 2)))


# --- Tokens: decoder, encoder-decoder, recurrence -------------------------------------------------


class CausalAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.size()
        q, k, v = (
            part.view(batch, length, HEADS, width // HEADS).transpose(1, 2)
            for part in self.c_attn(x).split(self.width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(batch, length, width))


class GPT(nn.Module):
    """A decoder whose head is its token embedding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, width)
        self.wpe = nn.Embedding(LENGTH, width)
        self.h = nn.ModuleList(AttentionBlock(width, CausalAttention) for _ in range(3))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.size(1), device=tokens.device)
        x = self.wte(tokens) + self.wpe(positions)
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x))


class EncoderLayer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, HEADS, batch_first=True)
        self.mlp = Mlp(width, 4 * width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x, x, x, need_weights=False)[0])
        return self.norm2(x + self.mlp(x))


class DecoderLayer(nn.Module):
    """Reads what is before it in the target, and all of the encoded source."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.self_attention = nn.MultiheadAttention(width, HEADS, batch_first=True)
        self.cross_attention = nn.MultiheadAttention(width, HEADS, batch_first=True)
        self.mlp = Mlp(width, 4 * width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        y, _ = self.self_attention(x, x, x, attn_mask=mask, need_weights=False)
        x = self.norms[0](x + y)
        y, _ = self.cross_attention(x, memory, memory, need_weights=False)
        x = self.norms[1](x + y)
        return self.norms[2](x + self.mlp(x))


class EncoderDecoder(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.src_embed = nn.Embedding(VOCABULARY, width)
        self.tgt_embed = nn.Embedding(VOCABULARY, width)
        self.position = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        self.encoder = nn.ModuleList(EncoderLayer(width) for _ in range(2))
        self.decoder = nn.ModuleList(DecoderLayer(width) for _ in range(2))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        memory = self.src_embed(src) + self.position[: src.size(1)]
        for layer in self.encoder:
            memory = layer(memory)
        length = tgt.size(1)
        mask = torch.ones(length, length, dtype=torch.bool, device=tgt.device).triu(1)
        x = self.tgt_embed(tgt) + self.position[:length]
        for layer in self.decoder:
            x = layer(x, memory, mask)
        return self.head(x)


class BiLSTMClassifier(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * width, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        _, (state, _) = self.lstm(self.embed(tokens))
        return self.fc(torch.cat((state[-2], state[-1]), dim=1))


class GRUClassifier(nn.Module):
    """Recurrent layers one by one, over the readings of nine sensors."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gru1 = nn.GRU(9, width, batch_first=True)
        self.gru2 = nn.GRU(width, width, batch_first=True)
        self.gru3 = nn.GRU(width, width, batch_first=True)
        self.fc = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.gru1, self.gru2, self.gru3):
            x, _ = layer(x)
        return self.fc(x[:, -1])


class Seq2Seq(nn.Module):
    """The last state of the encoder is the first of the decoder."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.src_embed = nn.Embedding(VOCABULARY, width)
        self.tgt_embed = nn.Embedding(VOCABULARY, width)
        self.encoder = nn.GRU(width, width, num_layers=2, batch_first=True)
        self.decoder = nn.GRU(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        _, state = self.encoder(self.src_embed(src))
        x, _ = self.decoder(self.tgt_embed(tgt), state)
        return self.head(x)


# --- Skips across the network, several inputs, several outputs ------------------------------------


class DoubleConv(nn.Sequential):
    def __init__(self, entering: int, leaving: int) -> None:
        super().__init__(conv_norm_relu(entering, leaving), conv_norm_relu(leaving, leaving))


class Up(nn.Module):
    """Twice the map, joined with the skip of that size."""

    def __init__(self, entering: int, leaving: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(entering, leaving, 2, stride=2)
        self.conv = DoubleConv(2 * leaving, leaving)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        return self.conv(torch.cat([skip, self.up(x)], dim=1))


class InterpolatedUp(nn.Module):
    """The same without parameters of its own."""

    def __init__(self, entering: int, leaving: int) -> None:
        super().__init__()
        self.conv = DoubleConv(entering + leaving, leaving)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return self.conv(torch.cat([skip, x], dim=1))


class UNet(nn.Module):
    def __init__(self, up: Callable[[int, int], nn.Module], width: int) -> None:
        super().__init__()
        self.down1 = DoubleConv(3, width)
        self.down2 = DoubleConv(width, 2 * width)
        self.bottom = DoubleConv(2 * width, 4 * width)
        self.pool = nn.MaxPool2d(2)
        self.up2 = up(4 * width, 2 * width)
        self.up1 = up(2 * width, width)
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skip1 = self.down1(x)
        skip2 = self.down2(self.pool(skip1))
        x = self.bottom(self.pool(skip2))
        return self.head(self.up1(self.up2(x, skip2), skip1))


def conv_trunk(width: int) -> nn.Sequential:
    """From an image of 16x16 to a vector of twice the width."""
    return nn.Sequential(
        conv_norm_relu(3, width, 3, 2),
        conv_norm_relu(width, width),
        conv_norm_relu(width, 2 * width, 3, 2),
        conv_norm_relu(2 * width, 2 * width),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


class Siamese(nn.Module):
    """One trunk that runs twice."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.trunk = conv_trunk(width)
        self.head = nn.Linear(2 * width, 1)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.head((self.trunk(a) - self.trunk(b)).abs())


class ImageAndFeatures(nn.Module):
    """An image by position and a row of a table by name, fused by concatenation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.trunk = conv_trunk(width)
        self.tabular = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width))
        self.head = nn.Sequential(
            nn.Linear(3 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, CLASSES)
        )

    def forward(self, image: Tensor, *, features: Tensor) -> Tensor:
        return self.head(torch.cat([self.trunk(image), self.tabular(features)], dim=1))


class TupleOutput(nn.Module):
    """A second head in the middle, as the first Inception had it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = conv_norm_relu(3, width)
        self.lower = nn.Sequential(BasicBlock(width, width), BasicBlock(width, width))
        self.aux = pooled_head(width)
        self.upper = nn.Sequential(BasicBlock(width, width), BasicBlock(width, width))
        self.head = pooled_head(width)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.lower(self.stem(x))
        return self.head(self.upper(x)), self.aux(x)


class DictOutput(TupleOutput):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        out, aux = super().forward(x)
        return {"out": out, "aux": aux}


# --- Parameters that are frozen, derived, or not used ---------------------------------------------


class LoRALinear(nn.Module):
    """A frozen linear layer and a trainable correction of low rank."""

    def __init__(self, base: nn.Linear, rank: int = 4, alpha: float = 8.0) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Parameter(0.1 * torch.randn(rank, base.in_features))
        self.lora_b = nn.Parameter(0.1 * torch.randn(base.out_features, rank))
        self.scaling = alpha / rank

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + (x @ self.lora_a.T @ self.lora_b.T) * self.scaling


class LoRATransformer(nn.Module):
    """Only the adapters and the head are trained."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.patches = PatchEmbedding(width)
        self.blocks = nn.Sequential(*(AttentionBlock(width) for _ in range(3)))
        self.norm = nn.LayerNorm(width)
        self.requires_grad_(False)
        for block in self.blocks:
            block.attn.qkv, block.attn.proj = map(LoRALinear, (block.attn.qkv, block.attn.proj))
            block.mlp.fc1, block.mlp.fc2 = map(LoRALinear, (block.mlp.fc1, block.mlp.fc2))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.patches(x))).mean(dim=1))


class HeadOnly(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.trunk = conv_trunk(width).requires_grad_(False)
        self.head = nn.Linear(2 * width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.trunk(x))


class StandardisedConv2d(nn.Conv2d):
    """Convolves with its weight less the mean, over the deviation."""

    def forward(self, x: Tensor) -> Tensor:
        mean = self.weight.mean(dim=(1, 2, 3), keepdim=True)
        deviation = self.weight.std(dim=(1, 2, 3), keepdim=True)
        weight = (self.weight - mean) / (deviation + 1e-5)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class GroupNormBlock(nn.Module):
    def __init__(self, channels: int, conv: type[nn.Conv2d]) -> None:
        super().__init__()
        self.conv1 = conv(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(4, channels)
        self.conv2 = conv(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(4, channels)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(y)))


def group_norm(conv: type[nn.Conv2d], width: int) -> Network:
    stem = nn.Sequential(conv(3, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU())
    return Network(stem, [GroupNormBlock(width, conv) for _ in range(3)], pooled_head(width))


def weight_normed(width: int) -> nn.Sequential:
    return nn.Sequential(
        weight_norm(nn.Linear(20, width)),
        nn.ReLU(),
        weight_norm(nn.Linear(width, 2 * width)),
        nn.ReLU(),
        weight_norm(nn.Linear(2 * width, 2 * width)),
        nn.ReLU(),
        weight_norm(nn.Linear(2 * width, CLASSES)),
    )


class UnusedParameter(nn.Module):
    """Holds a layer and a vector that `forward` forgets."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.conv3 = nn.Conv2d(width, width, 3, padding=1)
        self.unused_conv = nn.Conv2d(width, width, 3, padding=1)
        self.unused_scale = nn.Parameter(torch.ones(width))
        self.head = pooled_head(width)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return self.head(F.relu(self.conv3(x)))


# --- What only a run shows ------------------------------------------------------------------------


class Functional(nn.Module):
    """Modules for parameters only; everything else is a function or a method."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.conv3 = nn.Conv2d(width, width, 3, padding=1)
        self.fc1 = nn.Linear(width * 2 * 2, 2 * width)
        self.fc2 = nn.Linear(2 * width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(self.conv3(x).relu(), 2)
        x = F.adaptive_avg_pool2d(x, 2).flatten(1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


class BranchingBlock(nn.Module):
    """One of two convolutions, whichever the values ask for."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.above = nn.Conv2d(channels, channels, 3, padding=1)
        self.below = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        if x.mean() > 0:
            return x + torch.tanh(self.above(x))
        return x + torch.tanh(self.below(x))


def branching(width: int) -> Network:
    body = [BranchingBlock(width), BranchingBlock(width)]
    return Network(nn.Conv2d(3, width, 3, padding=1), body, pooled_head(width))


class InplaceBlock(nn.Module):
    """Writes into what it has computed: through a selection, through a slice, and as a whole."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x))
        y[:, 0] = 0
        half = y.shape[1] // 2
        y[:, half:].add_(x[:, :half])
        y.flatten(2).mul_(0.5)
        return y.relu_()


def inplace(width: int) -> Network:
    body = [InplaceBlock(width) for _ in range(3)]
    return Network(conv_norm_relu(3, width), body, pooled_head(width))


class Bags(nn.Module):
    """A recommender: bags of ids of two tables beside features, and their products."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.liked = nn.EmbeddingBag(VOCABULARY, width)
        self.shown = nn.EmbeddingBag(VOCABULARY, width, mode="max")
        self.dense = nn.Linear(8, width)
        self.mix, self.head = nn.Linear(3 * width, 2 * width), nn.Linear(2 * width, CLASSES)

    def forward(self, liked: Tensor, shown: Tensor, features: Tensor) -> Tensor:
        one, other = self.liked(liked), self.shown(shown)
        x = torch.cat([one, one * other, torch.tanh(self.dense(features))], 1)
        return self.head(torch.relu(self.mix(x)))


# --- The references -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """A model to read at one width and to compare with at another.

    Attributes:
        build: The class at a width.
        inputs: Sizes without the batch, such as `3x32x32`, `16:int64<50` or `features=8`.
        width: The width at which tests read it.
        wider: Another width, at which the real class is built to compare.
    """

    name: str
    build: Callable[[int], nn.Module]
    inputs: str
    width: int = 16
    wider: int = 24


IMAGE = "3x16x16"
TOKENS = f"{LENGTH}:int64<{VOCABULARY}"
TOKEN_PAIR = f"{TOKENS}, 12:int64<{VOCABULARY}"

# A width of 32 is neither the length of the sequence nor, over the heads, their number.
over_sequence = partial(Reference, width=32, wider=48)

REFERENCES: dict[str, Reference] = {
    reference.name: reference
    for reference in (
        Reference("plain", Plain, IMAGE),
        Reference("residual_basic", partial(staged, BasicBlock), IMAGE),
        Reference("residual_bottleneck", partial(staged, Bottleneck), IMAGE),
        Reference("squeeze_excite", partial(staged, SqueezeExciteBlock), IMAGE),
        Reference("inception", inception, IMAGE),
        Reference("dense", dense, IMAGE),
        Reference("separable", partial(staged, SeparableBlock), IMAGE),
        Reference("inverted_residual", partial(staged, InvertedResidual), IMAGE),
        Reference("layer_scale", convnext, IMAGE),
        over_sequence("vit", partial(ViT, AttentionBlock), IMAGE),
        over_sequence("parallel_attention", partial(ViT, ParallelBlock), IMAGE),
        over_sequence("mixer", mixer, IMAGE),
        over_sequence("swin", Swin, "3x32x32"),
        over_sequence("gpt", GPT, TOKENS),
        over_sequence("encoder_decoder", EncoderDecoder, TOKEN_PAIR),
        over_sequence("bilstm", BiLSTMClassifier, TOKENS),
        over_sequence("gru", GRUClassifier, f"{LENGTH}x9"),
        over_sequence("seq2seq", Seq2Seq, TOKEN_PAIR),
        over_sequence("bags", Bags, f"{TOKEN_PAIR}, features=8"),
        Reference("unet", partial(UNet, Up), IMAGE),
        Reference("unet_interpolate", partial(UNet, InterpolatedUp), IMAGE),
        Reference("siamese", Siamese, f"{IMAGE}, {IMAGE}"),
        Reference("multi_input", ImageAndFeatures, f"{IMAGE}, features=8"),
        Reference("tuple_output", TupleOutput, IMAGE),
        Reference("dict_output", DictOutput, IMAGE),
        over_sequence("lora", LoRATransformer, IMAGE),
        Reference("head_only", HeadOnly, IMAGE),
        Reference("group_norm", partial(group_norm, nn.Conv2d), IMAGE),
        Reference("weight_standardised", partial(group_norm, StandardisedConv2d), IMAGE),
        Reference("weight_norm", weight_normed, "20"),
        Reference("unused_parameter", UnusedParameter, IMAGE),
        Reference("functional", Functional, IMAGE),
        Reference("data_branch", branching, IMAGE),
        Reference("inplace", inplace, IMAGE),
    )
}


def example(
    reference: Reference, batch: int, device: str = "cpu"
) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Random inputs, by position and by name."""
    by_position, by_name = [], {}
    for one in reference.inputs.split(", "):
        found = re.fullmatch(r"(?:(\w+)=)?(\d+(?:x\d+)*)(?::int64<(\d+))?", one)
        assert found, f"{reference.name}: {one} is no input"
        name, sizes, below = found.groups()
        shape = (batch, *map(int, sizes.split("x")))
        if below:
            tensor = torch.randint(int(below), shape, device=device)
        else:
            tensor = torch.randn(shape, device=device)
        if name:
            by_name[name] = tensor
        else:
            by_position.append(tensor)
    return tuple(by_position), by_name
