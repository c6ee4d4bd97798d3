"""Spans, verdicts and cells."""

from __future__ import annotations

from ampere_paper.experiments.words import cell, holds, span


def test_words() -> None:
    assert span([1.0, 2.04]) == "1.0 to 2.0 %"
    assert span([1.0, 1.01]) == "1.0 %"
    assert span([3], "", ".0f") == "3"
    assert holds([True, True]) == "the claim holds on all 2 devices"
    assert holds([False, False]) == "the claim holds on none of 2 devices"
    assert holds([True, False], "pair") == "the claim holds on 1 of 2 pairs"
    assert holds([False]) == "the claim does not hold on the one device looked at"
    assert (cell(None), cell(1.25)) == ("–", "1.2")
