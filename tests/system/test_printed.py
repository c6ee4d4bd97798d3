"""What is printed: the pages of every result against golden files."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.fingerprint import Fingerprint
from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.core.rates import Rate
from ampere.estimators.base import Cost, Line
from ampere.evaluation.check import Check
from ampere.evaluation.evaluation import Evaluation, ModelResult
from ampere.meters.base import Provenance
from ampere.profiles.estimate import Estimate
from ampere.profiles.profile import Profile
from ampere.records.failure import Failure
from ampere.records.journal import Header
from ampere.records.measurement import Measurement
from ampere.records.repeats import Repeats
from golden_files import agreed

CONV1 = LayerKind("first conv2d3x3+relu @3x32x32 b10", Role.FIRST, "conv2d", {"batch": 10})
CONV2 = LayerKind("hidden conv2d3x3+relu @inx32x32 b10", Role.HIDDEN, "conv2d", {"batch": 10})
FC = LayerKind("last flatten+linear @inx32x32 b10", Role.LAST, "linear", {"batch": 10})


def layer(name: str, kind: LayerKind, count: int = 1, **widths: int) -> Layer:
    return Layer(name, kind, Widths({k.rstrip("_"): v for k, v in widths.items()}), count=count)


def line(of: Layer, energy_j: float, std: float, time_s: float | None) -> Line:
    return Line(of, Cost(energy_j, std, time_s, None if time_s is None else 0.1 * time_s))


def an_estimate(**changes: object) -> Estimate:
    fields: dict[str, object] = {
        "lines": (
            line(layer("stem", CONV1, out=16), 12.25, 0.5, 3.0),
            line(layer("block1", CONV2, in_=16, out=16), 20.5, 1.0, 5.0),
            line(layer("block2", CONV2, in_=16, out=16), 20.5, 1.0, 5.0),
            line(layer("block3", CONV2, 2, in_=16, out=16), 41.0, 2.0, 10.0),
            line(layer("wide", CONV2, in_=16, out=64), 80.0, 6.0, 18.0),
            line(layer("head", FC, in_=64), 0.03, 0.01, 0.2),
        ),
        "energy_j": 174.28,
        "energy_j_std": 8.0,
        "time_s": 41.2,
        "time_s_std": 2.0,
        "steps": 2000,
        "device": "pi, Cortex-A72, 4 cores, 4 threads, cpu, torch 2.6.0",
        "provenance": Provenance.MODELLED,
        "battery_wh": 15.0,
        "warnings": ("extrapolated beyond the profiled widths: wide",),
    }
    return Estimate(**{**fields, **changes})


def an_uncovered_estimate() -> Estimate:
    missing = (layer("pool", LayerKind("hidden pool", Role.HIDDEN, "pool"), width=8),) * 2
    return an_estimate(
        lines=(line(layer("stem", CONV1, out=16), 0.0123, 0.0005, None),),
        energy_j=0.0123,
        energy_j_std=0.001,
        time_s=None,
        time_s_std=None,
        steps=1,
        uncovered=missing,
        provenance=Provenance.COUNTER,
        battery_wh=None,
        warnings=("not in the total, the profile does not cover them: pool, pool",),
    )


def a_priced_estimate() -> Estimate:
    carbon = Rate(56.0, "gCO2e", "France 2023, Our World in Data", "France", "FRA")
    return an_estimate(warnings=()).at_rates(carbon, Rate(0.3, "EUR"), 0.0)


def an_evaluation() -> Evaluation:
    metered = (0.010, 0.020, 0.030, 0.040, 0.050, 0.060)
    results = tuple(
        ModelResult(
            f"zoo:cnn5(channels=[{i}])",
            energy_j,
            energy_j / 4,
            energy_j * 1.01,
            energy_j * 0.99,
            {"paper": energy_j * 1.05, "flops": energy_j + 0.01}
            | ({"extrapolation": energy_j * 0.98} if i else {}),
            (energy_j * 0.9, energy_j * (1.2 if i else 0.99)),
            1e6 * i,
        )
        for i, energy_j in enumerate(metered)
    )
    return Evaluation(
        results, ("zoo:cnn5(channels=[9]): out of memory",), 38, 312.4, "pi", Provenance.SENSOR, 95
    )


def a_check() -> Check:
    return Check(
        repeats=Repeats(within=0.043, between=0.021, degrees=6, apart_s=83.0),
        at_once=Repeats(within=0.041, between=0.012, degrees=3, apart_s=9.0),
        foreign_load=0.08,
        advice=("ending other programs: they had 8.0 % of a core meanwhile",),
        depths=(0, 1, 2, 3, 4, 5, 6),
        stacked_j=(0.010, 0.014, 0.018, 0.0221, 0.026, 0.0299, 0.034),
        slope_j=0.004,
        r2=0.99987,
        largest_deviation=0.0045,
        orders_j={"AAB": 0.0201, "ABA": 0.0200, "BAA": 0.0199},
        order_deviation=0.005,
        provenance=Provenance.MODELLED,
        idle_w=2.7,
    )


def a_profile() -> Profile:
    last = [
        Measurement((layer("last", FC, in_=w),), 1e-3 * w, 1e-4 * w, cost_s=30.5) for w in (1, 64)
    ]
    first = [
        Measurement((layer("first", CONV1, out=w), layer("last", FC, in_=w)), 2e-3 * w, 2e-4 * w)
        for w in (1, 64, 20)
    ]
    failed = Measurement(first[0].layers, failed=Failure("out of memory"))
    alone = Measurement(last[0].layers, 1e-4, 1e-5, stage="forward")
    header = Header(
        Fingerprint({"processor": "Cortex-A72", "cores": "4", "threads": "4"}, {"host": "pi"}),
        {"name": "cpu"},
        Provenance.MODELLED,
        model="zoo:cnn5",
    )
    rows = [replace(row, provenance=header.provenance) for row in (*last, *first, failed, alone)]
    return Profile(tuple(rows), header, notes=("the clock was 600 MHz",))


def a_measurement(**changes: object) -> Measurement:
    fields: dict[str, object] = {
        "layers": (layer("a", CONV1, out=16), layer("b", CONV2, 3, in_=16, out=16)),
        "energy_j_per_step": 0.01234,
        "time_s_per_step": 0.0031,
        "spread": 0.018,
        "repeats": 14,
        "provenance": Provenance.MODELLED,
    }
    return Measurement(**{**fields, **changes})


PAGES = {
    "estimate": an_estimate,
    "estimate_uncovered": an_uncovered_estimate,
    "estimate_rates": a_priced_estimate,
    "evaluation": an_evaluation,
    "check": a_check,
    "profile": a_profile,
    "measurement": a_measurement,
    "measurement_failed": lambda: a_measurement(failed=Failure("it hung: no answer within 120 s")),
}


@pytest.mark.parametrize("name", PAGES)
def test_what_is_printed_is_what_was_agreed_on(name: str) -> None:
    shown = repr(PAGES[name]()) + "\n"
    assert shown == agreed(f"{name}.txt", shown)


@pytest.mark.parametrize("name", [name for name in PAGES if "measurement" not in name])
def test_html_is_well_formed_and_says_the_same(name: str) -> None:
    thing = PAGES[name]()
    page = Reader()
    page.feed(thing._repr_html_())
    assert page.open == []
    text = repr(thing)
    assert page.cells
    assert [cell for cell in page.cells if cell not in text] == []


class Reader(HTMLParser):
    """Collects the texts of a page and the tags that were never closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def test_names_of_others_cannot_break_out_of_text_or_html() -> None:
    evil = layer("<script>alert(1)</script>", LayerKind("k", Role.HIDDEN, "\x1b[2J\nop"), out=1)
    estimate = an_estimate(lines=(line(evil, 1.0, 0.1, 1.0),), warnings=("<b>\n",))
    assert "<script>" not in estimate._repr_html_()
    assert "&lt;script&gt;" in estimate._repr_html_()
    assert "\x1b" not in repr(estimate)
    assert len(repr(estimate).splitlines()) == len(repr(an_estimate()).splitlines()) - 3


def columns(text: str) -> tuple[list[list[float]], list[float]]:
    """Energy, standard deviation, share and time of each row, and of the total."""
    lines = text.splitlines()
    top, bottom = (i for i, each in enumerate(lines) if each.startswith("──"))
    numbers = r"([<\d.]+)\s+([<\d.]+)\s+([<\d.]+) %\s+([<\d.]+)$"
    found = [re.search(numbers, each) for each in (*lines[top + 1 : bottom], lines[bottom + 1])]
    rows = [[_number(text) for text in match.groups()] for match in found if match]
    assert len(rows) == bottom - top
    return rows[:-1], rows[-1]


def _number(text: str) -> float:
    return 0.0 if text.startswith("<") else float(text)


@given(
    st.lists(
        st.tuples(st.floats(1e-6, 1e4), st.floats(1e-6, 1e3), st.integers(1, 4)),
        min_size=1,
        max_size=8,
    )
)
def test_the_printed_columns_add_up(drawn: list[tuple[float, float, int]]) -> None:
    lines = tuple(
        line(layer(f"l{i}", CONV2, in_=width, out=width), energy_j, energy_j / 10, time_s)
        for i, (energy_j, time_s, width) in enumerate(drawn)
    )
    text = repr(
        an_estimate(
            lines=lines,
            energy_j=math.fsum(each.cost.energy_j for each in lines),
            time_s=math.fsum(each.cost.time_s for each in lines),
        )
    )
    rows, total = columns(text)
    assert len(rows) == len({width for _, _, width in drawn})
    # Four digits are printed, so a rounded number is off by half a unit of the fourth.
    for i, unit in ((0, 1e-3 * total[0]), (2, 0.1), (3, 1e-3 * total[3])):
        assert math.isclose(
            math.fsum(row[i] for row in rows), total[i], abs_tol=(len(rows) + 1) * unit / 2 + 1e-9
        )
    assert total[2] == 100.0


def test_the_golden_estimate_adds_up() -> None:
    rows, total = columns(repr(an_estimate()))
    assert [row[0] for row in rows] == [12.2, 82.0, 80.0, 0.0]
    assert total == [174.3, 8.0, 100.0, 41.2]


def test_no_estimate_is_called_measured() -> None:
    for provenance in Provenance:
        text = repr(an_estimate(provenance=provenance))
        hardware = provenance.metered == "measured"
        assert ("estimated from joules measured" in text) == hardware
        assert ("not measured" in text) == (not hardware)


def test_a_measurement_is_still_compared_by_value() -> None:
    assert a_measurement() == a_measurement()
    assert a_measurement() != a_measurement(repeats=15)
    assert "\n" not in repr(a_measurement(failed=Failure("two\nlines")))
