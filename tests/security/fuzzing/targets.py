"""Targets: everything that reads what a file, a device or a user wrote, and what must then hold.

A target takes bytes. It may refuse them with an `AmpereError` of one line; whatever else is raised
is a bug, and so is an estimate that is not a number above 0 inside its interval.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import queue
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ampere
from ampere.core.boundary.fields import parse_json
from ampere.core.boundary.hours import MOST, read_hours
from ampere.core.boundary.model_names import parse_name
from ampere.core.boundary.tool import ToolAnswer
from ampere.core.budget import parse_budget
from ampere.core.inputs import parse_inputs
from ampere.core.layers import Layer
from ampere.core.program.structure import Structure
from ampere.devices import worker_device
from ampere.devices.registry import open_device
from ampere.devices.worker_device import WorkerDevice
from ampere.devices.worker_process import WorkerProcess
from ampere.errors import LONGEST, AmpereError
from ampere.estimators.base import usable
from ampere.fleet.federation.attendance import Attendance
from ampere.fleet.federation.quotes import Quote
from ampere.fleet.federation.register import restore, told
from ampere.fleet.federation.rounds import Candidate, choose
from ampere.fleet.federation.rounds import Terms as RoundTerms
from ampere.fleet.files.jobs import read_jobs
from ampere.fleet.files.members import read_fleet
from ampere.fleet.member import Battery, Fleet, Member
from ampere.fleet.plan import Plan, read_plan
from ampere.fleet.runs.events import event_json
from ampere.fleet.runs.logbook import read_logbook
from ampere.fleet.runs.overview import overview, overview_json
from ampere.gates.story import Reason
from ampere.meters.calibration import stored
from ampere.meters.drivers import iphone
from ampere.meters.drivers.iphone import IphoneMeter
from ampere.meters.drivers.shelly import ShellyMeter
from ampere.meters.integration import Integral
from ampere.meters.registry import parse_meter
from ampere.meters.trace_files import read_trace
from ampere.profiles.estimate import Estimate
from ampere.profiles.fit_cache import FitCache
from ampere.profiles.profile import Profile
from ampere.records.alignment import align
from ampere.records.journal import read_journal
from ampere.records.measurement import Measurement
from ampere.records.rows import read_layer_file, read_rows
from ampere.reports.live.desk import ALL, Desk
from ampere.reports.live.watch import Watch
from ampere.reports.plan_page import report_plan
from fakes import VARIANT, exact, plain_model
from fleet.stories import STORY
from planned import made_up_plan
from told_runs import ended, looks, started, text_of

SLOW = 25  # every how many inputs what takes long is done, too
HERE = Path("input")  # in a folder of the fuzzer's own


@dataclass(frozen=True)
class Target:
    """What reads, and valid inputs to begin with."""

    name: str
    run: Callable[[bytes, bool], None]
    seeds: Callable[[], list[bytes]]


def require_honest(estimate: Estimate) -> None:
    """No NaN, no zero, no negative joule in silence; and it can be written down."""
    low, high = estimate.energy_j_interval
    assert math.isfinite(high) and 0 <= low <= estimate.energy_j <= high, estimate.to_json()
    assert estimate.energy_j > 0, "a silent zero"
    if estimate.time_s is not None:
        assert 0 < estimate.time_s < math.inf
    if any(line.cost.energy_j < 0 for line in estimate.lines):
        assert any("below 0 J" in text for text in estimate.warnings), "negative in silence"
    json.dumps(estimate.to_json(), allow_nan=False)
    repr(estimate).encode()


def _written(data: bytes, name: Path = HERE) -> str:
    name.write_bytes(data)
    return str(name)


@cache
def known() -> Profile:
    """A profile to ask."""
    return ampere.fit([exact(plain_model(*widths)) for widths in ((4, 8), (16, 9), (30, 30, 2))])


def rows() -> list[Measurement]:
    """Rows as ampere writes them, with bursts, failures and stages."""
    bursts = {
        "steps": 5,
        "at": [1.7e9, 1.7e9 + 1],
        "energy_j": [0.1, 0.11],
        "time_s": [0.02, 0.021],
        "drift": [1.0, 1.02],
        "energy_drift": [1.0, 1.01],
        "outlier": [],
        "faults": 1,
    }
    plain = [exact(plain_model(*widths)) for widths in ((3, 5), (8, 2), (20, 7, 7), (1, 1))]
    kept = {"device": "a1b2c3d4", "when": "2026-01-31T12:00:00+00:00", "spread": 0.02, "repeats": 2}
    failed = {"failed": "out of memory", "cause": "memory"}
    first, *_ = (row.to_json() for row in plain)
    lost = {key: first[key] for key in ("layers", "provenance")}
    texts = [{**first, **kept, "bursts": bursts}, {**lost, **failed}, {**first, "stage": "forward"}]
    return [*plain, *map(Measurement.from_json, texts)]


def _journal(data: bytes, slow: bool) -> None:
    header, read = read_journal(_written(data))
    profile = Profile(tuple(read), header)
    json.dumps(header.to_json(), allow_nan=False)
    for row in read:
        json.dumps(row.to_json(), allow_nan=False)
    if slow and usable(read):
        repr(profile)
        require_honest(profile.estimate(usable(read)[0].layers))
        ampere.report(profile).html().encode()


def _journal_seeds() -> list[bytes]:
    path = Path("seed.ampere")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ampere.tell(path, rows(), any_device=True)
        told = path.read_bytes()
        path.unlink()
        ampere.ask(path, 1, "zoo:lenet5")
    return [told, path.read_bytes(), gzip.compress(told)]


def _asks(data: bytes, slow: bool) -> None:
    ampere.ask(_written(data), 1)


def _asks_seeds() -> list[bytes]:
    return [_journal_seeds()[1]]


def _rows(data: bytes, slow: bool) -> None:
    read = read_rows(_written(data))
    if slow and usable(read):
        HERE.unlink()
        profile = ampere.tell(HERE, read, any_device=True)
        require_honest(profile.estimate(usable(read)[0].layers))
        assert len(Profile.load(HERE).measurements) == len(profile.measurements)


def _rows_seeds() -> list[bytes]:
    return [b"\n".join(json.dumps(row.to_json()).encode() for row in rows())]


def _layers(data: bytes, slow: bool) -> None:
    require_honest(known().estimate(read_layer_file(_written(data))))


def _layers_seeds() -> list[bytes]:
    layers = [layer.to_json() for layer in plain_model(5, 6, 7)]
    lines = "\n".join(map(json.dumps, layers))
    return [json.dumps(layers).encode(), json.dumps({"layers": layers}).encode(), lines.encode()]


def _structure(data: bytes, slow: bool) -> None:
    """What is sent to workers and stands in `widths.json`: read, written, built on no device."""
    layers = _parsed_layers(data)
    for layer in layers:
        if layer.kind.structure is not None:
            again = json.loads(json.dumps(layer.kind.structure.to_json(), allow_nan=False))
            assert Structure.from_json(again) == layer.kind.structure
    if slow:
        import torch

        from ampere.pytorch.pruning.files import rebuild_model

        with torch.device("meta"):
            rebuild_model(_written(data))


def _parsed_layers(data: bytes) -> list[Layer]:
    from ampere.core.boundary.fields import Fields, parse_json

    listed = Fields(parse_json(data)).items("layers")
    return [Layer.from_json(row, with_structure=True, where=place) for place, row in listed]


def _structure_seeds() -> list[bytes]:
    texts = []
    for model in ("zoo:lenet5", "zoo:lstm"):
        layers = [layer.to_json(with_structure=True) for layer in ampere.read_layers(model)]
        texts.append(json.dumps({"layers": layers}).encode())
    return texts


class _Scripted(WorkerProcess):
    """A worker that has said all it will ever say."""

    script: Sequence[bytes] = ()

    def __init__(self, command: Sequence[str]) -> None:
        self.ended = False
        self.answers = queue.Queue()
        self._requests: Any = queue.Queue()
        self._asked = 0
        for line in self.script:
            self.answers.put(line)
        self.answers.put(b"")

    def _next(self, patience_s: float) -> bytes:
        return self.answers.get(block=False)

    def end(self) -> None:
        self.ended = True

    def _silence(self, exit_code: int | None, patience_s: float) -> Any:
        self.end()
        from ampere.devices.worker_process import NoAnswer

        return NoAnswer(1, "it ended", patience_s)

    def _exit_code(self) -> int | None:
        return 1


class _Told(WorkerDevice):
    """A device whose worker says what an input says."""

    builds_models = True

    def _command(self) -> Sequence[str]:
        return ["nothing"]


def _answers(data: bytes, slow: bool) -> None:
    lines = [line + b"\n" for line in data.split(b"\n") if line]
    _Scripted.script = lines
    real, worker_device.WorkerProcess = worker_device.WorkerProcess, _Scripted  # type: ignore[misc]
    try:
        device = _Told(meter="cpu")
        json.dumps(device.fingerprint.to_json(), allow_nan=False)
        assert device.meter["name"] == "cpu"
        loaded = device.load(VARIANT)
        burst = device.burst(loaded.handle, 3)
        assert 0 < burst.energy_j < math.inf and 0 < burst.time_s < math.inf
        json.dumps(dict(device.meter), allow_nan=False)
    finally:
        worker_device.WorkerProcess = real  # type: ignore[misc]


def _answers_seeds() -> list[bytes]:
    resolution = {"energy_j": 0.0, "period_s": 0.0}
    opened = {
        "framework": "torch 2.13",
        "threads": 2,
        "freed_memory": "kept",
        "provenance": "modelled",
        "resolution": resolution,
        "meter": {"name": "cpu", "settings": {"idle_w": 2.0}},
    }
    described = {"identity": {"machine": "x86_64"}, "conditions": {"host": "pi"}}
    burst = {"energy_j": 0.5, "time_s": 0.1, "resolution": resolution}
    answers: list[Mapping[str, Any]] = [opened, described, described, {"handle": 1}, burst, burst]
    told = [{"id": i, **answer} for i, answer in enumerate(answers, 1)]
    failed = [*told[:4], {"id": 5, "error": "OutOfMemory", "message": "out of memory"}]
    return ["\n".join(map(json.dumps, lines)).encode() for lines in (told, failed)]


def _kept_fit(data: bytes, slow: bool) -> None:
    """A file beside a profile that claims to know its fit."""
    path = Path("kept.ampere")
    if not path.exists():
        known().save(path)
    _written(data, FitCache.of(path.read_bytes()).path)
    profile = Profile.load(path, keep_fit=True)
    require_honest(profile.estimate(plain_model(6, 6)))


def _kept_fit_seeds() -> list[bytes]:
    path = Path("kept.ampere")
    known().save(path)
    Profile.load(path, keep_fit=True).estimate(plain_model(6, 6))
    return [FitCache.of(path.read_bytes()).path.read_bytes()]


def _trace(data: bytes, slow: bool) -> None:
    trace = read_trace(_written(data))
    for row in align([_timed()], trace):
        assert row.energy_j_per_step is None or 0 < row.energy_j_per_step < math.inf


@cache
def _timed() -> Measurement:
    return next(row for row in rows() if row.bursts)


def _trace_seeds() -> list[bytes]:
    times = [1.7e9 - 1 + i / 100 for i in range(400)]
    generic = "time_s,power_w\n" + "".join(f"{t},{3 + t % 1}\n" for t in times)
    totals = "timestamp,energy (mWh)\n" + "".join(f"{t},{i / 10}\n" for i, t in enumerate(times))
    monsoon = "Time (s),Main Avg Power (mW)\n" + "".join(
        f"{t},{3000 + i}\n" for i, t in enumerate(times)
    )
    return [text.encode() for text in (generic, totals, monsoon)]


def _story(data: bytes, slow: bool) -> None:
    """What a gate has told of a run: any page can be made of it, with the damage said."""
    watch = Watch([Path(_written(data))])
    watch.catch_up()
    (row,) = watch.to_json()
    json.dumps(row, allow_nan=False)
    assert 0 <= row["spent_j"] < math.inf
    if slow:
        page = Desk(watch).page(ALL)
        assert page is not None
        json.dumps(page.pieces(), allow_nan=False)
        page.html("live").encode()


def _story_seeds() -> list[bytes]:
    *told, last = looks(until=60)
    stopped = [started(notes=("a",)), *told, last, ended(last, Reason.BUDGET)]
    return [text_of(stopped).encode(), text_of([*stopped, started(spent_j=9.0), last]).encode()]


def _calibration(data: bytes, slow: bool) -> None:
    path = Path(os.environ["XDG_CONFIG_HOME"]) / "ampere" / "calibration.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    try:
        calibration = stored()
    finally:
        path.unlink()
    if calibration is not None:
        assert all(0 <= watts < math.inf for watts in calibration.settings.values())


def _calibration_seeds() -> list[bytes]:
    ampere.calibrate(watts={0: 2.5, 4: 9.0})
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "ampere"
    (file,) = folder.glob("*.json")
    return [file.read_bytes()]


def _shelly(data: bytes, slow: bool) -> None:
    """What a plug answers, past the network."""

    class Canned(ShellyMeter):
        _url, _path, _field = "http://127.0.0.1", "/meter/0", "power"

        def __init__(self) -> None:
            pass

        def _get(self, path: str, deadline_s: float) -> tuple[int, bytes]:
            return 200, data

    Integral(1.0).add(0.0, Canned().power_w())


def _shelly_seeds() -> list[bytes]:
    return [b'{"id": 0, "apower": 8.9, "power": 8.5, "is_valid": true, "total": 394}']


def _texts(data: bytes, slow: bool) -> None:
    """What a user types: each text is read by everything that reads such texts."""
    text = data.decode(errors="replace")
    readers = (parse_name, parse_inputs, parse_meter, parse_budget, _device)
    for read in readers:
        try:
            read(text)
        except AmpereError as error:
            require_a_line(error)


def _device(text: str) -> None:
    if text.split(":")[0] in ("simulated", "recorded"):
        open_device(text).close()


def _texts_seeds() -> list[bytes]:
    return [
        b"zoo:cnn5(channels=[16, 32, 64, 64])",
        b"path/file.py:factory(width=32, block='basic')",
        b"3x32x32, ids=128:int64<1000",
        b"cpu:idle_w=2.5,active_w=9",
        b"shelly:url=http://127.0.0.1:80/a",
        b"50%",
        b"2.5 J/step",
        b"800Wh",
        b"30% battery",
        b"0.5kgCO2e",
        b"$1.50",
        b"simulated:xavier,seed=3",
        b"recorded:input",
        b"ssh:pi@raspberrypi,python=/usr/bin/python3",
    ]


def _hours(data: bytes, slow: bool) -> None:
    """What a kilowatt-hour emits or costs, hour by hour."""
    hours = read_hours(_written(data), lambda title: ("g", 1.0), "", least=-MOST)
    for begin_s, end_s in ((1.7e9, 1.7e9 + 5000), (0.0, 1e12)):
        mean, known = hours.over(begin_s, end_s)
        assert abs(mean) <= 1.001 * MOST and 0 <= known <= 1


def _hours_seeds() -> list[bytes]:
    return [
        b"hour,value\n0,56.1\n7,210\n23,31\n",
        b"time,EUR/MWh\n2026-01-31T14:00+01:00,80.5\n2026-01-31T15:00+01:00,-3\n",
        b"timestamp,g/kWh\n1700000000,56\n1700003600,57\n",
    ]


def _fleet(data: bytes, slow: bool) -> None:
    """Devices as somebody wrote them: batteries hold what they can, times have an order."""
    _profile_beside()
    for member in read_fleet(_written(data)):
        assert member.slots >= 1 and 0 <= member.idle_w < math.inf
        if member.battery is not None:
            battery = member.battery
            assert 0 <= battery.energy_j <= battery.capacity_j < math.inf
        for span in (*member.available, *(each.span for each in member.charging)):
            assert 0 <= span.start_s < span.end_s


def _profile_beside() -> None:
    if not Path("kept.ampere").exists():
        known().save("kept.ampere")
    Path("hours.csv").write_text("hour,value\n0,56.1\n")


def _fleet_seeds() -> list[bytes]:
    plain = '[[member]]\nname = "a"\nprofile = "kept.ampere"\n'
    battery = 'battery = "20Wh"\ncharge = "80%"\nreserve = "0 J"\nidle_w = 1.5\nslots = 2\n'
    times = 'available = ["0h-8h", "20h-"]\ncharging = [{from = "2h", to = "4h", power_w = 9}]\n'
    rates = 'carbon = "hours.csv"\nprice = "0.30EUR/kWh"\n'
    defaults = '[defaults]\nreserve = "10%"\ncarbon = "FR"\nzone = "Europe/Berlin"\n'
    night = "charging = [{from = 22:00:00, to = 06:00:00, power_w = 9}]\n"
    later = "available = [{from = 2050-01-01T00:00:00+01:00}, {to = 2050-02-01T00:00:00}]\n"
    moments = defaults + plain + 'battery = "20Wh"\n' + night + later
    texts = (plain, plain + battery + times + rates, defaults + plain, moments)
    return [text.encode() for text in texts]


def _jobs(data: bytes, slow: bool) -> None:
    """Jobs as somebody wrote them: none names code."""
    Path("layers.jsonl").write_bytes(_layers_seeds()[0])
    for task in read_jobs(_written(data), Fleet((Member("a", known()),))):
        assert task.deadline_s is None or task.earliest_s < task.deadline_s < math.inf
        if isinstance(task.model, str):
            assert task.model.strip().startswith(("zoo:", "timm:", "hf:")), task.model


def _jobs_seeds() -> list[bytes]:
    plain = '[[job]]\nname = "a"\nmodel = "zoo:lenet5(channels=[6, 12])"\nsteps = 100\n'
    placing = 'earliest = "30min"\ndeadline = "6h"\nmembers = ["a"]\nchunk_steps = 5\n'
    trained = 'priority = 2\nshrink = "50%"\nbatch_size = 32\noptimizer = "adam"\namp = true\n'
    fed = 'input = "3x32x32"\nloss = "mse"\ndtype = "float32"\ndata_s_per_batch = 0.1\n'
    other = '[[job]]\nname = "b"\nlayers = "layers.jsonl"\nepochs = 2\nsamples = 9\n'
    moments = 'zone = "+01:00"\nearliest = 06:00:00\ndeadline = 2040-11-19T06:00:00Z\n'
    texts = (
        plain + placing + trained + fed,
        "[defaults]\nsteps = 3\n" + plain + other,
        plain + moments,
    )
    return [text.encode() for text in texts]


def _plan(data: bytes, slow: bool) -> None:
    """A plan of others: it can be shown, written down and read again."""
    plan = read_plan(_written(data))
    again = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    assert Plan.from_json(again) == plan
    repr(plan).encode()
    if slow:
        report_plan(plan).html().encode()


def _logbook(data: bytes, slow: bool) -> None:
    """The logbook of a fleet: it can be shown, and nothing in it is counted twice."""
    book = read_logbook(_written(data))
    overview(book).text().encode()
    json.dumps(overview_json(book), allow_nan=False).encode()
    assert all(0 <= line.done <= line.order.steps for line in book.jobs.values())
    assert book.wasted_j <= book.paid_j * (1 + 1e-9) + 1e-9


def _logbook_seeds() -> list[bytes]:
    return ["".join(f"{json.dumps(event_json(event))}\n" for event in STORY).encode()]


def _plan_seeds() -> list[bytes]:
    return [json.dumps(made_up_plan().to_json()).encode()]


def _iphone(data: bytes, slow: bool) -> None:
    """What the tool for iPhones prints."""

    class Canned(IphoneMeter):
        _command, _timeout_s = ("nothing",), 1.0

        def __init__(self) -> None:
            pass

    text = data.decode(errors="replace")
    printed = ToolAnswer(0, text, "")
    real, iphone.ask_tool = iphone.ask_tool, lambda command, timeout_s: printed  # type: ignore
    try:
        shown = Canned().look()
    finally:
        iphone.ask_tool = real  # type: ignore[misc]
    for battery in shown.values():
        for value in (battery.charge_c, battery.voltage_v, battery.power_w):
            assert value is None or math.isfinite(value)


def _iphone_seeds() -> list[bytes]:
    shown = {
        "AppleRawCurrentCapacity": 2045,
        "InstantAmperage": 18446744073709551064,
        "Voltage": 3879,
        "AppleRawBatteryVoltage": 3879,
        "ExternalConnected": False,
        "IsCharging": False,
    }
    return [json.dumps(shown).encode()]


def _results(data: bytes, slow: bool) -> None:
    """The folder of a run of the paper's experiments that somebody sent."""
    from ampere_paper.results.folder import Results

    folder = Path("results")
    (folder / "data").mkdir(parents=True, exist_ok=True)
    _written(data, folder / "plan.json")
    Results.open(folder)._begun()


def _results_seeds() -> list[bytes]:
    return [(Path(__file__).parents[3] / "docs" / "paper" / "plan.json").read_bytes()]


def require_a_line(error: AmpereError) -> None:
    text = str(error)
    assert text and len(text) <= LONGEST, f"{len(text)} characters"


def _register(data: bytes, slow: bool) -> None:
    """The book of a federation: rounds go on from it, and it is told as it was."""
    book = Attendance(RoundTerms(2))
    restore(book, parse_json(data))
    again = Attendance(RoundTerms(2))
    restore(again, json.loads(json.dumps(told(book), allow_nan=False)))
    assert told(again) == told(book)
    book.open_round(book.round + 1, book.entries)
    book.to_ask()
    book.choose()
    book.close_round()


def _register_seeds() -> list[bytes]:
    book = Attendance(RoundTerms(1))
    book.open_round(1, [7, 8, 2**63])
    book.told(7, Quote(320, 20, 32.0, 35.0, battery=Battery(100.0, 400.0, 50.0)))
    book.told(8, Quote(320, 20))
    book.silent(2**63)
    book.choose()
    book.close_round()
    return [json.dumps(told(book)).encode()]


def _quotes(data: bytes, slow: bool) -> None:
    quote = Quote.from_json(parse_json(data))
    assert quote.usable_j >= 0
    for usable_j in (0.0, 1.0, quote.usable_j):
        steps = quote.steps_within(usable_j, round_s=10.0)
        assert 0 <= steps <= quote.steps
        if steps and usable_j < math.inf:
            bound_j = quote.energy_j_bound_of(steps)
            assert bound_j is not None and bound_j <= usable_j
    candidate = Candidate(1, quote, quote.usable_j)
    choose([candidate], RoundTerms(1, round_s=10.0, utility=1.0))
    json.dumps(quote.to_json(), allow_nan=False)


def _quotes_seeds() -> list[bytes]:
    battery = Battery(900.0, 4000.0, 800.0)
    priced = Quote(320, 20, 40.0, 50.0, 4.0, 5.0, 10.0, battery, loss=0.5, spent_j=38.0)
    return [json.dumps(each.to_json()).encode() for each in (priced, Quote(1, 1))]


TARGETS = (
    Target("journal", _journal, _journal_seeds),
    Target("rows", _rows, _rows_seeds),
    Target("layers", _layers, _layers_seeds),
    Target("asks", _asks, _asks_seeds),
    Target("structure", _structure, _structure_seeds),
    Target("answers", _answers, _answers_seeds),
    Target("kept_fit", _kept_fit, _kept_fit_seeds),
    Target("trace", _trace, _trace_seeds),
    Target("calibration", _calibration, _calibration_seeds),
    Target("story", _story, _story_seeds),
    Target("shelly", _shelly, _shelly_seeds),
    Target("iphone", _iphone, _iphone_seeds),
    Target("texts", _texts, _texts_seeds),
    Target("hours", _hours, _hours_seeds),
    Target("results", _results, _results_seeds),
    Target("fleet", _fleet, _fleet_seeds),
    Target("jobs", _jobs, _jobs_seeds),
    Target("plan", _plan, _plan_seeds),
    Target("logbook", _logbook, _logbook_seeds),
    Target("quotes", _quotes, _quotes_seeds),
    Target("register", _register, _register_seeds),
)


def by_name(names: Sequence[str]) -> Iterator[Target]:
    """Some targets, or all of them."""
    return (target for target in TARGETS if not names or target.name in names)
