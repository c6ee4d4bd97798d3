"""Commands of other packages: found by their entry points, and harmless when they are broken."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

import pytest

from cli.runner import ampere_process

SAMPLE = '''
"""A package that adds a command."""
from dataclasses import dataclass
from typing import Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import AsJson
from ampere.cli.shell import json_text
from ampere.errors import DataError


@dataclass(frozen=True)
class Tone:
    loud: Annotated[bool, typer.Option("--loud", help="In capitals.")] = False


def greet(
    name: Annotated[str, typer.Argument(help="Whom.")], tone: Tone = Tone(), as_json: AsJson = False
) -> str:
    """Greet somebody."""
    if name == "nobody":
        raise DataError("there is nobody to greet")
    text = f"hello {name}"
    text = text.upper() if tone.loud else text
    return json_text({"said": text}) if as_json else text


GREET = Command(greet, "ampere greet Ada --loud")
'''


class Install(Protocol):
    """Installs a package that registers one command."""

    def __call__(self, name: str, value: str, code: str = "") -> None: ...


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """As pip would, for processes that are started afterwards."""
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))

    def install(name: str, value: str, code: str = "") -> None:
        module = value.partition(":")[0]
        if code:
            (tmp_path / f"{module}.py").write_text(code)
        metadata = tmp_path / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[ampere.commands]\n{name} = {value}\n")

    return install


def test_a_package_adds_a_command_with_all_that_ours_have(install: Install) -> None:
    install("greet", "sample_greeting:GREET", SAMPLE)
    done = ampere_process("greet", "Ada", "--loud", "--json")
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"said": "HELLO ADA"}\n', "")
    assert "\n  greet  " in ampere_process("--help").stdout
    helped = ampere_process("greet", "--help").stdout
    assert "--loud" in helped and "    ampere greet Ada --loud" in helped
    refused = ampere_process("greet", "nobody")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "error: there is nobody to greet\n"


@pytest.mark.parametrize(
    ("value", "code", "says"),
    [
        (
            "sample_broken:GREET",
            "raise RuntimeError('no\\nluck')",
            "warning: the command greet (sample_broken:GREET) cannot be loaded: no luck",
        ),
        (
            "sample_absent:GREET",
            "",
            "warning: the command greet (sample_absent:GREET) cannot be loaded:"
            " No module named 'sample_absent'",
        ),
        (
            "sample_without:GREET",
            "pass",
            "warning: the command greet (sample_without:GREET) cannot be loaded:"
            " module 'sample_without' has no attribute 'GREET'",
        ),
        (
            "sample_function:greet",
            "def greet(): return 'hello'",
            "warning: sample_function:greet is not an ampere.cli.command.Command: left out",
        ),
    ],
)
def test_a_command_that_cannot_be_had_is_a_line_and_others_work(
    install: Install, value: str, code: str, says: str
) -> None:
    install("greet", value, code)
    done = ampere_process("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("ampere ")
    assert done.stderr == f"{says}\n"
    assert ampere_process("greet").returncode == 2


def test_a_command_may_not_take_the_place_of_ours(install: Install) -> None:
    code = SAMPLE.replace("greet", "check").replace("GREET", "CHECK")
    install("check", "sample_check:CHECK", code)
    done = ampere_process("check", "--help")
    assert done.returncode == 0
    assert "See whether this machine is fit for measuring" in done.stdout
    assert done.stderr == (
        "warning: the command check (sample_check:CHECK) is left out: there is one of that name\n"
    )


def test_the_papers_command_is_found_by_its_entry_point() -> None:
    pytest.importorskip("ampere_paper")
    assert "\n  reproduce  " in ampere_process("--help").stdout
