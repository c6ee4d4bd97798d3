"""Calls of layers: what each does, and that together they are what was counted."""

from __future__ import annotations

import math
import random

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import ampere
from ampere.core.layers import Features, Layer, Work
from ampere.core.training import Training
from ampere.pytorch.generator.network import GENRES, drawn_layers
from ampere.pytorch.work.operations import operation_of
from ampere.pytorch.work.sums import SMALL, rounded
from ampere.zoo.families import family_names


def work_of(
    model: nn.Module, input: tuple[int, ...], training: Training = Training(4)
) -> list[Work]:
    return [work for layer in ampere.read_layers(model, input, training) for work in layer.work]


def of(work: list[Work], operation: str) -> list[Work]:
    return [each for each in work if each.operation == operation]


def flops(layers: tuple[Layer, ...]) -> tuple[float, float]:
    told = sum((w.features.flops or 0) * w.count for layer in layers for w in layer.work)
    return told, sum(layer.features.flops or 0 for layer in layers)


@pytest.mark.parametrize("name", family_names())
def test_flops_of_calls_are_those_of_the_model(name: str) -> None:
    told, counted = flops(ampere.read_layers(f"zoo:{name}"))
    assert told == pytest.approx(counted, rel=1e-6)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), genre=st.sampled_from(GENRES))
def test_drawn_networks_are_read_and_add_up(seed: int, genre: str) -> None:
    layers = drawn_layers(random.Random(seed), genre, 1e8, Training())
    told, counted = flops(layers)
    assert told == pytest.approx(counted, rel=1e-3)
    assert all(work.count > 0 for layer in layers for work in layer.work)
    assert {layer.name for layer in layers if not layer.work} == set()


def test_a_draw_is_a_function_of_its_seed() -> None:
    first, second = (drawn_layers(random.Random(3), "maps", 1e8, Training()) for _ in range(2))
    assert [layer.identity for layer in first] == [layer.identity for layer in second]


def test_a_convolution_is_told_at_its_sizes() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.Conv2d(8, 8, 5, padding=2, groups=8),
        nn.Conv2d(8, 12, 1, groups=2),
        nn.Flatten(),
        nn.Linear(12 * 16, 5),
    )
    work = work_of(model, (3, 8, 8))
    (first,), (grouped,) = of(work, "convolution"), of(work, "grouped convolution")
    assert dict(first.widths) == {"in": 3, "out": 8}
    assert first.attributes["rows"] == 4 * 64  # of what enters: it is larger
    assert (first.attributes["stride"], first.attributes["kernel"]) == (4.0, 9)
    assert first.attributes["passes"] == 2  # no gradient of images
    assert dict(grouped.widths) == {"in": 4, "out": 6}
    assert grouped.attributes["groups"] == 2
    (depthwise,) = of(work, "depthwise")
    assert dict(depthwise.widths) == {"out": 8}
    (linear,) = of(work, "linear")
    assert dict(linear.widths) == {"in": 192, "out": 5}
    assert linear.features.flops == 3 * 2 * 4 * 192 * 5


class Sequence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.GRU(6, 16, num_layers=2, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.inner(x)[0][:, -1])
        return out


def test_a_sequence_is_as_many_calls_as_it_has_steps_and_layers() -> None:
    (each,) = of(work_of(Sequence(), (10, 6)), "recurrent")
    assert each.count == 10 * 2
    assert dict(each.widths) == {"in": 6, "out": 16}
    assert (each.attributes["of"], each.attributes["steps"], each.attributes["rows"]) == (
        "gru",
        10,
        4,
    )
    weights = 4 * (48 * 6 + 48 * 16 + 48 * 16 + 48 * 16 + 4 * 48)
    assert each.features.parameter_bytes == weights / 2  # every step reads those of its layer


class Mixed(nn.Module):
    """A sequence and a linear layer that are one layer: what enters is added at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.after = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.after(self.inner(x)[0])
        return out


def test_flops_of_a_sequence_do_not_change_those_beside_it() -> None:
    model = nn.Sequential(nn.Linear(6, 8), Mixed(), nn.Flatten(), nn.Linear(80, 3))
    (beside,) = [
        each
        for each in of(work_of(model, (10, 6)), "linear")
        if dict(each.widths) == {"in": 8, "out": 8}
    ]
    # Nearly: the backward pass of a sequence is not quite twice the forward one.
    assert beside.features.flops == pytest.approx(3 * 2 * 4 * 10 * 8 * 8, rel=0.05)


def test_an_update_for_each_parameter_by_the_optimiser() -> None:
    model = nn.Sequential(nn.Linear(64, 128), nn.Linear(128, 5))
    work = of(work_of(model, (64,), Training(2, "adamw")), "update")
    assert {each.attributes["by"] for each in work} == {"adamw"}
    assert sum(each.count for each in work) == pytest.approx(4, rel=0.2)
    (large,) = [each for each in work if (each.features.activation_bytes or 0) > SMALL]
    assert large.count * (large.features.activation_bytes or 0) == pytest.approx(4 * 64 * 128)


def test_what_is_frozen_is_not_updated_and_goes_forward_only() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))
    model[0].requires_grad_(False)
    work = work_of(model, (64,))
    assert [each.attributes["passes"] for each in of(work, "linear")] == [1, 2]
    assert of(work, "activation")[0].attributes["forward"] == 1


def test_the_loss_belongs_to_the_last_layer() -> None:
    layers = ampere.read_layers("zoo:lenet5")
    losses = [[w for w in layer.work if w.operation == "loss"] for layer in layers]
    assert [len(each) for each in losses] == [0, 0, 0, 0, 1]


class Scored(nn.Module):
    """A model as of transformers: its loss, and what it is made of, by name."""

    def __init__(self, name: str, how: str = "cross_entropy") -> None:
        super().__init__()
        self.head, self.name, self.how = nn.Linear(64, 512), name, how

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        scores = self.head(x)
        return {self.name: getattr(F, self.how)(scores, scores.detach()), "logits": scores}


@pytest.mark.parametrize("how", ["cross_entropy", "mse_loss", "binary_cross_entropy_with_logits"])
def test_a_loss_of_the_models_own_is_paid_once(how: str) -> None:
    (own,) = of(work_of(Scored("loss", how), (64,), Training(32)), "loss")
    assert (own.features.activation_bytes or 0) * own.count == pytest.approx(4 * 32 * 512)
    assert not own.attributes
    # By another name it is an output like any other: a loss is taken of the scores, too.
    both = of(work_of(Scored("total", how), (64,), Training(32)), "loss")
    assert sum(each.count for each in both) == pytest.approx(2 * own.count)
    named = of(work_of(Scored("loss", how), (64,), Training(32, loss="sum")), "loss")
    assert sum(each.count for each in named) > 2 * own.count  # and of the loss as well


def test_casts_are_copies() -> None:
    assert {operation_of(name) for name in ("long", "int", "bool", "double", "float")} == {"copy"}


class Odd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fft(self.inner(x)).real


def test_a_function_that_nobody_knows_has_its_own_name() -> None:
    assert operation_of("fft_fft") == "fft_fft"
    assert of(work_of(Odd(), (32,)), "fft_fft")


class Attends(nn.Module):
    def __init__(self, weights: bool) -> None:
        super().__init__()
        self.inner, self.weights = nn.MultiheadAttention(32, 4, batch_first=True), weights

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x, x, x, need_weights=self.weights)[0]
        return F.relu(out)


@pytest.mark.parametrize("weights", [True, False])
def test_attention_in_one_call_is_told_as_what_it_does(weights: bool) -> None:
    work = work_of(Attends(weights), (10, 32))
    entering, leaving = of(work, "linear")
    assert [dict(each.widths) for each in (entering, leaving)] == [
        {"in": 32, "out": 96},
        {"in": 32, "out": 32},
    ]
    inner = of(work, "matmul") if weights else of(work, "attention")
    assert len(inner) == 1 + weights
    assert all(each.attributes["matrices"] == 16 for each in inner)


@given(st.floats(1, 1e12))
def test_rounding_keeps_the_bytes(moved: float) -> None:
    work = rounded(Work("copy", features=Features(0.0, moved, 0.0)))
    size = work.features.activation_bytes or 0.0
    if moved <= SMALL:
        assert (size, work.count) == (SMALL, 1.0)
    else:
        assert work.count * size == pytest.approx(moved, rel=1e-9)
        assert abs(math.log2(work.count)) <= 0.26


def test_views_and_what_returns_its_input_move_nothing() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.Unflatten(1, (4, 8)), nn.Flatten(), nn.Dropout(0.0))
    work = work_of(model, (32,))
    assert not of(work, "copy")
    assert sum(each.count for each in of(work, "view")) >= 2


def test_work_is_written_and_read_back() -> None:
    for layer in ampere.read_layers("zoo:transformer"):
        again = Layer.from_json(layer.to_json())
        assert [each.call().identity for each in again.work] == [
            each.call().identity for each in layer.work
        ]
        assert [each.count for each in again.work] == pytest.approx(
            [each.count for each in layer.work], abs=1e-6
        )


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"features": [1, 2]}, "features"),
        ({"count": -1}, "count"),
        ({"op": 3}, "op"),
        ({"widths": {"in": 0}}, "widths"),
    ],
)
def test_work_of_a_file_is_refused_with_its_place(change: dict[str, object], place: str) -> None:
    row = {"op": "linear", "features": [1.0, 2.0, 3.0], **change}
    with pytest.raises(ampere.AmpereError, match=rf"work\[0\]\.{place}"):
        Layer.from_json({"kind": "x", "work": [row]})
