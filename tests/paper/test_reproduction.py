"""The paper's figures from one command: data that can be drawn, runs that go on, faults told."""

from __future__ import annotations

import gzip
import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ampere.acquisition.progress import Event
from ampere.devices.simulated import SimulatedDevice
from ampere.errors import DataError
from ampere.meters.base import Provenance
from ampere.records.journal import read_journal
from ampere_paper.experiments import EXPERIMENTS
from ampere_paper.experiments.fig2 import Fig2
from ampere_paper.lab.benches import Bench
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.plans import Plan
from ampere_paper.reproduction import Reproduction, reproduce
from browser import CHROMIUM, PHONE, open_browser, open_file
from published import write_all

from .small import ONE, PLAN, TINY, data_of, numbers

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    """Everything, on two simulated devices."""
    return reproduce(tmp_path_factory.mktemp("results"), PLAN)


def test_every_experiment_has_finite_data_and_a_sentence(done: Reproduction) -> None:
    assert not done.failed
    assert [each.experiment.name for each in done.outcomes] == list(EXPERIMENTS)
    for each in done.outcomes:
        name = each.experiment.name
        if name == "recorded":
            assert each.data is None
            assert "--recorded DIR" in each.finding
            continue
        assert each.data == data_of(done.folder, name)
        found = list(numbers(each.data))
        assert len(found) > 5, name
        assert all(map(math.isfinite, found)), name
        assert each.finding.endswith("."), name
        for word in ("nan", "inf ", "None", "Failed"):
            assert word not in each.finding, each.finding


def test_data_have_the_shape_of_their_figures(done: Reproduction) -> None:
    data = {each.experiment.name: each.data for each in done.outcomes}
    for row in data["fig2"]:
        assert len(row["depths"]) == len(row["energy_j"]) == len(row["neuralpower_j"]) == 7
        assert row["r2"] > 0.9
    for row in data["fig4"]:
        before, after = row["steps"]
        assert len(before["mean_j"]) == len(before["std_j"]) == len(row["grid"])
        assert after["points"] == [*before["points"], before["next"]]
    for row in data["fig5"]:
        assert len(row["flops"]) == len(row["energy_j"]) == len(row["widths"]) == TINY.sweep
        assert row["flops"] == sorted(row["flops"])
    assert [row["bench"] for row in data["fig6"]] == ["oppo", "xavier"]
    for row in data["fig7"]:
        assert {len(said) for said in row["estimates_j"].values()} == {len(row["energy_j"])} == {5}
    assert len(data["fig8"]) == 1 + 2
    for name in ("fig8", "fig9", "fig10"):
        for row in data[name]:
            known = {"additive", "paper", "roofline", "neuralpower", "flops", "flops_affine"}
            assert {*known, "repeat"} <= set(row["mape"])
            assert 0 <= row["coverage_90"] <= 1
    for row in data["fig10"]:
        assert set(row["depths"]) <= {8, 14, 20, 26, 32}
        assert {len(errors) for errors in row["errors"].values()} == {len(row["depths"])}
    assert [row["side"] for row in data["fig11_12"]] == [16, 8, 4] * 2
    for row in data["fig11_12"]:
        assert len(row["mean_j"]) == len(row["in"])
        assert {len(line) for line in row["mean_j"]} == {len(row["out"])}
        assert len(row["tests"]) == TINY.tests
    assert {row["reported_s"] for row in data["table1"]} == {1688, 184, 421}
    assert {row["bench"] for row in data["fig13"]["cuts"]} == {"oppo", "xavier"}
    assert data["fig13"]["study"] is None
    for row in data["samples"]:
        counts = [count for count, _ in row["additive"]]
        assert counts == sorted(counts) and counts[-1] == TINY.networks


def test_figures_tables_and_pages_are_written(done: Reproduction) -> None:
    drawn = {path.name for path in (done.folder / "figures").iterdir()}
    expected = set()
    for each in done.outcomes:
        if each.data is not None:
            expected |= set(each.experiment.figures) - {"fig13_training"}
            table = (done.folder / "tables" / f"{each.experiment.name}.md").read_text()
            assert table.count("\n|") >= 3
    assert drawn == {f"{name}{suffix}" for name in expected for suffix in (".png", ".svg")}
    for path in (done.folder / "figures").iterdir():
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml")
        assert len(data) > 5000
    page = (done.folder / "index.md").read_text()
    for each in done.outcomes:
        if each.data is not None:
            assert each.finding in page
            assert each.experiment.claim in page
    for name in expected:
        assert f"(figures/{name}.svg)" in page
    assert "## Side by side" in page
    html = (done.folder / "index.html").read_text()
    assert html.count("<img") == len(expected)
    assert "http://" not in html.replace("http://www.w3.org", "") and "https://" not in html


def test_simulated_joules_are_never_called_measured(done: Reproduction) -> None:
    page = (done.folder / "index.md").read_text()
    assert "| simulated |" in page
    assert "| measured |" not in page
    assert "modelled from CPU time" not in page


@pytest.fixture
def no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Bench, seed: int = 0) -> None:
        raise AssertionError("a device was opened")

    monkeypatch.setattr(Bench, "open", refuse)


def test_the_same_again_measures_nothing_and_needs_no_device(
    done: Reproduction, no_device: None
) -> None:
    (done.folder / "figures" / "fig2.png").unlink()
    again = reproduce(done.folder, PLAN, ["fig2", "fig8"])
    assert [each.data for each in again.outcomes] == [
        each.data for each in done.outcomes if each.experiment.name in ("fig2", "fig8")
    ]
    assert (done.folder / "figures" / "fig2.png").exists()
    assert "fig10: " in (done.folder / "index.md").read_text()  # of the run before


def test_data_are_made_anew_from_journals_alone(
    done: Reproduction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_burst(self: SimulatedDevice, handle: int, steps: int) -> None:
        raise AssertionError("something was measured")

    monkeypatch.setattr(SimulatedDevice, "burst", no_burst)
    shutil.copytree(done.folder / "journals", tmp_path / "journals")
    again = reproduce(tmp_path, PLAN, ["fig2", "fig13"])
    assert not again.failed
    before = {each.experiment.name: each.data for each in done.outcomes}
    for each in again.outcomes:
        assert each.data == before[each.experiment.name]


@pytest.fixture
def carried(done: Reproduction, tmp_path: Path, no_device: None) -> Path:
    """The results on another machine: journals packed, no device at hand."""
    folder = tmp_path / "carried"
    shutil.copytree(done.folder, folder)
    for path in (folder / "journals").iterdir():
        (folder / "journals" / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    return folder


def test_data_are_fitted_anew_on_another_machine(done: Reproduction, carried: Path) -> None:
    names = ["fig2", "fig7", "fig11_12", "fig13"]
    for name in names[:-1]:  # older data, by older code; those of fig13 are not made anew
        file = carried / "data" / f"{name}.json"
        row = json.loads(file.read_text())
        file.write_text(json.dumps({**row, "when": "2020-02-02T02:02:02Z", "data": []}))
    again = reproduce(carried, PLAN, names, refit=True)
    assert not again.failed
    before = {each.experiment.name: each.data for each in done.outcomes}
    for each in again.outcomes:
        assert each.data == before[each.experiment.name]
    row = json.loads((carried / "data" / "fig2.json").read_text())
    assert row["when"].startswith("2020")  # when it was measured, not when it was fitted


def test_what_journals_do_not_tell_is_left_out(carried: Path) -> None:
    shutil.rmtree(carried / "data")
    (carried / "journals" / "oppo-stacks.ampere.gz").unlink()
    short = carried / "journals" / "oppo-cnn5-steps.ampere.gz"
    lines = gzip.decompress(short.read_bytes()).splitlines(keepends=True)
    short.write_bytes(gzip.compress(b"".join(lines[:3])))
    found = reproduce(carried, PLAN, ["fig2", "fig5", "fig7", "fig13"], refit=True)
    stacks, linear, cnns, cuts = (each.finding for each in found.outcomes)
    assert stacks == ("Left out: oppo-stacks.ampere is not there, and nothing is to be measured.")
    assert not linear.startswith("Left out")
    assert cnns.startswith("Left out: oppo-cnn5-steps.ampere.gz lacks zoo:cnn5")
    assert cuts.startswith("Left out: another fit makes other cuts")
    assert not found.failed


def test_packed_journals_are_not_added_to(carried: Path) -> None:
    shutil.rmtree(carried / "data")
    (outcome,) = reproduce(carried, ONE, ["fig2"]).failed
    assert "xavier-stacks.ampere.gz is packed: fit it with --refit" in (outcome.failed or "")


def test_a_folder_becomes_one_page_in_a_browser(done: Reproduction, tmp_path: Path) -> None:
    path = done.folder / "index.html"
    page = path.read_text()
    titles = ("This run", "Side by side", "fig2: Energy against the number of stacked layers")
    places = [page.index(f">{title}</h2>") for title in titles]
    assert places == sorted(places)
    turning = len(re.findall(r'<svg[^>]*class="[^"]*surface', page))
    assert turning == len(data_of(done.folder, "fig11_12"))
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: make setup-system")
    points = "document.querySelector('.face').getAttribute('points')"
    with open_browser() as browser, open_file(browser, path, **PHONE) as watched:
        tab = watched.page
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        assert tab.evaluate("[...document.images].every(each => each.naturalWidth > 100)")
        before = tab.evaluate(points)
        tab.evaluate("document.querySelector('svg.surface').focus()")
        tab.keyboard.press("ArrowLeft")
        assert tab.evaluate(points) != before
        assert watched.complaints == []
        asked = [url for url in watched.requests if not url.startswith("data:")]
        assert asked == [path.resolve().as_uri()]


class Stop:
    """A watch that ends the run at an event."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, list[Event]()

    def __call__(self, event: Event) -> None:
        self.seen.append(event)
        if len(self.seen) == self.at:
            raise KeyboardInterrupt


def test_an_interrupted_run_leaves_everything_and_goes_on(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        reproduce(tmp_path, ONE, ["fig2", "fig5"], Stop(at=5))
    journal = tmp_path / "journals" / "xavier-stacks.ampere"
    kept = journal.read_bytes()
    rows = read_journal(journal)[1]
    assert 0 < len(rows) < 16
    assert not list((tmp_path / "data").iterdir())
    assert (tmp_path / "index.html").exists()
    found = reproduce(tmp_path, ONE, ["fig2", "fig5"])
    assert not found.failed
    assert journal.read_bytes().startswith(kept)
    assert len(read_journal(journal)[1]) == 16


def test_what_is_left_is_told(tmp_path: Path) -> None:
    watch = Stop(at=-1)
    reproduce(tmp_path, ONE, ["fig2", "fig5"], watch)
    assert all(0 <= event.done <= event.total == 2 for event in watch.seen)
    assert all(0 <= event.seconds_left < 1000 for event in watch.seen)
    assert watch.seen[-1] == Event("done", 2, 2, 0.0)
    assert any("fig5: xavier linear50" in event.doing for event in watch.seen)
    assert sum(event.seconds_left for event in watch.seen[:2]) > 0


def test_a_failing_experiment_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Fig2):
        def measure(self, lab: Laboratory) -> None:
            raise ZeroDivisionError("a bug")

    monkeypatch.setitem(EXPERIMENTS, "fig2", Broken())
    found = reproduce(tmp_path, ONE, ["fig2", "fig5"])
    (failed,) = found.failed
    assert failed.experiment.name == "fig2"
    assert "a bug" in failed.finding
    assert "ZeroDivisionError" in (tmp_path / "data" / "fig2.error").read_text()
    assert data_of(tmp_path, "fig5")
    page = (tmp_path / "index.md").read_text()
    assert "Failed: ZeroDivisionError('a bug')" in page
    monkeypatch.undo()
    assert not reproduce(tmp_path, ONE, ["fig2"]).failed
    assert not (tmp_path / "data" / "fig2.error").exists()


def test_what_cannot_be_told_here_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Laboratory, "provenance", lambda self, bench: Provenance.MODELLED)
    found = reproduce(tmp_path, PLAN.on(["oppo"]), ["fig6", "fig9"])
    assert not found.failed
    time, transformer = (each.finding for each in found.outcomes)
    assert time.startswith("Left out: modelled joules are made out of seconds")
    assert transformer == "Left out: none of these devices has transformer in its plan."


def test_recorded_energies_have_a_page_and_stay_outside(tmp_path: Path) -> None:
    published = tmp_path / "published"
    published.mkdir()
    write_all(published, timed=True)
    out = tmp_path / "out"
    plan = replace(ONE.on([], published), sizes={"xavier": replace(TINY, families=())})
    found = reproduce(out, plan, ["fig6", "recorded"])
    assert not found.failed
    again = reproduce(out, replace(plan, recorded=None), ["fig6", "recorded"])
    assert [each.data for each in again.outcomes] == [each.data for each in found.outcomes]
    time, cases = (each.data for each in found.outcomes)
    assert [row["title"] for row in time] == ["EC-NAS"]  # the others have no seconds
    assert time[0]["networks"] == 12
    assert time[0]["correlation"] == pytest.approx(1.0)
    assert len(cases["rows"]) == 21
    page = (out / "recorded.md").read_text()
    assert "PedramBakh/EC-NAS-Bench" in page
    assert "recorded.html" in (out / "index.md").read_text()
    assert str(published) not in "".join(
        path.read_text() for path in out.rglob("*") if path.suffix in (".json", ".md", ".html")
    )


@pytest.mark.parametrize(
    ("plan", "only", "said"),
    [
        (ONE, ["fig3"], "there is no experiment 'fig3': use fig2, fig4"),
        (replace(ONE, sizes={}), [], "no device"),
        (ONE.on([], Path("nowhere")), [], "nowhere has no ecnas_train.csv"),
    ],
)
def test_nonsense_is_refused_before_anything_is_made(
    tmp_path: Path, plan: Plan, only: list[str], said: str
) -> None:
    with pytest.raises(DataError, match=said) as caught:
        reproduce(tmp_path / "out", plan, only)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
