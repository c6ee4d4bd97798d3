"""`ampere run`: a real program in a real process, ended at its budget."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from ampere.errors import DataError
from ampere.gates.script import Script, _signal
from cli.runner import ampere_process, check_bad_line, last_line

# Ten watts of idle power: a budget in joules is a time.
TEN_WATTS = ("--meter", "tree:idle_w=10,active_w=0")
LOOP = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(3)))
for step in range(1, 201):
    time.sleep(0.02)
    print(f"step {step}/200", file=sys.stderr if step % 2 else sys.stdout)
print("done")
"""


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    path = tmp_path / "loop.py"
    path.write_text(LOOP)
    return path


def python(*arguments: object) -> tuple[str, ...]:
    return "--", sys.executable, "-u", *map(str, arguments)  # type: ignore[return-value]


def events(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "gate.jsonl").read_text().splitlines()]


def test_a_program_may_be_let_keep_its_memory() -> None:
    asked = "import os; print(os.environ.get('MALLOC_MMAP_MAX_'))"
    for wish, told in (((), "None"), (("--keep-memory",), "0")):
        done = ampere_process("run", *TEN_WATTS, *wish, *python("-c", asked))
        assert done.stdout.strip() == told


def test_a_program_is_ended_inside_its_budget_and_may_save(loop: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = ampere_process(
        *("run", "--budget", "25J", *TEN_WATTS, "--run", run),
        *("--progress-pattern", r"step (\d+)/(\d+)", *python(loop)),
    )
    assert done.returncode == 75, done.stderr
    assert done.stdout.splitlines()[-1] == "saved"
    assert "done" not in done.stdout
    assert "--resume and a larger --budget" in last_line(done)
    assert "modelled from CPU time" in done.stderr
    told = events(run)
    assert told[-1]["reason"] == "budget"
    assert 15.0 < float(str(told[-1]["spent_j"])) <= 27.0  # a busy machine is late
    assert told[-1]["step"] in range(10, 150)
    forecasts = [event["forecast_j"] for event in told if event.get("forecast_j")]
    assert forecasts and told[-2]["steps"] == 200


def test_a_program_that_ends_by_itself_keeps_its_code(tmp_path: Path) -> None:
    program = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    done = ampere_process("run", "--budget", "1kJ", *python("-c", program))
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "err" in done.stderr


def test_one_that_does_not_end_when_asked_is_ended_with_its_children(tmp_path: Path) -> None:
    stubborn = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    begun_s = time.monotonic()
    done = ampere_process(
        "run", "--budget", "10J", *TEN_WATTS, "--grace", "0.5", *python("-c", stubborn)
    )
    assert done.returncode == 75
    assert time.monotonic() - begun_s < 30
    child = int(done.stdout)
    deadline_s = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline_s:
        if "Z" in Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]:
            break
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{child}").exists()


def test_a_file_of_progress(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time\n"
        "for step in range(1, 31):\n"
        "    time.sleep(0.05)\n"
        "    pathlib.Path(sys.argv[1]).write_text(f'{step}/30')\n"
    )
    run = tmp_path / "run"
    done = ampere_process(
        *("run", *TEN_WATTS, "--run", run, "--progress-file", tmp_path / "at"),
        *python("-c", program, tmp_path / "at"),
    )
    assert done.returncode == 0, done.stderr
    end = events(run)[-1]
    assert end["reason"] == "finished" and end["step"] == 30


def test_a_run_goes_on_with_what_was_spent(loop: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = ampere_process("run", "--budget", "6J", *TEN_WATTS, "--run", run, *python(loop))
    assert first.returncode == 75
    other = ampere_process("run", "--budget", "12J", *TEN_WATTS, "--run", run, *python(loop))
    assert other.returncode == 1 and "another run" in last_line(other)
    again = ampere_process(
        "run", "--budget", "12J", *TEN_WATTS, "--run", run, "--resume", *python(loop)
    )
    assert again.returncode == 75
    told = events(run)
    spent = [float(str(event["spent_j"])) for event in told if event["event"] == "end"]
    assert 0.0 < spent[0] <= 7.0  # a busy machine is late
    assert spent[0] + 1.0 < spent[1] <= 14.0


def test_ctrl_c_reaches_the_program(tmp_path: Path) -> None:
    program = (
        "import time\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    line = [sys.executable, "-m", "ampere", "run", "--budget", "1kJ", *python("-c", program)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as done:
        assert done.stdout is not None
        assert done.stdout.readline() == "ready\n"
        os.kill(done.pid, signal.SIGINT)
        out, _ = done.communicate(timeout=60)
    assert (out, done.returncode) == ("interrupted\n", 0)


def test_without_groups_of_processes_a_program_is_ended_and_ctrl_c_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on Windows: there `send_signal` refuses SIGINT, and a terminal sends it to all."""
    monkeypatch.delattr(os, "killpg")
    process = Mock(spec=subprocess.Popen)
    _signal(process, signal.SIGINT)
    assert process.mock_calls == []
    _signal(process, signal.SIGTERM)
    assert process.mock_calls == [call.terminate()]


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("run --budget 5Wh -- no-such-program-anywhere", 1, "cannot be run: No such file"),
        ("run --budget nothing -- true", 1, "is no budget"),
        ("run --budget 5J --progress-pattern step -- true", 1, "has no group for the step"),
        ("run --budget 5J --progress-pattern ( -- true", 1, "cannot be read"),
        ("run --budget 5J --meter volta -- true", 1, "there is no meter named"),
        ("run --budget 5J --resume -- true", 1, "give the folder of the run"),
        ("run --budget 5J --on-exceed burn -- true", 1, "on_exceed is 'burn'"),
        ("run --budget 1EUR -- true", 1, "--price"),
        ("run", 2, "PROGRAM"),
    ],
)
def test_what_cannot_be_run(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)


def test_a_script_without_a_command() -> None:
    with pytest.raises(DataError, match="which program"):
        Script(())
