"""One record a torch module is all that reading, counting, pruning and simulating need of it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

from ampere.core.graph.channels import Dims
from ampere.core.layers import structure_of
from ampere.core.program.trees import Path
from ampere.devices.physics import load_hardware, paces, simulated_devices
from ampere.frameworks.models import plan_variants
from ampere.pytorch.graph.recorder import TracedCall
from ampere.pytorch.models import make_slimmer, read_whole
from ampere.pytorch.modules import registry
from ampere.pytorch.modules.base import PLAIN_NAMING, ModuleRecord, Physics, Place, Pruning, Sizing
from ampere.pytorch.modules.registry import (
    RECORDS,
    holds_parameters,
    record_named,
    record_of,
    record_of_function,
    register,
)
from ampere.pytorch.pruning.coupling import Follower, Labels
from ampere.pytorch.runtime.builder import build

EVERY = pytest.mark.parametrize(
    "record", {id(record): record for record in RECORDS.values()}.values(), ids=lambda r: r.names[0]
)
SIZES = {  # arguments that build a small module of each record that holds parameters
    "PReLU": {"num_parameters": 8},
    "MultiheadAttention": {"embed_dim": 8, "num_heads": 2},
    "Linear": {"in_features": 8, "out_features": 4},
    "Bilinear": {"in1_features": 8, "in2_features": 8, "out_features": 4},
    "Embedding": {"num_embeddings": 20, "embedding_dim": 8},
    "EmbeddingBag": {"num_embeddings": 20, "embedding_dim": 8},
    "GroupNorm": {"num_groups": 2, "num_channels": 8},
    "LayerNorm": {"normalized_shape": 8},
    "RMSNorm": {"normalized_shape": 8},
    **{
        f"{kind}{end}": {"input_size": 8, "hidden_size": 4}
        for kind in ("RNN", "LSTM", "GRU")
        for end in ("", "Cell")
    },
    **{
        f"{kind}{axes}d": {"in_channels": 8, "out_channels": 4, "kernel_size": 3}
        for kind in ("Conv", "ConvTranspose")
        for axes in (1, 2, 3)
    },
    **{
        f"{kind}Norm{axes}d": {"num_features": 8, "affine": True}
        for kind in ("Batch", "Instance")
        for axes in (1, 2, 3)
    },
    "SyncBatchNorm": {"num_features": 8},
}


def make(name: str) -> nn.Module:
    module: nn.Module = getattr(nn, name)(**SIZES.get(name, {}))
    return module


def takes_no_arguments(name: str) -> bool:
    return name in SIZES or not name.startswith(("Max", "Avg", "Adaptive", "LP"))


# --- Records are whole ----------------------------------------------------------------------------


def test_every_part_of_a_record_must_be_given() -> None:
    parts = (ModuleRecord, Sizing, Pruning, Physics)
    for part in parts:
        for field in dataclasses.fields(part):
            assert field.default is field.default_factory is dataclasses.MISSING, field.name
    with pytest.raises(TypeError, match="missing"):
        ModuleRecord(names=("Conv2d",))


def test_a_module_has_one_record() -> None:
    named = [name for family in registry.FAMILIES for r in family.RECORDS for name in r.names]
    functions = [
        name for family in registry.FAMILIES for r in family.RECORDS for name in r.functions
    ]
    assert len(named) == len(set(named)) == len(RECORDS)
    assert len(functions) == len(set(functions))


@EVERY
def test_a_record_is_of_modules_and_functions_that_torch_has(record: ModuleRecord) -> None:
    assert all(issubclass(getattr(nn, name), nn.Module) for name in record.names)
    for name in record.functions:
        assert hasattr(nn.functional, name) or hasattr(torch, name), name


@EVERY
def test_what_one_part_knows_no_other_lacks(record: ModuleRecord) -> None:
    """What has sizes can be cut, what normalises is quick, a core multiplies or looks up."""
    assert (record.sizing is None) == (record.pruning is None)
    if record.place is Place.NORMALISATION:
        assert record.sizing is not None and record.sizing.entering is not None
        assert record.shortcut is not None and record.keeps_places
        assert set(record.shortcut.functions) == set(record.functions)
        assert not record.physics.products
    if record.place is Place.CORE:
        assert record.parameters is True
        looks_up = any("Embedding" in name for name in record.names)
        assert bool(record.physics.products) != looks_up
    if record.sizing is not None and record.place is not Place.NORMALISATION:
        assert set(record.functions) <= {*record.sizing.literals, "prelu"}
    if record.shortcut is not None:
        assert bool(record.shortcut.per_position) == record.physics.per_position


@EVERY
def test_a_record_tells_who_holds_parameters(record: ModuleRecord) -> None:
    for name in filter(takes_no_arguments, record.names):
        module = make(name)
        held = any(True for _ in module.parameters())
        assert record.holds_parameters(record.naming.arguments(module)) == held, name
        assert record_of(module) is record


def test_every_leaf_of_torch_with_parameters_has_a_record() -> None:
    """A torch that brings new modules with parameters makes this fail: they need a record."""
    composed = {"AdaptiveLogSoftmaxWithLoss", "RNNBase", "RNNCellBase", "Container"}
    unknown = []
    for name in dir(nn):
        cls = getattr(nn, name)
        if not (isinstance(cls, type) and issubclass(cls, nn.Module)) or name.startswith("Lazy"):
            continue
        source = getattr(cls, "__init__", None)
        makes = {"Parameter", "reset_parameters"} & set(source.__code__.co_names)
        if makes and name not in RECORDS and name not in composed:
            unknown.append(name)
    assert not [name for name in unknown if not name.startswith("Transformer")]


def test_rms_norm_is_known_wherever_layer_norm_is() -> None:
    assert record_named("RMSNorm") is record_named("LayerNorm")
    assert record_of_function("rms_norm") is record_of_function("layer_norm")


def test_a_users_own_kind_of_a_module_has_the_record_of_torchs() -> None:
    class Own(nn.BatchNorm2d):
        pass

    assert record_of(Own(3)) is RECORDS["BatchNorm2d"]
    assert record_of(nn.Sequential()) is None


def test_records_need_no_torch() -> None:
    code = "import sys, ampere.devices.physics; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- RMSNorm, from reading to simulating ----------------------------------------------------------


class Normed(nn.Module):
    """An embedding, a normalisation, a linear layer, and one that begins with the other."""

    def __init__(self, norm: type[nn.Module]) -> None:
        super().__init__()
        self.table, self.norm, self.inner = nn.Embedding(50, 16), norm(16), nn.Linear(16, 32)
        self.last = nn.Sequential(norm(32), nn.Linear(32, 10))

    def forward(self, ids: torch.Tensor) -> Any:
        return self.last(torch.relu(self.inner(self.norm(self.table(ids)))).mean(1))


def test_rms_norm_is_read_planned_and_cut_as_layer_norm_is() -> None:
    def seen(norm: type[nn.Module]) -> Any:
        slimmer = make_slimmer(Normed(norm), "12:int64<50")
        layers = slimmer.layers
        plan = plan_variants(layers)
        slices = {name for name in slimmer.coupling.slices if not name[0].endswith("norm.bias")}
        word = norm.__name__.lower()
        return (
            [layer.kind.name.replace(word, "norm").partition("#")[0] for layer in layers],
            [i.kind.name.replace(word, "norm").partition("#")[0] for i in plan.isolations],
            [dict(layer.widths) for layer in layers],
            {name for name in slices if name != ("last.0.bias", 0)},
        )

    assert seen(nn.RMSNorm) == seen(nn.LayerNorm)


def test_a_narrower_rms_norm_keeps_the_weights_of_its_channels() -> None:
    torch.manual_seed(0)
    model = Normed(nn.RMSNorm)
    nn.init.normal_(model.norm.weight)
    slimmer = make_slimmer(model, "12:int64<50")
    slim = slimmer.slim({"table.out": 8})
    kept = slimmer.kept_indices(slim.layers)["norm.weight", 0]
    assert torch.equal(slim.model.get_parameter("norm.weight"), model.norm.weight[kept])
    assert slim.modules["norm"] == "nn.RMSNorm((8,))"


# --- Bags of ids ----------------------------------------------------------------------------------


def test_a_bag_is_resized_and_the_weights_of_its_ids_are_not() -> None:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(50, 16, mode="sum")
            self.shares, self.last = nn.Linear(5, 12), nn.Linear(16, 4)

        def forward(self, ids: torch.Tensor, x: torch.Tensor) -> Any:
            return self.last(self.bag(ids, per_sample_weights=self.shares(x)))

    torch.manual_seed(0)
    model = Weighted()
    slimmer = make_slimmer(model, "ids=12:int64<50, x=5")
    assert {layer.name: dict(layer.widths) for layer in slimmer.layers} == {
        "shares": {},  # as many as there are ids
        "bag": {"out": 16},
        "last": {"in": 16},
    }
    slim = slimmer.slim({"bag.out": 8})
    assert slim.modules["bag"] == "nn.EmbeddingBag(50, 8, mode='sum')"
    kept = torch.from_numpy(slimmer.kept_indices(slim.layers)["bag.weight", 1])
    assert torch.equal(slim.model.get_parameter("bag.weight"), model.bag.weight[:, kept])


# --- A made-up module -----------------------------------------------------------------------------


class Gain(nn.Module):
    """As a future torch may have it: a factor for each channel, then a matrix between channels."""

    def __init__(self, channels: int, leaving: int) -> None:
        super().__init__()
        self.channels, self.leaving = channels, leaving
        self.scale = nn.Parameter(torch.randn(channels))
        self.mix = nn.Parameter(torch.randn(channels, leaving))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.scale) @ self.mix


def gain_sizes(
    call: TracedCall, inputs: list[Dims], shape: tuple[int, ...], sizes: dict[str, Any]
) -> Dims:
    from ampere.core.graph.channels import new

    out = new(shape[-1])
    sizes.update(channels=inputs[0][-1], leaving=out)
    return (*inputs[0][:-1], out)


def gain_weights(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    gain: Any = call.module
    entering = follower.entering(call, -1)
    made = follower.made(call, "leaving", gain.leaving)
    follower.weight(call, "scale", 0, entering)
    follower.weight(call, "mix", 0, entering)
    follower.weight(call, "mix", 1, made)
    return {(): follower.passed_on(call, -1, made)}


GAIN = ModuleRecord(
    names=("Gain",),
    functions=(),
    place=Place.CORE,
    parameters=True,
    whole=False,
    keeps_places=False,
    naming=PLAIN_NAMING,
    sizing=Sizing(
        rule=gain_sizes,
        entering=("channels", -1),
        makes="leaving",
        ids_below=None,
        weight_sides=(),
        literals={},
    ),
    shortcut=None,
    pruning=Pruning(rule=gain_weights, after_cut=None, batch_statistics=False),
    physics=Physics(products=(("channels", "leaving"),), per_position=False),
)


@pytest.fixture
def in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch has the module, ampere may or may not have its record."""
    monkeypatch.setattr(Gain, "__module__", "torch.nn.modules.gain")
    monkeypatch.setattr(nn, "Gain", Gain, raising=False)
    monkeypatch.setattr(registry, "RECORDS", dict(RECORDS))
    monkeypatch.setattr(registry, "FUNCTIONS", dict(registry.FUNCTIONS))


def made_up() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 24), nn.ReLU(), Gain(24, 16), nn.ReLU(), Gain(16, 5))


@pytest.mark.usefixtures("in_torch")
def test_a_record_is_all_that_a_made_up_module_needs() -> None:
    register(GAIN)
    model = made_up()
    reading = read_whole(model, (12,))
    assert not reading.unknown

    # read and sized: a layer each, whose widths are those of its neighbours
    assert [layer.kind.operation for layer in reading.layers] == ["linear", "gain", "gain"]
    hidden = reading.layers[1]
    assert dict(hidden.widths) == {"in": 24, "out": 16}
    call = structure_of(hidden.kind).calls[0]
    assert holds_parameters(call)

    # counted: 2 FLOPs a multiply-add, forward, and backward for the weights and the input
    assert hidden.params == 24 + 24 * 16
    assert hidden.features.flops == 3 * 2 * 10 * 24 * 16

    # planned: the last layer is fitted to what a hidden one delivers, no plain head is put there
    heads = [i.kind for i in plan_variants(reading.layers).isolations if i.kind.role == "last"]
    assert heads and all(kind.operation == "gain" for kind in heads)
    built = build(reading.layers)
    assert sum(p.numel() for p in built.parameters()) == sum(p.numel() for p in model.parameters())

    # pruned: the channels that stay have the weights they had
    slimmer = make_slimmer(model, (12,))
    slim = slimmer.slim({"0.out": 12, "2.out": 8})
    assert not slim.rebuilt and not slimmer.stuck
    assert slim.modules["2"] == "nn.Gain(12, 8)"
    kept = slimmer.kept_indices(slim.layers)
    rows, columns = (torch.from_numpy(kept["2.mix", side]) for side in (0, 1))
    assert torch.equal(slim.model[2].mix, model[2].mix[rows][:, columns])
    assert torch.equal(slim.model[2].scale, model[2].scale[rows])
    assert slimmer.ratios({"2.out": 8})["2"] == pytest.approx(1 - 8.5 / 16)

    # simulated: its matrix is padded to tiles, as that of a linear layer of its size is
    hardware = dataclasses.replace(load_hardware(simulated_devices()[0]), tile=32, launch_s=0.0)
    (padded,) = {pace.dynamic_j for pace in paces(hardware, [hidden], "forward")[:1]}
    whole = dataclasses.replace(hardware, tile=1)
    (plain,) = {pace.dynamic_j for pace in paces(whole, [hidden], "forward")[:1]}
    more = 32 * 32 / (24 * 16) - 1
    flops_j = hardware.flop_j * (hidden.features.flops or 0.0) / 3
    assert padded - plain == pytest.approx(more * flops_j)


@pytest.mark.usefixtures("in_torch")
def test_a_module_without_a_record_says_where_it_would_go() -> None:
    reading = read_whole(made_up(), (12,))
    assert reading.unknown == (
        "Gain has no record, so its sizes stay as they are and it cannot be cut:"
        " add it in ampere/pytorch/modules (base.py says how)",
    )
    assert [dict(layer.widths) for layer in reading.layers] == [{}, {}, {}]
    assert reading.layers[1].features.flops == 3 * 2 * 10 * 24 * 16  # read and counted all the same


def test_a_module_whose_record_lacks_sizing_is_told() -> None:
    class Cells(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.last = nn.GRUCell(12, 8), nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> Any:
            return self.last(self.cell(x, self.cell(x)))

    (said,) = read_whole(Cells(), (12,)).unknown
    assert said.startswith("GRUCell has a record without sizing and pruning, so its sizes stay")


@pytest.mark.usefixtures("in_torch")
def test_layers_on_the_command_line_tell_of_a_missing_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    from typer.testing import CliRunner

    from ampere.cli.app import app

    (tmp_path / "made.py").write_text(
        "from torch import nn\n\ndef net():\n"
        "    return nn.Sequential(nn.Linear(12, 24), nn.Gain(24, 5))\n"
    )
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["layers", "made.py:net", "--input", "12"]).stdout
    assert "Gain has no record" in shown.replace("\n", " ")


# --- Shortcuts say what torch says ----------------------------------------------------------------

NORMS = [
    ("BatchNorm1d", (4, 8)),
    ("BatchNorm2d", (4, 8, 5, 5)),
    ("InstanceNorm1d", (4, 8, 5)),
    ("InstanceNorm2d", (4, 8, 5, 5)),
    ("GroupNorm", (4, 8, 5)),
    ("LayerNorm", (4, 5, 8)),
    ("RMSNorm", (4, 5, 8)),
]


@pytest.mark.parametrize(("name", "shape"), NORMS)
def test_a_quick_normalisation_has_the_shape_and_the_gradients_of_torchs(
    name: str, shape: tuple[int, ...]
) -> None:
    module = make(name).to("meta")
    shortcut = RECORDS[name].shortcut
    assert shortcut is not None
    x = torch.empty(shape, device="meta", requires_grad=True)
    quick, real = shortcut.forward(module, (x,), {}), module(x)
    assert quick.shape == real.shape and quick.dtype == real.dtype
    assert quick.requires_grad and not quick.is_leaf
    quick.sum().backward()
    assert x.grad is not None and module.get_parameter("weight").grad is not None
    unfit = torch.empty([3 if size == 8 else size for size in shape], device="meta")
    with pytest.raises((RuntimeError, ValueError)):
        shortcut.forward(module, (unfit,), {})


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_a_quick_recurrent_layer_has_the_shapes_of_torchs(name: str) -> None:
    module = make(name).to("meta")
    shortcut = RECORDS[name].shortcut
    assert shortcut is not None
    x = torch.empty(7, 4, 8, device="meta")

    def shapes(result: Any) -> Any:
        return [shapes(r) for r in result] if isinstance(result, tuple) else tuple(result.shape)

    assert shapes(shortcut.forward(module, (x,), {})) == shapes(module(x))
    assert shortcut.forward(module, (x[0],), {}) is None  # without a batch it runs as it is
