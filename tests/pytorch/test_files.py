"""Narrower models on disk: another process builds the same ones, and weights go in and out."""

from __future__ import annotations

import ast
import copy
import importlib.util
import json
import os
import pickle
import random
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file, save_model
from torch import Tensor, nn

import ampere
from ampere.core.choices import choices
from ampere.core.training import Training
from ampere.errors import DataError
from ampere.pytorch.models import make_slimmer
from ampere.pytorch.pruning.files import code, write_model
from ampere.pytorch.pruning.slimmer import Slim, Slimmer
from ampere.pytorch.pruning.weights import load_weights
from ampere.pytorch.runtime.losses import returned_tensors
from ampere.pytorch.runtime.trainer import synthetic_inputs
from golden_files import agreed
from reference_models import REFERENCES

BATCH = 4

NETS = """
import torch
from torch import nn

from beside import CLASSES


class Net(nn.Module):
    input = "1x8x8"

    def __init__(self, width=8):
        super().__init__()
        self.conv = nn.Conv2d(1, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.head = nn.Linear(width * 64, CLASSES)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).relu().flatten(1))


def make(width=8, frozen=False):
    net = Net(width)
    net.norm.requires_grad_(not frozen)
    net.conv.weight.requires_grad_(not frozen)
    return net


make.input = Net.input
ready = Net(6)
ready.input = Net.input


class Sized(Net):
    def forward(self, x):
        x = self.norm(self.conv(x)).relu()
        return self.head(x.view(-1, 8, 64).flatten(1))


class FrozenSized(Sized):
    def __init__(self):
        super().__init__()
        self.conv.requires_grad_(False)


class Tokens(nn.Module):
    input = "5:int64<11"

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 8)  # in the alphabet, its weight comes after the head's
        self.register_buffer("place", torch.randn(5, 8), persistent=False)
        self.scale = nn.Parameter(torch.randn(8), requires_grad=False)
        self.each = nn.ParameterList([nn.Parameter(torch.randn(8))])
        self.each.append(self.each[0])
        self.mix = nn.Linear(8, 12)
        self.back = nn.Linear(12, 8, dtype=torch.float64)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids) + self.place
        x = x * self.scale + self.each[0] * self.each[1]
        x = x + self.back(self.mix(x).relu().double()).float()
        return self.head(x.mean(1))
"""

MODELS = {
    "cnn5": "zoo:cnn5(channels=[6, 8, 10, 12])",
    "resnet": "zoo:resnet(depth=8)",
    "lstm": "zoo:lstm(embedding=8, hidden=12)",
    "transformer": "zoo:transformer",
    "class": "nets.py:Net",
    "factory": "nets.py:make(width=10, frozen=True)",
    "object": "nets.py:ready",
    "rebuilt": "nets.py:Sized",
    "frozen_rebuilt": "nets.py:FrozenSized",
    "tokens": "nets.py:Tokens",
}
REBUILT = {"rebuilt", "frozen_rebuilt"}

FRESH = """
import json, sys, torch
torch.set_num_threads(1)
found = {}
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    from model import build
    torch.manual_seed(11)
    model = build().eval()
    given = torch.load(f"{folder}/given.pt")
    with torch.no_grad():
        answer = model(*given["inputs"])
    found[folder] = {
        "same": torch.equal(answer, given["outputs"]),
        "frozen": [name for name, p in model.named_parameters() if not p.requires_grad],
        "names": list(model.state_dict()),
        "count": sum(p.numel() for p in model.parameters()),
    }
    sys.path.remove(folder)
    del sys.modules["model"]
print(json.dumps(found))
"""


def narrowed(slimmer: Slimmer, seed: int = 1) -> Slim:
    """About two thirds of every width."""
    rng = random.Random(seed)
    widths = {}
    for choice in choices(slimmer.layers):
        i, width = choice.places[0]
        name = f"{slimmer.layers[i].name}.{width}"
        if not choice.fixed and name not in slimmer.stuck:
            steps = choice.size // choice.step
            widths[name] = choice.step * rng.randint(max(1, steps // 2), max(1, steps - 1))
    return slimmer.slim(widths)


def stir(model: nn.Module) -> None:
    """Statistics that no fresh model has."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean = torch.randn_like(module.weight)
            module.running_var = torch.rand_like(module.weight) + 0.5
            module.num_batches_tracked = torch.tensor(7)


def answers(model: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    with torch.no_grad():
        return next(iter(returned_tensors(model.eval()(*inputs))))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("saved")
    (home / "nets.py").write_text(NETS)
    (home / "beside.py").write_text("CLASSES = 10")
    return home


@pytest.fixture(scope="module")
def slims(home: Path) -> dict[str, tuple[Slimmer, Slim]]:
    """Every model, narrower, on disk, with an input and what comes out."""
    found = {}
    for name, text in MODELS.items():
        torch.manual_seed(3)
        source = text if text.startswith("zoo") else f"{home}/{text}"
        slimmer = make_slimmer(source, training=Training(BATCH))
        stir(slimmer.model)
        slim = narrowed(slimmer)
        (home / name).mkdir()
        write_model(home / name, slim, source, "a title", {})
        args, _ = synthetic_inputs(slimmer.inputs, BATCH)
        given = {"inputs": args, "outputs": answers(slim.model, args)}
        torch.save(given, home / name / "given.pt")
        found[name] = (slimmer, slim)
    return found


@pytest.fixture(scope="module")
def fresh(home: Path, slims: dict[str, Any]) -> dict[str, Any]:
    """What a process that knows only the folders makes of them."""
    done = subprocess.run(
        [sys.executable, "-c", FRESH, *(str(home / name) for name in slims)],
        capture_output=True,
        text=True,
        cwd="/",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return {Path(folder).name: row for folder, row in json.loads(done.stdout).items()}


@pytest.mark.parametrize("name", MODELS)
def test_another_process_builds_the_same_model(
    name: str, slims: dict[str, tuple[Slimmer, Slim]], fresh: dict[str, Any]
) -> None:
    slimmer, slim = slims[name]
    assert fresh[name]["same"]
    kept = list(slim.model.parameters())
    assert fresh[name]["count"] == sum(p.numel() for p in kept)
    assert fresh[name]["count"] < sum(p.numel() for p in slimmer.model.parameters())
    assert slim.rebuilt == (name in REBUILT)


@pytest.mark.parametrize("name", sorted(MODELS.keys() - REBUILT))
def test_names_and_frozen_weights_are_those_of_the_original(
    name: str, slims: dict[str, tuple[Slimmer, Slim]], fresh: dict[str, Any]
) -> None:
    original = slims[name][0].model
    frozen = [key for key, p in original.named_parameters() if not p.requires_grad]
    assert fresh[name]["frozen"] == frozen
    assert bool(frozen) == (name in ("factory", "tokens"))
    # What a model would make anew is of another size now, so it is saved with the rest.
    assert set(fresh[name]["names"]) - set(original.state_dict()) == (
        {"place"} if name == "tokens" else set()
    )
    assert set(original.state_dict()) <= set(fresh[name]["names"])


def test_a_model_that_is_built_again_stays_frozen(
    slims: dict[str, tuple[Slimmer, Slim]], fresh: dict[str, Any]
) -> None:
    assert len(fresh["frozen_rebuilt"]["frozen"]) == 2
    assert fresh["rebuilt"]["frozen"] == []


@pytest.mark.parametrize(
    "name",
    ["encoder_decoder", "gpt", "layer_scale", "lora", "weight_norm"],
)
def test_models_of_all_sorts_come_back(name: str, tmp_path: Path) -> None:
    reference = REFERENCES[name]
    torch.manual_seed(0)
    slimmer = make_slimmer(
        reference.build(reference.width), reference.inputs, training=Training(BATCH)
    )
    slim = narrowed(slimmer)
    write_model(tmp_path, slim, None, "a title", {})
    build = load_code(tmp_path).build
    again = build() if slim.rebuilt else build(copy.deepcopy(slimmer.model))
    args, _ = synthetic_inputs(slimmer.inputs, BATCH)
    assert torch.equal(answers(again, args), answers(slim.model, args))
    flags, wanted = ([p.requires_grad for p in m.parameters()] for m in (again, slim.model))
    assert flags == wanted


def load_code(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("saved_model", folder / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def small(width: int = 6) -> Any:
    torch.manual_seed(width)
    return nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Linear(width, 2))


@pytest.fixture
def slim() -> Slim:
    return make_slimmer(small(), (3,), training=Training(BATCH)).slim({"0.out": 4})


def test_an_object_is_built_from_the_original(slim: Slim, tmp_path: Path) -> None:
    write_model(tmp_path, slim, None, "a title", {})
    saved = load_code(tmp_path)
    x = torch.randn(BATCH, 3)
    assert torch.equal(answers(saved.build(small()), (x,)), answers(slim.model, (x,)))
    assert not hasattr(saved, "original")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'model'"):
        saved.build()


def test_other_weights_of_the_same_sizes_can_be_loaded(slim: Slim, tmp_path: Path) -> None:
    write_model(tmp_path, slim, None, "a title", {})
    trained = copy.deepcopy(slim.model)
    with torch.no_grad():
        trained.get_parameter("0.weight").fill_(0.5)
    save_model(trained, str(tmp_path / "trained.safetensors"))
    again = load_code(tmp_path).build(small(), weights=tmp_path / "trained.safetensors")
    assert again.get_parameter("0.weight").tolist() == [[0.5] * 3] * 4


def test_tied_weights_stay_tied(slims: dict[str, tuple[Slimmer, Slim]], home: Path) -> None:
    model = load_code(home / "tokens").build()
    assert model.head.weight is model.words.weight
    assert model.each[0] is model.each[1]
    assert len(load_file(home / "tokens" / "model.safetensors")) < len(model.state_dict())


def test_a_module_with_two_names_is_replaced_under_both(slim: Slim, tmp_path: Path) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = small()
            self.norm = self.layers[1]

        def forward(self, x: Tensor) -> Any:
            return self.layers[2](self.norm(self.layers[0](x)))

    named = {f"layers.{name}": made for name, made in slim.modules.items()}
    narrow = Twice()
    narrow.layers = slim.model
    narrow.norm = narrow.layers[1]
    write_model(tmp_path, Slim(narrow, slim.layers, named, {}, False), None, "a title", {})
    again = load_code(tmp_path).build(Twice())
    assert again.norm is again.layers[1]
    x = torch.randn(BATCH, 3)
    assert torch.equal(answers(again, (x,)), answers(narrow, (x,)))


def test_the_code_is_short_and_plain() -> None:
    slimmer = make_slimmer("zoo:cnn5(channels=[8, 16, 16, 16])", training=Training(BATCH))
    said = code(
        slimmer.slim({"conv1.out": 6, "conv3.out": 9}),
        "zoo:cnn5(channels=[8, 16, 16, 16])",
        "zoo:cnn5(channels=[8, 16, 16, 16]), cut to 50%: 1.00 mJ a training step",
    )
    assert said == agreed("prune_model.txt", said)


@pytest.mark.parametrize(
    ("source", "rebuilt", "name"),
    [
        ("zoo:cnn5(channels=[8, 16, 16, 16])", False, "build_model"),
        (None, True, "rebuild_model"),
        (None, False, None),
    ],
)
def test_saved_code_imports_of_ampere_only_what_is_promised_to_stay(
    slim: Slim, source: str | None, rebuilt: bool, name: str | None
) -> None:
    tree = ast.parse(code(replace(slim, rebuilt=rebuilt), source, "a title"))
    imports = {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    ours = {each for each in imports if str(each[0]).partition(".")[0] == "ampere"}
    assert ours == ({("ampere", name)} if name else set())
    assert name is None or name in ampere.__all__


@pytest.mark.parametrize("title", ['"quoted"', '""" + 1', "back\\", "{title}", "ünïcode → 'x'"])
def test_no_title_breaks_the_code(slim: Slim, title: str) -> None:
    compile(code(slim, "zoo:cnn5", title), "model.py", "exec")


def test_what_stands_beside_the_widths(slim: Slim, tmp_path: Path) -> None:
    write_model(tmp_path, slim, None, "a title", {"budget": "50%"})
    row = json.loads((tmp_path / "widths.json").read_text(encoding="utf-8"))
    assert row["budget"] == "50%"
    assert [layer["widths"] for layer in row["layers"]] == [{"out": 4}, {"in": 4}]
    assert {path.name for path in tmp_path.iterdir()} == {
        "model.py",
        "model.safetensors",
        "widths.json",
    }


MOVED = """
import sys
sys.path.insert(0, sys.argv[1])
from model import build
print(build().conv.out_channels, sys.modules["original"].__file__)
"""


def moved(folder: Path) -> tuple[str, Path]:
    """What a fresh process builds from a folder: a width, and the file whose code it ran."""
    done = subprocess.run(
        [sys.executable, "-c", MOVED, str(folder)], capture_output=True, text=True, cwd="/",
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    width, _, path = done.stdout.strip().partition(" ")
    return width, Path(path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a model in a file, and what was pruned of it in a folder below."""
    project = tmp_path / "project"
    (project / "results" / "half").mkdir(parents=True)
    (project / "nets.py").write_text(NETS)
    (project / "beside.py").write_text("CLASSES = 10")
    source = f"{project}/nets.py:Net"
    slim = make_slimmer(source, training=Training(BATCH)).slim({"conv.out": 5})
    draft = project / "draft"
    draft.mkdir()
    write_model(draft, slim, source, "a title", {}, project / "results" / "half")
    draft.rename(project / "results" / "half")
    return project


def test_a_project_can_be_moved_with_what_was_pruned(project: Path, tmp_path: Path) -> None:
    project.rename(tmp_path / "elsewhere")
    found = moved(tmp_path / "elsewhere" / "results" / "half")
    assert found == ("5", (tmp_path / "elsewhere" / "nets.py").resolve())


def test_the_folder_alone_can_be_moved(project: Path, tmp_path: Path) -> None:
    (project / "results" / "half").rename(tmp_path / "alone")
    assert moved(tmp_path / "alone") == ("5", (project / "nets.py").resolve())


def test_what_has_changed_since_is_not_run(project: Path, tmp_path: Path) -> None:
    half = project / "results" / "half"
    (project / "nets.py").write_text("raise SystemExit(7)")
    (half / "beside.py").write_text("CLASSES = 10")  # what it needs is brought along
    assert moved(half) == ("5", (half / "original.py").resolve())
    half.rename(tmp_path / "sent")
    (project / "nets.py").unlink()
    assert moved(tmp_path / "sent") == ("5", (tmp_path / "sent" / "original.py").resolve())


# --- weights of a file ---------------------------------------------------------------------------


def state_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def message_of(path: Path, model: nn.Module | None = None) -> str:
    """Why a file is refused; nothing of it stays in a model that it does not fit in size."""
    with pytest.raises(DataError) as caught:
        load_weights(small() if model is None else model, path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


WRAPPED: dict[str, Callable[[dict[str, Tensor]], Any]] = {
    "plain": lambda state: state,
    "ordered": OrderedDict,
    "state_dict": lambda state: {"epoch": 3, "state_dict": state},
    "twice": lambda state: {"model": {"state_dict": state}},
    "parallel": lambda state: {f"module.{name}": tensor for name, tensor in state.items()},
    "compiled": lambda state: {f"_orig_mod.{name}": tensor for name, tensor in state.items()},
    "lightning": lambda state: {
        "state_dict": {f"net.{name}": tensor for name, tensor in state.items()}
    },
    "both": lambda state: {f"module._orig_mod.{name}": tensor for name, tensor in state.items()},
    "old": lambda state: {name: t for name, t in state.items() if "tracked" not in name},
    "half": lambda state: {name: t.half() for name, t in state.items()},
}


@pytest.mark.parametrize("way", WRAPPED)
def test_weights_of_every_wrapping(way: str, tmp_path: Path) -> None:
    trained = small()
    with torch.no_grad():
        trained[0].weight.fill_(0.25)
        trained[1].running_mean.fill_(0.5)
    held = WRAPPED[way](state_of(trained))
    torch.save(held, tmp_path / "w.pt")
    paths = [tmp_path / "w.pt"]
    if all(map(torch.is_tensor, held.values())):
        save_file(held, tmp_path / "w.safetensors")
        paths.append(tmp_path / "w.safetensors")
    for path in paths:
        model = small()
        load_weights(model, path)
        assert model[0].weight.tolist() == trained[0].weight.tolist()
        assert model[1].running_mean.tolist() == [0.5] * 6
        assert model[0].weight.dtype is torch.float32


def test_a_model_whose_own_part_is_called_module(tmp_path: Path) -> None:
    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = small()

    torch.save(Wrapper().state_dict(), tmp_path / "w.pt")
    load_weights(Wrapper(), tmp_path / "w.pt")
    torch.save(small().state_dict(), tmp_path / "w.pt")
    assert "it has no module.0.weight" in message_of(tmp_path / "w.pt", Wrapper())


@pytest.mark.parametrize("kept", ["a.weight", "z.weight"])
def test_tied_weights_are_there_once(kept: str, tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.z = nn.Linear(3, 3, bias=False)
            self.a = nn.Linear(3, 3, bias=False)
            self.a.weight = self.z.weight

    torch.save({kept: torch.ones(3, 3)}, tmp_path / "w.pt")
    model = Tied()
    load_weights(model, tmp_path / "w.pt")
    assert model.a.weight is model.z.weight
    assert model.z.weight.tolist() == [[1.0] * 3] * 3


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    torch.save(small(8).state_dict(), path)
    model = small()
    before = state_of(model)
    says = message_of(path, model)
    assert says == (
        f"{path} does not fit the model: 0.weight is 8x3, the model's is 6x3 (and 6 more)"
    )
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    state = state_of(small())
    torch.save({name: t for name, t in state.items() if name != "2.bias"}, path)
    assert message_of(path) == f"{path} does not fit the model: it has no 2.bias"
    torch.save({**state, "3.bias": torch.ones(1), "3.weight": torch.ones(1)}, path)
    says = message_of(path)
    assert says.endswith("it has 3.bias, which the model has not (and 1 more)")
    torch.save({}, path)
    assert "it has no 0.weight (and " in message_of(path)
    torch.save({name: torch.zeros(()) for name in state}, path)
    assert "0.weight is a number, the model's is 6x3" in message_of(path)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("executed",)


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
@pytest.mark.parametrize("what", ["code", "module", "empty", "text", "number", "wrapped text"])
@pytest.mark.filterwarnings("ignore:.*pickle protocol")
def test_files_that_hold_no_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    if what == "module":
        torch.save(small(), path)
    elif what == "number":
        torch.save({"0.weight": 3}, path)
    elif what == "wrapped text":
        torch.save({"state_dict": {"0.weight": "3"}}, path)
    else:
        contents = {"code": pickle.dumps(Evil()), "empty": b"", "text": b"model = 3\n" * 99}
        path.write_bytes(contents[what])
    says = message_of(path)
    assert says == (
        f"{path} holds no plain weights: save them with safetensors.torch.save_model, or"
        " model.state_dict() with torch.save"
    )
    assert not (tmp_path / "executed").exists()


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.filterwarnings("ignore:.*pickle protocol", "ignore:Defining your")
def test_a_damaged_file_is_one_line(tmp_path: Path, data: st.DataObject) -> None:
    way = data.draw(st.sampled_from(["zip", "legacy", "safetensors"]))
    path = tmp_path / ("w.safetensors" if way == "safetensors" else "w.pt")
    if way == "safetensors":
        save_file(state_of(small()), path)
    else:
        torch.save(state_of(small()), path, _use_new_zipfile_serialization=way == "zip")
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        load_weights(small(), path)
    except DataError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("name", ["absent.pt", "absent.safetensors"])
def test_no_such_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert message_of(path) == f"cannot read {path}: there is no such file"
    path.mkdir()
    assert message_of(path).startswith(f"cannot read {path}: ")
