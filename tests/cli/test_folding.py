"""Folding: what a terminal of 80 columns gets of long lines and wide tables."""

from __future__ import annotations

import os
import re
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.cli.folding import folded
from ampere.core.page import table
from cli.runner import run
from golden_files import agreed

WORDS = st.text("abcxyz(),=", min_size=1, max_size=9)
PROSE = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
NUMBERS = st.integers(0, 10**6).map(str)


def shown(text: str, columns: int) -> list[str]:
    with mock.patch.dict(os.environ, {"COLUMNS": str(columns)}):
        return folded(text).splitlines()


def test_facts_go_on_below_their_text() -> None:
    row = "conv  16  32  64  0.1 mJ  0.2 mJ"
    numbers = '{"energy_j": 12345678901234567890}'
    assert shown(f"warning  it is a long story\n{row}\n{numbers}", 24) == [
        "warning  it is a long",
        "         story",
        row,
        numbers,
    ]
    assert shown("error: nothing is known of it", 24) == ["error: nothing is known", "  of it"]


def test_a_fact_with_two_names_goes_on_below_its_text() -> None:
    lines = ["note  mnn  not installed", "           here"]
    assert shown("note  mnn  not installed here", 26) == lines


def test_a_command_to_be_copied_stays_whole() -> None:
    command = "  ampere estimate zoo:lenet5 --profile lenet5.ampere"
    assert shown(f"next:\n{command}", 20) == ["next:", command]


def test_columns_of_words_become_narrower_and_numbers_stay() -> None:
    rows = [("zoo:cnn5(channels=[16, 32])", "1,234", "a long title"), ("zoo:lstm", "5", "short")]
    text = table(("model", "mean error", ""), rows, "<><", total=("total", "1,239", ""))
    assert shown(f"Models\n\n{text}", 40) == [
        "Models",
        "",
        "model                      mean",
        "                          error",
        "────────────────────────────────────────",
        "zoo:cnn5(channels=[16,    1,234  a long",
        "32])                             title",
        "zoo:lstm                      5  short",
        "────────────────────────────────────────",
        "total                     1,239",
    ]


def test_a_table_that_cannot_be_narrow_stays() -> None:
    text = table(("a", "b"), [("x" * 30, "1" * 30)], "<>")
    assert shown(text, 40) == text.splitlines()


@given(
    st.lists(st.tuples(PROSE, NUMBERS, PROSE), min_size=1, max_size=5),
    st.integers(40, 80),
)
def test_nothing_is_lost_and_it_fits(rows: list[tuple[str, str, str]], columns: int) -> None:
    text = table(("name", "joules", "what it is"), rows, "<><")
    lines = shown(text, columns)
    assert max(map(len, lines)) <= columns
    assert sorted(" ".join(lines).replace("─", "").split()) == sorted(text.replace("─", "").split())


@pytest.mark.parametrize("command", ["zoo", "runtimes"])
def test_what_is_listed_fits_80_columns(command: str) -> None:
    whole = run(command).stdout
    lines = shown(whole, 80)
    assert max(map(len, whole.splitlines())) > 80 >= max(map(len, lines))


def test_as_agreed() -> None:
    text = "\n".join(shown(run("zoo").stdout, 80)) + "\n"
    assert not re.search(r"[^\n]{81}", text)
    assert text == agreed("zoo_80.txt", text)


def test_operations_that_are_joined_are_divided_behind_a_plus() -> None:
    rows = [("1", "+131.9 %", "hidden conv2d3x3+batchnorm2d+relu @inx8x8")]
    assert shown(table(("points", "error", "kind"), rows, ">><"), 40)[2:] == [
        "     1  +131.9 %  hidden conv2d3x3+",
        "                  batchnorm2d+relu",
        "                  @inx8x8",
    ]
