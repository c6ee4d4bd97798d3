"""Any model, read as it is: the books balance, layers resize as the real class would, values agree.

Every structure of `reference_models` goes through the same checks.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import ampere
from ampere.acquisition import loop
from ampere.core.choices import choices, resample, resize
from ampere.core.inputs import Inputs, parse_inputs
from ampere.core.layers import Layer, Role
from ampere.core.program.widths import Widths
from ampere.core.training import Training
from ampere.core.variants import isolate
from ampere.core.workloads import Settings, Workload
from ampere.errors import ModelError
from ampere.frameworks.models import plan_variants
from ampere.pytorch.graph.counter import backward
from ampere.pytorch.graph.flops import flop_counter
from ampere.pytorch.graph.model_reading import ModelReading, read_layers, read_model
from ampere.pytorch.graph.recorder import tensors_in
from ampere.pytorch.graph.trace import trace
from ampere.pytorch.models import read_whole
from ampere.pytorch.models import resize as resize_model
from ampere.pytorch.runtime.builder import build
from ampere.pytorch.runtime.trainer import make_trainer, synthetic_inputs
from fakes import FakeDevice, total
from reference_models import REFERENCES, Reference, example
from written import Written

BATCH = 4
NAMES = sorted(REFERENCES)
# Reading it needs values, so its whole count is not to be had on the meta device.
BY_VALUES = ("data_branch",)


@cache
def reading_of(name: str, width: int | None = None) -> ModelReading:
    """A reference as it was read, at its own width or at another."""
    reference = REFERENCES[name]
    model = reference.build(width or reference.width)
    torch.manual_seed(0)  # what a model that looks at values sees
    return read_model(model, parse_inputs(reference.inputs), Training(BATCH))


def whole_flops(model: nn.Module, reference: Reference) -> int:
    args, kwargs = example(reference, BATCH, "meta")
    with flop_counter() as counter:
        backward(model.to("meta").train()(*args, **kwargs))
    return counter.get_total_flops()


def used_tensors(model: nn.Module, reference: Reference) -> Iterator[torch.Tensor]:
    """Parameters and buffers in the order in which a forward pass reads them, each time it does."""
    torch.manual_seed(0)
    traced = trace(model, parse_inputs(reference.inputs), BATCH)
    held = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers())
    constants = {call.index: call.name for call in traced.calls if call.parameter is not None}
    for call in traced.calls:
        names = [constants[value.call] for value in call.inputs if value.call in constants]
        if call.module is not None:
            names += [f"{call.where}.{name}" for name in call.module.state_dict()]
        for name in names:
            yield held[name]


def copy_weights(source: nn.Module, target: nn.Module, reference: Reference) -> None:
    theirs, ours = list(used_tensors(source, reference)), list(used_tensors(target, reference))
    with torch.no_grad():
        for mine, original in zip(ours, theirs, strict=True):
            assert mine.shape == original.shape
            mine.copy_(original)


def flat(result: object) -> list[torch.Tensor]:
    return [tensor for _, tensor in tensors_in(result)]


def run(model: nn.Module, reference: Reference) -> list[torch.Tensor]:
    torch.manual_seed(1)
    args, kwargs = example(reference, BATCH)
    with torch.no_grad():
        return flat(model.train()(*args, **kwargs))


def as_called(network: nn.Module) -> nn.Module:
    """A rebuilt network takes all inputs by position; the original may want keywords."""

    class Called(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> object:
            return self.network(*args, *kwargs.values())

    return Called()


@pytest.mark.parametrize("name", NAMES)
def test_parameters_and_flops_add_up(name: str) -> None:
    reference, reading = REFERENCES[name], reading_of(name)
    model = reference.build(reference.width)
    held = sum(layer.params or 0 for layer in reading.layers) + sum(reading.unused.values())
    assert held == sum(parameter.numel() for parameter in model.parameters())
    assert not reading.unused or name in ("unused_parameter", *BY_VALUES)
    if name not in BY_VALUES:
        counted = sum(layer.features.flops or 0.0 for layer in reading.layers)
        assert counted == whole_flops(model, reference)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in BY_VALUES])
def test_the_same_class_at_another_width_has_the_same_kinds(name: str) -> None:
    narrow, wide = layers_of(name), reading_of(name, REFERENCES[name].wider).layers
    assert [layer.kind.name for layer in narrow] == [layer.kind.name for layer in wide]
    assert all(layer.widths for layer in narrow)  # all of them can be resized
    resized = resize(narrow, named_widths(wide))
    assert [layer.widths for layer in resized] == [layer.widths for layer in wide]


def named_widths(layers: tuple[Layer, ...]) -> dict[str, int]:
    return {f"{layer.name}.{width}": size for layer in layers
            for width, size in layer.widths.items()}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in NAMES if n not in BY_VALUES])
def test_resized_layers_equal_the_real_class_at_the_new_width(name: str) -> None:
    reference = REFERENCES[name]
    real = reference.build(reference.wider)
    narrow, wide = layers_of(name), reading_of(name, reference.wider).layers
    rebuilt = as_called(build(resize(narrow, named_widths(wide))))
    copy_weights(real, rebuilt, reference)
    for mine, theirs in zip(run(rebuilt, reference), run(real, reference), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


RESIZABLE = [name for name in NAMES if name not in BY_VALUES]


@settings(max_examples=10)
@given(name=st.sampled_from(RESIZABLE), seed=st.integers(0, 2**16))
def test_a_model_at_random_widths_reads_as_these_widths_and_trains(name: str, seed: int) -> None:
    # Not the very smallest: with heads of size 1 a reshape cannot say which size is the head's.
    drawn = resample(layers_of(name), random.Random(seed), least=2)
    model = build(drawn)
    inputs = parse_inputs(REFERENCES[name].inputs)
    spec = Inputs(tuple(inputs))  # a network of layers takes all its inputs by position
    again = read_model(model, spec, Training(BATCH)).layers
    assert [layer.widths for layer in again] == [layer.widths for layer in drawn]
    assert [layer.kind for layer in again] == [layer.kind for layer in drawn]

    args, kwargs = synthetic_inputs(spec, BATCH)
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=1e-3)
    backward(model.train()(*args, **kwargs))
    optimizer.step()
    assert all(torch.isfinite(p).all() for p in weights)
    assert any(p.grad is not None for p in weights)


def test_every_reference_has_a_choice_of_widths() -> None:
    for name in RESIZABLE:
        free = [choice for choice in choices(layers_of(name)) if not choice.fixed]
        assert free and all(choice.size % choice.step == 0 for choice in free), name


# --- where layers begin and end ---


def layers_of(name: str) -> tuple[Layer, ...]:
    return reading_of(name).layers


def named(layers: tuple[Layer, ...], part: str) -> list[Layer]:
    return [layer for layer in layers if part in layer.name]


def test_equal_blocks_are_one_layer_each_and_one_kind() -> None:
    for name, part in (("residual_basic", "body.0"), ("vit", "attn"), ("gpt", "mlp")):
        blocks = named(layers_of(name), part)
        assert len(blocks) > 1 and len({layer.kind for layer in blocks}) == 1, name


@pytest.mark.parametrize(
    ("name", "block", "convolutions"),
    [("inception", "body.0", 6), ("dense", "body.0", 4), ("squeeze_excite", "body.0.0", 2)],
)
def test_what_branches_is_one_layer(name: str, block: str, convolutions: int) -> None:
    (layer,) = named(layers_of(name), block)
    assert layer.kind.structure is not None
    assert sum(call.op == "Conv2d" for call in layer.kind.structure.calls) == convolutions


def test_tokens_and_positions_belong_to_the_first_layer() -> None:
    first = layers_of("vit")[0]
    assert first.kind.structure is not None
    assert [call.op for call in first.kind.structure.calls].count("parameter") == 2
    assert layers_of("gpt")[0].params == 50 * 32 + 16 * 32  # both embeddings


@pytest.mark.parametrize("name", ["unet", "unet_interpolate"])
def test_long_skips_make_layers_with_several_inputs(name: str) -> None:
    layers = layers_of(name)
    joining = [layer for layer in layers if len(layer.reads) > 1]
    assert len(joining) == 2  # one for each skip
    largest = max(layer.features.flops or 0.0 for layer in layers)
    assert largest < 0.5 * sum(layer.features.flops or 0.0 for layer in layers)


def test_every_decoder_layer_reads_the_memory() -> None:
    layers = layers_of("encoder_decoder")
    memory = {layer.reads[1] for layer in named(layers, "cross_attention")}
    assert len(memory) == 1
    ((number, _),) = memory
    assert "encoder" in layers[number].name


def test_both_branches_of_a_siamese_network_are_read_and_share_their_weights() -> None:
    layers = layers_of("siamese")
    firsts = [layer for layer in layers if layer.kind.role is Role.FIRST]
    assert [layer.reads for layer in firsts] == [((-1, 0),), ((-1, 1),)]
    ours, theirs = named(layers, "trunk.0.0")
    assert ours.params and theirs.params == 0
    assert theirs.kind.structure is not None
    assert any(call.shared_parts for call in theirs.kind.structure.calls)


def test_a_tied_head_has_no_parameters_and_no_update_of_its_own() -> None:
    head = layers_of("gpt")[-1]
    assert head.kind.structure is not None
    linear = next(call for call in head.kind.structure.calls if call.op == "Linear")
    assert linear.shared_parts == ("weight",)


def test_what_nothing_uses_is_named() -> None:
    unused = reading_of("unused_parameter").unused
    assert set(unused) == {"unused_scale", "unused_conv.weight", "unused_conv.bias"}


def test_a_frozen_body_needs_no_backward_pass_and_adapters_do() -> None:
    trunk = layers_of("head_only")[:-1]
    assert all(not layer.kind.structure.input_grad for layer in trunk if layer.kind.structure)
    adapted = named(layers_of("lora"), "attn")[-1].kind.structure
    assert adapted is not None and adapted.input_grad
    assert any(call.frozen for call in adapted.calls)
    assert any(call.op == "parameter" and not call.frozen for call in adapted.calls)


def test_outputs_keep_their_names() -> None:
    last = layers_of("dict_output")[-1].kind.structure
    assert last is not None and set(last.result) == {"out", "aux"}


# --- profiling ---


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_has_a_variant_that_trains(name: str) -> None:
    layers = layers_of(name)
    isolations = plan_variants(layers).isolations
    assert {layer.kind for layer in layers} <= {isolation.kind for isolation in isolations}
    for isolation in isolations:
        variant = isolate(isolation, Widths(isolation.steps))
        make_trainer(Workload(variant.layers), Settings()).step()


@pytest.mark.parametrize("name", ["unet", pytest.param("encoder_decoder", marks=pytest.mark.slow)])
def test_a_profile_estimates_resized_models_to_the_joule(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What each member does is counted, which takes longer than the rest.
    monkeypatch.setattr(loop, "make_prober", partial(loop.make_prober, pool=4))
    reference = REFERENCES[name]
    model = reference.build(reference.width)
    profile = ampere.profile(
        model,
        reference.inputs,
        path=tmp_path / "p.ampere",
        device=FakeDevice(),
        training=Training(BATCH),
        strategy=ampere.Strategy(max_measurements=16),
    )
    drawn = resample(layers_of(name), random.Random(3))
    estimate = profile.estimate(drawn)
    assert not estimate.uncovered
    truth = total(drawn)
    assert estimate.energy_j == pytest.approx(truth.energy_j, rel=0.05)


# --- what users write ---


def in_place(m: Any, x: torch.Tensor) -> torch.Tensor:
    out = x.new_zeros(x.shape[0], 6)
    out[:, :3].copy_(m.a(x))
    out[:, 3:].copy_(m.b(x))
    return out


def table_beside(m: Any, x: torch.Tensor) -> torch.Tensor:
    table = torch.arange(8.0)  # on the CPU, wherever the input is
    noise = torch.rand(8, device=table.device)
    return m.a(x + (table + noise).to(x.device))


def linear(entering: int, leaving: int) -> nn.Linear:
    return nn.Linear(entering, leaving)


ODD = {
    "a frozen parameter": Written(
        lambda m, x: m.a(x + m.p),
        a=linear(8, 3),
        p=nn.Parameter(torch.ones(8), requires_grad=False),
    ),
    "a detached encoder": Written(
        lambda m, x: m.b(m.a(x).detach()), a=linear(8, 5), b=linear(5, 3)
    ),
    "heads written in place": Written(in_place, a=linear(8, 3), b=linear(8, 3)),
    "a parameter returned": Written(
        lambda m, x: {"y": m.a(x), "scale": m.p, "exp": m.p.exp()},
        a=linear(8, 3),
        p=nn.Parameter(torch.ones(1)),
    ),
    "addmm, as in GPT-2": Written(
        lambda m, x: m.a(torch.addmm(m.q, x, m.p).relu()),
        a=linear(24, 3),
        p=nn.Parameter(torch.ones(8, 24)),
        q=nn.Parameter(torch.ones(24)),
    ),
    "rows by a list": Written(lambda m, x: m.a(x[:, [0, 2, 1]]), a=linear(3, 3)),
    "a constant beside": Written(lambda m, x: (m.a(x), torch.zeros(())), a=linear(8, 3)),
    "a table made on the CPU": Written(table_beside, a=linear(8, 3)),
    "keywords": Written(lambda m, x: m.a(torch.flatten(input=x, start_dim=1)), a=linear(8, 3)),
}


@pytest.mark.parametrize("name", ODD)
def test_what_users_write_adds_up(name: str) -> None:
    model = ODD[name]
    reading = read_model(model, parse_inputs("8"), Training(BATCH))
    held = sum(layer.params or 0 for layer in reading.layers)
    assert held == sum(p.numel() for p in model.parameters()) and not reading.unused
    whole = copy.deepcopy(model).to("meta").train()
    with flop_counter() as counter:
        backward(whole(torch.randn(BATCH, 8, device="meta")))
    assert sum(layer.features.flops or 0.0 for layer in reading.layers) == (
        counter.get_total_flops()
    )
    make_trainer(Workload(reading.layers), Settings()).step()


def test_normalisation_without_parameters_is_resized() -> None:
    norms = (nn.BatchNorm1d(12, affine=False), nn.LayerNorm(12, elementwise_affine=False))
    for norm in norms:
        model = nn.Sequential(nn.Linear(8, 12), norm, nn.ReLU(), nn.Linear(12, 3))
        layers = read_layers(model, parse_inputs("8"), Training(BATCH))
        drawn = resize(layers, {"0.out": 7})
        make_trainer(Workload(drawn), Settings()).step()
        assert int(getattr(norm, "num_batches_tracked", torch.tensor(0))) == 0


def test_what_a_model_keeps_for_later_is_not_left_on_the_meta_device() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        if m.table is None:
            m.table = torch.arange(8.0, device=x.device)
        return m.a(x + m.table)

    model = Written(forward, a=linear(8, 3), table=None)
    read_layers(model, parse_inputs("8"))
    assert model(torch.randn(2, 8)).shape == (2, 3)


# --- what cannot be read ---


class Fails(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.good = nn.Linear(4, 4)
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.good(x))


def test_errors_name_the_module_and_the_reason() -> None:
    with pytest.raises(ModelError, match=r"in inner\.1: .*(shapes|dimension)"):
        read_layers(Fails(), parse_inputs("4"))


def test_a_missing_input_says_how_to_give_several() -> None:
    with pytest.raises(ModelError, match=r"features.*name each input"):
        read_layers(REFERENCES["multi_input"].build(16), parse_inputs("3x16x16"))


# --- other widths ---


def test_widths_that_are_tied_follow() -> None:
    layers = layers_of("residual_basic")
    first = next(choice for choice in choices(layers) if not choice.fixed)
    name = f"{layers[first.places[0][0]].name}.{first.places[0][1]}"
    resized = resize(layers, {name: 2 * first.size})
    for i, width in first.places:
        assert resized[i].widths[width] == 2 * layers[i].widths[width]


@pytest.mark.parametrize(
    ("widths", "says"),
    [
        ({"nothing.out": 3}, "no width 'nothing.out'"),
        ({"blocks.0.attn.width": 30}, "multiple of 4"),
        ({"blocks.0.attn.width": 16, "blocks.0.mlp.width": 20}, "tied and cannot differ"),
    ],
)
def test_widths_that_cannot_be_are_refused(widths: dict[str, int], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        resize(layers_of("vit"), widths)


def test_a_model_is_resized_in_one_call() -> None:
    reference = REFERENCES["vit"]
    width = {"blocks.0.mlp.width": 24}
    model = resize_model(reference.build(32), width, reference.inputs, Training(2))
    args, _ = example(reference, 2)
    assert model(*args).shape == (2, 10)
    layers = read_whole(model, reference.inputs, Training(2)).layers
    assert {size for layer in layers for size in layer.widths.values()} == {24}
