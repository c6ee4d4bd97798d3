"""Every method side by side."""

from __future__ import annotations

from ampere_paper.results.pages import side_by_side


def test_side_by_side_sets_missing_ones_apart() -> None:
    row = {"family": "resnet", "title": "TX2", "provenance": "simulated", "coverage_90": 0.9,
           "mape": {"paper": 5.0}}  # fmt: skip
    (cells,) = side_by_side([row]).rows
    assert cells[:5] == ("ResNets", "TX2", "simulated", "–", "5.0")
    assert set(cells[5:-1]) == {"–"}
