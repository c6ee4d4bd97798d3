"""The command line: what it answers, where it says it, and how it ends."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import ampere
from ampere.acquisition.measure import Effort, Event
from ampere.cli import meters as doctor
from ampere.cli import options, progress
from ampere.cli.app import app
from ampere.cli.shell import BROKEN_PIPE, json_text
from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.widths import Widths
from ampere.core.workloads import ModelSpec, Workload
from ampere.errors import MeterError, MeterFault
from ampere.estimators.base import Cost
from ampere.evaluation import evaluate
from ampere.meters.base import Meter, Reading, Resolution
from ampere.meters.drivers.cpu import CpuMeter
from ampere.records.journal import read_journal
from ampere.records.measurement import Measurement
from fakes import LAST, FakeDevice, exact, plain_layer, plain_model

COMMANDS = (
    *("meters", "layers", "profile", "estimate", "measure", "evaluate", "check", "ask", "tell"),
    *("align", "pulse", "calibrate", "prune", "report", "reproduce"),
)
HEAVY = ("torch", "numpy", "scipy", "sklearn", "rich")

NET = """
import torch
from torch import nn

print("loading the model")  # must not end up in front of the answer


class Net(nn.Sequential):
    input = "4"

    def __init__(self, width=6):
        super().__init__(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))


class Norm(nn.Sequential):
    input = "4"

    def __init__(self):
        super().__init__(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


class Frozen(Net):
    def __init__(self):
        super().__init__()
        self[0].requires_grad_(False)


def raises():
    raise RuntimeError("first line\\nsecond line")


def three():
    return 3


raises.input = three.input = "4"
"""


def run(*arguments: object, input: str | None = None) -> Result:
    """A command in this process."""
    return CliRunner().invoke(app, [str(each) for each in arguments], input=input)


def ampere_process(*arguments: object, **keywords: Any) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    line = [sys.executable, "-m", "ampere", *(str(each) for each in arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, **keywords)


def answer(result: Result) -> Any:
    """What a command printed as JSON: nothing else may stand beside it."""
    assert result.exit_code == 0, result.stderr
    (line,) = result.stdout.splitlines()
    return json.loads(line, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))


def last_line(result: Result | subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in result.stderr
    return str(result.stderr.splitlines()[-1])


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's file, in the present directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """A profile of plain layers."""
    path = tmp_path / "told.ampere"
    ends = [(plain_layer(LAST, in_=width),) for width in (1, 20, 40, 64)]
    models = [plain_model(width) for width in (1, 20, 40, 64)]
    models += [plain_model(a, b) for a in (1, 32, 64) for b in (1, 32, 64)]
    ampere.fit([exact(layers) for layers in (*ends, *models)], device="pi").save(path)
    return path


def layers_file(path: Path, layers: Sequence[Layer]) -> Path:
    path.write_text("\n".join(json.dumps(layer.to_json()) for layer in layers))
    return path


# --- help, version, weight -----------------------------------------------------------------------


def test_help_and_version_are_light() -> None:
    script = f"""
import sys
from typer.testing import CliRunner
from ampere.cli.app import app
for line in [["--help"], ["--version"], *([name, "--help"] for name in {COMMANDS!r})]:
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    print(result.stdout)
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "[]"
    assert f"ampere {ampere.__version__}" in done.stdout
    for name in COMMANDS:
        assert f"\n  {name}  " in done.stdout
        assert f"    ampere {name}" in done.stdout, f"{name} --help has no example"


def test_python_m_ampere_is_the_command_line() -> None:
    done = ampere_process("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ampere {ampere.__version__}\n", "")


def test_every_command_has_json() -> None:
    for name in COMMANDS:
        if name != "ask":  # it says nothing else
            assert "--json" in run(name, "--help").stdout


# --- meters and layers ---------------------------------------------------------------------------


@pytest.fixture
def short_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LOOK_S", 0.02)


def line_of(name: str, text: str) -> str:
    """The line of a meter in the list; what is known of `cpu` stands below."""
    line, *_ = [line for line in text.splitlines() if line.split()[:1] == [name]]
    return line


def test_meters(short_look: None) -> None:
    row = answer(run("meters", "--json"))
    by_name = {meter["name"]: meter for meter in row["meters"]}
    assert set(by_name) >= set(ampere.meters.registry._OWN)
    assert [meter["name"] for meter in row["meters"] if meter["default"]] == [row["default"]]
    assert by_name["cpu"]["provenance"] == "modelled"
    assert by_name["cpu"]["reading"]["power_w"] == pytest.approx(2.7, rel=0.5)
    assert by_name["cpu"]["reading"]["time_s"] >= 0.02
    assert row["calibration"] is None
    result = run("meters")
    assert result.exit_code == 0
    for name, meter in by_name.items():
        line = line_of(name, result.stdout)
        looked = meter["available"] and name not in ("fake", "replay")
        assert bool(meter["reading"]) == looked, name
        if looked:
            assert {"power_w", "doubt", "failed"} & set(meter["reading"])
        else:
            why = str(meter["obstacle"]).removesuffix("; choose another meter")
            assert meter["available"] or why in line
    assert f"{row['default']} (auto)" in result.stdout
    assert "are assumptions; `ampere calibrate` fits them" in result.stdout


def test_meters_say_what_the_model_was_fitted_to(short_look: None) -> None:
    assert run("calibrate", "--watts", "0=20", "--watts", "4=60").exit_code == 0
    text = run("meters").stdout
    assert "20 W idle and 10 W for each busy core, fitted to watts that were typed in" in text
    row = answer(run("meters", "--json"))
    assert row["calibration"]["active_w"] == pytest.approx(10.0)
    (cpu,) = (meter for meter in row["meters"] if meter["name"] == "cpu")
    assert cpu["reading"]["power_w"] == pytest.approx(20.0, rel=0.6)


@pytest.mark.parametrize("when", [0, 1, 2])  # opening it, the first reading, the second
@pytest.mark.parametrize(
    ("error", "usable"),
    [
        (MeterError("it talks nonsense"), "no"),
        (RuntimeError("bus\nerror"), "no"),
        (MeterFault("it is stuck"), "yes"),  # another look may help
    ],
)
def test_a_meter_that_cannot_be_read_is_said(
    short_look: None, monkeypatch: pytest.MonkeyPatch, when: int, error: Exception, usable: str
) -> None:
    class Broken(CpuMeter):
        readings = 0

        def __init__(self) -> None:
            super().__init__()
            if not when:
                raise error

        def read(self) -> Reading:
            Broken.readings += 1
            if Broken.readings == when:
                raise error
            return super().read()

    opened = ampere.meters.registry.open_meter

    def open_broken(name: str, /, **settings: Any) -> Meter:
        return Broken() if name == "cpu" else opened(name, **settings)

    monkeypatch.setattr("ampere.meters.registry.open_meter", open_broken)
    result = run("meters")
    assert (result.exit_code, "Traceback" in result.stderr) == (0, False)
    line = line_of("cpu", result.stdout)
    assert re.search(rf"modelled +{usable} ", line)
    assert str(error).split()[0] in line
    Broken.readings = 0
    (cpu,) = (m for m in answer(run("meters", "--json"))["meters"] if m["name"] == "cpu")
    assert set(cpu["reading"]) == {"doubt" if usable == "yes" else "failed"}


def test_a_battery_that_has_not_moved_yet_can_be_used(
    short_look: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(CpuMeter):
        resolution = Resolution(energy_j=36.0, period_s=30.0)

        def read(self) -> Reading:
            return replace(super().read(), energy_j=36.0)

    monkeypatch.setattr("ampere.meters.drivers.cpu.CpuMeter", Slow)
    line = line_of("cpu", run("meters").stdout)
    assert re.search(r"modelled +yes +36\.0 J every 30\.0 s +meter did not move", line)


def test_a_damaged_calibration_does_not_hide_the_meters(short_look: None, tmp_path: Path) -> None:
    (tmp_path / "config" / "ampere").mkdir(parents=True)
    (tmp_path / "config" / "ampere" / "cpu.json").write_text("{}")
    result = run("meters")
    assert result.exit_code == 0
    assert re.search(r"modelled +no .*cpu\.json is damaged", line_of("cpu", result.stdout))
    assert answer(run("meters", "--json"))["calibration"] is None


BLOCKS = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(8, 8)

    def forward(self, x, mask):
        # Channels one by one: such a layer cannot be resized.
        return x + torch.stack([c.relu() for c in self.f(x).unbind(1)], 1) * mask


class Blocks(nn.Module):
    input = "4, mask=1"

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 8).requires_grad_(False)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(8, 3)
        self.spare = nn.Parameter(torch.zeros(5))

    def forward(self, x, mask):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)
"""


def test_equal_layers_stand_in_one_line_and_what_is_odd_is_said(net: Path) -> None:
    net.with_name("blocks.py").write_text(BLOCKS)
    result = run("layers", "blocks.py:Blocks")
    assert result.exit_code == 0, result.stderr
    assert re.search(r"blocks\.\d\S* ×\d", result.stdout)
    assert "frozen" in result.stdout
    assert "cannot be rebuilt at other widths; profiled as they stand" in result.stdout
    assert "in no layer: spare (5)" in result.stdout


def test_layers_of_a_model(net: Path) -> None:
    result = run("layers", "net.py:Frozen", "--json")
    row = answer(result)
    assert "loading the model" in result.stderr
    assert row["params"] == 4 * 6 + 6 + 6 * 3 + 3
    assert row["flops"] == sum(layer["flops"] for layer in row["layers"]) > 0
    assert [layer["role"] for layer in row["layers"]] == ["first", "last"]
    assert [layer["frozen"] for layer in row["layers"]] == ["frozen", ""]
    assert [layer["widths"] for layer in row["layers"]] == [{"out": 6}, {"in": 6}]


def test_equal_layers_stand_in_one_line() -> None:
    text = run("layers", "zoo:resnet(depth=14)", "--batch-size", 2).stdout
    (line,) = [line for line in text.splitlines() if "stages.0.0" in line]
    assert "stages.0.0 ×2" in line
    assert "stages.0.1" not in text
    total = text.splitlines()[-1].split()
    params = [int(line.split()[-3].replace(",", "")) for line in text.splitlines()[2:-2]]
    assert int(total[1].replace(",", "")) == sum(params)


# --- estimate ------------------------------------------------------------------------------------


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


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("layers nothing", 1, "names no model"),
        ("layers zoo:lenet6", 1, "lenet5"),
        ("layers missing.py:Net", 1, "No such file"),
        ("layers net.py:Nope", 1, "it has Net"),
        ("layers net.py:raises", 1, "first line second line"),
        ("layers net.py:three", 1, "must return an nn.Module"),
        ("layers net.py:Net --input 3x32x32", 1, "does not run"),
        ("layers net.py:Net --input three", 1, "is no input"),
        ("layers net.py:Norm --batch-size 1", 1, "more than 1 value per channel"),
        ("layers net.py:Net --batch-size 0", 2, "--batch-size"),
        ("layers net.py:Net --optimizer magic", 1, "unknown optimizer"),
        ("layers net.py:Net --loss magic", 1, "unknown loss"),
        ("layers net.py:Net --input 4,mask=", 1, "is no input"),
        ("profile net.py:Net --profile p --loss net.py:absent", 1, "has no 'absent'"),
        ("measure net.py:Net --loss net.py:raises", 1, "is called with what the model returns"),
        ("evaluate net.py:Net --profile told.ampere --loss absent.py:loss", 1, "cannot read"),
        ("profile net.py:Net --profile p --meter magic", 1, "no meter named 'magic'"),
        ("profile net.py:Net --profile p --meter cpu:", 1, "name:setting=value"),
        ("profile net.py:Net --profile p --accelerator tpu", 1, "use one of cpu, cuda, mps"),
        ("profile net.py:Net --profile p --kernel magic", 1, "unknown kernel"),
        ("profile net.py:Net --profile p --guide magic", 1, "unknown guide"),
        ("profile net.py:Net --profile p --max-points 1", 1, "max_points"),
        ("profile net.py:Net --profile p --tolerance 5", 1, "tolerance"),
        ("profile net.py:Net --profile p --time-limit 0", 2, "not a number above 0"),
        ("profile net.py:Net --profile p --time-limit nan", 2, "not a number above 0"),
        ("profile net.py:Net --profile p --method magic", 2, "not one of"),
        ("profile net.py:Net", 2, "--profile"),
        ("estimate net.py:Net --profile missing", 1, "does not exist"),
        ("estimate net.py:Net --profile .", 1, "is a directory"),
        ("estimate net.py:Net --profile net.py", 1, "not JSON"),
        ("estimate net.py:Net --profile empty", 1, "is empty"),
        ("estimate net.py:Net --profile newer", 1, "upgrade ampere"),
        ("estimate net.py:Net --profile corrupt", 1, "line 3 is damaged"),
        ("profile net.py:Net --profile p --measurements 1", 1, "2 or more"),
        ("profile net.py:Net --profile p --energy-limit 0", 2, "not a number above 0"),
        ("profile net.py:Net --profile p --candidate magic", 1, "magic"),
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
        ("evaluate net.py:Net --profile missing", 1, "does not exist"),
        ("evaluate net.py:Net --profile told.ampere --models 0", 2, "--models"),
        ("tell rows --profile told.ampere", 1, "rows cannot be read"),
        ("profile net.py:Net --profile p --device magic", 1, "unknown device"),
        ("profile net.py:Net --profile p --device simulated:abacus", 1, "use one of"),
        ("profile net.py:Net --profile p --device recorded:missing", 1, "does not exist"),
        ("measure net.py:Net --device simulated:xavier --meter cpu", 1, "leave yours out"),
        ("check --device simulated:xavier --threads 2", 1, "leave yours out"),
        ("measure net.py:Net --precision 0", 2, "no share between 0 and 1"),
        ("meters --accelerator tpu", 2, "cpu, cuda, mps"),
        ("report missing -o a.html", 1, "does not exist"),
        ("report . -o a.html", 1, "is a directory"),
        ("report net.py -o a.html", 1, "not JSON"),
        ("report failed -o a.html", 1, "nothing to report"),
        ("report told.ampere", 2, "-o FILE"),
        ("report told.ampere -o net.py", 1, "net.py exists"),
        ("report told.ampere -o none/a.html", 1, "cannot write"),
        ("report told.ampere -o a.html --model zoo:lenet6", 1, "lenet5"),
        ("report told.ampere -o a.html --method magic", 2, "not one of"),
        ("magic", 2, "magic"),
    ],
)
def test_bad_input_is_one_line(net: Path, told: Path, line: str, code: int, says: str) -> None:
    header, first, second, *_ = told.read_text().splitlines()
    Path("empty").write_text("")
    Path("numbers").write_text("1\n2\n")
    Path("failed").write_text(f"{header}\n")
    Path("newer").write_text(header.replace('"ampere_journal": 1', '"ampere_journal": 99') + "\n")
    Path("corrupt").write_text("\n".join([header, first, second[:40], second]) + "\n")
    result = run(*line.split())
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert says in last_line(result)
    if code == 1:
        errors = [each for each in result.stderr.splitlines() if each.startswith("error: ")]
        assert errors == [last_line(result)]


@pytest.mark.parametrize(
    ("energy", "says"),
    [
        ("NaN", "NaN is not a number"),
        ("0", "above 0"),
        ("-1", "above 0"),
        ("1e999", "finite"),
        ('"much"', "must be a number"),
    ],
)
def test_rows_that_cannot_be_true_are_not_told(told: Path, energy: str, says: str) -> None:
    before = told.read_bytes()
    rows = told.parent / "rows.jsonl"
    rows.write_text(f'{{"layers": [{{"kind": "k"}}], "energy_j_per_step": {energy}}}\n')
    result = run("tell", rows, "--profile", told)
    assert (result.exit_code, result.stdout) == (1, "")
    assert says in result.stderr
    assert told.read_bytes() == before


def test_faulty_readings_among_others_are_left_out_and_listed(told: Path) -> None:
    rows = told.parent / "rows.jsonl"
    lines = [
        f'{{"layers": [{{"kind": "k", "widths": {{"in": 9}}}}], "energy_j_per_step": {j}}}'
        for j in ("0.0012", "-3", "0")
    ]
    rows.write_text("\n".join(lines) + "\n")
    result = run("tell", rows, "--profile", told, "--any-device", "--json")
    assert answer(result)["told"] == 1
    assert "rows.jsonl line 2 is left out: energy_j_per_step must be finite" in result.stderr
    assert "rows.jsonl line 3 is left out" in result.stderr


def test_tell_adds_rows_and_makes_a_profile(tmp_path: Path) -> None:
    path, rows = tmp_path / "new.ampere", tmp_path / "rows.jsonl"
    rows.write_text('{"layers": [{"kind": "k"}], "energy_j_per_step": 0.5, "device": "phone"}\n')
    row = answer(run("tell", rows, "--profile", path, "--json"))
    assert (row["told"], row["measurements"], row["provenance"]) == (1, 1, "external")
    text = run("tell", "-", "--profile", path, input=rows.read_text()).stdout
    assert "2 measurements of 1 kind of layers" in text
    assert text.splitlines()[-1] == f"1 row added to {path}"
    rows.write_text(rows.read_text().replace("phone", "laptop"))
    refused = run("tell", rows, "--profile", path)
    assert refused.exit_code == 1
    assert "laptop" in last_line(refused)
    assert run("tell", rows, "--profile", path, "--any-device").exit_code == 0


def test_a_torn_profile_is_a_warning_in_a_line(told: Path, tmp_path: Path) -> None:
    told.write_bytes(told.read_bytes()[:-20])
    layers = layers_file(tmp_path / "layers.jsonl", plain_model(16))
    result = run("estimate", "--profile", told, "--layers", layers, "--json")
    assert answer(result)["steps"] == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: ")
    assert "last line is torn" in line


def test_debug_shows_the_traceback(net: Path) -> None:
    result = run("--debug", "layers", "net.py:raises")
    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: net.py:raises raises RuntimeError")


def test_a_closed_pipe_is_silent() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-m", "ampere", "meters"]
    done = subprocess.run(line, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (BROKEN_PIPE, b"")


def test_numbers_that_are_not_known_are_null() -> None:
    text = json_text({"a": [float("nan"), (float("inf"), 1.5)], "b": {"c": None, "d": "×"}})
    assert json.loads(text) == {"a": [None, [None, 1.5]], "b": {"c": None, "d": "×"}}
    assert "\n" not in text


# --- measuring, on a device whose costs are known ------------------------------------------------


class ModelDevice(FakeDevice):
    """A fake that also runs models by name, which it knows nothing of."""

    def _once(self, workload: Workload) -> Cost:
        return super()._once(workload) if workload.model is None else Cost(0.02, 0.0, 0.005, 0.0)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """What every command measures on."""
    fake = ModelDevice(noise=0.01, features=lambda layer: Features(flops=1e3))
    monkeypatch.setattr(options.Machine, "open", lambda machine: fake)
    return fake


def test_check_says_both_verdicts(device: FakeDevice) -> None:
    row = answer(run("check", "--json"))
    assert (row["quiet"], row["additive"], row["provenance"]) == (True, True, "simulated")
    assert len(row["stacked_j"]) == len(row["depths"]) == 7
    result = run("check")
    assert "quiet     yes" in result.stdout
    assert "additive  yes" in result.stdout
    assert "joules are simulated, not measured" in result.stdout
    assert "14/14 done" in result.stderr


def test_a_bad_verdict_is_still_an_answer(device: FakeDevice) -> None:
    device._noise = 1.0
    result = run("check")
    assert result.exit_code == 0
    assert "quiet     no" in result.stdout


def test_measure(net: Path, device: FakeDevice) -> None:
    row = answer(run("measure", "net.py:Net", "--json"))
    wanted = {"energy_j_per_step", "idle_j_per_step", "time_s_per_step", "spread", "repeats"}
    assert wanted | {"provenance", "device", "device_name"} <= set(row)
    assert Measurement.from_json(row).energy_j_per_step == pytest.approx(0.02, rel=0.02)
    text = run("measure", "net.py:Net").stdout
    assert text.startswith("net.py:Net: 2")
    assert "joules are simulated, not measured" in text


def test_a_model_that_cannot_be_metered_is_an_error(net: Path, device: FakeDevice) -> None:
    model = Workload(model=ModelSpec("net.py:Net"))
    device._fails_to_load = [model]
    result = run("measure", "net.py:Net")
    assert (result.exit_code, result.stdout) == (1, "")
    assert last_line(result) == "error: the model could not be metered: out of memory"


def test_profile_estimate_evaluate(net: Path, device: FakeDevice) -> None:
    line = ("profile", "net.py:Net", "--profile", "net.ampere", "--measurements", 4)
    result = run(*line)
    assert result.exit_code == 0, result.stderr
    *_, saved, following = result.stdout.splitlines()
    assert saved == "saved in net.ampere; next:"
    assert result.stderr.splitlines()[-1].endswith("done")
    again = answer(run(*line, "--json"))  # there is nothing left to measure
    assert again["measurements"] == len(read_journal("net.ampere")[1])
    assert again["provenance"] == "simulated"
    estimated = run(*following.split()[1:])
    assert estimated.stdout.startswith("2,000 training steps: ")
    row = answer(run("evaluate", "net.py:Net", "--profile", "net.ampere", "--models", 2, "--json"))
    assert len(row["models"]) == 2
    assert set(row["mape"]) >= {"additive", "roofline", "flops", "repeat"}
    assert row["measurements"] == again["measurements"]
    text = run("evaluate", "net.py:Net", "--profile", "net.ampere", "--models", 2).stdout
    assert "repeat (the floor)" in text
    assert "joules are simulated, not measured" in text


def borrowed(result: Result) -> list[str]:
    return [layer["name"] for layer in answer(result)["layers"] if layer["borrowed"]]


def test_a_profile_is_of_the_loss_that_it_was_made_with(net: Path, device: FakeDevice) -> None:
    Path("own.py").write_text("def loss(output): return output.mean()")
    line = ("profile", "net.py:Net", "--profile", "net.ampere", "--max-points", 3)
    own = answer(run(*line, "--loss", "own.py:loss", "--json"))
    (last,) = (kind for kind in own["kinds"] if kind.startswith("last"))
    assert "own.py:loss" in last
    assert answer(run(*line, "--json"))["kinds"] == own["kinds"]  # goes on with its own loss
    asked = ("estimate", "net.py:Net", "--profile", "net.ampere", "--json")
    Path("own.py").unlink()  # estimating runs no loss
    assert borrowed(run(*asked)) == []
    assert borrowed(run(*asked, "--loss", "mse")) == ["2"]
    other = run(*asked, "--batch-size", 3)  # another batch size: estimated, and said
    assert borrowed(other) == ["0", "2"]
    assert "borrowed from other kinds" in last_line(other)
    paper = run(*asked, "--batch-size", 3, "--method", "paper")
    assert "with batch size 10, sgd and loss own.py:loss" in last_line(paper)


# --- measuring, on this machine ------------------------------------------------------------------


def test_a_real_profile(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = ("--quick", "--threads", 1, "--profile", "net.ampere")
    result = run("profile", "net.py:Net", *machine, "--measurements", 4, "--json")
    row = answer(result)
    assert row["failed"] == 0
    assert row["provenance"] in ("modelled", "counter")
    row = answer(run("estimate", "net.py:Net", "--profile", "net.ampere", "--json"))
    assert 0 < row["energy_j"] < 10
    assert 0 < row["time_s"] < 1
    monkeypatch.setattr(evaluate, "ISOLATED", Effort(0.002, 0.0, 2, 2))
    row = answer(run("evaluate", "net.py:Net", *machine, "--models", 2, "--json"))
    assert set(row["mape"]) == {
        *("additive", "paper", "roofline", "flops", "flops_affine", "neuralpower"),
        *("extrapolation", "repeat"),
    }


def test_ctrl_c_keeps_what_was_measured_and_goes_on(net: Path) -> None:
    path = net.parent / "net.ampere"
    line = ["profile", "net.py:Net", "--profile", str(path), "--threads", "1"]
    line += ["--method", "paper"]  # it asks for many; this net's family has few members
    process = subprocess.Popen(
        [sys.executable, "-m", "ampere", *line],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: path.exists() and path.read_text().count("\n") > 2, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
    finally:
        process.kill()
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == (
        f"interrupted: everything measured so far is in {path}; the same command goes on from there"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # not even the last line is torn
        _, before = read_journal(path)
    assert len(before) >= 1  # the second may not have reached the disk
    assert run(*line, "--time-limit", 1).exit_code == 0
    _, after = read_journal(path)
    assert after[: len(before)] == before
    assert len(after) > len(before)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline_s = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("profile net.py:Net --profile p", "interrupted: nothing was measured yet"),
        ("evaluate net.py:Net --profile there", "interrupted: models metered so far are not kept"),
        ("measure net.py:Net", "interrupted"),
        ("check", "interrupted"),
    ],
)
def test_ctrl_c_in_the_first_burst(
    net: Path, device: FakeDevice, monkeypatch: pytest.MonkeyPatch, line: str, says: str
) -> None:
    assert run("profile", "net.py:Net", "--profile", "there", "--max-points", 2).exit_code == 0

    def interrupt(handle: int, steps: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(device, "burst", interrupt)
    result = run(*line.split())
    assert (result.exit_code, result.stdout) == (130, "")
    assert last_line(result).startswith(says)
    assert not Path("p").exists()


# --- progress ------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """Standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def events(total: int) -> Iterator[Event]:
    for done in range(total):
        yield Event(f"last [red]linear(in={done})", done, total, 100.0 - done)
    yield Event("done", total, total, 0.0)


def test_progress_is_plain_lines_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PAUSE_S", 0.0)
    with progress.progress() as watch:
        for event in events(2):
            watch(event)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "0/2 last [red]linear(in=0) (1 min 40 s left)",
        "1/2 last [red]linear(in=1) (1 min 39 s left)",
        "2/2 done",
    ]


def test_progress_is_a_bar_on_a_terminal_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PAUSE_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    threads = threading.active_count()
    with progress.progress() as watch:
        for event in events(3):
            watch(event)
            assert threading.active_count() == threads
    text = terminal.getvalue()
    assert "2/3" in text
    assert "1 min 38 s left" in text
    assert "[red]linear(in=2)" in text


def test_progress_is_drawn_at_most_four_times_a_second(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress.progress() as watch:
        for event in events(1000):
            watch(event)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) < 10
    assert lines[-1] == "1000/1000 done"


# --- prune ---------------------------------------------------------------------------------------

WIDE = """
from torch import nn


def net(width=24):
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))


def heavy():
    convs = [nn.Conv2d(3, 96, 3), nn.ReLU(), nn.Conv2d(96, 96, 3), nn.ReLU()]
    return nn.Sequential(*convs, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 3))


def frozen():
    return net().requires_grad_(False)


def alone():
    return nn.Linear(4, 2)


net.input = frozen.input = alone.input = "4"
heavy.input = "3x64x64"
"""


@pytest.fixture
def wide(net: Path) -> Path:
    """A user's file with something to cut, and a profile of it."""
    net.with_name("wide.py").write_text(WIDE)
    nets = [ampere.read_layers(f"{net.parent}/wide.py:net(width={w})") for w in (1, 6, 12, 18, 24)]

    def cost(layer: Layer) -> Cost:
        return Cost(1e-3 * sum(layer.widths.values()), 0.0, 1e-4, 0.0)

    rows = [exact(layers, cost) for layers in nets]
    rows += [exact(layers[1:], cost) for layers in nets]
    ampere.fit(rows, device="pi").save("wide.ampere")
    return net.with_name("wide.py")


PRUNE = ("prune", "wide.py:net", "--profile", "wide.ampere")


def test_prune_writes_a_model_and_says_what_was_cut(wide: Path) -> None:
    result = run(*PRUNE, "--budget", "50%", "-o", "half")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("wide.py:net, cut to 50%: ")
    assert "out=24→" in result.stdout
    assert "joules are simulated, not measured" in result.stdout
    assert result.stderr.splitlines() == [
        "looking for widths ...",
        "wrote half: model.py builds the model, model.safetensors holds its weights",
    ]
    script = "from model import build; print(build()[0].out_features)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd="half", capture_output=True, text=True, timeout=60
    )
    width = json.loads(Path("half/widths.json").read_text())["widths"]["0.out"]
    assert (done.stdout, done.stderr) == (f"{width}\n", "")
    assert 0 < width < 24


def test_prune_prints_one_line_of_json(wide: Path) -> None:
    wide.write_text("print('loading the model')\n" + WIDE)
    job = ("--epochs", 2, "--samples", 95, "--seed", 3, "--confidence", 0.75)
    result = run(*PRUNE, "--budget", "240mJ", *job, "--guide", "flops", "-o", "half", "--json")
    row = answer(result)
    assert (row["steps"], row["budget_j_per_step"]) == (20, pytest.approx(0.012))
    assert (row["guide"], row["strategy"], row["confidence"]) == ("flops", "random", 0.75)
    assert row["widths"].keys() == row["full_widths"].keys() == {"0.out"}
    assert set(row["before"]) == {"estimate_j", "interval_j", "metered_j", "accuracy"}
    loaded, looking, wrote, *warned = result.stderr.splitlines()
    assert (loaded, looking) == ("loading the model", "looking for widths ...")
    assert wrote.startswith("wrote half: ")
    assert warned == [f"warning: {text}" for text in row["warnings"]] != []


def test_prune_says_that_a_model_fits(wide: Path) -> None:
    result = run(*PRUNE, "--budget", "200%", "-o", "same")
    assert result.stdout.startswith("wide.py:net fits 200% as it is: ")
    assert "→" not in result.stdout
    assert Path("same/model.safetensors").exists()


def test_prune_with_weights(wide: Path) -> None:
    import torch

    model = ampere.pytorch.runtime.loader.load_model("wide.py:net")[0]
    with torch.no_grad():
        model.get_parameter("0.weight").zero_()[7:11] = 1.0
        model.get_parameter("2.weight").fill_(0.01)
    torch.save(model.state_dict(), "w.pt")
    line = (*PRUNE, "--budget", "8 mJ/step", "--confidence", 0.5, "-o", "cut", "--weights", "w.pt")
    row = answer(run(*line, "--json", "--strategy", "gradient"))
    assert row["widths"] == {"0.out": 4}
    assert not any("weights" in text for text in row["warnings"])
    assert row["importance_kept"] > 0.95


def test_prune_meters_both_on_a_simulated_device(wide: Path) -> None:
    line = ("wide.py:heavy", "--profile", "sim.ampere", "--device", "simulated:xavier", "--quick")
    assert run("profile", *line, "--measurements", 12).exit_code == 0
    row = answer(run("prune", *line, "--budget", "60%", "--verify", "-o", "less", "--json"))
    metered = [row[side]["metered_j"] for side in ("before", "after")]
    assert row["metered_ratio"] == pytest.approx(metered[1] / metered[0])
    assert 0.4 < row["metered_ratio"] < 0.6
    assert row["metered_provenance"] == row["provenance"] == "simulated"
    estimated = [row[side]["estimate_j"] for side in ("before", "after")]
    assert metered == pytest.approx(estimated, rel=0.2)


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("wide.py:net --profile wide.ampere --budget 50%", 2, "'--output' / '-o'"),
        ("wide.py:net --profile wide.ampere -o x", 2, "--budget"),
        ("wide.py:net --budget 50% -o x", 2, "--profile"),
        ("--profile wide.ampere --budget 50% -o x", 2, "MODEL"),
        ("wide.py:net --profile absent --budget 50% -o x", 1, "does not exist"),
        ("wide.py:absent --profile wide.ampere --budget 50% -o x", 1, "has no 'absent'"),
        ("wide.py:frozen --profile wide.ampere --budget 50% -o x", 1, "is frozen"),
        ("wide.py:alone --profile wide.ampere --budget 50% -o x", 1, "every width is tied"),
        ("zoo:lenet5 --profile told.ampere --budget 50% -o x", 1, "not cover first conv2d5x5"),
        ("{} --budget lots -o x", 1, "'lots' is no budget: write a share"),
        ("{} --budget 50 -o x", 1, "'50' is no budget"),
        ("{} --budget 0% -o x", 1, "nothing to search for"),
        ("{} --budget 800J -o x", 1, "give its length (--steps, or --epochs with --samples)"),
        ("{} --budget 1uJ/step -o x", 1, "the least possible is"),
        ("{} --budget 800J --epochs 2 -o x", 2, "go together"),
        ("{} --budget 800J --steps 0 -o x", 2, "--steps"),
        ("{} --budget 50% -o x --confidence 1.5", 1, "confidence is 1.5: use 0.5 or more"),
        ("{} --budget 50% -o x --strategy magic", 1, "use one of random, gradient, evolution"),
        ("{} --budget 50% -o x --guide magic", 1, "use one of energy, flops"),
        ("{} --budget 50% -o x --importance magic", 1, "use one of l1, l2, bn, random"),
        ("{} --budget 50% -o x --least 2", 1, "use a number from 0 to 1"),
        ("{} --budget 50% -o x --data magic", 1, "there are no data 'magic'"),
        ("{} --budget 50% -o x --data absent.py:data", 1, "cannot read"),
        ("{} --budget 50% -o x --fine-tune 5", 1, "fine-tuning needs data"),
        ("{} --budget 50% -o x --fine-tune -5", 2, "--fine-tune"),
        ("{} --budget 50% -o x --seed -1", 2, "--seed"),
        ("{} --budget 50% -o x --weights absent.pt", 1, "there is no such file"),
        ("{} --budget 50% -o x --weights net.py", 1, "holds no plain weights"),
        ("{} --budget 50% -o x --weights other.pt", 1, "0.weight is 6x4, the model's is 24x4"),
        ("{} --budget 50% -o full", 1, "full is there already"),
        ("wide.py:absent --profile absent --budget 50% -o full", 1, "full is there already"),
        ("{} --budget 50% -o net.py", 1, "net.py is there already"),
        ("{} --budget 50% -o net.py/x", 1, "is no folder that you may write to"),
        ("{} --budget 50% -o x --verify --device simulated:abacus", 1, "use one of"),
        ("{} --budget 50% -o x --verify --device simulated:xavier", 1, "do not mix"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*pickle protocol")
def test_prune_with_bad_input_writes_nothing(
    wide: Path, told: Path, line: str, code: int, says: str
) -> None:
    import torch

    torch.save(
        ampere.pytorch.runtime.loader.load_model("wide.py:net(width=6)")[0].state_dict(), "other.pt"
    )
    Path("full").mkdir()
    Path("full/precious").write_text("mine")
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    result = run("prune", *line.format("wide.py:net --profile wide.ampere").split())
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert says in last_line(result)
    if code == 1:
        errors = [each for each in result.stderr.splitlines() if each.startswith("error: ")]
        assert errors == [last_line(result)]
    after = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    assert {path for path in after if "__pycache__" not in path.parts} == before.keys()


def test_ctrl_c_while_pruning_leaves_nothing(wide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(folder: Path, *rest: object) -> None:
        (folder / "model.py").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr("ampere.pytorch.pruning.files.write_model", interrupt)
    before = set(Path().iterdir())
    result = run(*PRUNE, "--budget", "50%", "-o", "half")
    assert (result.exit_code, result.stdout) == (130, "")
    assert last_line(result) == "interrupted"
    assert set(Path().iterdir()) == before


# --- report --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["additive", "paper"])
def test_report_writes_a_page_and_its_charts(told: Path, tmp_path: Path, method: str) -> None:
    page, figures = tmp_path / "report.html", tmp_path / "figures"
    line = ("report", told, "-o", page, "--figures", figures, "--method", method)
    found = answer(run(*line, "--json"))
    assert found["page"] == str(page)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sorted(found["figures"]) == sorted(str(each) for each in figures.iterdir())
    again = run(*line)
    assert (again.exit_code, last_line(again)) == (
        1,
        f"error: {page} exists: choose another name, or remove it first",
    )


def test_report_says_what_it_wrote(told: Path, tmp_path: Path) -> None:
    result = run("report", told, "-o", tmp_path / "a.html")
    assert result.stdout == f"wrote {tmp_path / 'a.html'}: open it in a browser\n"
    result = run("report", told, "--figures", tmp_path / "figures")
    assert result.stdout.splitlines()[0] == f"wrote {tmp_path / 'figures' / 'layers.svg'}"


def test_report_needs_no_torch(told: Path, tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from ampere.cli import main\n"
        f"sys.argv = ['ampere', 'report', {str(told)!r}, '-o', {str(tmp_path / 'a.html')!r}]\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
