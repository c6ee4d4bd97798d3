"""Transformer encoder for texts of 64 tokens out of 1000."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ampere.errors import ModelError

HEADS = 4


class EncoderBlock(nn.Module):
    """Self-attention and a feed-forward part, each normalised first and added to its input."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attention = nn.MultiheadAttention(d_model, HEADS, dropout=0.1, batch_first=True)
        self.norm2 = nn.LayerNorm(d_model)
        self.linear1 = nn.Linear(d_model, 4 * d_model)
        self.linear2 = nn.Linear(4 * d_model, d_model)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, in the shape of its input."""
        normed = self.norm1(x)
        attended, _ = self.attention(normed, normed, normed, need_weights=False)
        x = x + self.dropout(attended)
        wide = self.dropout(F.gelu(self.linear1(self.norm2(x))))
        x = x + self.dropout(self.linear2(wide))
        return x


class Transformer(nn.Module):
    """Tokens with learned positions, encoder blocks, and a head of 10 classes on their mean."""

    def __init__(self, d_model: int, layers: int) -> None:
        super().__init__()
        if d_model % HEADS:
            raise ModelError(f"d_model={d_model} must be a multiple of the {HEADS} heads")
        self.embedding = nn.Embedding(1000, d_model)
        self.position = nn.Parameter(0.02 * torch.randn(1, 64, d_model))
        self.blocks = nn.ModuleList(EncoderBlock(d_model) for _ in range(layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of a batch of token ids."""
        x: Tensor = self.embedding(tokens) + self.position
        for block in self.blocks:
            x = block(x)
        x = self.head(self.norm(x.mean(1)))
        return x
