"""Public models on the command line: what is said of one becomes part of its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.runner import answer, check_bad_line, run
from pytorch.public_fakes import TIMM, TRANSFORMERS, installed


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with (
        installed("timm", TIMM, tmp_path, monkeypatch),
        installed("transformers", TRANSFORMERS, tmp_path, monkeypatch),
    ):
        yield


def test_layers() -> None:
    row = answer(run("layers", "timm:tiny", "--batch-size", 2, "--json"))
    assert row["params"] == 3 * 8 * 9 + 8 + 8 * 4 + 4
    first, last = answer(run("layers", "hf:writer", "--sequence", 16, "--json"))["layers"]
    assert "@16 b10" in first["kind"]
    assert "cross_entropy" in last["kind"]


@pytest.mark.parametrize(
    ("model", "options", "name"),
    [
        ("timm:tiny", (), "timm:tiny"),
        ("hf:writer", ("--sequence", 16), "hf:writer(sequence=16)"),
        ("hf:writer(hidden=4)", ("--sequence", 16), "hf:writer(hidden=4, sequence=16)"),
    ],
)
def test_a_profile_knows_the_whole_name(
    model: str, options: tuple[object, ...], name: str, tmp_path: Path
) -> None:
    simulated = ("--device", "simulated:xavier")
    given = (model, *options, "--profile", "p.ampere")
    result = run("profile", *given, "--batch-size", 2, *simulated, "--measurements", 3)
    assert result.exit_code == 0, result.stderr
    assert f"made for   {name}\n" in result.stdout
    assert answer(run("estimate", *given, "--json"))["energy_j"] > 0


def test_so_does_whoever_measures_it_again() -> None:
    simulated = ("--device", "simulated:xavier")
    given = ("hf:writer", "--sequence", 16, "--profile", "p.ampere")
    run("profile", *given, "--batch-size", 2, *simulated, "--measurements", 3)
    evaluated = run("evaluate", *given, *simulated, "--models", 1, "--json")
    assert len(answer(evaluated)["models"]) == 1
    sharpened = run("estimate", *given, "--after-steps", 2, *simulated, "--json")
    assert answer(sharpened)["energy_j"] > 0


def test_a_pruned_one_is_built_by_its_name() -> None:
    profiled = ("timm:tiny", "--profile", "p.ampere")
    run("profile", *profiled, "--device", "simulated:xavier", "--measurements", 3)
    cut = ("--budget", "100%", "--confidence", 0.5, "-o", "cut")
    result = run("prune", *profiled, *cut)
    assert result.exit_code == 0, result.stderr
    assert 'build_model("timm:tiny")' in Path("cut/model.py").read_text()


def test_what_a_profile_was_made_for_is_not_built_by_itself(tmp_path: Path) -> None:
    simulated = ("--device", "simulated:xavier")
    run("profile", "timm:tiny", "--profile", "p.ampere", *simulated, "--measurements", 3)
    (tmp_path / "timm.py").write_text("raise SystemExit('a file chose what runs')")
    result = run("report", "p.ampere", "-o", "page.html")
    assert result.exit_code == 0, result.stderr
    assert "the largest profiled network" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("layers timm:tinny", 1, "did you mean tiny"),
        ("layers hf:write", 1, "did you mean writer?"),
        ("layers hf:writer --sequence 65", 1, "takes 64 tokens at most"),
        ("layers hf:writer --task masked-lm", 1, "it has causal-lm, classification"),
        ("measure timm:tinny --device simulated:xavier", 1, "did you mean tiny"),
        ("estimate --layers x.json --profile p.ampere --task ctc", 2, "go with hf:MODEL"),
        ("ask --profile p.ampere --sequence 8", 2, "go with hf:MODEL"),
        ("devices compare . zoo:lenet5 --sequence 8", 2, "go with hf:MODEL"),
    ],
)
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)
