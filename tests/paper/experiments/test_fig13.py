"""A study on the page of its experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampere_paper.experiments.fig13 import Fig13
from ampere_paper.figures.style import styled

from ..figures.test_training import made_up

pytest.importorskip("matplotlib")


def test_a_study_is_drawn_and_told(tmp_path: Path) -> None:
    place = {"bench": "threads1", "title": "1 thread", "provenance": "modelled", "seed": 0}
    refused = {"metered": {"flops": 0.7}, "estimated": {"flops": 0.6}, "widths": {"flops": {}},
               "refused": {"energy": "too little"}}  # fmt: skip
    data = {"cuts": [{**place, **refused}], "study": made_up().to_json(), "untrained": None}
    with styled():
        assert set(Fig13().draw(data)) == {"fig13", "fig13_training"}
    said = Fig13().sentence(data)
    assert "On 1 thread even the smallest CNN takes more than the budget" in said
    assert "energy-guided 49.0 % of the energy at 90.0 % accuracy" in said
    assert "not possible" in Fig13().table(data).text()
