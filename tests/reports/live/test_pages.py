"""Pages of runs before any browser sees them: what they say, and that text stays text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import pytest

from ampere.errors import DataError
from ampere.gates.story import Event, Part, Start, Status
from ampere.meters.base import Provenance
from ampere.reports.live.desk import ALL, Desk, save_snapshot
from ampere.reports.live.page import UPLOT, LivePage
from ampere.reports.live.watch import Watch
from reported import HOSTILE
from reports.page_reader import Reader
from told_runs import BEGUN, append, finished, looks, started, write_run

NOW = BEGUN.timestamp() + 600


def page_of(folder: Path, events: list[Event], more: str = "") -> LivePage:
    path = write_run(folder, events)
    with path.open("a") as file:
        file.write(more)
    watch = Watch([folder], clock=lambda: NOW)
    watch.catch_up()
    page = Desk(watch).page(ALL)
    assert page is not None
    return page


def read(page: LivePage) -> Reader:
    return Reader(re.sub(r"(?s)(<style>|<script>).*?(</)", r"\1\2", page.html("live", "/all")))


def test_a_page_says_what_its_joules_are_at_every_place(tmp_path: Path) -> None:
    for provenance in Provenance:
        told = [replace(each, provenance=provenance) for each in looks(until=600)]
        page = page_of(tmp_path / provenance, [started(provenance=provenance), *told])
        text = read(page).text
        assert page.origin == f"Joules are {provenance.origin}."
        assert text.count(provenance.origin) == 5  # the bar, three charts, the facts
        assert ("not measured" in text) == (provenance.metered != "measured")


def test_a_page_has_the_numbers_of_a_run(tmp_path: Path) -> None:
    rates = {"carbon_g_per_kwh": 56.0, "price_per_kwh": 0.3, "currency": "EUR"}
    page = page_of(tmp_path, [started(**rates), *looks(until=1000)])
    assert page.title == "cnn5 on digits"
    assert dict((meaning, number) for number, meaning in page.highlights) == {
        "spent, 47.3 % of the budget": "2.36 Wh",
        "forecast in all; 90 % interval 4.64 to 4.9 Wh": "4.77 Wh",
        "now": "9.98 W",
        "of 2,000 steps": "1,000",
        "running time; about 15 min 22 s left, at the pace so far": "15 min 22 s",
        "so far, at 56 g/kWh": "0.132 gCO₂e",
        "so far, at 0.3 EUR/kWh": "0.000709 EUR",
    }
    keys = [panel.key for panel in page.panels]
    assert keys == ["budget", "spent", "watts", "layers", "notes", "run"]
    assert "conv3" in read(page).text and "may exceed its budget" in read(page).text


def test_a_forecast_far_beyond_the_budget_is_said(tmp_path: Path) -> None:
    far = replace(next(iter(looks(until=10))), forecast_j=90_000.0, forecast_j_interval=None)
    text = read(page_of(tmp_path, [started(name="python -c\n  train"), far])).text
    assert "with its 90 % interval, which is beyond 15 Wh: not drawn" in text
    assert "python -c train" in text


def test_grams_and_money_follow_the_looks_if_they_tell_them(tmp_path: Path) -> None:
    *told, last = looks(until=1000)
    last = replace(last, spent_gco2e=1500.0, spent_cost=2.0)
    page = page_of(tmp_path, [started(), *told, last])
    assert [number for number, _ in page.highlights][-2:] == ["1.5 kgCO₂e", "2"]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [started()],
        [started(budget_j=None, budget="", steps=None, layers=(), estimate_j=None)],
        [started(estimate_j_interval=None)],
        [*looks(until=10)],
        [replace(each, power_w=None, forecast_j=None) for each in looks(until=50)],
        [replace(each, spent_j=0.0, forecast_j=0.0) for each in looks(until=50)],
        [replace(each, spent_j=1e30, forecast_j=1e30, power_w=1e30) for each in looks(until=50)],
        [started(layers=tuple(Part(f"l{n}", 0.0) for n in range(300)))],
        finished(),
    ],
)
def test_a_page_of_whatever_is_known(tmp_path: Path, events: list[Event]) -> None:
    page = page_of(tmp_path, events)
    reader = read(page)
    assert reader.open == []
    for tag, attributes in reader.tags:
        assert "style" not in attributes, tag  # our own policy forbids it
        assert "nan" not in (attributes.get("width") or "")
    json.dumps(page.pieces(), allow_nan=False)


def test_damage_is_one_line_and_the_rest_is_shown(tmp_path: Path) -> None:
    page = page_of(tmp_path, [started(), *looks(until=600)], "{]\n\nnonsense\n")
    text = read(page).text
    assert "2 lines cannot be read and left out; line 62: not JSON" in text
    assert "would end at" in text


def hostile_run() -> list[Event]:
    first = started(
        run=HOSTILE[:90],
        name=HOSTILE,
        device=HOSTILE,
        meter=HOSTILE,
        budget=HOSTILE,
        notes=(HOSTILE,),
        currency="<b>",
        price_per_kwh=1.0,
        time=HOSTILE[:90],
        layers=(Part(HOSTILE, 2.0),),
    )
    return [first, *(replace(each, notes=(HOSTILE,)) for each in looks(until=40))]


def harmless(events: list[Event]) -> list[Event]:
    first, *rest = events
    assert isinstance(first, Start)
    plain = replace(
        first, run="r", name="n", device="d", meter="m", budget="b", notes=("x",), currency="EUR",
        time="t", layers=(Part("l", 2.0),),
    )  # fmt: skip
    return [
        plain,
        *(replace(each, notes=("x",)) for each in rest if isinstance(each, Status)),
    ]


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    page = page_of(tmp_path / "a", hostile_run())
    html = page.html("live", "/all")
    hostile, plain = read(page), read(page_of(tmp_path / "b", harmless(hostile_run())))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    assert [sorted(each) for _, each in hostile.tags] == [sorted(each) for _, each in plain.tags]
    assert hostile.text.count("alert(1)") >= 9
    assert "\x1b" not in html and "\u202e" not in html and "\x00" not in html
    pieces = json.dumps({**page.pieces(), "title": ""})  # which is set as text
    assert "<img src" not in pieces and "<script" not in pieces


def test_many_runs_side_by_side(tmp_path: Path) -> None:
    write_run(tmp_path / "a", finished())
    write_run(tmp_path / "b", [started(run="b", name="other"), *looks(until=600)])
    just_now = (BEGUN + timedelta(seconds=590)).isoformat()
    counted = started(run="c", provenance=Provenance.COUNTER, time=just_now)
    write_run(tmp_path / "c", [counted])
    write_run(tmp_path / "d", [])
    watch = Watch([tmp_path], clock=lambda: NOW)
    desk = Desk(watch)
    page = desk.page(ALL)
    assert page is not None
    assert page.title == "4 runs"
    assert [each.word for each in page.standings] == ["2 running", "1 finished", "1 waiting"]
    assert page.origin == (
        "Joules differ: some are measured by a hardware counter; some are simulated, not measured."
    )
    *cards, together = page.panels
    assert [card.section.title for card in cards] == [
        "cnn5 on digits · a",
        "other · b",
        "cnn5 on digits · c",
        "d",
    ]
    assert together.key == "together"
    for card in cards:
        assert desk.page(card.href.removeprefix("/run/")) is not None
    assert desk.page("nothing") is None and desk.pieces("nothing") is None


def test_pieces_are_those_of_the_page(tmp_path: Path) -> None:
    path = write_run(tmp_path, [started(), *looks(until=600)])
    desk = Desk(Watch([tmp_path], clock=lambda: NOW))
    pieces = json.loads(desk.pieces(ALL) or "")
    html = desk.page(ALL).html("live", "/all")  # type: ignore[union-attr]
    for piece in (pieces["bar"], pieces["head"], *(html for _, html in pieces["panels"])):
        assert piece in html
    append(path, *looks(until=10))
    assert desk.pieces(ALL) == json.dumps(pieces)  # made at most twice a second


def test_a_snapshot_is_a_page_without_a_server(tmp_path: Path) -> None:
    write_run(tmp_path / "a", finished())
    save_snapshot(Watch([tmp_path / "a"], clock=lambda: NOW), tmp_path / "a.html")
    html = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "as of 2026-11-17 09:10:00 UTC" in html and "data-live=" not in html
    assert "connect-src" not in html
    write_run(tmp_path / "b", [started()])
    save_snapshot(Watch([tmp_path], clock=lambda: NOW), tmp_path / "b.html")
    assert 'href="/run' not in (tmp_path / "b.html").read_text(encoding="utf-8")
    with pytest.raises(DataError, match="exists"):
        save_snapshot(Watch([tmp_path]), tmp_path / "b.html")


def test_a_snapshot_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no run to show: .*runs/gate.jsonl: it is not there yet"):
        save_snapshot(Watch([tmp_path / "runs"]), tmp_path / "a.html")
    (tmp_path / "x.jsonl").write_text("5\n")
    with pytest.raises(DataError, match=r"x.jsonl: line 1: it must be an object"):
        save_snapshot(Watch([tmp_path / "x.jsonl"]), tmp_path / "a.html")


def test_the_charts_are_drawn_by_what_their_note_says() -> None:
    home = files("ampere.reports") / "live" / "uplot"
    script = (home / "uPlot.iife.min.js").read_bytes()
    note = (home / "README.md").read_text(encoding="utf-8")
    assert sha256(script).hexdigest() in note and f"uPlot {UPLOT} " in note
    assert f"(v{UPLOT})".encode() in script[:80]
    assert "MIT" in (home / "LICENSE").read_text(encoding="utf-8")
