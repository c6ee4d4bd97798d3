"""What pages show of a kept profile is what the present code prints of it."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from cli.runner import run
from pages import ROOT

RESULTS = Path("benchmarks/results")
LENET = RESULTS / "additive_lenet5_seed0.ampere.gz"
# A page, the profile that it names, the first words of what it shows, and the command line.
SHOWN = [
    (
        "docs/start.md",
        LENET,
        "2,000 training steps: ",
        "estimate zoo:lenet5(channels=[3,8]) --steps 2000 --battery-wh 15",
    ),
    (
        "docs/jobs.md",
        LENET,
        "18,000 training steps with ",
        "estimate zoo:lenet5 --epochs 3 --samples 60000 --validation-samples 10000"
        " --data-s-per-batch 0.002",
    ),
    pytest.param(
        "docs/tutorials/laptop.md",
        RESULTS / "any_model_2_survey.ampere.gz",
        "2,000 training steps: ",
        "estimate zoo:resnet --steps 2000",
        marks=pytest.mark.slow,  # a survey is fitted
    ),
]
NUMBERS = re.compile(r"\d[\d,]*(?:\.\d+)?")


def numbers(line: str) -> list[float]:
    return [float(each.replace(",", "")) for each in NUMBERS.findall(line)]


def alike(shown: str, printed: str) -> bool:
    """The same words; digits may round differently elsewhere."""
    if NUMBERS.sub("#", shown).split() != NUMBERS.sub("#", printed).split():
        return False
    pairs = zip(numbers(shown), numbers(printed), strict=True)
    return all(ours == pytest.approx(theirs, rel=0.02, abs=0.11) for ours, theirs in pairs)


@pytest.mark.parametrize(("page", "kept", "first", "line"), SHOWN)
def test_what_a_page_shows_is_what_is_printed(
    page: str, kept: Path, first: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert kept.as_posix() in text
    begin = text.index(f"\n```\n{first}") + 5 if f"\n```\n{first}" in text else text.index(first)
    shown = re.split(r"\n```|\n(?=\()", text[begin:])[0]
    monkeypatch.chdir(tmp_path)
    Path("kept.ampere").write_bytes(gzip.decompress((ROOT / kept).read_bytes()))
    result = run(*line.split(), "--profile", "kept.ampere")
    assert result.exit_code == 0, result.stderr
    printed = result.stdout.splitlines()
    for each in (each.strip() for each in shown.splitlines()):
        if each and each != "..." and not each.startswith("─"):
            assert any(alike(each, other) for other in printed), each
