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
from priced_rows import ROWS, without_features


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
        (packed, "cannot be read: it cannot be unpacked: it is cut off"),
    ]:
        done = run("estimate", "--layers", path, "--profile", told)
        assert (done.exit_code, done.stderr) == (1, f"error: {path} {reason}\n")


def test_layers_that_lack_only_flops_are_told_so(tmp_path: Path) -> None:
    path = tmp_path / "lab.ampere"
    ampere.fit(ROWS).save(path)
    layers = layers_file(tmp_path / "layers.jsonl", without_features(ROWS[0].layers))
    done = run("estimate", "--layers", layers, "--profile", path)
    assert (done.exit_code, done.stderr) == (
        1,
        f"error: {path} covers no layer of {layers}: its FLOPs are not told, by which these kinds"
        " are known there; tell them in the file\n",
    )


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


def test_estimate_says_what_a_job_emits_and_costs(told: Path, tmp_path: Path) -> None:
    layers = layers_file(tmp_path / "layers.jsonl", plain_model(16, 32))
    line = ("estimate", "--profile", told, "--layers", layers, "--steps", 5000)
    rates = ("--carbon", "France", "--price", "0.30EUR/kWh")
    row = answer(run(*line, *rates, "--json"))
    kwh = row["energy_j"] / 3.6e6
    assert row["gco2e"] == pytest.approx(56.0 * kwh)
    assert row["gco2e_interval"] == pytest.approx(
        [56 * j / 3.6e6 for j in row["energy_j_interval"]]
    )
    assert (row["cost"], row["currency"]) == (pytest.approx(0.3 * kwh), "EUR")
    text = run(*line, *rates).stdout
    assert "at 56g/kWh (France 2023, Our World in Data)" in text
    assert "at 0.3 EUR/kWh" in text


def test_estimate_by_the_hour_says_what_the_file_does_not_tell(told: Path, tmp_path: Path) -> None:
    layers = layers_file(tmp_path / "layers.jsonl", plain_model(16, 32))
    (tmp_path / "grid.csv").write_text("time,g/kWh\n2020-01-01T00:00Z,100\n2020-01-01T01:00Z,300\n")
    result = run(
        *("estimate", "--profile", told, "--layers", layers, "--json"),
        *("--carbon", tmp_path / "grid.csv"),
    )
    assert answer(result)["carbon_g_per_kwh"] == pytest.approx(200.0)
    assert "grid.csv does not tell 100.0 % of the job's hours" in result.stderr


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
        ("estimate --profile told.ampere --layers numbers", 1, "numbers line 1: must be an object"),
        ("estimate net.py:Net --profile told.ampere --battery-wh -1", 2, "above 0"),
        ("estimate net.py:Net --profile told.ampere --carbon Oz", 1, "is no country"),
        ("estimate net.py:Net --profile told.ampere --carbon no.csv", 1, "no.csv cannot be read"),
        ("estimate net.py:Net --profile told.ampere --carbon numbers", 1, "its first line is"),
        ("estimate net.py:Net --profile told.ampere --price 5", 1, "give 0.30EUR/kWh"),
    ],
)
@pytest.mark.usefixtures("files")
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)


JOB = ("--epochs", 3, "--samples", 95, "--batch-size", 10)


def test_a_whole_job_has_a_line_for_each_part(told: Path, tmp_path: Path) -> None:
    layers = layers_file(tmp_path / "layers.jsonl", plain_model(16))
    line = ("estimate", "--profile", told, "--layers", layers, *JOB)
    around = ("--validation-samples", 20, "--data-s-per-batch", 0.1, "--accumulate", 2)
    row = answer(run(*line, *around, "--json"))
    assert [part["name"] for part in row["parts"]] == ["training", "validation", "data loading"]
    assert [part["batches"] for part in row["parts"]] == [30, 6, 36]
    assert (row["steps"], row["job"]["accumulate"], row["not_in_it"]) == (15, 2, ["checkpoints"])
    assert row["energy_j"] == pytest.approx(sum(part["energy_j"] for part in row["parts"]))
    text = run(*line, *around).stdout
    assert text.startswith("15 training steps with validation and data loading: ")
    for name in ("training", "validation", "data loading"):
        assert sum(each.startswith(f"{name} ") for each in text.splitlines()) >= 1
    assert "not in it     checkpoints" in text


def test_a_metered_loader_is_part_of_a_job(told: Path, tmp_path: Path) -> None:
    layers = layers_file(tmp_path / "layers.jsonl", plain_model(16))
    loader = tmp_path / "loader.json"
    row = {"energy_j_per_batch": 0.2, "time_s_per_batch": 0.05, "provenance": "modelled"}
    loader.write_text(json.dumps({**row, "samples_per_batch": 10, "device_name": "pi"}))
    line = ("estimate", "--profile", told, "--layers", layers, *JOB, "--loader-measured", loader)
    parts = answer(run(*line, "--json"))["parts"]
    assert parts[1]["energy_j"] == pytest.approx(30 * 0.2)
    loader.write_text("{}")
    done = run(*line)
    assert done.exit_code == 1
    assert last_line(done).startswith(f"error: {loader}: time_s_per_batch is missing")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--accumulate 0", "--accumulate"),
        ("--ranks 0", "--ranks"),
        ("--validations 2", "--validations needs --validation-samples"),
        ("--validation-samples 20", "needs --validations: how often?"),
        ("--data-j-per-batch 2", "goes with --data-s-per-batch"),
        ("--data-s-per-batch 2 --loader-measured x", "give either --data-s-per-batch or"),
        ("--data-s-per-batch 0", "not a number above 0"),
    ],
)
@pytest.mark.usefixtures("files")
def test_a_job_that_cannot_be_is_one_line(options: str, says: str) -> None:
    check_bad_line(f"estimate net.py:Net --profile told.ampere {options}", 2, says)
