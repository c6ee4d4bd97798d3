"""Two positions of a sequence tell what all of them take, to the last FLOP."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

import ampere
from ampere.pytorch.graph.flops import flop_counter


class Reader(nn.Module):
    def __init__(self, rnn: nn.RNNBase, last: bool) -> None:
        super().__init__()
        self.rnn, self.last = rnn, last
        self.head = nn.Linear(rnn.hidden_size * (2 if rnn.bidirectional else 1), 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.rnn(x)
        return self.head(y[:, -1] if self.last else y)


def whole_flops(model: nn.Module, shape: tuple[int, ...]) -> int:
    """All positions, by torch's own counter."""
    model = model.to("meta")
    with flop_counter() as counter:
        model(torch.empty(shape, device="meta")).sum().backward()
    return int(counter.get_total_flops())


# All ways of one kind, at lengths that are not shortened (2), just so (3), and by far (11); of the
# others, which differ in their gates alone, the simplest and the most involved.
CASES = [
    *itertools.product([nn.LSTM], [False, True], [1, 2], [2, 3, 11]),
    *(
        (kind, both, 1 + both, n)
        for kind in (nn.GRU, nn.RNN)
        for both in (False, True)
        for n in (3, 11)
    ),
]


@pytest.mark.parametrize(("kind", "both", "layers", "length"), CASES)
def test_flops_are_those_of_all_positions(
    kind: type[nn.RNNBase], both: bool, layers: int, length: int
) -> None:
    def model() -> Reader:
        return Reader(kind(6, 12, layers, bidirectional=both, batch_first=True), last=length == 11)

    found = ampere.read_layers(model(), (length, 6), ampere.Training(4))
    assert sum(layer.features.flops or 0.0 for layer in found) == whole_flops(
        model(), (4, length, 6)
    )
