"""Watts of the model `cpu`: fitted, kept, and used where the work is done."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

import ampere
from ampere.cli.app import app
from ampere.core.workloads import IDLE, Settings
from ampere.devices.worker import Worker
from ampere.errors import AmpereError, DataError, MeterError, MeterFault
from ampere.meters import calibration
from ampere.meters.base import Meter, Provenance, Reading, Resolution
from ampere.meters.calibration import (
    Calibration,
    Load,
    calibrated,
    fit_watts,
    run_loads,
    store,
    stored,
)
from ampere.meters.drivers.fake import FakeMeter
from ampere.meters.surroundings import Evidence, Look, Surroundings
from frameworks.fake_runtime import StandInDevice

WHEN = "2026-01-31T12:00:00+00:00"
FITTED = Calibration(1.5, 3.25, 0.02, "the meter rapl", WHEN)
BUSY = calibration.BUSY
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(autouse=True)
def beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run side by side, so there is other work on this machine, by design."""
    monkeypatch.setattr(calibration, "BUSY", math.inf)


def loads(idle_w: float, active_w: float, *busy: float, noise: float = 0.0) -> list[Load]:
    rng = random.Random(1)
    return [
        Load(4.0, 4.0 * b, 4.0 * (idle_w + active_w * b) * math.exp(rng.gauss(0.0, noise)))
        for b in busy
    ]


def kept() -> Path:
    return Path(os.environ["XDG_CONFIG_HOME"]) / "ampere" / "cpu.json"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


# --- fitting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("busy", [(0, 1, 2, 4), (0, 4), (4, 0, 0, 4), (0.3, 3.7, 1.1)])
def test_loads_of_the_model_give_its_watts(busy: tuple[float, ...]) -> None:
    found = fit_watts(loads(2.7, 0.925, *busy), "a wall meter", WHEN)
    assert found.idle_w == pytest.approx(2.7)
    assert found.active_w == pytest.approx(0.925)
    assert (found.against, found.when) == ("a wall meter", WHEN)
    if len(busy) == 2:
        assert found.error is None  # two loads fit any two watts
    else:
        assert found.error == pytest.approx(0.0, abs=1e-9)


def test_noise_averages_out_and_is_said() -> None:
    many = loads(5.0, 8.0, *[0, 1, 2, 4] * 25, noise=0.05)
    found = fit_watts(many, "a wall meter", WHEN)
    assert found.idle_w == pytest.approx(5.0, rel=0.03)
    assert found.active_w == pytest.approx(8.0, rel=0.03)
    assert found.error == pytest.approx(0.05, rel=0.3)
    assert f"± {100 * (found.error or 0):.1f} %" in str(found)


def test_errors_are_relative_so_that_idling_counts_too() -> None:
    """Three watts are all of idling, and two percent of sixteen busy cores."""
    found = fit_watts([*loads(3.0, 10.0, 0, 8), Load(1.0, 16.0, 166.0)], "", WHEN)
    assert found.idle_w == pytest.approx(3.0, rel=0.02)


def test_in_words() -> None:
    assert str(FITTED) == (
        "1.5 W idle and 3.25 W for each busy core ± 2.0 %, fitted to the meter rapl on 2026-01-31"
    )
    assert "±" not in str(fit_watts(loads(1.0, 1.0, 0, 1), "", WHEN))


@pytest.mark.parametrize(
    "nonsense",
    [
        [],
        loads(2.0, 1.0, 0),
        loads(2.0, 1.0, 4, 4, 4),
        loads(2.0, 1.0, 0, 0.1),
        [Load(1.0, 0.0, 0.0), Load(1.0, 4.0, 6.0)],
        [Load(1.0, 0.0, -2.0), Load(1.0, 4.0, 6.0)],
        [Load(0.0, 0.0, 2.0), Load(1.0, 4.0, 6.0)],
        [Load(1.0, 0.0, math.nan), Load(1.0, 4.0, 6.0)],
        [Load(1.0, 0.0, 2.0), Load(1.0, 4.0, math.inf)],
        [Load(1.0, 0.0, 2.0), Load(1.0, 4.0, 1e300)],
        [Load(1.0, 0.0, 1e-200), Load(1.0, 4.0, 2e-200)],
        [Load(math.nan, 0.0, 2.0), Load(1.0, 4.0, 6.0)],
    ],
)
def test_too_few_loads_are_refused_with_an_example(nonsense: list[Load]) -> None:
    with pytest.raises(MeterError, match=r"--watts 0=2\.7 --watts 4=6\.4"):
        fit_watts(nonsense, "", WHEN)


@pytest.mark.parametrize(
    "nonsense",
    [
        loads(5.0, -0.5, 0, 1, 4),  # busy cores give energy back
        loads(5.0, 0.0, 0, 4),
        [Load(1.0, 1.0, 1.0), Load(1.0, 4.0, 40.0)],  # idling would
    ],
)
def test_loads_that_make_no_sense_are_refused(nonsense: list[Load]) -> None:
    with pytest.raises(MeterError, match="make no sense of the model"):
        fit_watts(nonsense, "", WHEN)


# --- running loads --------------------------------------------------------------------------------


def children() -> Iterator[tuple[int, float]]:
    """Processes that this one has started, and the seconds that each has used a core."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            parts = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(parts[1]) == os.getpid():
            used = int(parts[11]) + int(parts[12])
            yield int(file.parent.name), used / os.sysconf("SC_CLK_TCK")


class Supply(Meter):
    """Two watts, and three for each second that processes of ours have used a core."""

    name = "supply"
    provenance = Provenance.SENSOR
    summary = "for tests"

    def __init__(self, faults: int = 0) -> None:
        self.faults = faults
        self.used_s: dict[int, float] = {}
        self.others = dict(children())  # of other tests, which last longer

    def read(self) -> Reading:
        if self.faults:
            self.faults -= 1
            raise MeterFault("the sensor is stuck")
        self.used_s.update((pid, s) for pid, s in children() if pid not in self.others)
        time_s = time.perf_counter()
        energy_j = 2.0 * time_s + 3.0 * sum(self.used_s.values())
        return Reading(energy_j, time_s, self.provenance)


@linux
def test_cores_are_kept_busy_up_and_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "SECONDS", 0.3)
    told: list[str] = []
    found = run_loads(Supply(), 2, told.append)
    assert [text[:13] for text in told] == [f"{busy} of 2 cores " for busy in (0, 1, 2, 2, 1, 0)]
    assert [load.cpu_s < 0.05 for load in found] == [True, False, False, False, False, True]
    assert all(0.3 <= load.time_s < 3 for load in found)
    watts = fit_watts(found, "", WHEN)
    assert (watts.idle_w, watts.active_w) == pytest.approx((2.0, 3.0), rel=0.2)


@linux
def test_faults_are_taken_again_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "SECONDS", 0.05)
    assert len(run_loads(Supply(faults=2), 1)) == 4
    with pytest.raises(MeterFault, match="stuck"):
        run_loads(Supply(faults=3), 1)


@linux
def test_a_coarse_meter_is_given_the_time_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "SECONDS", 0.01)
    meter = Supply()
    meter.resolution = Resolution(period_s=0.004)
    assert min(load.time_s for load in run_loads(meter, 1)) >= 0.004 / 0.02


@linux
def test_load_that_ends_early_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its core idles, and the watts would be those of fewer."""
    monkeypatch.setattr(calibration, "SECONDS", 0.05)
    monkeypatch.setattr(calibration, "SPIN", "")
    with pytest.raises(MeterFault, match="kept a core busy has ended"):
        run_loads(Supply(), 1)


def test_load_that_cannot_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "SECONDS", 0.01)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(MeterError, match=r"no core can be kept busy \(No such file"):
        run_loads(FakeMeter(1.0, 1.0), 1)


@linux
def test_no_process_is_left_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    class Broken(Supply):
        def read(self) -> Reading:
            super().read()
            started.extend(self.used_s)
            if self.used_s:
                raise MeterError("unplugged")
            return super().read()

    monkeypatch.setattr(calibration, "SECONDS", 0.05)
    with pytest.raises(MeterError, match="unplugged"):
        run_loads(Broken(), 1)
    assert started
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)


class Neighbours(Surroundings):
    """Others and the load itself have used so many CPU-seconds."""

    used_s = 0.0

    def since(self, before: Look) -> Evidence:
        return Evidence(cpu_s=0.0, cores=2, others_s=self.used_s)


def test_other_work_is_in_the_joules_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "SECONDS", 0.05)
    monkeypatch.setattr(calibration, "BUSY", BUSY)
    monkeypatch.setattr(calibration, "Surroundings", Neighbours)
    monkeypatch.setattr(Neighbours, "used_s", 0.05 * 0.09)
    assert calibration._run_load(Supply(), 0, 0.05).cpu_s == 0.0
    monkeypatch.setattr(Neighbours, "used_s", 0.05 * 0.5)
    with pytest.raises(MeterFault, match=r"^other programs had 0\.50 cores meanwhile: end them, "):
        run_loads(Supply(), 1)


@linux
def test_the_load_itself_is_no_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "BUSY", BUSY)
    monkeypatch.setattr(calibration, "Surroundings", Neighbours)
    used_s = itertools.cycle([0.0, 0.1])
    monkeypatch.setattr(calibration, "_cpu_s", lambda processes: next(used_s))
    monkeypatch.setattr(Neighbours, "used_s", 0.1)  # all of it is the load's
    assert calibration._run_load(Supply(), 2, 0.05).cpu_s == 0.1
    monkeypatch.setattr(Neighbours, "used_s", 0.11)
    with pytest.raises(MeterFault, match=r"other programs had 0\.20 cores"):
        calibration._run_load(Supply(), 2, 0.05)


# --- keeping --------------------------------------------------------------------------------------


def test_what_is_stored_is_found_again() -> None:
    assert stored() is None
    assert calibrated("cpu", {}) == {}
    assert store(FITTED) == kept()
    assert stored() == FITTED
    assert calibrated("cpu", {}) == {"idle_w": 1.5, "active_w": 3.25}
    assert calibrated("rapl", {}) == {}
    other = Calibration(2.0, 1.0, None, "watts that were typed in", WHEN)
    store(other)
    assert stored() == other
    assert [file.name for file in kept().parent.iterdir()] == ["cpu.json"]


def test_without_xdg_it_is_under_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert store(FITTED) == tmp_path / "home" / ".config" / "ampere" / "cpu.json"
    assert stored() == FITTED


def test_where_nothing_can_be_written_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a file, no directory")
    with pytest.raises(MeterError, match="cannot be written"):
        store(FITTED)


ROW = {"idle_w": 1.5, "active_w": 3.0, "error": None, "against": "rapl", "when": WHEN}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "3",
        "[]",
        "{}",
        "\xff",
        json.dumps({**ROW, "idle_w": -1}),
        json.dumps({**ROW, "idle_w": 0, "active_w": 0}),
        json.dumps({**ROW, "active_w": float("nan")}),
        json.dumps({**ROW, "active_w": 10**400}),
        json.dumps({**ROW, "active_w": 1e30}),
        json.dumps({**ROW, "active_w": 0}),
        json.dumps({**ROW, "active_w": True}),
        json.dumps({**ROW, "idle_w": "1.5"}),
        json.dumps({**ROW, "error": 1e999}),
        json.dumps({**ROW, "against": "x" * 2000}),
        json.dumps({**ROW, "against": ["rapl"]}),
        json.dumps(ROW) + " " * 1_000_000,
        "1" * 5000,
        json.dumps({**ROW, "error": -0.1}),
        json.dumps({**ROW, "idle_w": [1]}),
        json.dumps({key: value for key, value in ROW.items() if key != "against"}),
        "[" * 100_000,
    ],
)
def test_a_damaged_file_says_what_to_do(text: str) -> None:
    kept().parent.mkdir(parents=True)
    kept().write_text(text, encoding="latin-1")
    with pytest.raises(MeterError, match=r"cpu\.json is damaged .* calibrate again") as caught:
        stored()
    assert "\n" not in str(caught.value)
    store(FITTED)  # and calibrating again helps
    assert stored() == FITTED


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda part: st.lists(part) | st.dictionaries(st.sampled_from(sorted(ROW)), part),
    )
    | st.fixed_dictionaries(dict.fromkeys(ROW, st.none() | st.integers() | st.floats() | st.text()))
)
def test_whatever_is_kept_gives_watts_or_an_error(row: object) -> None:
    kept().parent.mkdir(parents=True, exist_ok=True)
    kept().write_text(json.dumps(row))
    try:
        found = stored()
    except MeterError:
        return
    assert found is not None
    assert 0 <= found.idle_w < math.inf and 0 <= found.active_w < math.inf
    assert str(found)


# --- the command ----------------------------------------------------------------------------------


def test_watts_that_were_typed_in() -> None:
    result = run("calibrate", "--watts", "0=2.7", "--watts", "4=6.4")
    assert result.exit_code == 0, result.stderr
    assert "2.7 W idle and 0.925 W for each busy core" in result.stdout
    assert "its joules stay modelled" in result.stdout
    found = stored()
    assert found is not None
    assert found.settings == pytest.approx({"idle_w": 2.7, "active_w": 0.925})
    assert found.against == "watts that were typed in"
    row = json.loads(run("calibrate", "--watts", "0=3", "--watts", "2=9", "--json").stdout)
    assert (row["idle_w"], row["active_w"], row["error"]) == pytest.approx((3.0, 3.0, None))


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("calibrate", 2, "either --meter, or --watts"),
        ("calibrate --meter cpu --watts 0=1 --watts 1=2", 2, "either --meter, or --watts"),
        ("calibrate --watts 4", 2, "not like 0=2.7"),
        ("calibrate --watts many=4", 2, "not like 0=2.7"),
        ("calibrate --watts=-1=4 --watts 0=2", 2, "cores, then watts"),
        ("calibrate --watts 0=0 --watts 4=6", 2, "watts above 0"),
        ("calibrate --watts 0=nan --watts 4=6", 2, "cores, then watts"),
        ("calibrate --watts 0=2.7", 1, "two loads at least"),
        ("calibrate --watts 0=5 --watts 4=3", 1, "make no sense"),
        ("calibrate --meter abacus", 1, "no meter named 'abacus'"),
        ("calibrate --meter cpu", 1, "cpu does not measure"),
        ("calibrate --meter fake", 1, "fake does not measure"),
    ],
)
def test_bad_input_is_one_line_and_leaves_what_was_there(line: str, code: int, says: str) -> None:
    store(FITTED)
    result = run(*line.split())
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert "Traceback" not in result.stderr
    assert says in result.stderr
    assert stored() == FITTED


def test_from_python() -> None:
    with pytest.raises(DataError, match="either a better meter, or watts"):
        ampere.calibrate()
    with pytest.raises(DataError, match="either a better meter, or watts"):
        ampere.calibrate(Supply(), {0: 1.0, 4: 2.0})
    with pytest.raises(AmpereError, match="two loads"):
        ampere.calibrate(watts={0: 1.0, 4: math.inf})
    assert ampere.calibrate(watts={0: 2.0, 4: 6.0}).active_w == pytest.approx(1.0)


@pytest.fixture
def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Installs a package that registers a meter of this file, as pip would."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, provenance: str) -> None:
        module = f"thirdparty_{name}_{abs(hash(tmp_path))}"
        (tmp_path / f"{module}.py").write_text(
            f"import sys\n"
            f"Supply = sys.modules[{__name__!r}].Supply\n"
            f"class Meter(Supply):\n"
            f"    name = {name!r}\n"
            f"    provenance = type(Supply.provenance)({provenance!r})\n"
        )
        metadata = tmp_path / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[ampere.meters]\n{name} = {module}:Meter\n")
        importlib.invalidate_caches()

    return install


@linux
def test_a_better_meter(
    register: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "SECONDS", 0.3)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    register("ina219", "sensor")
    result = run("calibrate", "--meter", "ina219")
    assert result.exit_code == 0, result.stderr
    assert "1 of 2 cores busy" in result.stderr
    found = stored()
    assert found is not None
    assert (found.idle_w, found.active_w) == pytest.approx((2.0, 3.0), rel=0.2)
    assert found.error is not None
    assert found.against == "the meter ina219"


def test_a_meter_that_only_models_is_no_better(register: Callable[[str, str], None]) -> None:
    register("guess", "modelled")
    result = run("calibrate", "--meter", "guess")
    assert result.exit_code == 1
    assert "guess does not measure: its joules are no better" in result.stderr
    assert stored() is None


# --- used where the work is done ------------------------------------------------------------------


def test_the_worker_takes_the_fitted_watts_and_calls_them_modelled() -> None:
    store(FITTED)
    with StandInDevice(Settings(threads=1), meter="cpu") as device:
        assert device.fingerprint.identity["meter"] == "cpu:active_w=3.25,idle_w=1.5"
        assert device.provenance is Provenance.MODELLED
        idle = device.burst(device.load(IDLE).handle, 20)
        assert idle.energy_j / idle.time_s == pytest.approx(1.5, rel=0.3)


def opened(settings: dict[str, float]) -> dict[str, float]:
    """What a worker takes, in this process."""
    answer = Worker().open({"name": "cpu", "settings": settings}, asdict(Settings(threads=1)))
    return dict(answer["meter"]["settings"])


def test_watts_that_are_said_come_first() -> None:
    assert opened({}) == {}
    store(FITTED)
    assert opened({}) == FITTED.settings
    assert opened({"idle_w": 4.0}) == {**FITTED.settings, "idle_w": 4.0}
    assert opened({"idle_w": 4.0, "active_w": 2.0}) == {"idle_w": 4.0, "active_w": 2.0}


def test_a_damaged_calibration_is_said_when_the_model_is_to_be_used() -> None:
    kept().parent.mkdir(parents=True)
    kept().write_text("{}")
    with pytest.raises(MeterError, match="is damaged"):
        opened({})
    assert opened({"idle_w": 4.0, "active_w": 2.0}) == {"idle_w": 4.0, "active_w": 2.0}
