"""`ampere profile`: learning on a fake device and on this machine, interrupted and continued."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from ampere.evaluation import evaluate
from ampere.records.journal import read_journal
from ampere.sittings.effort import Effort
from cli.runner import answer, check_bad_line, last_line, run
from fakes import FakeDevice
from processes import ACCEPT_BUSY

DEEP = """
from torch import nn


class Deep(nn.Sequential):
    input = "4"

    def __init__(self):
        hidden = nn.Linear(32, 32)
        super().__init__(nn.Linear(4, 32), nn.ReLU(), hidden, nn.ReLU(), nn.Linear(32, 3))
"""


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


@pytest.mark.parametrize(("first", "second", "said"), [("4", "4", False), ("4", "2x4", True)])
def test_what_is_next_says_the_input_where_the_profile_does_not_remember_it(
    first: str, second: str, said: bool, net: Path, device: FakeDevice
) -> None:
    line = ("profile", "net.py:Net", "--profile", "net.ampere", "--measurements", 2)
    for fed in (first, second):
        result = run(*line, "--input", fed)
        assert result.exit_code == 0, result.stderr
    assert (f"--input {second}" in result.stdout.splitlines()[-1]) == said


def borrowed(result: Result) -> list[str]:
    return [layer["name"] for layer in answer(result)["layers"] if layer["borrowed"]]


def test_what_tells_layers_apart_is_measured_if_asked_for(net: Path, device: FakeDevice) -> None:
    Path("deep.py").write_text(DEEP)
    line = ("profile", "deep.py:Deep", "--profile", "deep.ampere", "--tolerance", 0.1)
    usual = answer(run(*line, "--json"))["measurements"]
    again = answer(run(*line, "--json"))["measurements"]  # enough is known
    assert again == usual
    goes_on = answer(run(*line, "--per-layer", "--json"))["measurements"]
    assert goes_on > usual


def test_a_profile_is_of_the_loss_that_it_was_made_with(net: Path, device: FakeDevice) -> None:
    Path("own.py").write_text("def loss(output): return output.mean()")
    line = ("profile", "net.py:Net", "--profile", "net.ampere", "--measurements", 8)
    own = answer(run(*line, "--loss", "own.py:loss", "--json"))
    (last,) = (kind for kind in own["kinds"] if kind.startswith("last"))
    assert "own.py:loss" in last
    refused = run(*line, "--json")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "say it yourself with --loss own.py:loss" in last_line(refused)
    again = answer(run(*line, "--loss", "own.py:loss", "--json"))
    assert again["kinds"] == own["kinds"]
    asked = ("estimate", "net.py:Net", "--profile", "net.ampere", "--json")
    Path("own.py").unlink()  # estimating runs no loss
    assert borrowed(run(*asked)) == []
    assert borrowed(run(*asked, "--loss", "mse")) == ["2"]
    other = run(*asked, "--batch-size", 3)  # another batch size: estimated, and said
    assert borrowed(other) == ["0", "2"]
    assert "borrowed from other kinds" in last_line(other)
    paper = run(*asked, "--batch-size", 3, "--method", "paper")
    assert "with batch size 10, sgd and loss own.py:loss" in last_line(paper)


def test_a_real_profile(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = ("--quick", "--threads", 1, "--profile", "net.ampere", ACCEPT_BUSY)
    result = run("profile", "net.py:Net", *machine, "--measurements", 8, "--json")
    row = answer(result)
    assert row["failed"] == 0
    assert row["provenance"] in ("modelled", "counter")
    row = answer(run("estimate", "net.py:Net", "--profile", "net.ampere", "--json"))
    assert 0 < row["energy_j"] < 10
    assert 0 < row["time_s"] < 1
    monkeypatch.setattr(evaluate, "SINGLE_STAGES", Effort(0.002, 0.0, 2, 2))
    row = answer(run("evaluate", "net.py:Net", *machine, "--models", 2, "--json"))
    assert set(row["mape"]) == {
        *("additive", "paper", "roofline", "flops", "flops_affine", "neuralpower"),
        *("extrapolation", "repeat"),
    }


@pytest.mark.slow  # test_ctrl_c_in_the_first_burst and acquisition.test_loop show it in one process
def test_ctrl_c_keeps_what_was_measured_and_goes_on(net: Path) -> None:
    path = net.parent / "net.ampere"
    line = ["profile", "net.py:Net", "--profile", str(path), "--threads", "1", ACCEPT_BUSY]
    line += ["--quick", "--method", "paper"]  # it asks for many; this net's family has few members
    process = subprocess.Popen(
        [sys.executable, "-m", "ampere", *line],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: path.exists() and path.read_text().count("\n") > 2, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
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
    assert run(*line, "--max-points", 2).exit_code == 0
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
    if "there" in line:
        few = ("--measurements", 2)
        assert run("profile", "net.py:Net", "--profile", "there", *few).exit_code == 0

    def interrupt(handle: int, steps: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(device, "burst", interrupt)
    result = run(*line.split())
    assert (result.exit_code, result.stdout) == (130, "")
    assert last_line(result).startswith(says)
    assert not Path("p").exists()


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("profile net.py:Net --profile p --loss net.py:absent", 1, "has no 'absent'"),
        ("profile net.py:Net --profile p --meter magic", 1, "no meter named 'magic'"),
        ("profile net.py:Net --profile p --meter cpu:", 1, "name:setting=value"),
        ("profile net.py:Net --profile p --accelerator tpu", 1, "use one of cpu, cuda, mps"),
        ("profile net.py:Net --profile p --kernel magic", 1, "unknown kernel"),
        ("profile net.py:Net --profile p --guide magic", 1, "unknown guide"),
        ("profile net.py:Net --profile p --max-points 1", 1, "max_points"),
        ("profile net.py:Net --profile p --tolerance 5", 1, "tolerance"),
        ("profile net.py:Net --profile p --per-layer --method paper", 1, "isolates each kind"),
        ("profile net.py:Net --profile p --time-limit 0", 2, "not a number above 0"),
        ("profile net.py:Net --profile p --time-limit nan", 2, "not a number above 0"),
        ("profile net.py:Net --profile p --method magic", 2, "not one of"),
        ("profile net.py:Net", 2, "--profile"),
        ("profile net.py:Net --profile p --measurements 1", 1, "2 or more"),
        ("profile net.py:Net --profile p --energy-limit 0", 2, "not a number above 0"),
        ("profile net.py:Net --profile p --device simulated:xavier --candidate magic", 1, "magic"),
        ("profile net.py:Net --profile p --device magic", 1, "unknown device"),
        ("profile net.py:Net --profile p --device simulated:abacus", 1, "use one of"),
        ("profile net.py:Net --profile p --device recorded:missing", 1, "does not exist"),
    ],
)
@pytest.mark.usefixtures("files")
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)
