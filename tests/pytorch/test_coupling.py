"""Which channels go together, in small models whose answer is plain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from ampere.core.graph.channels import new
from ampere.core.training import Training
from ampere.pytorch.models import read_whole
from ampere.pytorch.pruning.coupling import Coupling, couple
from written import Written


def components(model: nn.Module, input: Any) -> dict[tuple[str, int], list[int]]:
    """The component of each index of each dimension of a weight, numbered as they appear."""
    coupling = couple(read_whole(model, input, Training(4)))
    of_each = coupling.components()
    seen: dict[int, int] = {}
    return {
        place: [seen.setdefault(int(each), len(seen)) for each in of_each[elements]]
        for place, elements in coupling.slices.items()
    }


# --- Elements -------------------------------------------------------------------------------------


def test_joined_elements_are_one_component_named_by_its_first() -> None:
    coupling = Coupling()
    a, b, c = (coupling.start(new(2), 2) for _ in range(3))
    assert coupling.components().tolist() == [0, 1, 2, 3, 4, 5]
    coupling.join(b, c)
    coupling.join(a[::-1], c)
    assert coupling.components().tolist() == [0, 1, 1, 0, 1, 0]
    with pytest.raises(ValueError, match="2 elements cannot be 1"):
        coupling.join(a, b[:1])


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=12),
)
def test_components_are_those_of_the_pairs(count: int, pairs: list[tuple[int, int]]) -> None:
    coupling = Coupling()
    coupling.start(new(count), count)
    group = list(range(count))
    for a, b in ((a % count, b % count) for a, b in pairs):
        coupling.join(np.array([a]), np.array([b]))
        first, other = sorted((group[a], group[b]))
        group = [first if each == other else each for each in group]
    assert coupling.components().tolist() == group


# --- Modules --------------------------------------------------------------------------------------


def test_a_layer_makes_what_the_next_one_takes() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    assert components(model, 4) == {
        ("0.weight", 0): [0, 1, 2],
        ("0.bias", 0): [0, 1, 2],
        ("2.weight", 1): [0, 1, 2],
    }


def test_a_flattened_channel_has_an_index_a_position() -> None:
    model = nn.Sequential(nn.Conv1d(1, 2, 1), nn.BatchNorm1d(2), nn.Flatten(), nn.Linear(6, 2))
    found = components(model, (1, 3))
    assert found["3.weight", 1] == [0, 0, 0, 1, 1, 1]
    for part in ("weight", "bias", "running_mean", "running_var"):
        assert found[f"1.{part}", 0] == [0, 1]


def test_what_is_added_stays_or_goes_as_one() -> None:
    model = Written(
        lambda m, x: m.last(m.a(x) + m.b(x)),
        a=nn.Linear(4, 3), b=nn.Linear(4, 3), last=nn.Linear(3, 2),
    )  # fmt: skip
    found = components(model, 4)
    assert found["a.weight", 0] == found["b.weight", 0] == found["last.weight", 1] == [0, 1, 2]


def test_what_is_concatenated_stays_apart() -> None:
    model = Written(
        lambda m, x: m.last(torch.cat([m.a(x), m.b(x)], 1)),
        a=nn.Linear(4, 2), b=nn.Linear(4, 2), last=nn.Linear(4, 2),
    )  # fmt: skip
    found = components(model, 4)
    assert (found["a.weight", 0], found["b.weight", 0]) == ([0, 1], [2, 3])
    assert found["last.weight", 1] == [0, 1, 2, 3]


def test_moved_channels_are_found_again() -> None:
    model = Written(lambda m, x: m.last(m.a(x).flip(1)), a=nn.Linear(4, 3), last=nn.Linear(3, 2))
    found = components(model, 4)
    assert found["last.weight", 1] == found["a.weight", 0][::-1]


def test_a_depthwise_convolution_has_the_channels_that_enter() -> None:
    model = nn.Sequential(
        nn.Conv1d(1, 2, 1), nn.Conv1d(2, 4, 1, groups=2), nn.Flatten(), nn.Linear(12, 2)
    )
    found = components(model, (1, 3))
    assert found["1.weight", 0] == [0, 0, 1, 1]
    assert found["3.weight", 1] == [0] * 6 + [1] * 6


def test_groups_lose_the_same_places() -> None:
    model = nn.Sequential(
        nn.Conv1d(1, 4, 1), nn.GroupNorm(2, 4), nn.Conv1d(4, 6, 1, groups=2),
        nn.Flatten(), nn.Linear(18, 2),
    )  # fmt: skip
    found = components(model, (1, 3))
    assert found["0.weight", 0] == [0, 1, 0, 1]
    assert found["2.weight", 0] == [2, 3, 4, 2, 3, 4]
    assert found["2.weight", 1] == [0, 1]


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_every_gate_has_the_channels_of_the_state(kind: type[nn.Module], gates: int) -> None:
    model = Written(
        lambda m, x: m.last(m.rnn(x)[0][:, -1]),
        rnn=kind(3, 2, batch_first=True), last=nn.Linear(2, 2),
    )  # fmt: skip
    found = components(model, (5, 3))
    for part in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
        assert found[f"rnn.{part}", 0] == [0, 1] * gates
    assert found["rnn.weight_hh_l0", 1] == found["last.weight", 1] == [0, 1]


def test_a_head_has_channels_of_its_own_inside() -> None:
    model = Written(
        lambda m, x: m.last(m.attend(m.a(x), m.a(x), m.a(x))[0]),
        a=nn.Linear(3, 4), attend=nn.MultiheadAttention(4, 2, batch_first=True),
        last=nn.Linear(4, 2),
    )  # fmt: skip
    found = components(model, (5, 3))
    outside, inside = found["attend.in_proj_weight", 1], found["attend.out_proj.weight", 1]
    assert outside == found["a.weight", 0] == found["last.weight", 1]
    assert not set(outside) & set(inside)
    assert found["attend.in_proj_weight", 0] == inside * 3


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_a_norm_over_the_last_size_has_its_channels(norm: type[nn.Module]) -> None:
    found = components(nn.Sequential(nn.Linear(4, 3), norm(3), nn.Linear(3, 2)), (5, 4))
    assert found["1.weight", 0] == found["0.weight", 0] == [0, 1, 2]


def test_a_slope_a_channel_goes_with_its_channel() -> None:
    by_module = nn.Sequential(nn.Linear(4, 3), nn.PReLU(3), nn.Linear(3, 2))
    assert components(by_module, 4)["1.weight", 0] == [0, 1, 2]

    class ByFunction(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.last = nn.Linear(4, 3), nn.Linear(3, 2)
            self.slope = nn.Parameter(torch.full((3,), 0.1))

        def forward(self, x: Tensor) -> Any:
            return self.last(nn.functional.prelu(self.a(x), self.slope))

    found = components(ByFunction(), 4)
    assert found["slope", 0] == found["a.weight", 0]


def test_tied_weights_have_the_same_channels() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.inner = nn.Embedding(7, 3), nn.Linear(3, 3)
            self.head = nn.Linear(3, 7, bias=False)
            self.head.weight = self.table.weight

        def forward(self, x: Tensor) -> Any:
            return self.head(self.inner(self.table(x)))

    found = components(Tied(), "5:int64<7")
    assert found["table.weight", 1] == found["inner.weight", 0] == found["inner.weight", 1]


def test_what_cannot_be_followed_is_stuck() -> None:
    """Each number that a gated unit makes is of two channels, half as many as entered."""
    model = Written(
        lambda m, x: m.last(nn.functional.glu(m.a(x), 1)),
        a=nn.Linear(4, 6), last=nn.Linear(3, 2),
    )  # fmt: skip
    coupling = couple(read_whole(model, 4, Training(4)))
    ((root, _),) = coupling.origins
    assert coupling.stuck == {root}
    assert ("last.weight", 1) not in coupling.slices
