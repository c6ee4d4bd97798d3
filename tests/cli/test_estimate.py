"""`ampere estimate`: from models and from plain layers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import ampere
from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from cli.runner import ampere_process, answer, check_bad_line, last_line, layers_file, run
from fakes import exact, plain_model


def test_estimate_from_plain_layers_needs_no_torch(told: Path, tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    layers = layers_file(tmp_path / "layers.jsonl", plain_model(16, 32))
    line = ("estimate", "--profile", told, "--steps", "10", "--json")
    done = ampere_process(*line, "--layers", layers, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    row = json.loads(done.stdout)
    low, high = row["energy_j_interval"]
    assert low < row["energy_j"] < high
    assert row["time_s_interval"][0] < row["time_s"] < row["time_s_interval"][1]
    assert row["energy_j"] == pytest.approx(sum(layer["energy_j"] for layer in row["layers"]))
    assert {"name", "kind", "role", "widths", "energy_j", "energy_j_std"} <= set(row["layers"][0])
    assert (row["steps"], row["uncovered"], row["device"]) == (10, [], "pi")
    assert row["provenance"] == "simulated"
    done = ampere_process(*line, "zoo:lenet5", env=environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: this needs PyTorch: pip install 'ampere-energy[torch]'\n"


def test_estimate_takes_what_layers_prints(net: Path, told: Path) -> None:
    printed = run("layers", "net.py:Net", "--json").stdout
    rows = [exact(ampere.read_layers(f"{net}:Net(width={w})")) for w in (1, 3, 6)]
    profile = net.parent / "net.ampere"
    # The last layer alone tells it apart from the first.
    rows += [exact(row.layers[1:]) for row in rows]
    ampere.fit(rows).save(profile)
    by_model = answer(run("estimate", "net.py:Net", "--profile", profile, "--json"))
    piped = run("estimate", "--layers", "-", "--profile", profile, "--json", input=printed)
    assert answer(piped) == by_model


def test_a_file_of_layers_that_cannot_be_read_is_named_with_the_reason(
    told: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "packed.jsonl"
    packed.write_bytes(b"\x1f\x8b\xff")
    for path, reason in [
        (tmp_path / "absent.jsonl", "cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
        (packed, "is not UTF-8 text: give layers as JSON"),
    ]:
        done = run("estimate", "--layers", path, "--profile", told)
        assert (done.exit_code, done.stderr) == (1, f"error: {path} {reason}\n")


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ([], 1),
        (["--steps", 2000], 2000),
        (["--epochs", 3, "--samples", 95, "--batch-size", 10], 30),
        (["--epochs", 3, "--samples", 95, "--batch-size", 32], 9),
    ],
)
def test_steps(told: Path, tmp_path: Path, options: list[object], steps: int) -> None:
    layers = layers_file(tmp_path / "layers.jsonl", plain_model(16))
    line = ("estimate", "--profile", told, "--layers", layers, "--json", *options)
    assert answer(run(*line))["steps"] == steps


def test_estimate_prints_the_product(told: Path, tmp_path: Path) -> None:
    layers = layers_file(tmp_path / "layers.jsonl", plain_model(16, 32))
    result = run("estimate", "--profile", told, "--layers", layers, "--battery-wh", 15)
    profile = ampere.Profile.load(told)
    assert result.stdout == f"{profile.estimate(plain_model(16, 32), battery_wh=15)!r}\n"
    assert "joules are simulated, not measured" in result.stdout
    assert "15 Wh" in result.stdout


def test_what_is_not_covered_is_said_and_is_no_error(told: Path, tmp_path: Path) -> None:
    strange = Layer("odd", LayerKind("hidden odd", Role.HIDDEN, "odd"), Widths({"in": 3}))
    layers = layers_file(tmp_path / "layers.jsonl", (*plain_model(16), strange))
    result = run("estimate", "--profile", told, "--layers", layers, "--json")
    assert [layer["name"] for layer in answer(result)["uncovered"]] == ["odd"]
    assert last_line(result).startswith("warning: not in the total")
    text = run("estimate", "--profile", told, "--layers", layers).stdout
    assert "without 1 of 3 layers" in text
    layers_file(layers, [strange])
    result = run("estimate", "--profile", told, "--layers", layers)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "profile this model first" in last_line(result)


def test_epochs_of_plain_layers_need_a_batch_size(told: Path, tmp_path: Path) -> None:
    layers = layers_file(tmp_path / "layers.jsonl", plain_model(16))
    result = run("estimate", "--profile", told, "--layers", layers, "--epochs", 3, "--samples", 95)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--batch-size" in result.output


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("estimate net.py:Net --profile missing", 1, "does not exist"),
        ("estimate net.py:Net --profile .", 1, "is a directory"),
        ("estimate net.py:Net --profile net.py", 1, "not JSON"),
        ("estimate net.py:Net --profile empty", 1, "is empty"),
        ("estimate net.py:Net --profile newer", 1, "upgrade ampere"),
        ("estimate net.py:Net --profile corrupt", 1, "line 3 is damaged"),
        ("estimate net.py:Net --profile told.ampere --after-steps 1", 2, "--after-steps"),
        ("estimate --layers net.py --profile told.ampere --after-steps 9", 2, "needs MODEL"),
        ("estimate net.py:Net --profile told.ampere --steps 0", 2, "--steps"),
        ("estimate net.py:Net --profile told.ampere --steps many", 2, "--steps"),
        ("estimate net.py:Net --profile told.ampere --steps 1 --epochs 1 --samples 1", 2, "either"),
        ("estimate net.py:Net --profile told.ampere --epochs 1", 2, "go together"),
        ("estimate net.py:Net --profile told.ampere --samples 1", 2, "go together"),
        ("estimate net.py:Net --profile told.ampere --layers net.py", 2, "either MODEL or"),
        ("estimate --profile told.ampere", 2, "either MODEL or"),
        ("estimate --profile told.ampere --layers net.py", 1, "net.py line 2: not JSON"),
        ("estimate --profile told.ampere --layers missing", 1, "cannot be read"),
        ("estimate --profile told.ampere --layers numbers", 1, "one JSON object a line"),
        ("estimate net.py:Net --profile told.ampere --battery-wh -1", 2, "above 0"),
    ],
)
@pytest.mark.usefixtures("files")
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)
