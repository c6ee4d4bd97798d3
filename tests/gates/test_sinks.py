"""Sinks that need no library: what they write, what is refused, and a disk that is full."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from ampere.errors import DataError, MissingLibrary
from ampere.gates.sinks import csv_file, registry
from ampere.gates.sinks.base import Sink
from ampere.gates.sinks.csv_file import OURS, THEIRS
from ampere.gates.sinks.registry import open_sink, parse_sink, sink_names
from ampere.gates.story import End, Reason, Start, Status, read_events
from ampere.gates.telling import Teller
from gates.stories import end, start, status, story, tell

FILES = {"json": "gate.jsonl", "csv": "emissions.csv", "prometheus": "ampere.prom"}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class TestRegistry:
    def test_names(self) -> None:
        assert sink_names() == (
            *("csv", "json", "mlflow", "opentelemetry", "prometheus", "tensorboard", "wandb"),
        )

    def test_settings_as_they_are_typed(self) -> None:
        assert parse_sink(" csv ") == ("csv", {})
        assert parse_sink("mlflow:uri=http://h:5000, experiment=a") == (
            "mlflow",
            {"uri": "http://h:5000", "experiment": "a"},
        )

    @pytest.mark.parametrize(
        ("spec", "says"),
        [
            ("magic", "there is no sink named 'magic'; known sinks: csv, json, mlflow"),
            ("", "there is no sink named ''"),
            ("csv:file", "write it as name:setting=value"),
            ("csv:file=a,file=b", "file is given twice"),
            ("csv:speed=9", "its settings are: file"),
            ("json:run=x", "its settings are: file"),
        ],
    )
    def test_what_cannot_be_opened_is_said_in_a_line(
        self, tmp_path: Path, spec: str, says: str
    ) -> None:
        with pytest.raises(DataError) as caught:
            open_sink(spec, tmp_path)
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("name", ["json", "csv", "prometheus"])
    def test_a_run_without_a_folder_needs_a_file(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(DataError, match=f"{FILES[name]} belongs into the run's folder"):
            open_sink(name, None)
        tell(open_sink(f"{name}:file={tmp_path / 'here'}", None), story())
        assert (tmp_path / "here").stat().st_size > 0

    def test_opening_touches_no_disk(self, tmp_path: Path) -> None:
        for name in FILES:
            open_sink(name, tmp_path / "run")
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        ("name", "package"),
        [
            ("tensorboard", "tensorboard"),
            ("mlflow", "mlflow"),
            ("wandb", "wandb"),
            ("opentelemetry", "opentelemetry"),
        ],
    )
    def test_a_missing_library_is_one_line_with_the_extra(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
    ) -> None:
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingLibrary) as caught:
            open_sink(name, tmp_path)
        assert str(caught.value).endswith(f"pip install 'ampere-energy[{name}]'")
        assert caught.value.name == package

    def test_a_sink_that_is_made_already(self, tmp_path: Path) -> None:
        made = Listed(None)
        assert isinstance(made, Sink)
        assert open_sink(made, tmp_path) is made


class Listed:
    """Another package's sink."""

    def __init__(self, run: Path | None, topic: str = "energy") -> None:
        self.run, self.topic = run, topic
        self.heard: list[Start | Status | End] = []

    def start(self, start: Start) -> None:
        self.heard.append(start)

    def status(self, status: Status) -> None:
        self.heard.append(status)

    def end(self, end: End) -> None:
        self.heard.append(end)


class TestOtherPackages:
    @pytest.fixture(autouse=True)
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entries = [
            EntryPoint("listed", f"{__name__}:Listed", registry.GROUP),
            EntryPoint("broken", "no_such_package:Sink", registry.GROUP),
            EntryPoint("json", f"{__name__}:Listed", registry.GROUP),
        ]

        def find(group: str, name: str | None = None) -> list[EntryPoint]:
            assert group == "ampere.sinks"
            return [entry for entry in entries if name in (None, entry.name)]

        monkeypatch.setattr(registry, "entry_points", find)

    def test_they_are_found_by_entry_points(self, tmp_path: Path) -> None:
        sink = open_sink("listed:topic=watts", tmp_path)
        assert isinstance(sink, Listed)
        assert (sink.run, sink.topic) == (tmp_path, "watts")
        tell(sink, story())
        assert sink.heard == story()
        assert sink_names()[-2:] == ("broken", "listed")

    def test_none_replaces_one_of_ours(self, tmp_path: Path) -> None:
        assert not isinstance(open_sink("json", tmp_path), Listed)

    def test_one_that_cannot_be_imported_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"sink broken cannot be imported from no_such_package"):
            open_sink("broken", tmp_path)


class TestJsonLines:
    def test_the_story_can_be_read_again(self, tmp_path: Path) -> None:
        run = tmp_path / "runs" / "a"
        tell(open_sink("json", run), story())
        lines = (run / "gate.jsonl").read_text().splitlines()
        assert list(read_events(lines)) == story()
        named = ("time", "step", "spent_j", "forecast_j", "forecast_j_interval", "power_w")
        assert set(json.loads(lines[1])) >= {*named, "budget_j", "verdict", "provenance"}

    def test_a_long_note_is_cut_before_it_is_written(self, tmp_path: Path) -> None:
        said: list[str] = []
        teller = Teller([open_sink("json", tmp_path)], said.append)
        teller.note("x" * 2001)
        teller.start(start())
        teller.status(status(1, notes=teller.taken()))
        _, told = read_events((tmp_path / "gate.jsonl").read_bytes().splitlines(), "it")
        assert [len(text) for text in (*told.notes, *said)] == [2000, 2000]

    def test_every_line_is_there_at_once(self, tmp_path: Path) -> None:
        sink = open_sink("json", tmp_path)
        for count, event in enumerate(story()[:-1], 1):
            tell(sink, [event])
            assert len((tmp_path / "gate.jsonl").read_bytes().splitlines()) == count
        tell(sink, [end()])

    def test_a_resumed_run_goes_on_behind_the_line_that_a_crash_cut_off(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "gate.jsonl"
        tell(open_sink("json", tmp_path), [start(), status(1), end(Reason.BUDGET, 36.0)])
        path.write_bytes(path.read_bytes() + b'{"event": "status", "ti')
        tell(open_sink("json", tmp_path), [start(spent_j=36.0), status(2), end()])
        events = list(read_events(path.read_bytes().splitlines()))
        assert [type(event) for event in events] == [Start, Status, End, Start, Status, End]

    def test_half_a_line_alone_is_dropped(self, tmp_path: Path) -> None:
        (tmp_path / "gate.jsonl").write_bytes(b'{"event"')
        tell(open_sink("json", tmp_path), story())
        assert list(read_events((tmp_path / "gate.jsonl").read_bytes().splitlines())) == story()

    def test_a_disk_that_takes_half_a_line(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink = open_sink("json", tmp_path)
        tell(sink, [start(), status(1)])
        before = (tmp_path / "gate.jsonl").read_bytes()
        write = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[: len(data) // 2]))
        with pytest.raises(OSError) as caught:
            sink.status(status(2))
        assert caught.value.errno == errno.ENOSPC
        assert (tmp_path / "gate.jsonl").read_bytes() == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "gate.jsonl").symlink_to("/dev/full")
    with pytest.raises(OSError) as caught:
        open_sink("json", tmp_path).start(start())
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("name", ["csv", "prometheus"])
def test_a_disk_that_fills_leaves_the_file_that_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = FILES[name]
    sink = open_sink(name, tmp_path)
    tell(sink, [start(), status(1)])
    before = (tmp_path / file).read_bytes()

    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError) as caught:
        sink.end(end())
    assert caught.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == [file]
    assert (tmp_path / file).read_bytes() == before


@pytest.mark.parametrize("name", ["json", "csv", "prometheus"])
def test_a_folder_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    sink = open_sink(name, tmp_path / "file" / "run")
    with pytest.raises(OSError):
        sink.start(start())


class TestCsv:
    def test_a_run_is_a_row_in_the_units_of_codecarbon(self, tmp_path: Path) -> None:
        tell(open_sink("csv", tmp_path), story())
        (row,) = rows(tmp_path / "emissions.csv")
        assert tuple(row) == (*THEIRS, *OURS)
        kwh = 360 / 3.6e6
        assert float(row["energy_consumed"]) == pytest.approx(kwh)
        assert float(row["emissions"]) == pytest.approx(kwh * 0.056)
        assert float(row["emissions_rate"]) == pytest.approx(kwh * 0.056 / 40)
        assert float(row["forecast_energy_low"]) == pytest.approx(600 / 3.6e6)
        assert float(row["forecast_energy_high"]) == pytest.approx(650 / 3.6e6)
        assert float(row["cost"]) == pytest.approx(kwh * 0.3)
        assert (row["run_id"], row["project_name"], row["duration"]) == ("a1b2", "digits", "40.0")
        assert (row["country_name"], row["country_iso_code"]) == ("France", "FRA")
        assert (row["provenance"], row["verdict"], row["step"]) == ("modelled", "finished", "100")
        assert row["cpu_energy"] == row["gpu_energy"] == row["codecarbon_version"] == ""

    def test_it_is_there_while_the_run_goes_on(self, tmp_path: Path) -> None:
        sink = open_sink("csv", tmp_path)
        tell(sink, [start(), status(1), status(2)])
        (row,) = rows(tmp_path / "emissions.csv")
        assert (row["step"], row["verdict"]) == ("10", "inside")  # not at every look
        tell(sink, [status(4)])
        (row,) = rows(tmp_path / "emissions.csv")
        assert row["step"] == "40"

    def test_a_resumed_run_goes_on_in_its_row_and_others_stay(self, tmp_path: Path) -> None:
        tell(open_sink("csv", tmp_path), [start("first"), status(1), end()])
        tell(open_sink("csv", tmp_path), [start("second"), status(1), end(Reason.BUDGET, 40.0)])
        tell(open_sink("csv", tmp_path), [start("second", 40.0), status(2), end(spent_j=99.0)])
        found = [(row["run_id"], row["verdict"]) for row in rows(tmp_path / "emissions.csv")]
        assert found == [("first", "finished"), ("second", "finished")]

    def test_without_rates_and_looks(self, tmp_path: Path) -> None:
        plain = replace(start(), carbon_g_per_kwh=None, grid="", currency="")
        tell(open_sink("csv", tmp_path), [plain, end(Reason.REFUSED, 0.0)])
        (row,) = rows(tmp_path / "emissions.csv")
        assert (row["emissions"], row["energy_consumed"], row["verdict"]) == ("", "0.0", "refused")

    def test_emissions_without_a_look_are_those_of_the_start(self, tmp_path: Path) -> None:
        tell(open_sink("csv", tmp_path), [start(), end()])
        (row,) = rows(tmp_path / "emissions.csv")
        assert float(row["emissions"]) == pytest.approx(360 / 3.6e6 * 0.056)

    def test_a_file_of_codecarbon_itself_is_left_alone(self, tmp_path: Path) -> None:
        theirs = ",".join(THEIRS) + "\n"
        (tmp_path / "emissions.csv").write_text(theirs)
        with pytest.raises(DataError, match=r"other columns .*csv:file=PATH"):
            open_sink("csv", tmp_path).start(start())
        assert (tmp_path / "emissions.csv").read_text() == theirs

    def test_columns_are_those_of_codecarbon(self) -> None:
        pytest.importorskip("codecarbon")
        from codecarbon.output_methods.emissions_data import EmissionsData

        assert list(EmissionsData.__dataclass_fields__) == list(csv_file.THEIRS)


class TestPrometheus:
    LINE = re.compile(r'ampere_[a-z_]+(\{([a-z]+="([^"\\\n]|\\[\\n"])*",?)*\})? [-+.\de]+')

    def read(self, path: Path) -> dict[str, float]:
        values = {}
        for line in path.read_text().splitlines():
            if line.startswith("#"):
                assert re.match(r"# (HELP|TYPE) ampere_[a-z_]+ ", line)
            else:
                assert self.LINE.fullmatch(line), line
                values[line.partition("{")[0]] = float(line.rpartition(" ")[2])
        return values

    def test_the_last_look_is_told(self, tmp_path: Path) -> None:
        file = tmp_path / "ampere.prom"
        sink = open_sink(f"prometheus:file={file}", None)
        tell(sink, [start(), status(1), status(2)])
        values = self.read(file)
        assert values["ampere_energy_joules_total"] == 72.0
        assert values["ampere_forecast_high_joules"] == 650.0
        assert values["ampere_ended"] == 0
        assert 'provenance="modelled"' in file.read_text()
        assert 'verdict="inside"' in file.read_text()
        tell(sink, [end(Reason.BUDGET)])
        assert self.read(file)["ampere_energy_joules_total"] == 360.0
        assert self.read(file)["ampere_ended"] == 1
        assert 'verdict="budget"' in file.read_text()

    def test_whatever_a_run_is_called_is_one_label(self, tmp_path: Path) -> None:
        sink = open_sink("prometheus", tmp_path)
        tell(sink, [start(name='a"} 5\nampere_energy_joules_total 0\\'), status(1)])
        assert self.read(tmp_path / "ampere.prom")["ampere_energy_joules_total"] == 36.0

    def test_a_scraper_reads_it(self, tmp_path: Path) -> None:
        parser: Any = pytest.importorskip("prometheus_client.parser")
        tell(open_sink("prometheus", tmp_path), story())
        text = (tmp_path / "ampere.prom").read_text()
        families = {family.name: family for family in parser.text_string_to_metric_families(text)}
        (sample,) = families["ampere_energy_joules"].samples
        assert (sample.value, sample.labels["provenance"]) == (360.0, "modelled")
