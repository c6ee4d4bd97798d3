"""The paper's figures from one command: data that can be drawn, runs that go on, faults told."""

from __future__ import annotations

import gzip
import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ampere.acquisition.progress import Event
from ampere.cli.app import app
from ampere.devices.simulated import SimulatedDevice
from ampere.errors import DataError
from ampere.meters.base import Provenance
from ampere.records.journal import read_journal
from ampere_paper import figures
from ampere_paper.benches import BENCHES, Bench, bench_names
from ampere_paper.experiments import EXPERIMENTS, choose
from ampere_paper.experiments.experiment import Experiment, cell, holds, span
from ampere_paper.experiments.fig13 import FIG13
from ampere_paper.experiments.samples import first_points
from ampere_paper.figures import styled
from ampere_paper.laboratory import Laboratory
from ampere_paper.plans import FULL, LITTLE, QUICK, SIX, Plan, Sizes
from ampere_paper.reproduction import Reproduction, expected_s, reproduce
from ampere_paper.results import Results, side_by_side
from browser import CHROMIUM, PHONE, open_browser, open_file
from published import write_all

from .test_figures import made_up

pytest.importorskip("matplotlib")

TINY = Sizes(
    families=("cnn5",), points=2, networks=6, pool=2, models=3, cnns=5, levels=2, sweep=7, tests=2,
    cuts=1, round_to=16, effort=LITTLE,
)  # fmt: skip
SOME = ("lenet5", "cnn5", "transformer", "resnet")
PLAN = Plan("tiny", {"oppo": TINY, "xavier": replace(TINY, families=SOME)})
ONE = PLAN.on(["xavier"])


@pytest.fixture(scope="module")
def hurried() -> Iterator[None]:
    """Fine pictures take time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "DPI", 60)
        yield


@pytest.fixture(scope="module")
def done(hurried: None, tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    """Everything, on two simulated devices."""
    return reproduce(tmp_path_factory.mktemp("results"), PLAN)


def numbers(tree: Any) -> Iterator[float]:
    """All numbers in plain data."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from numbers(each)
    elif isinstance(tree, (int, float)):
        yield tree


def data_of(folder: Path, name: str) -> Any:
    return json.loads((folder / "data" / f"{name}.json").read_text())["data"]


# The whole run


def test_every_experiment_has_finite_data_and_a_sentence(done: Reproduction) -> None:
    assert not done.failed
    assert [each.experiment.name for each in done.outcomes] == list(EXPERIMENTS)
    for each in done.outcomes:
        name = each.experiment.name
        if name == "recorded":
            assert each.data is None
            assert "--recorded DIR" in each.found
            continue
        assert each.data == data_of(done.folder, name)
        found = list(numbers(each.data))
        assert len(found) > 5, name
        assert all(map(math.isfinite, found)), name
        assert each.found.endswith("."), name
        for word in ("nan", "inf ", "None", "Failed"):
            assert word not in each.found, each.found


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
            assert each.found in page
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
    done: Reproduction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hurried: None
) -> None:
    def no_burst(self: SimulatedDevice, handle: int, steps: int) -> None:
        raise AssertionError("something was measured")

    monkeypatch.setattr(SimulatedDevice, "burst", no_burst)
    shutil.copytree(done.folder / "journals", tmp_path / "journals")
    names = ["fig2", "fig7", "fig11_12", "fig13"]
    again = reproduce(tmp_path, PLAN, names)
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
    stacks, linear, cnns, cuts = (each.found for each in found.outcomes)
    assert stacks == ("Left out: oppo-stacks.ampere is not there, and nothing is to be measured.")
    assert not linear.startswith("Left out")
    assert cnns.startswith("Left out: oppo-cnn5-steps.ampere.gz lacks zoo:cnn5")
    assert cuts.startswith("Left out: another fit makes other cuts")
    assert not found.failed


def test_packed_journals_are_not_added_to(carried: Path) -> None:
    shutil.rmtree(carried / "data")
    (outcome,) = reproduce(carried, ONE, ["fig2"]).failed
    assert "xavier-stacks.ampere.gz is packed: fit it with --refit" in (outcome.failed or "")


def test_refitting_needs_journals(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no results"):
        reproduce(tmp_path / "none", ONE, refit=True)
    Results.claim(tmp_path, ONE)
    with pytest.raises(DataError, match="has no journals: measure without --refit first"):
        reproduce(tmp_path, ONE, refit=True)


def test_a_folder_becomes_one_page_in_a_browser(done: Reproduction, tmp_path: Path) -> None:
    page = Results.open(done.folder).report()
    assert [section.title for section in page.sections[:3]] == [
        "This run",
        "Side by side",
        "fig2: Energy against the number of stacked layers",
    ]
    assert len(page.figures) == len(data_of(done.folder, "fig11_12"))  # surfaces that turn
    path = tmp_path / "page.html"
    page.save(path)
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


def test_results_without_data_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no results: fill it with `ampere reproduce -o"):
        Results.open(tmp_path)
    with pytest.raises(DataError, match="holds no data yet"):
        Results.claim(tmp_path / "new", ONE).report()


# Interrupted, restricted, broken


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


def test_time_is_expected_where_it_is_spent() -> None:
    expected = expected_s(FULL, choose(["fig6", "fig7", "fig8"]))
    assert expected["fig6"] < 120  # nobody waits for simulated devices
    assert expected["fig7"] > 600  # the 5-layer CNNs of this machine
    assert expected_s(FULL, choose(["table1"]))["table1"] > expected["fig8"] > 600


def test_a_failing_experiment_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(lab: Laboratory) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setitem(EXPERIMENTS, "fig2", replace(EXPERIMENTS["fig2"], measure=broken))
    found = reproduce(tmp_path, ONE, ["fig2", "fig5"])
    (failed,) = found.failed
    assert failed.experiment.name == "fig2"
    assert "a bug" in failed.found
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
    time, transformer = (each.found for each in found.outcomes)
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


# The run that docs/ keeps

KEPT = Path(__file__).parents[2] / "docs" / "paper"


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_the_kept_run_is_of_the_present_plan_and_told_in_the_docs(experiment: Experiment) -> None:
    data = Results.open(KEPT).known(experiment, FULL)
    assert data is not None  # else redrawing it would measure
    assert all(map(math.isfinite, numbers(data)))
    page = KEPT / "recorded.md" if experiment.name == "recorded" else KEPT.parent / "results.md"
    assert experiment.sentence(data) in page.read_text()


def test_the_kept_journals_are_small_and_say_what_their_joules_are() -> None:
    paths = sorted((KEPT / "journals").glob("*.gz"))
    assert sum(path.stat().st_size for path in paths) < 5e6
    for path in paths:
        header, rows = read_journal(path)
        simulated = path.name.split("-")[0].split(".")[0] in bench_names(["simulated"])
        told = Provenance.SIMULATED if simulated else Provenance.MODELLED
        assert {header.provenance, *(row.provenance for row in rows)} == {told}, path


# Nonsense


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


def test_a_folder_of_another_plan_is_refused(tmp_path: Path) -> None:
    reproduce(tmp_path, ONE, ["fig5"])
    with pytest.raises(DataError, match="holds measurements of the tiny plan"):
        reproduce(tmp_path, replace(ONE, name="other"), ["fig5"])


# Names, plans, words


def test_data_of_more_devices_serve_and_are_never_replaced_by_fewer(tmp_path: Path) -> None:
    (both,) = reproduce(tmp_path, PLAN, ["fig5"]).outcomes
    (one,) = reproduce(tmp_path, ONE, ["fig5"]).outcomes
    assert one.data == both.data
    (refused,) = reproduce(tmp_path, ONE, ["fig5"], refit=True).failed
    assert "has fig5 of oppo too: ask for these devices as well" in (refused.failed or "")
    (refused,) = reproduce(tmp_path, PLAN.on(["oppo"]), ["fig5"], refit=True).failed
    assert data_of(tmp_path, "fig5") == both.data


def test_data_of_other_devices_are_not_replaced(tmp_path: Path) -> None:
    (xavier,) = reproduce(tmp_path, ONE, ["fig5"]).outcomes
    (refused,) = reproduce(tmp_path, PLAN.on(["oppo"]), ["fig5"]).failed
    assert "has fig5 of xavier too" in (refused.failed or "")
    assert data_of(tmp_path, "fig5") == xavier.data
    (both,) = reproduce(tmp_path, PLAN, ["fig5"]).outcomes
    assert [row["bench"] for row in both.data] == ["oppo", "xavier"]


def test_what_is_known_takes_no_time() -> None:
    names = ["fig2", "fig8"]
    assert sum(expected_s(FULL, choose(names), names).values()) < 10


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("plan.json", '{"a": 1}', "plan.json is not of ampere: choose another folder"),
        ("plan.json", "[1, 2]", "plan.json is not of ampere: choose another folder"),
        ("plan.json", "{", r"plan.json is damaged \(not JSON .*choose another folder"),
        ("data/fig5.json", "[]", "fig5.json is not of ampere: delete it, and it is made anew"),
        ("data/fig5.json", '{"format": 1, "data": []}', "fig5.json is not of ampere: delete it"),
        ("data/fig5.json", '{"format', "fig5.json is damaged .*delete it, and it is made anew"),
    ],
)
def test_files_that_are_damaged_or_not_ours(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    Results.claim(tmp_path, ONE)
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=said):
        reproduce(tmp_path, ONE, ["fig5"])
    with pytest.raises(DataError, match=said):
        Results.open(tmp_path).report()


@pytest.mark.parametrize("name", ["index.html", "figures"])
def test_files_of_others_are_not_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=f"has {name}, but not of ampere: choose another folder"):
        reproduce(tmp_path, ONE, ["fig5"])
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_benches_and_groups_by_name() -> None:
    assert bench_names([]) == list(BENCHES)
    assert bench_names(["xavier", "threads1"]) == ["threads1", "xavier"]
    assert bench_names(["simulated"]) == ["iphone", "oppo", "server", "tx2", "xavier"]
    assert bench_names(["local", "tx2"]) == ["threads1", "threads2", "no-onednn", "tx2"]
    with pytest.raises(DataError, match="unknown device 'pixel': use local, simulated, threads1"):
        bench_names(["pixel"])


@pytest.mark.parametrize("plan", [FULL, QUICK])
def test_plans_cover_every_bench_and_every_family(plan: Plan) -> None:
    assert [bench.name for bench in plan.benches] == list(BENCHES)
    assert {family for sizes in plan.sizes.values() for family in sizes.families} == set(SIX)
    assert any(sizes.tests for sizes in plan.sizes.values())
    assert any(sizes.iterations for sizes in plan.sizes.values())
    for bench in plan.benches:  # a study trains in this process
        assert not (bench.simulated and plan.sizes[bench.name].iterations)


def test_choosing_keeps_the_order() -> None:
    assert [each.name for each in choose(["table1", "fig2"])] == ["fig2", "table1"]


def test_words() -> None:
    assert span([1.0, 2.04]) == "1.0 to 2.0 %"
    assert span([1.0, 1.01]) == "1.0 %"
    assert span([3], "", ".0f") == "3"
    assert holds([True, True]) == "the claim holds on all 2 devices"
    assert holds([False, False]) == "the claim holds on none of 2 devices"
    assert holds([True, False], "pair") == "the claim holds on 1 of 2 pairs"
    assert holds([False]) == "the claim does not hold on the one device looked at"
    assert (cell(None), cell(1.25)) == ("–", "1.2")


def test_side_by_side_sets_missing_ones_apart() -> None:
    row = {"family": "resnet", "title": "TX2", "provenance": "simulated", "coverage_90": 0.9,
           "mape": {"paper": 5.0}}  # fmt: skip
    (cells,) = side_by_side([row]).rows
    assert cells[:5] == ("ResNets", "TX2", "simulated", "–", "5.0")
    assert set(cells[5:-1]) == {"–"}


def test_a_study_is_drawn_and_told(tmp_path: Path) -> None:
    place = {"bench": "threads1", "title": "1 thread", "provenance": "modelled", "seed": 0}
    refused = {"metered": {"flops": 0.7}, "estimated": {"flops": 0.6}, "widths": {"flops": {}},
               "refused": {"energy": "too little"}}  # fmt: skip
    data = {"cuts": [{**place, **refused}], "study": made_up().to_json(), "untrained": None}
    with styled():
        assert set(FIG13.draw(data)) == {"fig13", "fig13_training"}
    said = FIG13.sentence(data)
    assert "On 1 thread even the smallest CNN takes more than the budget" in said
    assert "energy-guided 49.0 % of the energy at 90.0 % accuracy" in said
    assert "not possible" in FIG13.table(data).text()


def test_the_first_points_of_each_kind(done: Reproduction) -> None:
    _, rows = read_journal(done.folder / "journals" / "xavier-cnn5-paper.ampere")
    few = first_points(rows, 2)
    assert 0 < len(few) < len(rows)
    assert [row for row in rows if row in few] == few


# The command line


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_the_command_answers_and_goes_on(tmp_path: Path) -> None:
    options = ("--quick", "--only", "fig2", "--device", "xavier", "-o", tmp_path / "out")
    first = run(*options)
    assert first.exit_code == 0, first.stderr
    assert "R²" in first.stdout
    assert "0/1 fig2: " in first.stderr
    row = json.loads(run(*options, "--json").stdout)
    assert row["devices"] == ["xavier"]
    assert row["experiments"]["fig2"]["failed"] is None


def test_the_command_tells_faults_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(lab: Laboratory) -> None:
        raise DataError("no luck")

    monkeypatch.setitem(EXPERIMENTS, "fig2", replace(EXPERIMENTS["fig2"], measure=broken))
    failed = run("--quick", "--only", "fig2", "--device", "xavier", "-o", tmp_path / "out")
    assert failed.exit_code == 1
    assert "error: 1 of 1 experiments failed (fig2: no luck)" in failed.stderr.splitlines()[-1]
    unknown = run("--only", "fig99", "-o", tmp_path / "none")
    assert unknown.exit_code == 1
    assert "there is no experiment 'fig99'" in unknown.stderr
    assert not (tmp_path / "none").exists()


def test_the_command_can_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(lab: Laboratory) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(EXPERIMENTS, "fig2", replace(EXPERIMENTS["fig2"], measure=interrupt))
    ended = run("--quick", "--only", "fig2", "--device", "xavier", "-o", tmp_path / "out")
    assert ended.exit_code == 130
    assert "the same command goes on from there" in ended.stderr
