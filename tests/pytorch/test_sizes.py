"""Which sizes vary together, in small models whose answer is plain."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from ampere.core.graph.calls import Value
from ampere.core.graph.channels import Channels, Dim, Scaled, Sizes, free
from ampere.core.inputs import parse_inputs
from ampere.pytorch.graph.sizes import follow
from ampere.pytorch.graph.trace import Trace, trace
from written import Written

BATCH = 4


def sizes_of(model: nn.Module, input: str) -> tuple[Trace, Sizes]:
    traced = trace(model, parse_inputs(input), BATCH)
    return traced, follow(traced)


def dims_of(model: nn.Module, input: str, op: str) -> tuple[Dim, ...]:
    """The dimensions of what the first call of this name makes."""
    traced, sizes = sizes_of(model, input)
    call = next(call for call in traced.calls if call.op.rpartition(".")[2] == op)
    return sizes.of(Value(call.index, next(iter(call.outputs))))


def root_of(dim: Any) -> Channels:
    assert isinstance(dim, Scaled)
    return dim.root


def test_a_chain_ties_what_a_layer_makes_to_what_the_next_one_takes() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    traced, sizes = sizes_of(model, "6")
    first, relu, last = traced.calls
    hidden = sizes.of(Value(1))[1]
    assert free(hidden) and hidden.size == 8
    assert sizes.of(Value(relu.index)) == (BATCH, hidden)
    assert sizes.arguments[last.index]["in_features"] == hidden
    assert sizes.arguments[first.index]["in_features"] == 6  # the model's input stays
    assert not free(sizes.of(Value(last.index))[1])  # and so does what comes out


def test_flattening_makes_a_multiple() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 2))
    traced, sizes = sizes_of(model, "3x8x8")
    flat = sizes.arguments[traced.calls[-1].index]["in_features"]
    assert isinstance(flat, Scaled)
    assert (flat.root.size, flat.factor, flat.size) == (8, 36, 288)


def test_what_is_added_varies_together() -> None:
    model = Written(
        lambda m, x: m.last(m.a(x) + m.b(x)),
        a=nn.Linear(6, 8), b=nn.Linear(6, 8), last=nn.Linear(8, 2),
    )  # fmt: skip
    traced, sizes = sizes_of(model, "6")
    a, b = (sizes.of(Value(index))[1] for index in (1, 2))
    assert root_of(a) is root_of(b) and free(a)
    assert len({root_of(d) for d in (a, b)}) == 1 and traced.calls[2].op.endswith("add")


def test_what_is_not_added_varies_alone() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 2))
    _, sizes = sizes_of(model, "6")
    assert root_of(sizes.of(Value(1))[1]) is not root_of(sizes.of(Value(2))[1])


def test_what_is_concatenated_grows_in_proportion() -> None:
    model = Written(
        lambda m, x: m.last(torch.cat([m.a(x), m.b(x)], 1)),
        a=nn.Linear(6, 4), b=nn.Linear(6, 8), last=nn.Linear(12, 2),
    )  # fmt: skip
    _, sizes = sizes_of(model, "6")
    small, large, both = (sizes.of(Value(index))[1] for index in (1, 2, 3))
    assert root_of(small) is root_of(large) is root_of(both)
    at_twice = {root_of(small): 2 * root_of(small).size}
    assert [d.at(at_twice) for d in (small, large, both) if isinstance(d, Scaled)] == [8, 16, 24]


def test_heads_make_a_multiple_of_a_width() -> None:
    def split(m: Any, x: Tensor) -> Tensor:
        y = m.a(x).view(BATCH, 5, 4, 6).transpose(1, 2)
        return m.last(y.transpose(1, 2).flatten(2))

    model = Written(split, a=nn.Linear(6, 24), last=nn.Linear(24, 2))
    view = dims_of(model, "5x6", "view")
    assert view[:3] == (BATCH, 5, 4)
    assert isinstance(view[3], Scaled) and view[3].factor == Fraction(1, 4)
    assert root_of(view[3]).multiple % 4 == 0 and free(view[3])


def test_groups_make_a_multiple_and_depthwise_follows() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1, groups=8), nn.Conv2d(8, 6, 1, groups=2),
        nn.Flatten(), nn.Linear(6 * 16, 2),
    )  # fmt: skip
    traced, sizes = sizes_of(model, "3x4x4")
    first, depthwise, grouped = (sizes.of(Value(index))[1] for index in (1, 2, 3))
    assert root_of(depthwise) is root_of(first) is not root_of(grouped)
    assert sizes.arguments[traced.calls[1].index]["groups"] == sizes.of(Value(1))[1]
    assert root_of(first).multiple == root_of(grouped).multiple == 2


def test_what_comes_out_at_one_size_only_is_a_number() -> None:
    model = Written(
        lambda m, x: m.last(torch.fft.fft(m.a(x), n=5).abs()),
        a=nn.Linear(6, 8), last=nn.Linear(5, 2),
    )  # fmt: skip
    _, sizes = sizes_of(model, "6")
    assert sizes.of(Value(2))[1] == 5


def test_tied_weights_have_one_size() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.inner, self.head = (
                nn.Embedding(20, 8), nn.Linear(8, 8), nn.Linear(8, 20, bias=False),
            )  # fmt: skip
            self.head.weight = self.table.weight

        def forward(self, x: Tensor) -> Any:
            return self.head(self.inner(self.table(x)))

    _, sizes = sizes_of(Tied(), "5:int64<20")
    table, inner = sizes.of(Value(1))[-1], sizes.of(Value(2))[-1]
    assert root_of(table) is root_of(inner) and free(table)


def test_a_module_whose_rule_gives_up_keeps_all_sizes() -> None:
    class Projected(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.rnn = nn.Linear(6, 8), nn.LSTM(8, 8, proj_size=4, batch_first=True)

        def forward(self, x: Tensor) -> Any:
            return self.rnn(self.enter(x))[0]

    _, sizes = sizes_of(Projected(), "5x6")
    assert not free(sizes.of(Value(1))[-1])


@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from([2, 3]))
def test_sizes_at_other_widths_are_those_of_the_wider_model(
    conv: int, linear: int, times: int
) -> None:
    def build(conv: int, linear: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(2, conv, 3, padding=1), nn.BatchNorm2d(conv), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(conv * 4, linear), nn.Tanh(), nn.Linear(linear, 3),
        )  # fmt: skip

    traced, sizes = sizes_of(build(conv, linear), "2x4x4")
    wider, _ = sizes_of(build(times * conv, linear), "2x4x4")
    larger = {root_of(sizes.of(Value(1))[1]): times * conv}
    for call, other in zip(traced.calls, wider.calls, strict=True):
        dims = sizes.of(Value(call.index))
        shape = tuple(dim if isinstance(dim, int) else dim.at(larger) for dim in dims)
        assert shape == tuple(other.outputs[()].shape), call.op


def test_a_size_between_whole_numbers_is_refused() -> None:
    dim = Scaled(Channels(8), Fraction(1, 4))
    with pytest.raises(ValueError, match="no whole size"):
        dim.at({dim.root: 9})
