from __future__ import annotations

from xml.etree import ElementTree

import pytest

from ampere.estimators.base import usable
from ampere.reports.html import Report
from ampere.reports.parts import Chooser, Toggles
from ampere.reports.profile_page import report
from reported import SHARES, made_up
from reports.page_reader import table_of


@pytest.fixture(scope="module")
def page() -> Report:
    return report(made_up())


def test_bars_add_up_and_can_be_toggled(page: Report) -> None:
    (toggles,) = [p for section in page.sections for p in section.parts if isinstance(p, Toggles)]
    root = ElementTree.fromstring(toggles.figure.svg)
    rows = [each for each in root.iter() if each.get("class") == "row"]
    largest = max(usable(made_up().measurements), key=lambda row: row.energy_j_per_step)
    said = made_up().estimate(largest.layers)
    assert sum(float(row.get("data-j", "")) for row in rows) == pytest.approx(said.energy_j)
    assert {row.get("data-group") for row in rows} == {str(n) for n in range(len(toggles.groups))}
    assert toggles.groups[-1] == "the step itself"
    shares = [row[3] for row in table_of(page, "Where the joules go").rows]
    assert sum(float(share.strip("<").split()[0]) for share in shares) == pytest.approx(
        100, abs=0.5
    )


def test_stages_are_shares_of_what_was_run_alone(page: Report) -> None:
    rows = table_of(page, "Where the joules go", 1).rows
    assert rows == [("hidden linear", *(f"{100 * share:.0f}" for share in SHARES.values()))]


def test_widths_are_chosen_among(page: Report) -> None:
    (chooser,) = [p for section in page.sections for p in section.parts if isinstance(p, Chooser)]
    assert [figure.label for figure in chooser.figures].count("hidden") == 1
    assert sum('class="chart surface"' in figure.svg for figure in chooser.figures) == 1
    assert all("inferred" in figure.caption for figure in chooser.figures)
