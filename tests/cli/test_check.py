"""`ampere check`: both verdicts."""

from __future__ import annotations

import pytest

from cli.runner import answer, check_bad_line, run
from fakes import FakeDevice


def test_check_says_both_verdicts(device: FakeDevice) -> None:
    row = answer(run("check", "--json"))
    assert (row["quiet"], row["additive"], row["provenance"]) == (True, True, "simulated")
    assert len(row["stacked_j"]) == len(row["depths"]) == 7
    result = run("check")
    assert "quiet     yes" in result.stdout
    assert "additive  yes" in result.stdout
    assert "joules are simulated, not measured" in result.stdout
    assert "19/19 done" in result.stderr  # seven stacks, three orders, three of them thrice more
    assert row["repeats"]["degrees"] == 6  # three in three sittings
    assert row["at_once"]["degrees"] == 3
    assert 60 <= row["repeats"]["apart_s"] < 90  # by the fake's clock, which has paused
    assert row["at_once"]["apart_s"] < 30


def test_a_bad_verdict_is_still_an_answer(device: FakeDevice) -> None:
    device._noise = 1.0
    result = run("check")
    assert result.exit_code == 0
    assert "quiet     no" in result.stdout


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("check --device simulated:xavier --threads 2", 1, "leave yours out"),
    ],
)
@pytest.mark.usefixtures("files")
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)
