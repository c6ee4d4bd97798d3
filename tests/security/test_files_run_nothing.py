"""A profile, a pruned model's file and the present folder are data: none of them runs code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import ampere
from ampere.cli.app import app
from ampere.core.boundary.trust import ForeignText
from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.core.training import LOSSES, Training, loss_of_file, stated_training
from ampere.devices.local import LocalDevice
from ampere.errors import DataError, ModelError
from ampere.pytorch.runtime import losses
from ampere.pytorch.runtime.builder import dtype_named
from ampere.pytorch.runtime.functions import find_function
from fakes import exact

CANARY = "canary"
LOSS = "def loss(output):\n    return output.sum()\n"
PAYLOAD = f"import pathlib\npathlib.Path({CANARY!r}).touch()\n{LOSS}"


@pytest.fixture(autouse=True)
def untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every test starts in a folder of its own, and ends with the canary alive."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not Path(CANARY).exists()


def profile(path: str, model: str, loss: str = "auto", asks: bool = False) -> str:
    """A journal as a stranger may write it: lenet5's own rows, with another model and loss."""
    layers = ampere.read_layers("zoo:lenet5(channels=[2, 3], hidden=[8, 6])")
    ampere.fit([exact(layers), exact(layers[1:])], device="pi").save(path)
    header, *rows = Path(path).read_text().splitlines()
    first = {**json.loads(header), "model": model}
    if asks:
        training = {"batch_size": 10, "optimizer": "sgd", "loss": loss}
        first["asks"] = {"input": "1x28x28", "training": training, "strategy": {}}
    crafted = [json.loads(row) for row in rows]
    for row in crafted:
        row["layers"][-1]["attributes"]["loss"] = loss
    lines = [json.dumps(each) for each in (first, *crafted)]
    Path(path).write_text("\n".join(lines) + "\n")
    return path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    (line,) = [each for each in result.stderr.splitlines() if each.startswith("error: ")]
    return line


COMMAND = f"subprocess:Popen(args=['touch', '{CANARY}'])"


def test_a_header_names_no_model_to_build() -> None:
    path = profile("p.ampere", COMMAND, asks=True)
    assert "say it yourself with `ampere ask subprocess:Popen" in run("ask", "--profile", path)
    with pytest.raises(DataError, match="a file must not choose what runs"):
        ampere.Profile.load(path).estimate_many([[2, 3, 8, 6]])
    with pytest.raises(DataError, match="a file must not choose what runs"):
        ampere.Profile.load(path).tabulate()


@pytest.mark.parametrize("loss", ["own.py:loss", "./p.ampere:loss", "subprocess:Popen"])
@pytest.mark.parametrize(
    "line",
    [
        "profile zoo:lenet5 --profile p.ampere --device simulated:xavier --any-device",
        "evaluate zoo:lenet5 --profile p.ampere --device simulated:xavier --any-device",
        "estimate zoo:lenet5 --profile p.ampere --after-steps 2 --device simulated:xavier"
        " --any-device",
        "prune zoo:lenet5 --profile p.ampere --budget 50% -o half",
        "ask --profile p.ampere",
    ],
)
def test_a_row_names_no_loss_to_load(loss: str, line: str) -> None:
    Path("own.py").write_text(PAYLOAD)
    profile("p.ampere", "zoo:lenet5", loss, asks="ask" in line)
    assert f"the profile names the loss {loss}, which is code" in run(*line.split())


def test_what_the_user_says_himself_is_loaded() -> None:
    Path("own.py").write_text(LOSS)
    path = profile("p.ampere", "zoo:lenet5", "own.py:loss", asks=True)
    typed = Training(loss="own.py:loss")
    assert ampere.ask(path, 1, training=typed)


def test_losses_of_files_are_ours_or_refused() -> None:
    assert set(LOSSES) == set(losses.LOSSES)
    assert [loss_of_file(name) for name in LOSSES] == list(LOSSES)
    assert loss_of_file("own.py:loss") == ForeignText("own.py:loss") != "own.py:loss"
    attributes = {"batch": 1, "optimizer": "sgd", "loss": "own.py:loss"}
    rows = [Layer("a", LayerKind("a", Role.LAST, "a", attributes), Widths())]
    assert stated_training(rows) == Training(1, loss=ForeignText("own.py:loss"))


@pytest.mark.parametrize(
    "name",
    [
        "torch.save", "torch.load", "torch.hub.load", "torch.from_file", "torch.os.system",
        "torch.load.__globals__", "torch.Tensor.__reduce_ex__", "torch.Tensor.__setstate__",
        "torch.Tensor.__class__.__get__", "torch.Tensor.view.__get__", "torch.sys.exit", "torch",
        "torch.serialization.load", "torch.package.PackageImporter", "torch.compile",
        "torch.utils.cpp_extension.load_inline", "os.system", "builtins.exec",
    ],
)  # fmt: skip
def test_networks_call_only_what_is_on_the_list(name: str) -> None:
    with pytest.raises(ModelError):
        find_function(name)


@pytest.mark.parametrize(
    "name",
    [
        "torch.flatten", "torch.nn.functional.relu", "torch.Tensor.view", "torch.Tensor.__radd__",
        "torch.Tensor.__getitem__", "torch.Tensor.T.__get__", "torch.arange", "torch._weight_norm",
        "torch.Tensor.new_zeros", "torch.linalg.norm", "torch.Tensor.relu_",
    ],
)  # fmt: skip
def test_and_everything_that_is(name: str) -> None:
    assert callable(find_function(name))


@pytest.mark.parametrize("name", ["load", "os", "nothing", "contiguous_format"])
def test_types_are_types(name: str) -> None:
    with pytest.raises(ModelError, match="torch has no dtype"):
        dtype_named(name)
    assert dtype_named("float32") is torch.float32


def test_the_worker_imports_nothing_from_the_present_folder() -> None:
    for name in ("queue", "numpy", "torch", "ampere", "contextlib"):
        Path(f"{name}.py").write_text(PAYLOAD)
    with LocalDevice(meter="fake", meter_settings={"step_j": 1.0, "step_s": 1.0}) as device:
        assert device.provenance.value == "simulated"


def test_nor_does_its_start() -> None:
    from ampere.devices.local import START

    Path("queue.py").write_text(PAYLOAD)
    code = START.replace("main()", "pass")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_runner_calls_only_operations_on_tensors() -> None:
    runner = Path(ampere.__file__).parents[2] / "examples" / "runner.py"
    lines = [json.dumps({"layers": [], "network": {
        "optimizer": "sgd", "loss": "auto",
        "inputs": [{"shape": [2, 3], "dtype": "float32", "grad": False}],
        "calls": [{"op": name, "inputs": [f"touch {CANARY}"]}], "result": {"value": 1},
    }}) for name in ("torch.os.system", "torch.load", "torch.Tensor._x.__get__")]  # fmt: skip
    Path("todo.jsonl").write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        [sys.executable, str(runner), "todo.jsonl"], capture_output=True, text=True, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines)
    assert all("Error" in answer["failed"] for answer in answers)
