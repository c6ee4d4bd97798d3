"""Weights are numbers: what could be more is read only where torch keeps it from running."""

from __future__ import annotations

import ast
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import ampere
from ampere.errors import DataError
from ampere.pytorch.pruning.weights import load_weights

CANARY = "canary"
TREES = ("src", "paper", "examples", "benchmarks")
CODE = {"pickle", "cPickle", "dill", "joblib", "marshal", "shelve", "yaml"}


def linear() -> nn.Module:
    return nn.Linear(3, 2)


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        load_weights(linear(), path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (CANARY,)


@pytest.mark.parametrize("version", ["2.5.1", "2.6.0", "2.9.1+cpu", "2.10.0a0"])
@pytest.mark.parametrize("name", ["w.pt", "w.bin", "w"])
def test_an_old_torch_reads_only_safetensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, name: str
) -> None:
    monkeypatch.setattr(torch, "__version__", type(torch.__version__)(version))
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it was loaded"))
    path = tmp_path / name
    torch.save(linear().state_dict(), path)
    says = refusal(path)
    assert f"torch {version} may run code" in says
    assert "safetensors.torch.save_model" in says and "upgrade to torch 2.10" in says
    save_file(linear().state_dict(), path)  # whatever it is called
    load_weights(linear(), path)


@pytest.mark.parametrize("version", ["2.10.0", "2.13.0+cpu", "3.0"])
def test_a_new_one_reads_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(torch, "__version__", type(torch.__version__)(version))
    torch.save(linear().state_dict(), tmp_path / "w.pt")
    load_weights(linear(), tmp_path / "w.pt")


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
def test_no_code_of_a_file_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    for way in (True, False):
        torch.save({"weight": Evil()}, name, _use_new_zipfile_serialization=way, pickle_protocol=2)
        assert "holds no plain weights" in refusal(Path(name))
    Path(name).write_bytes(b"\x08\0\0\0\0\0\0\0{" + pickle.dumps(Evil()))  # looks like safetensors
    assert "holds no plain weights" in refusal(Path(name))
    assert not Path(CANARY).exists()


@pytest.mark.parametrize(
    "made",
    [
        Tensor.to_sparse,
        lambda tensor: tensor.to("meta"),
        lambda tensor: torch.nested.nested_tensor([tensor]),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_tensors_that_cannot_be_copied(tmp_path: Path, made: Callable[[Tensor], Tensor]) -> None:
    state = {name: made(tensor) for name, tensor in linear().state_dict().items()}
    torch.save(state, tmp_path / "w.pt")
    assert "holds no plain weights" in refusal(tmp_path / "w.pt")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "w.pt")
    assert refusal(tmp_path / "w.pt").endswith("it is no file")
    assert refusal(Path("/dev/zero")).endswith("it is no file")


def test_nothing_else_reads_files_that_may_hold_code() -> None:
    """No unpickling, and `torch.load` and `np.load` only as they are safe."""
    home = Path(ampere.__file__).parents[2]
    found = []
    for path in (path for tree in TREES for path in (home / tree).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = []
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".load"):
                named = {each.arg: ast.unparse(each.value) for each in node.keywords}
                owner = ast.unparse(node.func).removesuffix(".load")
                unsafe = owner == "torch" and named.get("weights_only") != "True"
                unsafe |= owner in ("np", "numpy") and named.get("allow_pickle") == "True"
                names = [f"unsafe {owner}.load"] if unsafe else []
            found += [
                f"{path}:{node.lineno} {name}"
                for name in names
                if name.partition(".")[0] in CODE or name.startswith("unsafe")
            ]
    assert found == []
