"""Every measured number on the pages stands under a command that makes it, with a date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Pages of results, whole; of pages that explain, the sections that tell results.
WHOLE = (ROOT / "docs" / "results.md", *sorted((ROOT / "docs" / "paper").glob("*.md")))
SECTIONS = {
    ROOT / "README.md": ("How good it is",),
    ROOT / "docs" / "pruning.md": ("How channels are followed", "How well it works"),
}
FIGURE = re.compile(r"\d ?%|\d (?:ms|s|seconds|million)\b|\| [\d.]+ \|")
COMMAND = re.compile(r"`((?:python (?:benchmarks|paper/examples)/|make |ampere reproduce)[^`]*)`")
DATE = re.compile(r"20\d\d-\d\d-\d\d")


def sections(page: Path) -> Iterator[tuple[str, str]]:
    """Headings and what stands under each; the first is what stands above all of them."""
    head, *others = re.split(r"^##+ ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    yield "", head
    for each in others:
        heading, _, text = each.partition("\n")
        yield heading, text


def results() -> Iterator[tuple[str, str, str]]:
    """Name of page and section, its text, and what stands above all sections of the page."""
    for page in (*WHOLE, *SECTIONS):
        every = list(sections(page))
        head = every[0][1] if page in WHOLE else ""
        for heading, text in every:
            if page in WHOLE or heading in SECTIONS[page]:
                yield f"{page.relative_to(ROOT)}: {heading}", text, head


RESULTS = {name: (text, head) for name, text, head in results() if FIGURE.search(text)}


@pytest.mark.parametrize("name", RESULTS)
def test_numbers_stand_under_a_command_and_a_date(name: str) -> None:
    named = any(COMMAND.search(each) and DATE.search(each) for each in RESULTS[name])
    assert named, f"{name}: say which command made its numbers, and when"


def test_all_sections_that_tell_results_are_looked_at() -> None:
    for page, headings in SECTIONS.items():
        assert set(headings) <= {heading for heading, _ in sections(page)}


def test_every_command_is_there_and_takes_its_options() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    reproduce = ROOT / "paper" / "src" / "ampere_paper" / "command.py"
    for page in (*WHOLE, *SECTIONS):
        for command in COMMAND.findall(page.read_text(encoding="utf-8")):
            program, first, *_ = command.split()
            if program == "make":
                assert re.search(rf"^{re.escape(first)}:", makefile, re.MULTILINE), command
                continue
            script = reproduce if program == "ampere" else ROOT / first
            assert script.is_file(), command
            source = script.read_text(encoding="utf-8")
            for option in re.findall(r"--[a-z-]+", command):
                name = option.removeprefix("--").replace("-", "_")
                assert option in source or re.search(rf"\b{name}: ", source), command
