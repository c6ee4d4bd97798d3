"""Asking and telling by file: the same profile as the loop on a device that ampere reaches."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import ampere
from ampere.acquisition.families import Network
from ampere.acquisition.prober import START
from ampere.cli.app import app
from ampere.core.boundary.trust import ForeignText
from ampere.core.description import describe
from ampere.core.layers import Layer, network_identity
from ampere.core.training import Training
from ampere.core.workloads import Workload
from ampere.errors import DataError, FingerprintError, JournalError, ModelError
from ampere.estimators.base import Cost
from ampere.frameworks.models import layers_of
from ampere.meters.base import Provenance
from ampere.pytorch.graph.counter import with_features
from ampere.records.failure import Failure
from ampere.records.journal import read_journal
from ampere.records.measurement import Measurement
from fakes import FakeDevice, exact, total

EXAMPLES = Path(__file__).parents[2] / "examples"
TOGETHER = 4  # networks that the loop on a device asks for at a time
NET = """
from torch import nn


class Net(nn.Sequential):
    input = "8"

    def __init__(self, width=24):
        super().__init__(
            nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3)
        )


class Conv(nn.Module):
    input = "3x8x8"

    def __init__(self, width=12):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.Conv2d(width, width, 3, padding=1)
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        x = self.stem(x).relu()
        x = x + self.body(x).relu()
        return self.head(x.mean((2, 3)))
"""


class ModelDevice(FakeDevice):
    """A fake that also runs models by name: it costs what their layers do."""

    def _once(self, workload: Workload) -> Cost:
        if workload.model is not None:
            workload = Workload(layers_of(workload.model))
        return super()._once(workload)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def without_calls(row: Measurement) -> dict[str, object]:
    """A row as the fake device tells it, which counts features and no calls."""
    return replace(row, layers=tuple(replace(layer, work=()) for layer in row.layers)).to_json()


def answers(networks: Sequence[Network]) -> list[Measurement]:
    return [exact(network.layers) for network in networks]


def tell(networks: Sequence[Network], path: str = "p") -> None:
    ampere.tell(path, answers(networks))


def ask(
    n: int = TOGETHER, *, of: str = "net.py:Net", most: int = 10, path: str = "p"
) -> list[Network]:
    """The first time, of simulated joules."""
    return ampere.ask(
        path, n, of, strategy=ampere.Strategy(max_measurements=most, tolerance=1e-9),
        device="fake", provenance=Provenance.SIMULATED,
    )  # fmt: skip


# --- the same as the loop on a device -------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "method"), [("net.py:Conv", "additive"), ("net.py:Net", "paper")]
)
def test_the_same_readings_make_the_same_profile_to_the_last_digit(model: str, method: str) -> None:
    strategy = ampere.Strategy(method, max_measurements=10, max_points=4, tolerance=1e-9)
    device = ModelDevice(noise=0.02, seed=5, features=lambda layer: with_features(layer).features)
    ampere.profile(model, path="local", device=device, strategy=strategy)
    _, local = read_journal("local")
    *_, once_more, and_more = local  # it came back to two networks at the end
    readings = {network_identity(row.layers): row for row in local[:-2]}
    assert len(readings) == len(local) - 2

    networks = ampere.ask(
        "told", TOGETHER, model, strategy=strategy, device="fake", provenance=Provenance.SIMULATED
    )
    while networks:
        rows = [
            replace(readings[network_identity(network.layers)], layers=network.layers)
            for network in networks
        ]
        ampere.tell("told", rows)
        networks = ampere.ask("told", TOGETHER, model)
    ampere.tell("told", [once_more, and_more])

    _, told = read_journal("told")
    assert list(map(without_calls, told)) == list(map(without_calls, local))
    profiles = [ampere.Profile.load(path, method) for path in ("local", "told")]
    mine, theirs = (profile.estimate(model, steps=100) for profile in profiles)
    assert mine.to_json() == theirs.to_json()
    assert len(local) > 2 * TOGETHER


# --- what is asked for ----------------------------------------------------------------------------


def test_it_asks_for_others_once_it_was_told_and_ends(tmp_path: Path) -> None:
    first = ask()
    assert len(first) == START
    assert [str(each) for each in ampere.ask("p", TOGETHER, "net.py:Net")] == [
        str(each) for each in first
    ]
    tell(first)
    second = ampere.ask("p", TOGETHER, "net.py:Net")
    asked = {network_identity(each.layers) for each in (*first, *second)}
    assert len(asked) == START + TOGETHER
    tell(second)
    third = ampere.ask("p", TOGETHER, "net.py:Net")
    assert len(third) == 4  # ten in all
    tell(third)
    assert ampere.ask("p", TOGETHER, "net.py:Net") == []
    profile = ampere.Profile.load("p")
    assert profile.header.model == ForeignText("net.py:Net")
    assert profile.device == "fake"
    true = total(ampere.read_layers("net.py:Net(width=10)"))
    assert profile.estimate("net.py:Net(width=10)").energy_j == pytest.approx(
        true.energy_j, rel=0.1
    )


def test_it_ends_when_enough_is_known() -> None:
    def flat(layers: Sequence[Layer]) -> Measurement:
        return exact(layers, lambda layer: Cost(1e-3, 0.0, 1e-3, 0.0))

    networks = ampere.ask("p", TOGETHER, "net.py:Net", provenance=Provenance.SIMULATED)
    told = 0
    while networks:
        ampere.tell("p", [flat(network.layers) for network in networks])
        told += len(networks)
        networks = ampere.ask("p", TOGETHER, "net.py:Net")
    assert TOGETHER < told < 40


def test_a_network_that_failed_is_not_asked_for_again() -> None:
    first, *others = ask()
    failed = Measurement(first.layers, failed=Failure("crashed"), provenance=Provenance.SIMULATED)
    ampere.tell("p", [failed, *answers(others)])
    again = {network_identity(each.layers) for each in ampere.ask("p", 40, "net.py:Net")}
    assert network_identity(first.layers) not in again


def test_networks_say_all_that_a_measurement_needs() -> None:
    for network in ask(8):
        assert network.workload == Workload(network.layers)
        assert all(layer.features.flops for layer in network.layers)
        assert all(layer.kind.structure for layer in network.layers)


def test_the_profile_knows_how_to_go_on() -> None:
    ampere.ask("p", 1, "net.py:Net(width=8)", 8, training=Training(3, "adam", "mse"))
    header, rows = read_journal("p")
    assert rows == []
    assert header.provenance is Provenance.EXTERNAL
    assert header.asks is not None
    assert header.asks["input"] == "8"
    assert header.asks["training"] == {"batch_size": 3, "optimizer": "adam", "loss": "mse"}
    (network,) = ampere.ask("p", 1, "net.py:Net(width=8)")
    assert network.layers[0].kind.attributes["batch"] == 3
    assert network.layers[-1].kind.attributes["loss"] == "mse"


# --- what is refused ------------------------------------------------------------------------------


def test_what_cannot_be_asked() -> None:
    with pytest.raises(DataError, match="p is not there yet: which model"):
        ampere.ask("p")
    with pytest.raises(DataError, match="0 networks are nothing to ask for"):
        ampere.ask("p", 0, "net.py:Net")
    with pytest.raises(ModelError, match="absent"):
        ampere.ask("p", 1, "net.py:absent")
    with pytest.raises(ModelError, match="unknown loss"):
        ampere.ask("p", 1, "net.py:Net", training=Training(loss="magic"))
    with pytest.raises(JournalError, match="nowhere is no directory: make it first"):
        ampere.ask("nowhere/p", 1, "net.py:Net")
    assert not Path("p").exists()


@pytest.mark.parametrize(
    "given",
    [
        {"model": "net.py:Net(width=3)"},
        {"input": 8},
        {"training": Training(3)},
        {"strategy": ampere.Strategy()},
    ],
)
def test_a_profile_that_knows_is_not_told_again(given: dict[str, Any]) -> None:
    ask()
    with pytest.raises(DataError, match="knows its model and how to go on"):
        ampere.ask("p", **{"model": "net.py:Net", **given})


def test_a_profile_that_was_not_begun_by_asking_cannot_be_asked() -> None:
    ampere.tell("p", [exact(ampere.read_layers("net.py:Net"))])
    with pytest.raises(DataError, match="not begun by `ampere ask`"):
        ampere.ask("p")
    Path("empty").write_text("")
    with pytest.raises(JournalError, match="is empty"):
        ampere.ask("empty")


def test_damaged_asks_are_told_in_a_line() -> None:
    ask()
    path = Path("p")
    path.write_text(path.read_text().replace('"batch_size"', '"batches"'))
    with pytest.raises(JournalError, match=r"p line 1: asks.training.batch_size is missing"):
        ampere.ask("p", model="net.py:Net")


def test_rows_told_twice_count_once() -> None:
    rows = answers(ask())
    ampere.tell("p", rows[:2])
    with pytest.warns(UserWarning, match="2 rows left out: in the profile already"):
        profile = ampere.tell("p", rows)
    assert len(profile.measurements) == len(rows)
    timeless = [replace(row, time_s_per_step=None) for row in rows]
    ampere.tell("q", timeless)
    assert len(ampere.tell("q", timeless).measurements) == 2 * len(rows)  # perhaps measured twice


def test_rows_of_another_device_or_provenance_are_refused() -> None:
    (row, *_) = answers(ask())
    with pytest.raises(
        FingerprintError,
        match=r"row 1 has sensor joules, the profile simulated ones: .* ask --provenance sensor;",
    ):
        ampere.tell("p", [replace(row, provenance=Provenance.SENSOR)])
    with pytest.raises(FingerprintError, match=r"row 2 is of device laptop, .* of .*fake"):
        ampere.tell("p", [row, replace(row, device="laptop")])
    assert read_journal("p")[1] == []  # not even the first
    ampere.tell("p", [replace(row, device="fake")])
    ampere.tell("p", [replace(row, device="laptop")], any_device=True)
    with pytest.raises(DataError, match="no row to tell"):
        ampere.tell("p", [])


# --- by file, with the runner ---------------------------------------------------------------------


WITHOUT_AMPERE = """
import runpy, sys

sys.modules["ampere"] = None  # importing it is an error from now on
sys.argv = ["runner.py", sys.argv[1]]
runpy.run_path("runner.py", run_name="__main__")
assert not [name for name in sys.modules if name.startswith("ampere.")]
"""


def run_elsewhere(todo: str) -> list[dict[str, Any]]:
    """Run the example in a process that has PyTorch and no ampere."""
    shutil.copy(EXAMPLES / "runner.py", "runner.py")
    Path("todo.jsonl").write_text(todo)
    done = subprocess.run(
        [sys.executable, "-I", "-c", WITHOUT_AMPERE, "todo.jsonl"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    Path("done.jsonl").write_text(done.stdout)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_ask_run_tell_until_enough_is_known() -> None:
    begin = run(
        "ask", "net.py:Net", "--profile", "p", "-n", 4, "--measurements", 6,
        "--label", "my phone", "--provenance", "modelled",
    )  # fmt: skip
    assert (begin.exit_code, begin.stderr) == (0, "")
    todo = begin.stdout
    assert len(todo.splitlines()) == 2  # what to ask next depends on them
    names: list[str] = []
    while todo:
        rows = run_elsewhere(todo)
        assert [row["name"] for row in rows] == [json.loads(t)["name"] for t in todo.splitlines()]
        assert all(0 < row["energy_j_per_step"] < 10 for row in rows)
        assert all(0 < row["time_s_per_step"] < 1 for row in rows)
        names += [row["name"] for row in rows]
        told = run("tell", "done.jsonl", "--profile", "p")
        assert told.exit_code == 0, told.stderr
        assert f"{len(rows)} rows added to p" in told.stdout
        asked = run("ask", "net.py:Net", "--profile", "p", "-n", 4)
        assert asked.exit_code == 0, asked.stderr
        todo = asked.stdout
    # How soon enough is known depends on what a real machine measured.
    assert asked.stderr.startswith(("p has its 6 measurements", "enough is known"))
    assert 5 <= len(set(names)) == len(names) <= 6
    estimate = run("estimate", "net.py:Net(width=12)", "--profile", "p")
    assert estimate.exit_code == 0, estimate.stderr
    assert "modelled" in estimate.stdout
    assert "my phone" in estimate.stdout


def test_a_limit_is_told_and_can_be_raised() -> None:
    run("ask", "net.py:Net", "--profile", "p", "--measurements", 4, "--provenance", "simulated")
    for _ in range(2):
        ampere.tell("p", answers(ampere.ask("p", 4, "net.py:Net")))
    asked = run("ask", "net.py:Net", "--profile", "p")
    assert (asked.exit_code, asked.stdout) == (0, "")
    assert asked.stderr == "p has its 4 measurements: --measurements 8 asks for more\n"
    more = run("ask", "net.py:Net", "--profile", "p", "--measurements", 8)
    assert 1 <= len(more.stdout.splitlines()) <= 4


def test_whether_layers_are_told_apart_is_said_at_first_and_kept() -> None:
    for path, options in (("plain", ()), ("apart", ("--per-layer",))):
        begun = run("ask", "net.py:Net", "--profile", path, *options, "--provenance", "simulated")
        assert begun.exit_code == 0, begun.stderr
        header, _ = read_journal(path)
        assert header.asks is not None
        assert header.asks["strategy"]["per_layer"] is bool(options)


def test_the_runner_trains_more_than_chains_and_tells_what_it_does_not() -> None:
    asked = run("ask", "net.py:Net", "--profile", "p", "-n", 3, "--loss", "mse",
                "--provenance", "modelled")  # fmt: skip
    todo = asked.stdout.splitlines()
    for family, optimizer in (("lstm", "adamw"), ("resnet", "momentum")):
        layers = ampere.read_layers(f"zoo:{family}", training=Training(2, optimizer))
        row = {"layers": [layer.to_json() for layer in layers], "network": describe(layers)}
        todo.append(json.dumps(row))
    *failed, lstm, resnet = map(Measurement.from_json, run_elsewhere("\n".join(todo)))
    assert 0 < lstm.energy_j_per_step < 100
    assert 0 < resnet.energy_j_per_step < 100
    assert all("AssertionError" in str(row.failed) for row in failed)
    ampere.tell("p", failed)
    assert len(ampere.ask("p", 3, "net.py:Net")) == 2  # nothing is known yet


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("ask --profile absent", 1, "which model shall it be for?"),
        ("ask net.py:Net --profile q -n 0", 2, "-n"),
        ("ask net.py:Net --profile q --provenance guessed", 1, "provenance 'guessed' is unknown"),
        ("ask net.py:Net --profile q --measurements 1", 1, "use 2 or more"),
        ("ask net.py:Net --profile q --method magic", 1, "unknown method 'magic'"),
        ("ask net.py:Nope --profile q", 1, "it has Net"),
        ("ask net.py:Net(width=3) --profile p", 1, "knows its model"),
        ("ask net.py:Net --profile p --batch-size 3", 1, "knows its model"),
        ("ask --profile p", 1, "say it yourself with `ampere ask net.py:Net --profile p`"),
        ("ask --profile p --method paper", 1, "knows its device and how to go on"),
        ("ask --profile p --per-layer", 1, "how to go on: ask without --label, --provenance, "),
        ("ask net.py:Net --profile q --method paper --per-layer", 1, "isolates each kind"),
        ("ask net.py:Net --profile p --measurements 1", 1, "use 2 or more"),
        ("ask --profile p --label phone", 1, "knows its device"),
        ("ask --profile p --provenance sensor", 1, "knows its device"),
        ("ask --profile net.py", 1, "not JSON"),
        ("ask", 2, "--profile"),
    ],
)
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    ask()
    result = run(*line.split())
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert "Traceback" not in result.stderr
    assert says in result.stderr.splitlines()[-1]
    assert not Path("q").exists()
