"""LSTM classifier for texts of 32 tokens out of 2000."""

from __future__ import annotations

from torch import Tensor, nn


class LSTM(nn.Module):
    """An embedding, one LSTM layer, and a head of 4 classes on its last time step."""

    def __init__(self, embedding: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2000, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of a batch of token ids."""
        x: Tensor
        x, _ = self.lstm(self.embedding(tokens))
        x = self.head(x[:, -1])
        return x
