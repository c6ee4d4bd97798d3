"""Narrower models keep the weights of the channels that stay, whatever the model is made of."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ampere.core.choices import choices
from ampere.core.inputs import parse_inputs
from ampere.core.training import Training
from ampere.errors import ModelError
from ampere.pytorch.graph.model_reading import read_model
from ampere.pytorch.pruning.slimmer import Slim, Slimmer
from ampere.pytorch.runtime.losses import returned_tensors
from ampere.pytorch.runtime.trainer import synthetic_inputs
from ampere.zoo.families import family_names, find_family
from reference_models import REFERENCES, Reference

BATCH = 4
# Attention divides by the root of a head's size, so a masked original is not the same model.
ATTENTION = {"vit", "parallel_attention", "swin", "gpt", "encoder_decoder", "lora"}
# A weight of zeros has no length to be normalised by.
NOT_MASKED = {"weight_norm", "weight_standardised"} | ATTENTION
CUTTABLE = REFERENCES.keys() - {"data_branch"}
# Sizes are written out in their code, or kept as attributes: built again from their layers.
REBUILT = {"vit", "parallel_attention", "swin", "gpt", "lora"}


@cache  # slimming leaves the model as it is: a test below
def slimmer_of(name: str) -> Slimmer:
    reference = REFERENCES[name]
    torch.manual_seed(0)
    model = reference.build(reference.width)
    return Slimmer(model, parse_inputs(reference.inputs), Training(BATCH), "l2")


def free_widths(slimmer: Slimmer) -> Iterator[tuple[str, int, int]]:
    """Name, size and step of what can be cut."""
    for choice in choices(slimmer.layers):
        i, width = choice.places[0]
        name = f"{slimmer.layers[i].name}.{width}"
        if not choice.fixed and name not in slimmer.stuck:
            yield name, choice.size, choice.step


def some_widths(slimmer: Slimmer, seed: int = 1) -> dict[str, int]:
    rng = random.Random(seed)
    return {
        name: step * rng.randint(max(1, size // step // 2), size // step)
        for name, size, step in free_widths(slimmer)
    }


class MaskedNorm(nn.Module):
    """A normalisation that sees the channels that stay, and gives zeros for the others."""

    def __init__(self, norm: nn.Module, stays: Tensor, dim: int) -> None:
        super().__init__()
        self.norm, self.stays, self.dim = copy.deepcopy(norm), stays, dim
        for part in ("weight", "bias"):
            held = getattr(norm, part)
            setattr(self.norm, part, nn.Parameter(held.detach()[stays]))
        if isinstance(norm, nn.LayerNorm):
            self.norm.normalized_shape = (len(stays),)
        else:
            self.norm.num_channels = len(stays)

    def forward(self, x: Tensor) -> Tensor:
        found = self.norm(x.index_select(self.dim, self.stays))
        return torch.zeros_like(x).index_copy(self.dim, self.stays, found)


def masked(slimmer: Slimmer, slim: Slim) -> nn.Module:
    """The original with zeros for every weight of a channel that goes."""
    model = copy.deepcopy(slimmer.model)
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    kept = slimmer.kept_indices(slim.layers)
    for (name, dim), stays in kept.items():
        owner, _, part = name.rpartition(".")
        module = model.get_submodule(owner)
        if isinstance(module, nn.LayerNorm | nn.GroupNorm) and part == "weight":
            place = -1 if isinstance(module, nn.LayerNorm) else 1
            home, _, last = owner.rpartition(".")
            norm = MaskedNorm(module, torch.from_numpy(stays), place)
            setattr(model.get_submodule(home), last, norm)
            continue
        cut = np.setdiff1d(np.arange(tensors[name].shape[dim]), stays)
        with torch.no_grad():
            if part != "running_var":
                tensors[name].index_fill_(dim, torch.from_numpy(cut), 0.0)
    return model


def outputs(model: nn.Module, reference: Reference) -> list[Tensor]:
    torch.manual_seed(7)
    args, kwargs = synthetic_inputs(parse_inputs(reference.inputs), BATCH)
    with torch.no_grad():
        return list(returned_tensors(model.eval()(*args, **kwargs)))


@pytest.mark.parametrize("name", sorted(CUTTABLE - NOT_MASKED))
def test_a_narrower_model_is_the_original_without_the_channels_that_went(name: str) -> None:
    reference, slimmer = REFERENCES[name], slimmer_of(name)
    slim = slimmer.slim(some_widths(slimmer))
    for found, wanted in zip(
        outputs(slim.model, reference), outputs(masked(slimmer, slim), reference), strict=True
    ):
        assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(CUTTABLE))
def test_any_model_becomes_narrower_and_trains(name: str) -> None:
    reference, slimmer = REFERENCES[name], slimmer_of(name)
    before = {key: tensor.clone() for key, tensor in slimmer.model.state_dict().items()}
    slim = slimmer.slim(some_widths(slimmer))
    assert slim.rebuilt == (name in REBUILT)
    whole = sum(p.numel() for p in slimmer.model.parameters())
    if some_widths(slimmer):
        assert sum(p.numel() for p in slim.model.parameters()) < whole
    args, kwargs = synthetic_inputs(parse_inputs(reference.inputs), BATCH)
    model = slim.model.train()
    found = list(returned_tensors(model(*args, **kwargs)))
    assert [f.shape for f in found] == [f.shape for f in outputs(slimmer.model, reference)]
    sum(each.sum() for each in found if each.requires_grad).backward()
    trained = [p for p in model.parameters() if p.requires_grad]
    assert any(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in trained)
    for key, tensor in slimmer.model.state_dict().items():
        assert torch.equal(tensor, before[key])


@pytest.mark.parametrize("name", sorted(CUTTABLE - REBUILT))
def test_the_users_own_class_comes_back_with_its_layers_at_the_new_widths(name: str) -> None:
    slimmer = slimmer_of(name)
    slim = slimmer.slim(some_widths(slimmer))
    assert type(slim.model) is type(slimmer.model)
    assert slim.model.state_dict().keys() == slimmer.model.state_dict().keys()
    again = read_model(slim.model, slimmer.inputs, Training(BATCH)).layers
    assert [(a.kind, a.widths) for a in again] == [(b.kind, b.widths) for b in slim.layers]


def test_the_weights_are_those_of_the_most_important_channels() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 9, 2))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([0.1, 3.0, 0.2, 2.0]).reshape(4, 1, 1, 1))
        model[3].weight.fill_(0.01)
    slim = Slimmer(model, parse_inputs("1x3x3"), Training(BATCH)).slim({"0.out": 2}).model
    assert torch.equal(slim.get_parameter("0.weight"), model[0].weight[[1, 3]])
    assert torch.equal(slim.get_parameter("0.bias"), model[0].bias[[1, 3]])
    behind = model[3].weight.reshape(2, 4, 9)[:, [1, 3]].reshape(2, 18)
    assert torch.equal(slim.get_parameter("3.weight"), behind)
    assert torch.equal(slim.get_parameter("3.bias"), model[3].bias)


@pytest.mark.parametrize("importance", ["l1", "l2", "bn", "random"])
def test_importance_decides(importance: str) -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 3, 1, bias=False), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 2)
    )
    with torch.no_grad():
        # Sums of absolute values and of squares disagree, and so does the scale of the norm.
        model[0].weight.copy_(torch.tensor([5.0, 0.0, 0.0]).reshape(3, 1, 1, 1))
        model[3].weight.zero_()
        model[3].weight[:, 4:8] = 0.75
        model[1].weight.copy_(torch.tensor([0.1, 0.2, 0.9]))
    slimmer = Slimmer(model, parse_inputs("1x2x2"), Training(BATCH), importance, seed=3)
    kept = slimmer.kept_indices(slimmer.slim({"0.out": 1}).layers)["0.weight", 0]
    expected = {"l1": 1, "l2": 0, "bn": 2}
    if importance == "random":
        draws = {
            int(Slimmer(model, parse_inputs("1x2x2"), Training(BATCH), "random", seed=s)
                .kept_indices(slimmer.slim({"0.out": 1}).layers)["0.weight", 0][0])
            for s in range(20)
        }  # fmt: skip
        assert draws == {0, 1, 2}
    else:
        assert kept.tolist() == [expected[importance]]


def test_kept_importance_grows_with_the_width() -> None:
    slimmer = slimmer_of("residual_basic")
    for name, size, step in free_widths(slimmer):
        kept = [slimmer.kept(name, n) for n in range(step, size + 1, step)]
        assert kept == sorted(kept)
        assert kept[-1] == pytest.approx(1.0)
        # The best channels hold more than their share.
        assert kept[len(kept) // 2] >= (len(kept) // 2 + 1) / len(kept) - 1e-9


def test_channels_that_a_residual_joins_are_the_same_in_every_layer() -> None:
    slimmer = Slimmer(
        find_family("resnet").build(depth=14), parse_inputs("3x32x32"), Training(BATCH)
    )
    kept = slimmer.kept_indices(slimmer.slim({"conv.out": 7}).layers)
    stream = kept["conv.weight", 0].tolist()
    assert len(stream) == 7
    for block in (0, 1):
        assert kept[f"stages.0.{block}.conv2.weight", 0].tolist() == stream
        assert kept[f"stages.0.{block}.conv1.weight", 1].tolist() == stream
        inside = kept[f"stages.0.{block}.conv1.weight", 0].tolist()
        assert inside == kept[f"stages.0.{block}.conv2.weight", 1].tolist()
        assert inside != stream  # the block's own channels are its own choice


def test_a_channel_written_by_its_number_is_not_cut() -> None:
    slimmer = slimmer_of("inplace")
    assert slimmer.stuck  # y[:, 0] = 0 would be another channel


@pytest.mark.parametrize("family", family_names())
def test_the_zoo_becomes_narrower(family: str) -> None:
    model = find_family(family).build()
    slimmer = Slimmer(model, find_family(family).input, Training(BATCH))
    slim = slimmer.slim(some_widths(slimmer))
    assert not slim.rebuilt
    assert not slimmer.stuck


def test_a_model_that_chooses_by_values_is_refused() -> None:
    with pytest.raises(ModelError, match="looks at values to choose what runs"):
        slimmer_of("data_branch")


def test_unknown_importance_is_refused() -> None:
    with pytest.raises(ModelError, match="use one of l1, l2, bn, random"):
        Slimmer(nn.Linear(2, 2), parse_inputs("2"), Training(BATCH), "magic")
