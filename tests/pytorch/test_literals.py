"""Which plain numbers in a call are sizes that would follow the channels."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.graph.calls import Value
from ampere.core.graph.channels import Dim, Dims, Power, Scaled, new, pin
from ampere.pytorch.graph.literals import propose, regroup
from ampere.pytorch.graph.recorder import TracedCall

X = Value(0, (0,))


def call(op: str, *args: Any, out: tuple[int, ...] = (), **kwargs: Any) -> TracedCall:
    """A call of a function on the one input, that made a tensor of this shape."""
    made = TracedCall(1, op, (), None, (X, *args), kwargs)
    made.outputs[()] = torch.empty(out, device="meta")
    return made


def share(dim: Scaled, times: int, over: int = 1) -> Scaled:
    return Scaled(dim.channels, Fraction(times, over))


def sizes(dims: Dims) -> tuple[int, ...]:
    return tuple(dim if isinstance(dim, int) else dim.size for dim in dims)


# --- Reshapes -------------------------------------------------------------------------------------


def test_a_flattened_map_is_a_multiple_of_its_channels() -> None:
    channels = new(8)
    assert regroup((4, channels, 5, 5), (4, 200)) == (4, share(channels, 25))


def test_the_last_part_of_split_channels_grows() -> None:
    channels = new(24)
    assert regroup((4, 5, channels), (4, 5, 3, 2, 4)) == (4, 5, 3, 2, share(channels, 1, 6))


def test_a_window_keeps_its_sides() -> None:
    channels = new(72)
    assert regroup((4, channels), (4, 8, 3, 3)) == (4, share(channels, 1, 9), 3, 3)


def test_two_sets_of_channels_in_one_size_follow_nothing() -> None:
    assert regroup((4, new(3), new(5)), (4, 15)) == (4, 15)


def test_ones_at_the_end_are_ones() -> None:
    channels = new(8)
    assert regroup((4, channels), (4, 8, 1, 1)) == (4, channels, 1, 1)


@given(
    st.integers(1, 4), st.integers(1, 4), st.integers(1, 4),
    st.sampled_from(["flat", "same", "split", "all"]),
)  # fmt: skip
def test_a_reshape_keeps_every_size(heads: int, width: int, length: int, way: str) -> None:
    channels = new(heads * width)
    dims: Dims = (length, channels)
    shape = {
        "flat": (length * heads * width,),
        "same": (length, heads * width),
        "split": (length, heads, width),
        "all": (1, length, heads * width, 1),
    }[way]
    found = regroup(dims, shape)
    assert sizes(found) == shape
    following = [dim for dim in found if isinstance(dim, Scaled)]
    assert len(following) <= 1 and all(dim.root is channels.root for dim in following)
    if following:  # at another width the shape still holds as many numbers as before
        wider = {channels.root: 6 * heads * width}
        grown = [dim if isinstance(dim, int) else dim.at(wider) for dim in found]
        assert prod(grown) == 6 * prod(shape)


@pytest.mark.parametrize("as_tuple", [True, False])
def test_sizes_of_a_view_are_replaced_where_they_are_written(as_tuple: bool) -> None:
    channels = new(24)
    shape = (4, -1, 3, 8)
    args = (shape,) if as_tuple else shape
    made = call("torch.Tensor.view", *args, out=(4, 5, 3, 8))
    written, options = propose(made, [(4, 5, channels)], [])
    expected = (4, -1, 3, share(channels, 1, 3))
    assert written == ((X, expected) if as_tuple else (X, *expected))
    assert options == {}


def test_expand_follows_what_it_expands() -> None:
    channels = new(8)
    made = call("torch.Tensor.expand", 4, -1, 8, out=(4, 1, 8))
    assert propose(made, [(1, 1, channels)], [])[0] == (X, 4, -1, channels)


# --- Parts ----------------------------------------------------------------------------------------


def test_splits_are_shares() -> None:
    channels = new(24)
    halves = propose(call("torch.split", 12, 1), [(4, channels)], [])[0]
    assert halves == (X, share(channels, 1, 2), 1)
    parts = propose(call("torch.split", [8, 16], dim=1), [(4, channels)], [])[0]
    assert parts == (X, (share(channels, 1, 3), share(channels, 2, 3)))
    named = propose(call("torch.split", split_size_or_sections=6, dim=1), [(4, channels)], [])[1]
    assert named == {"split_size_or_sections": share(channels, 1, 4), "dim": 1}
    assert propose(call("torch.split", 2, 0), [(4, channels)], [])[0] == (X, 2, 0)


def test_slices_are_shares_of_what_varies() -> None:
    channels = new(8)
    index = (slice(None), slice(0, 4), None, 2)
    written = propose(call("torch.Tensor.__getitem__", index), [(4, channels, 5)], [])[0][1]
    assert written == (slice(None), slice(0, share(channels, 1, 2)), None, 2)
    behind = propose(
        call("torch.Tensor.__getitem__", (Ellipsis, slice(-2, None))), [(4, 5, channels)], []
    )[0][1]
    assert behind == (Ellipsis, slice(share(channels, -1, 4), None))


def test_a_step_or_a_mask_proposes_nothing() -> None:
    channels = new(8)
    for index in ((slice(None), slice(0, 8, 2)), [0, 2]):
        made = call("torch.Tensor.__getitem__", index)
        assert propose(made, [(4, channels)], [])[0] == (X, index)


def test_narrow_is_a_share_in_both_numbers() -> None:
    channels = new(8)
    written = propose(call("torch.narrow", 1, 4, 2), [(4, channels)], [])[0]
    assert written == (X, 1, share(channels, 1, 2), share(channels, 1, 4))


# --- Numbers that depend on a size ----------------------------------------------------------------


@pytest.mark.parametrize("exponent", [-0.5, 0.5])
def test_a_root_of_the_width_follows_it(exponent: float) -> None:
    width = new(16)
    made = call("torch.Tensor.__mul__", 16**exponent)
    assert propose(made, [(4, 5, width)], [])[0] == (X, Power(width, exponent))
    # of the product q·kᵀ, the size that scales it is only to be seen one call before
    assert propose(made, [(4, 5, 5)], [(4, 5, width)])[0] == (X, Power(width, exponent))


@pytest.mark.parametrize("number", [0.3, 4, 1.0])
def test_other_numbers_stay(number: float) -> None:
    made = call("torch.Tensor.__mul__", number)
    assert propose(made, [(4, 5, new(16))], [])[0] == (X, number)


def test_a_pinned_width_is_followed_by_nothing() -> None:
    width = new(16)
    pin((width,))
    assert propose(call("torch.mul", 0.25), [(4, 5, width)], [])[0] == (X, 0.25)


def test_a_tensor_from_nothing_has_sizes_that_follow_what_it_meets() -> None:
    (written, _), (filled, options) = (
        propose(call("torch.zeros"), [], []),
        propose(TracedCall(1, "torch.full", (), None, ((1, 8), 3), {"size": 2}), [], []),
    )
    assert written == (X,)
    one, eight = filled[0]
    assert one == 1 and isinstance(eight, Scaled) and eight.size == 8 and not eight.root.named
    assert filled[1] == 3  # what it is filled with is no size
    assert isinstance(options["size"], Scaled)


# --- Functions of modules: their records say what their numbers are -------------------------------


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_normalised_sizes_are_the_last_ones(name: str) -> None:
    width = new(8)
    op = f"torch.nn.functional.{name}"
    assert propose(call(op, (8,)), [(4, 5, width)], [])[0] == (X, (width,))
    named = propose(call(op, normalized_shape=(5, 8)), [(4, 5, width)], [])[1]
    assert named == {"normalized_shape": (5, width)}


def test_a_weight_that_is_given_has_channels_of_a_layer() -> None:
    out, into, bias = (new(size, named=False) for size in (8, 6, 8))
    propose(call("torch.nn.functional.linear"), [(4, 6), (out, into), (bias,)], [])
    assert out.root.named and into.root.named
    assert bias.root is out.root


def test_groups_of_a_depthwise_function_follow_its_input() -> None:
    channels = new(8)
    inputs: list[Dims] = [(4, channels, 5, 5), (8, 1, 3, 3)]
    op = "torch.nn.functional.conv2d"
    assert propose(call(op, groups=8), inputs, [])[1] == {"groups": channels}
    args: tuple[Any, ...] = (Value(0, (1,)), None, 1, 0, 1, 8)
    assert propose(call(op, *args), inputs, [])[0] == (X, *args[:-1], channels)
    assert propose(call(op, groups=2), inputs, [])[1] == {"groups": 2}


def test_unknown_functions_are_left_as_they_are() -> None:
    dims: list[Dim] = [4, new(8)]
    assert propose(call("torch.roll", 8, dims=1), [tuple(dims)], []) == ((X, 8), {"dims": 1})
