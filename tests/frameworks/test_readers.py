"""Who reads: models of torch, of a framework that is made up here, and of none that is known."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from torch import nn

from ampere.core.boundary.code import Factory
from ampere.core.description import describe
from ampere.core.layers import Layer, LayerKind, structure_of
from ampere.core.program.sizes import Shape
from ampere.core.program.structure import Call, Structure
from ampere.core.training import Training
from ampere.core.workloads import REFERENCE
from ampere.errors import ModelError
from ampere.frameworks import models
from ampere.frameworks.readers import READERS, ReaderEntry, find_reader, reader_of
from ampere.profiles.profile import fit
from fakes import exact, plain_model

from .contract import as_dialect

OTHER = "other"


class OtherModel:
    """A model of a framework that is made up."""


@dataclass(frozen=True)
class OtherReading:
    layers: tuple[Layer, ...]
    unused: dict[str, int]
    unknown: tuple[str, ...]


class OtherReader:
    """Reads every model of the made-up framework as the reference, and counts 7 FLOPs a layer."""

    dialect = OTHER

    def __init__(self, hollow: bool = False) -> None:
        self._hollow = hollow

    def owns(self, model: object) -> bool:
        return isinstance(model, OtherModel)

    def hollow(self, factory: Factory) -> object | None:
        return OtherModel() if self._hollow else None

    def read_whole(self, model: Any, input: Any, training: Training) -> OtherReading:
        return OtherReading(tuple(as_dialect(each, OTHER) for each in REFERENCE.layers), {}, ())

    def with_features(self, layer: Layer) -> Layer:
        return replace(layer, features=replace(layer.features, flops=7.0))

    def first_for(self, first: LayerKind, target: Shape, input_grad: bool) -> LayerKind:
        raise ModelError("it has none")

    def last_for(self, last: LayerKind, source: Shape, input_grad: bool) -> LayerKind:
        raise ModelError("it has none")

    def trains(self, structure: Structure) -> bool:
        return True

    def holds_parameters(self, call: Call) -> bool:
        return False

    def build(self, layers: Sequence[Layer]) -> object:
        return OtherModel()


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtherReader]:
    """The made-up framework, in use in this process."""
    reader = OtherReader()
    monkeypatch.setitem(READERS, OTHER, ReaderEntry(lambda: reader, "made_up", "an OtherModel"))
    monkeypatch.setitem(sys.modules, "made_up", ModuleType("made_up"))
    yield reader


CODE = """
from torch import nn
from frameworks.test_readers import OtherModel
calls = []
def torchs(): return nn.Linear(4, 3)
def others(): calls.append(1); return OtherModel()
def three(): return 3
model = OtherModel()
for made in (torchs, others, three): made.input = "4"
"""


STAND_IN = """
from stand_in import Module
class Net(Module):
    input = "4"
    def __call__(self, x): return x
def net(): return Net()
net.input = "4"
ready = Net()
"""


@pytest.fixture
def without_flax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has imported it, whatever was tested before."""
    monkeypatch.delitem(sys.modules, "flax", raising=False)


@pytest.fixture
def code(tmp_path: Path) -> str:
    (tmp_path / "code.py").write_text(CODE)
    return f"{tmp_path}/code.py"


def test_models_and_names_of_torch_are_read_by_torch() -> None:
    for model in (nn.Linear(4, 3), "zoo:lenet5", "timm:resnet50", "hf:bert"):
        assert reader_of(model).dialect == models.framework_of(model) == "torch"


def test_a_model_is_read_by_whom_it_belongs_to(other: OtherReader, code: str) -> None:
    assert reader_of(OtherModel()) is other
    assert reader_of(nn.Linear(4, 3)).dialect == "torch"
    assert models.framework_of(f"{code}:torchs") == "torch"
    assert models.framework_of(f"{code}:others") == OTHER
    assert models.dialect_of(models.read(f"{code}:others")) == OTHER
    assert models.dialect_of(models.read(f"{code}:torchs")) == "torch"


@pytest.mark.usefixtures("without_flax")
def test_a_factory_is_not_run_where_torch_alone_is_in_use(code: str) -> None:
    assert models.framework_of(f"{code}:others") == "torch"
    module = next(m for name, m in sys.modules.items() if getattr(m, "__file__", "") == code)
    assert module.calls == []


@pytest.mark.usefixtures("without_flax")
def test_a_reader_may_build_without_values(
    other: OtherReader, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other, "_hollow", True)
    assert models.dialect_of(models.read(f"{code}:others")) == OTHER
    module = next(m for name, m in sys.modules.items() if getattr(m, "__file__", "") == code)
    assert module.calls == []


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (OtherModel(), "a model is an nn.Module or a flax.nnx.Module or its name, not OtherModel"),
        (3, "or its name, not int"),
        ("{code}:three", "three returned an object of type int; it must return an nn.Module or"),
        ("{code}:others", "returned an object of type OtherModel; it must return an nn.Module"),
        ("{code}:model", "is an object of type OtherModel, which makes no model"),
        ("{code}:nothing", "has no 'nothing'; it has"),
        ("no.py:net", "cannot read"),
    ],
)
def test_what_is_of_no_known_framework_is_one_line(model: Any, says: str, code: str) -> None:
    named = model.format(code=code) if isinstance(model, str) else model
    with pytest.raises(ModelError) as caught:
        models.read(named)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("home", "library", "advice"),
    [
        ("equinox._module._module", "equinox", "write it with flax.nnx"),
        ("haiku._src.module", "haiku", "write it with flax.nnx"),
        ("flax.linen.module", "flax.linen", "wrap it in nnx.bridge.ToNNX"),
    ],
)
def test_libraries_that_are_not_read_are_told_whoever_is_loaded(
    home: str, library: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = ModuleType(home)
    stand_in.Module = type("Module", (), {"__module__": home})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "stand_in", stand_in)
    (tmp_path / "code.py").write_text(STAND_IN)
    given: list[Any] = [f"{tmp_path}/code.py:{name}" for name in ("net", "ready", "Net")]
    given.append(type("Net", (stand_in.Module,), {})())
    for model in given:
        with pytest.raises(ModelError) as caught:
            models.read(model)
        assert f"Net is a model of {library}, which is not read: " in str(caught.value)
        assert advice in str(caught.value) and "\n" not in str(caught.value)


def test_a_name_that_only_begins_alike_is_another_library() -> None:
    made = type("Net", (), {"__module__": "haikus.models"})()
    with pytest.raises(ModelError, match="or its name, not Net of haikus"):
        models.read(made)


def test_layers_are_counted_and_planned_by_their_own_reader(other: OtherReader) -> None:
    layers = models.read(OtherModel())
    assert [models.with_features(layer).features.flops for layer in layers] == [7.0, 7.0]
    plan = models.plan_variants(layers)
    assert [each.last for each in plan.isolations] == [None, None]  # no stand-ins of its own
    assert not models.holds_parameters(layers[0], structure_of(layers[0].kind).calls[0])


def test_layers_of_a_dialect_that_nobody_knows_are_refused() -> None:
    (layer, _) = REFERENCE.layers
    with pytest.raises(ModelError, match="layers of 'later' are not known here: torch, jax are"):
        models.with_features(as_dialect(layer, "later"))
    with pytest.raises(ModelError, match="'later'"):
        find_reader("later")


def test_a_dialect_is_told_where_it_is_not_torch() -> None:
    (layer, _) = REFERENCE.layers
    torchs, others = structure_of(layer.kind), structure_of(as_dialect(layer, OTHER).kind)
    assert "dialect" not in torchs.to_json()
    assert Structure.from_json(others.to_json()) == others
    assert Structure.from_json(torchs.to_json()) == torchs
    assert torchs.digest != others.digest
    assert "dialect" not in describe(REFERENCE.layers)
    assert describe([as_dialect(each, OTHER) for each in REFERENCE.layers])["dialect"] == OTHER


def test_estimating_plain_layers_asks_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    for dialect in list(READERS):
        monkeypatch.delitem(READERS, dialect)
    profile = fit([exact(plain_model(n)) for n in (4, 8, 16, 32)])
    assert profile.estimate(profile.measurements[0].layers).energy_j > 0


def test_what_is_a_translation() -> None:
    torchs = REFERENCE.layers
    others = [as_dialect(layer, "jax") for layer in torchs]
    rows = [Layer.from_json(layer.to_json()) for layer in torchs]
    assert models.is_translation(torchs, "mnn")
    assert not models.is_translation(torchs, "torch")
    assert not models.is_translation(others, "jax")
    assert not models.is_translation(rows, "jax")  # nobody knows
    assert models.is_translation(rows, "jax", named=True)
