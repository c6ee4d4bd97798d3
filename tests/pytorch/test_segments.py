"""Where a trace is cut, in small models whose answer is plain."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from ampere.core.graph.calls import common_depth, constants, tainted_calls
from ampere.core.graph.segments import cut
from ampere.core.inputs import parse_inputs
from ampere.pytorch.graph import cores
from ampere.pytorch.graph.cores import multiplies, work
from ampere.pytorch.graph.trace import Trace, trace


def traced(model: nn.Module, input: str) -> Trace:
    return trace(model, parse_inputs(input), 4)


def cuts(model: nn.Module, input: str) -> list[str]:
    """The names of the calls of each segment, the short way."""
    return [
        "+".join(call.op.rpartition(".")[2] for call in segment)
        for segment in cut(traced(model, input), cores)
    ]


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Any:
        return x + self.b(torch.relu(self.a(x)))


class LongSkip(nn.Module):
    """What enters the middle is handed on past it by the model itself."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(6, 8)
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.outer = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.last = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Any:
        x = self.enter(x)
        return self.last(torch.cat([x, self.outer(self.inner(x))], 1))


def test_a_chain_is_cut_between_all_calls() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    assert cuts(model, "6") == ["Linear", "ReLU", "Linear"]


def test_what_branches_inside_stays_whole() -> None:
    model = nn.Sequential(nn.Linear(6, 8), Residual(8), Residual(8), nn.Linear(8, 2))
    block = "Linear+relu+Linear+add"
    assert cuts(model, "6") == ["Linear", block, block, "Linear"]


def test_a_long_skip_is_carried_past_the_cuts() -> None:
    chain = ["Linear", "ReLU", "Linear"]
    assert cuts(LongSkip(), "6") == ["Linear", *chain, *chain, "cat", "Linear"]


def test_what_nobody_needs_is_in_no_segment() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(6, 8), nn.Linear(6, 8)

        def forward(self, x: Tensor) -> Any:
            self.b(x)
            return self.a(x)

    assert cuts(Unused(), "6") == ["Linear"]


def test_constants_prevent_no_cut_and_are_left_to_their_users() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.zeros(5, 8))
            self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Any:
            table = self.table * 2
            return self.b(self.a(x) + table)

    model = Positions()
    assert cuts(model, "5x6") == ["Linear", "mul+add", "Linear"]
    trace = traced(model, "5x6")
    assert [call.name for call in constants(trace).values()] == ["table"]
    by_name = {call.op.rpartition(".")[2]: call.index for call in trace.calls}
    tainted = tainted_calls(trace)
    assert by_name["mul"] not in tainted and by_name["add"] in tainted


def test_a_cut_stands_where_the_batch_comes_first() -> None:
    class Transposed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Any:
            return self.b(self.a(x).transpose(0, 1)).transpose(0, 1)

    assert cuts(Transposed(), "5x6") == ["Linear", "transpose+Linear+transpose"]


def test_a_view_stays_with_what_is_written_through_it() -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Any:
            y = self.a(x)
            y[:, :2].mul_(0)
            return self.b(y)

    segments = cuts(Writes(), "6")
    assert segments[-1] == "Linear" and any("getitem__+mul_" in each for each in segments)


@pytest.mark.parametrize(
    ("module", "input", "expected"),
    [
        (nn.Linear(6, 8), "6", 4 * 6 * 8),
        (nn.Conv2d(3, 8, 3), "3x6x6", 4 * 8 * 16 * 3 * 9),
        (nn.LayerNorm(6), "6", 0),
        (nn.RMSNorm(6), "6", 0),
        (nn.PReLU(6), "6", 0),
        (nn.Embedding(20, 8), "6:int64<20", 0),
    ],
)
def test_work_counts_multiplications(module: nn.Module, input: str, expected: float) -> None:
    (call,) = traced(nn.Sequential(module), input).calls
    assert work(call) == expected


@pytest.mark.parametrize(
    ("module", "input", "is_core"),
    [
        (nn.Linear(6, 8), "6", True),
        (nn.Embedding(20, 8), "6:int64<20", True),
        (nn.LSTM(6, 8), "5x6", True),
        (nn.RMSNorm(6), "6", False),
        (nn.BatchNorm1d(6), "6", False),
        (nn.PReLU(6), "6", False),
        (nn.ReLU(), "6", False),
    ],
)
def test_a_layer_is_made_around_what_multiplies(
    module: nn.Module, input: str, is_core: bool
) -> None:
    trace = traced(nn.Sequential(module), input)
    assert multiplies(trace.calls[0], tainted_calls(trace)) is is_core


def test_functions_multiply_only_by_weights() -> None:
    class Products(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(6, 6))

        def forward(self, x: Tensor) -> Any:
            return nn.functional.linear(x, self.weight) @ x.transpose(1, 2)

    trace = traced(Products(), "5x6")
    tainted = tainted_calls(trace)
    named = {call.op.rpartition(".")[2]: multiplies(call, tainted) for call in trace.calls}
    assert named["linear"] and not named["matmul" if "matmul" in named else "__matmul__"]


@given(st.lists(st.integers(0, 2), max_size=5), st.lists(st.integers(0, 2), max_size=5))
def test_common_depth_is_the_length_of_the_common_start(a: list[int], b: list[int]) -> None:
    depth = common_depth(a, b)
    assert a[:depth] == b[:depth]
    assert depth == min(len(a), len(b)) or a[depth] != b[depth]


@given(st.integers(1, 4), st.booleans())
def test_segments_hold_every_needed_call_once_and_in_order(blocks: int, skip: bool) -> None:
    parts = [Residual(8) if skip else nn.Linear(8, 8) for _ in range(blocks)]
    trace = traced(nn.Sequential(nn.Linear(6, 8), *parts), "6")
    numbers = [call.index for segment in cut(trace, cores) for call in segment]
    assert numbers == [call.index for call in trace.calls]
