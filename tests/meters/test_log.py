from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import energy_between
from ampere.meters.drivers import log as log_module
from ampere.meters.drivers.log import LogMeter
from ampere.meters.registry import open_meter, parse_meter

from .contract import MeterContract

PERIOD_S = 0.05  # of what was recorded before, and so of the gaps that are forgiven
STEP_S = 0.01


class Recorder:
    """A lab's tool: a thread that appends a line every `STEP_S`, and may keep some back."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] = time.time,
        keep_s: float = 0.0,
        watts: float = 10.0,
    ) -> None:
        self.path, self.watts = str(path), watts
        self.paused = self._ended = False
        self._file = path.open("w")
        self._clock, self._keep_s = clock, keep_s
        self._file.write("timestamp,power_w\n")
        self._record(20)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _record(self, earlier: int = 0) -> None:
        for number in range(-earlier, 1):
            self._file.write(f"{self._clock() + number * PERIOD_S:.6f},{self.watts}\n")

    def _run(self) -> None:
        flushed_s = 0.0
        while not self._ended:
            time.sleep(STEP_S)
            if not self.paused:
                self._record()
            if time.perf_counter() > flushed_s + self._keep_s:
                self._file.flush()
                flushed_s = time.perf_counter()

    def stop(self) -> None:
        self._ended = True
        self._thread.join()
        self._file.close()


Record = Callable[..., Recorder]


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Record]:
    recorders: list[Recorder] = []

    def start(**options: Any) -> Recorder:
        recorders.append(Recorder(tmp_path / f"log{len(recorders)}.csv", **options))
        return recorders[-1]

    yield start
    for recorder in recorders:
        recorder.stop()


@pytest.fixture
def short_pulse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "PULSE", tuple(seconds / 8 for seconds in log_module.PULSE))


@pytest.fixture(autouse=True)
def short_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "POLL_S", 0.002)


class TestLog(MeterContract):
    driver = LogMeter

    @pytest.fixture(autouse=True)
    def recorder(self, record: Record) -> None:
        self.path = record().path

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        return {"path": self.path, "wait_s": 5.0}


def test_joules_are_those_of_the_moments_of_the_looks(record: Record) -> None:
    recorder = record()
    meter = LogMeter(recorder.path, wait_s=5.0)
    first = meter.read()
    time.sleep(0.2)
    second = meter.read()
    time.sleep(4 * PERIOD_S)  # or the change would lie in the sample behind the look
    recorder.watts = 50.0
    changed_s = time.perf_counter()
    time.sleep(0.3)
    third = meter.read()
    window = energy_between(first, second)
    assert window.energy_j == pytest.approx(10 * window.time_s, rel=1e-3)
    assert window.samples is not None
    assert window.samples > 4
    window = energy_between(second, third)
    expected_j = 10 * (changed_s - second.time_s) + 50 * (third.time_s - changed_s)
    # The change lies between two samples.
    assert window.energy_j == pytest.approx(expected_j, rel=0.1)


def test_waits_for_a_tool_that_writes_seldom(record: Record) -> None:
    recorder = record(keep_s=0.2)
    meter = LogMeter(recorder.path, wait_s=5.0)
    first = meter.read()
    time.sleep(0.02)
    last = meter.read()
    assert last.time_s - first.time_s < 0.1  # no look waits for the file
    window = energy_between(first, last)
    assert time.perf_counter() - last.time_s > 0.1  # but its joules do
    assert window.energy_j == pytest.approx(10 * window.time_s, rel=0.05)


def test_samples_are_as_far_apart_as_the_log_shows(record: Record) -> None:
    period_s = LogMeter(record().path).resolution.period_s
    assert period_s == pytest.approx(PERIOD_S, rel=0.1)


def test_recording_that_ended_is_told(record: Record) -> None:
    recorder = record()
    meter = LogMeter(recorder.path, wait_s=0.1)
    recorder.stop()
    for _ in range(2):
        with pytest.raises(MeterError, match=r"log0.csv is .* s behind after 0.1 s of waiting; is"):
            assert meter.read().energy_j


def test_gap_is_told_once(record: Record) -> None:
    recorder = record()
    meter = LogMeter(recorder.path, wait_s=5.0)
    assert meter.read().energy_j
    recorder.paused = True
    time.sleep(0.6)
    recorder.paused = False
    time.sleep(0.05)
    with pytest.raises(MeterFault, match="nothing usable for"):
        assert meter.read().energy_j
    before = meter.read()
    time.sleep(0.05)
    window = energy_between(before, meter.read())
    assert window.energy_j == pytest.approx(10 * window.time_s, rel=0.05)


@pytest.mark.parametrize("ahead_s", [100.0, -100.0])
def test_clock_that_is_wrong_is_told_and_can_be_corrected(record: Record, ahead_s: float) -> None:
    recorder = record(clock=lambda: time.time() + ahead_s)
    with pytest.raises(MeterError, match=r"s behind after 0.2 s|the log covers"):
        LogMeter(recorder.path, wait_s=0.2)
    meter = LogMeter(recorder.path, wait_s=5.0, offset_s=-ahead_s)
    before = meter.read()
    time.sleep(0.1)
    window = energy_between(before, meter.read())
    assert window.energy_j == pytest.approx(10 * window.time_s, rel=0.05)


@pytest.mark.parametrize("set_s", [0.15, -0.15])
def test_clock_that_is_set_in_between_is_a_fault(record: Record, set_s: float) -> None:
    """Or the joules would be those of more, or fewer, seconds than the work took."""
    meter = LogMeter(record().path, wait_s=5.0)
    before = meter.read()
    time.sleep(0.3)
    meter._shift_s += set_s
    with pytest.raises(MeterFault, match=rf"clock was set by {set_s} s; measure again"):
        energy_between(before, meter.read())
    meter._shift_s -= set_s


def test_log_from_the_future_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    now_s = time.time()
    path.write_text("timestamp,power\n" + "".join(f"{now_s + n},5\n" for n in range(-50, 50)))
    with pytest.raises(MeterError, match=r"is 4\d(\.\d)? s ahead of this .* offset_s=-4"):
        LogMeter(str(path))


def test_log_without_dates_is_told(record: Record) -> None:
    recorder = record(clock=time.perf_counter)
    with pytest.raises(MeterError, match=r"s behind .*\(align, offset_s\)\?"):
        LogMeter(recorder.path, wait_s=0.2)


class TestPulse:
    @pytest.fixture
    def busy(self, monkeypatch: pytest.MonkeyPatch, short_pulse: None) -> Callable[..., None]:
        """Makes keeping busy visible in a recording, whatever else this machine does."""

        def show(recorder: Recorder) -> None:
            def keep_busy(seconds: float) -> None:
                recorder.watts = 25.0
                time.sleep(seconds)
                recorder.watts = 10.0

            monkeypatch.setattr(log_module, "_keep_busy", keep_busy)

        return show

    @pytest.mark.parametrize("keep_s", [0.0, 0.2])
    def test_aligns_a_log_of_any_clock(
        self, record: Record, busy: Callable[..., None], keep_s: float
    ) -> None:
        recorder = record(clock=lambda: time.perf_counter() + 1234.5, keep_s=keep_s)
        busy(recorder)
        meter = LogMeter(recorder.path, align="pulse", wait_s=10.0)
        assert meter._shift_s == pytest.approx(1234.5, abs=0.05)
        time.sleep(0.1)  # the last part of the pulse is not of interest
        before = meter.read()
        time.sleep(0.1)
        window = energy_between(before, meter.read())
        assert window.energy_j == pytest.approx(10 * window.time_s, rel=0.05)

    def test_that_cannot_be_seen_is_told(self, record: Record, busy: Callable[..., None]) -> None:
        recorder = record()
        busy(record())  # another machine's log
        with pytest.raises(MeterError, match=r"log0.csv: the pulse cannot be seen in the log"):
            LogMeter(recorder.path, align="pulse", wait_s=0.2)

    def test_keeps_a_processor_busy(self) -> None:
        start_s, start_cpu_s = time.perf_counter(), time.thread_time()
        log_module._keep_busy(0.1)
        assert time.perf_counter() - start_s >= 0.1
        assert time.thread_time() - start_cpu_s > 0.01


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"align": "stars"}, "align=stars is unknown; choose time or pulse"),
        ({"format": "punched cards"}, "no log format 'punched cards'"),
        ({"wait_s": 0.0}, "wait_s=0.0 must be seconds"),
        ({"offset_s": float("nan")}, "offset_s=nan"),
        ({"path": "absent.csv"}, "absent.csv cannot be read"),
        ({"path": 3.0}, "does not take"),
    ],
)
def test_wrong_settings_are_explained(
    log: Callable[[str], str], settings: dict[str, float | str], complaint: str
) -> None:
    with pytest.raises(MeterError, match=complaint):
        open_meter("log", **{"path": log("time,power\n"), **settings})


def test_obstacle_says_how_to_name_the_log() -> None:
    advice = LogMeter.obstacle()
    assert advice is not None
    assert parse_meter(advice.rpartition(" ")[2]) == ("log", {"path": "power.csv"})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no columns that can be read"),
        ("time,power\n", "too few usable samples"),
        ("time,power\n" + "".join(f"{n},-9\n" for n in range(30)), "too few usable samples"),
    ],
)
def test_empty_log_is_told(log: Callable[[str], str], text: str, complaint: str) -> None:
    for align in ("time", "pulse"):
        with pytest.raises(MeterError, match=complaint):
            LogMeter(log(text), align=align, wait_s=0.1)
