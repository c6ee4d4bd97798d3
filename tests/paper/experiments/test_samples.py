"""The first measurements of a profile."""

from __future__ import annotations

from ampere.records.journal import read_journal
from ampere_paper.experiments.samples import first_points

from ..small import KEPT


def test_the_first_points_of_each_kind() -> None:
    _, rows = read_journal(KEPT / "journals" / "xavier-cnn5-paper.ampere.gz")
    few = first_points(rows, 2)
    assert 0 < len(few) < len(rows)
    assert [row for row in rows if row in few] == few
