"""Tutorials are followed from top to bottom: every command, every block of Python.

Twice: in this process, on simulated devices and with few networks (in `make test`); and as they
stand, by a shell, with real training (`make docs-check`).
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import runpy
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ampere
from ampere.acquisition import loop, surveyor
from cli.runner import run
from pages import ROOT, TUTORIALS, Block, arguments, blocks
from surveyed import kept_candidates

RUNNER = ROOT / "examples" / "runner.py"
SIMULATED = "simulated:xavier"
# To half of its joules a model can be cut only where layers matter more than the step itself.
DEVICES = {"prune": "simulated:oppo"}
FEW = {
    "profile": ("--measurements", "6"),
    "survey": ("--energy-limit", "8", "--like", "zoo:lenet5"),
}
LATER = ("ampere evaluate ", "--fine-tune ")  # they take long: only as they stand
NAMES = [path.stem for path in TUTORIALS]


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder, with what a tutorial says is there; modules of it are forgotten again."""
    folder = tmp_path / "desk"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    shutil.copy(RUNNER, folder)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


# --- In this process, simulated -------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few networks; those of a survey are read already."""
    monkeypatch.setattr(loop, "make_prober", functools.partial(loop.make_prober, pool=6))
    monkeypatch.setattr(surveyor, "POOL", 8)
    monkeypatch.setattr(surveyor, "START", 6)
    monkeypatch.setattr(surveyor, "candidates", kept_candidates)
    device = ampere.open_device(SIMULATED)
    strategy = ampere.Strategy(max_measurements=6)
    profile = functools.partial(ampere.profile, device=device, strategy=strategy)
    monkeypatch.setattr(ampere, "profile", profile)


def simulated(words: list[str], device: str) -> list[str]:
    """A command on a simulated device, with less to do."""
    name, *rest = words
    measures = name in FEW or "--after-steps" in rest or "--verify" in rest
    if measures and "--device" not in rest:
        rest += ["--device", device]
    rest += FEW.get(name, ())
    return [name, *(device if each.startswith("ssh:") else each for each in rest)]


def follow(command: str, device: str) -> None:
    """One command of a tutorial."""
    if any(words in command for words in LATER):
        return
    words = arguments(command)
    target = command.partition(" > ")[2].strip()
    if words[0] == "python":
        output = by_python(words[1:])
    elif words[0] == "ampere":
        words = [sys.executable if each == "python" else each for each in words[1:]]
        done = run(*simulated(words, device))
        assert done.exit_code == 0, f"{command}\n{done.output}"
        output = done.stdout
    else:
        output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    if target:
        Path(target).write_text(output, encoding="utf-8")


def by_python(words: list[str]) -> str:
    printed, given = io.StringIO(), sys.argv
    sys.argv = words
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # a script ends, and its files with it
            runpy.run_path(words[0], run_name="__main__")
    finally:
        sys.argv = given
    return printed.getvalue()


def go_through(page: Path, shell: Any, session: Any) -> None:
    for block in blocks(page):
        if block.file:
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            for command in block.commands:
                shell(command)
        else:
            session(block)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("page", TUTORIALS, ids=NAMES)
def test_it_can_be_followed(page: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}

    def session(block: Block) -> None:
        exec(compile(block.text, f"{page.name}:{block.line}", "exec"), names)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        device = DEVICES.get(page.stem, SIMULATED)
        go_through(page, functools.partial(follow, device=device), session)


def test_every_tutorial_has_something_to_follow() -> None:
    assert len(TUTORIALS) == 8
    for page in TUTORIALS:
        assert any(block.language == "sh" for block in blocks(page)), page.name


# --- As they stand, by a shell --------------------------------------------------------------------

# What cannot be as it stands here: a board, ten minutes, a machine with nothing else on it.
MEASURE = ("profile", "survey", "evaluate")
INSTEAD = {
    "--device ssh:nano": "--device local",
    "--time-limit 600": "--time-limit 60",
    "time_limit_s=60": "time_limit_s=60, effort=ampere.Effort(accept_busy=True)",
}


def instead(text: str) -> str:
    for words, others in INSTEAD.items():
        text = text.replace(words, others)
    return text


def by_shell(command: str) -> str:
    command = instead(command)
    name = command.partition(" ")[2].partition(" ")[0]
    if command.startswith("ampere ") and (name in MEASURE or "--verify" in command):
        command += " --accept-busy"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", TUTORIALS, ids=NAMES)
def test_it_can_be_followed_as_it_stands(page: Path) -> None:
    session: list[str] = []

    def python(block: Block) -> None:
        session.append(instead(block.text))  # each needs what those before it have made
        Path("session.py").write_text("\n".join(session), encoding="utf-8")
        by_shell("python session.py")

    go_through(page, by_shell, python)
