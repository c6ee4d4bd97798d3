"""The application: light, with help and an example for every command, and nothing unknown."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import ampere
from cli.runner import ampere_process, check_bad_line, run
from golden_files import agreed

COMMANDS = (
    *("meters", "layers", "profile", "estimate", "measure", "evaluate", "check", "ask", "tell"),
    *("align", "pulse", "calibrate", "prune", "report", "zoo", "survey", "reproduce", "card"),
    *("gate", "run", "watch", "schedule", "runtimes", "doctor"),
)
GROUPS = {
    "devices": ("list", "show", "add", "compare"),
    "fleet": ("up", "join", "run", "status"),
}


HEAVY = ("torch", "numpy", "scipy", "sklearn", "rich")


def test_help_and_version_are_light() -> None:
    script = f"""
import sys
from typer.testing import CliRunner
from ampere.cli.app import app
names = {(*COMMANDS, *GROUPS)!r}
for line in [["--help"], ["--version"], *([name, "--help"] for name in names)]:
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    print(result.stdout)
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "[]"
    assert f"ampere {ampere.__version__}" in done.stdout
    for name in (*COMMANDS, *GROUPS):
        assert f"\n  {name}  " in done.stdout
        assert f"    ampere {name}" in done.stdout, f"{name} --help has no example"


def test_python_m_ampere_is_the_command_line() -> None:
    done = ampere_process("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ampere {ampere.__version__}\n", "")


def test_every_command_has_json() -> None:
    for name in COMMANDS:
        if name not in ("ask", "run"):  # it says nothing else; a program says its own
            assert "--json" in run(name, "--help").stdout
    for group, names in GROUPS.items():
        for name in names:
            shown = run(group, name, "--help").stdout
            serves = name in ("up", "join")  # until somebody ends them
            assert serves or "--json" in shown
            assert f"    ampere {group} {name}" in shown


def test_an_unknown_command_is_said() -> None:
    check_bad_line("magic", 2, "magic")


def test_alone_it_greets() -> None:
    shown = run()
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout == agreed("greeting.txt", shown.stdout)
    done = ampere_process()
    assert (done.returncode, done.stdout, done.stderr) == (0, shown.stdout, "")


def test_a_group_alone_shows_its_help() -> None:
    shown = run("fleet")
    assert "Usage: " in shown.output
    assert "  status  " in shown.output


def test_a_shell_is_told_how_to_complete() -> None:
    assert "--install-completion" in run("--help").stdout
    assert "--install-completion" not in run("fleet", "--help").stdout
    asked = {**os.environ, "_AMPERE_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    done = ampere_process(env={**asked, "COMP_WORDS": "ampere est"})
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["estimate"], "")
    done = ampere_process(env={**os.environ, "_AMPERE_COMPLETE": "source_bash"})
    assert done.returncode == 0
    assert "_AMPERE_COMPLETE=complete_bash" in done.stdout


def test_quiet_and_verbose_exclude_each_other() -> None:
    check_bad_line("--quiet --verbose zoo", 2, "give either --quiet or --verbose")


def test_what_commands_are_for_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 80 columns; the first line of a docstring that is longer would end in dots."""
    monkeypatch.setenv("COLUMNS", "80")
    for line in (["--help"], ["devices", "--help"], ["fleet", "--help"]):
        assert "..." not in run(*line).stdout.partition("Commands:")[2]
