"""Logs of lab meters: every format, units, clocks, gaps, and whatever else a file may hold."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.errors import MeterError, MeterFault
from ampere.meters import trace_files
from ampere.meters.drivers.log import PULSE
from ampere.meters.trace_files import FORMATS, TraceReader, read_trace

Log = Callable[[str], str]
EPOCH_S = datetime(2024, 5, 1, 10, 0, 0, tzinfo=timezone.utc).timestamp()


def rows(header: str, row: Callable[[float], str], step_s: float = 0.1, count: int = 21) -> str:
    return "\n".join([header, *(row(number * step_s) for number in range(count))]) + "\n"


def iso(time_s: float, zone: str = "+00:00") -> str:
    return datetime.fromtimestamp(EPOCH_S + time_s, timezone.utc).isoformat()[:-6] + zone


# Every one of these is 10 W for 2 s.
LOGS = {
    "PowerTool": rows(
        "Time (s),Main Avg Current (mA),Main Avg Power (mW),Main Avg Voltage (V)",
        lambda t: f"{t},2500,10000,4",
    ),
    "PowerTool in watts": rows(
        "Time (ms),Main Avg Power (W),Main Max Current (mA)", lambda t: f"{t * 1000},10,7777"
    ),
    "PowerTool without power": rows(
        "Time (s),Main Avg Current (mA),Main Avg Voltage (V)", lambda t: f"{t},2500,4"
    ),
    "PowerTool on USB": rows(
        "Time (s),USB Avg Current (mA),USB Avg Power (mW)", lambda t: f"{t},2000,10000"
    ),
    "PowerTool on both": rows(
        "Time (s),Main Avg Power (mW),USB Avg Power (W)", lambda t: f"{t},9000,1"
    ),
    "PyMonsoon": rows(
        "Time(ms),Main(mA),Main Voltage(V),", lambda t: f"{t},2500.0,4.0,", 0.0005, 4001
    ),
    "PyMonsoon with NumPy 2": rows(
        "Time(ms),Main(mA),Main Voltage(V),",
        lambda t: f"np.float64({t}),np.float64(2500.0),np.float64(4.0),",
        0.001,
        2001,
    ),
    "PyMonsoon, all channels": rows(
        "Time(ms),Main(mA),USB(mA),Aux(mA),Main Voltage(V),USB Voltage(V),",
        lambda t: f"{t},2000,400,9,4,5,",
        0.01,
        201,
    ),
    "PyMonsoon, corrected": rows("Time(s),Main(mA),Main Voltage(V)", lambda t: f"{t},2500,4"),
    "Joulescope statistics": rows(
        "#time,current,voltage,power,charge,energy",
        lambda t: f"{t:.1f},2,5,10,{2 * t:g},{10 * t:g}",
        0.5,
        5,
    ),
    "Joulescope downsampled": rows(
        "time,current,voltage,power,charge,energy", lambda t: f"{t:.7f},2,5.0000,10,0,0", 0.5, 5
    ),
    "Joulescope with comments": rows(
        "#& 20240501 LOGGER : OPEN\n#= header=time,current,voltage,power,charge,energy\n"
        "#= units=s,A,V,W,C,J",
        lambda t: f"{t},2,5,10,0,0\n#& an event",
    ),
    "Joulescope export": rows(
        "#time (s),current (A),voltage (V)", lambda t: f"{t:.7f},2.0000e+00,5.0000"
    ),
    "POWER-Z": rows(
        "ChargerLAB POWER-Z Standard Edition\nTime(s),Vbus(V),Ibus(A),Power(W),Vd+(V),energy(Wh)",
        lambda t: f"{t},5,2,10,0.6,0",
    ),
    "POWER-Z without power": rows("Time,VBUS(V),IBUS(A)", lambda t: f"{t},5,2"),
    "POWER-Z by USB": rows(
        "timestamp_ms,vbus_µV,ibus_µA,vcc1_mV", lambda t: f"{t * 1000:.0f},5000000,2000000,1"
    ),
    "seconds and watts": rows("time_s,power_w", lambda t: f"{t},10"),
    "watts": rows("time,watts", lambda t: f"{t},10"),
    "semicolons": rows('"Time [s]";"Power [W]"', lambda t: f'"{t}";"10"'),
    "tabs": rows("timestamp\tpower", lambda t: f"{t}\t10"),
    "epoch seconds": rows("timestamp,power", lambda t: f"{EPOCH_S + t},10"),
    "epoch milliseconds": rows("timestamp,power", lambda t: f"{(EPOCH_S + t) * 1000:.0f},10"),
    "named epoch milliseconds": rows(
        "timestamp_ms,power_mw", lambda t: f"{(EPOCH_S + t) * 1000:.0f},10000"
    ),
    "dates": rows("timestamp,power", lambda t: f"{iso(t)},10"),
    "dates in Greenwich": rows("timestamp,power", lambda t: f"{iso(t, 'Z')},10"),
    "local dates": rows(
        "date_time,power",
        lambda t: f"{datetime.fromtimestamp(EPOCH_S + t):%Y/%m/%d %H:%M:%S.%f}1,10",
    ),
    "joules": rows("time_s,energy_j", lambda t: f"{t},{500 + 10 * t}"),
    "watt-hours": rows("time,energy (mWh)", lambda t: f"{t},{10 * t / 3.6}"),
}


class TestFormats:
    @pytest.mark.parametrize("name", LOGS)
    def test_units_are_those_of_the_header(self, log: Log, name: str) -> None:
        trace = read_trace(log(LOGS[name]))
        assert trace.end_s - trace.start_s == pytest.approx(2.0)
        assert trace.energy_between(trace.start_s, trace.end_s) == pytest.approx(20.0)
        assert trace.energy_between(trace.start_s + 0.33, trace.end_s - 1.5) == pytest.approx(1.7)

    @pytest.mark.parametrize("name", [name for name in LOGS if "dates" in name or "epoch" in name])
    def test_clocks_become_epoch_seconds(self, log: Log, name: str) -> None:
        assert read_trace(log(LOGS[name])).start_s == pytest.approx(EPOCH_S, abs=1e-4)

    @pytest.mark.parametrize(
        ("format", "name"),
        [
            ("monsoon", "PowerTool"),
            ("joulescope", "Joulescope export"),
            ("power-z", "POWER-Z"),
            ("generic", "joules"),
        ],
    )
    def test_format_can_be_named(self, log: Log, format: str, name: str) -> None:
        trace = read_trace(log(LOGS[name]), format)
        assert trace.energy_between(trace.start_s, trace.end_s) == pytest.approx(20.0)
        others = [other for other in FORMATS if other not in (format, "generic")]
        if name != "POWER-Z":  # its power (W) is Joulescope's too
            for other in others:
                with pytest.raises(MeterError, match="no columns that can be read"):
                    read_trace(log(LOGS[name]), other)

    def test_unknown_format_lists_the_known_ones(self, log: Log) -> None:
        with pytest.raises(MeterError, match="'oscilloscope'; choose auto, monsoon, joulescope"):
            read_trace(log(LOGS["joules"]), "oscilloscope")

    @pytest.mark.parametrize(
        "header",
        ["time,volts", "power,current", "t,p", "", "0,1", "time(A),power", "time,power(V)"],
    )
    def test_unknown_columns_are_shown_beside_the_known_ones(self, log: Log, header: str) -> None:
        with pytest.raises(MeterError) as caught:
            read_trace(log(f"{header}\n0,1\n1,1\n2,1\n"))
        assert f"it shows {header or '0,1'!r}" in str(caught.value)
        assert "current A * voltage V" in str(caught.value)

    def test_header_is_not_looked_for_in_the_whole_log(self, log: Log) -> None:
        with pytest.raises(MeterError, match="no columns"):
            read_trace(log("1,2\n" * 30 + LOGS["joules"]))

    def test_milliseconds_of_pymonsoon_must_look_like_seconds(self, log: Log) -> None:
        text = rows("Time(ms),Main(mA),Main Voltage(V)", lambda t: f"{t * 1000},2500,4")
        with pytest.raises(MeterError, match=r"seconds below Time\(ms\), but 100 from row to row"):
            read_trace(log(text))
        trace = read_trace(log(text.replace("Time(ms)", "Timestamp(ms)")))
        assert trace.energy_between(0, 2) == pytest.approx(20)


class TestRows:
    def test_rows_of_one_time_are_averaged(self, log: Log) -> None:
        trace = read_trace(log("time,power\n0,9\n0,11\n1,4\n1,\n1,16\n2,10\n"))
        assert list(trace.times_s) == [0, 1, 2]
        assert list(trace.totals_j) == [0, 10, 20]

    @pytest.mark.parametrize(
        ("row", "complaint"),
        [
            ("2", "1 cells instead of 2"),
            ("2,5,6", "3 cells instead of 2"),
            ("2,lots", "could not convert"),
            ("2,inf", "not finite"),
            ("nan,5", "neither seconds nor epoch milliseconds"),
            (",5", "neither seconds nor epoch milliseconds"),
            ("1e15,5", "neither seconds nor epoch milliseconds"),
            ("yesterday,5", "Invalid isoformat"),
            ("0.5,5", "time runs back from 1 to 0.5 s"),
        ],
    )
    @pytest.mark.parametrize("column", ["power_w", "energy_j"])
    def test_broken_lines_are_named(self, log: Log, column: str, row: str, complaint: str) -> None:
        path = log(f"time,{column}\n0,1\n\n1,1\n{row}\n3,9\n")
        with pytest.raises(MeterError, match=f"log.csv, line 5: .*{complaint}.*; correct the log"):
            read_trace(path)

    def test_falling_total_is_refused(self, log: Log) -> None:
        with pytest.raises(MeterError, match="line 4: the total falls from 2 to 1 J"):
            read_trace(log("time_s,energy_j\n0,1\n1,2\n2,1\n"))

    @pytest.mark.parametrize("lost", ["", "nan", "NaN", " ", "-20"])
    def test_lost_samples_are_bridged(self, log: Log, lost: str) -> None:
        powers = ["10", lost, lost, "10", "10"]
        text = "".join(f"{time_s},{power}\n" for time_s, power in enumerate(powers))
        assert read_trace(log("time,power\n" + text)).energy_between(0, 4) == pytest.approx(40)

    def test_lost_totals_are_left_out(self, log: Log) -> None:
        trace = read_trace(log("time_s,energy_j\n0,1\n1,\n2,5\n3,nan\n"))
        assert list(trace.times_s) == [0, 2]
        assert trace.energy_between(0, 1) == 2

    def test_samples_before_the_first_good_one_do_not_count(self, log: Log) -> None:
        trace = read_trace(log("time_s,power_w\n0,\n1,nan\n2,10\n3,10\n"))
        assert (trace.start_s, trace.end_s) == (2, 3)
        with pytest.raises(MeterError, match=r"the log covers 2.000 to 3.000 s, not 0.000 s"):
            trace.energy_between(0, 3)

    def test_gap_spoils_only_what_it_touches(self, log: Log) -> None:
        times = [*range(5), *range(30, 35)]
        text = "".join(f"{time_s},10\n" for time_s in times)
        trace = read_trace(log("time,power\n" + text))
        assert trace.energy_between(0, 4) == pytest.approx(40)
        assert trace.energy_between(30, 34) == pytest.approx(40)
        for start_s, end_s in [(0, 34), (3, 5), (10, 20), (29, 31)]:
            for _ in range(2):
                with pytest.raises(MeterFault, match=r"log.csv: .*nothing usable for 26 s"):
                    trace.energy_between(start_s, end_s)

    @pytest.mark.parametrize("shown", ["nan", "-5"])
    def test_impossible_samples_for_too_long_spoil_what_they_touch(
        self, log: Log, shown: str
    ) -> None:
        powers = ["10"] * 5 + [shown] * 20 + ["10"] * 5
        text = "".join(f"{time_s},{power}\n" for time_s, power in enumerate(powers))
        trace = read_trace(log("time,power\n" + text))
        assert len(trace.faults) == 1
        assert trace.energy_between(0, 4) == pytest.approx(40)
        assert trace.energy_between(25, 29) == pytest.approx(40)
        with pytest.raises(MeterFault, match=f"it showed {shown} W"):
            trace.energy_between(20, 29)

    def test_noise_around_zero_is_power_too(self, log: Log) -> None:
        text = "".join(f"{time_s},{0.02 * (-1) ** time_s}\n" for time_s in range(41))
        trace = read_trace(log("time,power\n" + text))
        assert trace.energy_between(0, 40) == pytest.approx(0, abs=1e-9)

    @pytest.mark.parametrize("column", ["power_w", "power (kW)", "current(A),voltage(V)"])
    def test_watts_without_end_are_lost_samples(self, log: Log, column: str) -> None:
        absurd = "1e200,1e200" if "," in column else "1.5e308"
        true = "2,5" if "," in column else "0.01" if "k" in column else "10"
        rows = [true, true, absurd, absurd, true, true]
        text = "".join(f"{time_s},{row}\n" for time_s, row in enumerate(rows))
        trace = read_trace(log(f"time,{column}\n{text}"))
        assert trace.energy_between(0, 5) == pytest.approx(50)
        assert trace.samples_until(5) == 4
        with pytest.raises(MeterError, match="too few usable samples"):
            read_trace(log(f"time,{column}\n0,{absurd}\n1,{absurd}\n2,{true}\n"))

    def test_total_without_end_is_refused(self, log: Log) -> None:
        with pytest.raises(MeterError, match=r"line 3: no meter's total is 1e\+300 J"):
            read_trace(log("time_s,energy_j\n0,1\n1,1e300\n2,1e300\n"))

    def test_too_few_samples_are_a_fault(self, log: Log) -> None:
        """Bridged gaps add up: ten seconds of which three were seen."""
        powers = ["10", "", "", "", "10", "", "", "", "10", "", "10", *["10"] * 10]
        text = "".join(f"{time_s},{power}\n" for time_s, power in enumerate(powers))
        trace = read_trace(log("time,power\n" + text))
        assert not trace.faults
        assert trace.energy_between(10, 20) == pytest.approx(100)
        with pytest.raises(MeterFault, match="3 of 10 samples in 10 s are too few"):
            trace.energy_between(0, 10)

    def test_moment_far_from_what_a_counter_showed_is_a_fault(self, log: Log) -> None:
        """Its total is the truth, but nobody knows when in a long silence it grew."""
        times = [*range(12), *range(40, 45)]
        text = "".join(f"{time_s},{10 * time_s}\n" for time_s in times)
        trace = read_trace(log("time_s,energy_j\n" + text))
        assert trace.energy_between(3, 42) == pytest.approx(390)
        assert trace.energy_between(11, 40) == pytest.approx(290)
        for start_s, end_s in [(3, 20), (20, 42), (15, 30)]:
            with pytest.raises(MeterFault, match="the log is silent for 29 s"):
                trace.energy_between(start_s, end_s)

    def test_stuck_meter_is_a_fault(self, log: Log) -> None:
        powers = [10.0 + time_s % 3 for time_s in range(20)] + [10.0] * 700 + [11.0, 12.0]
        text = "".join(f"{time_s},{power}\n" for time_s, power in enumerate(powers))
        trace = read_trace(log("time,power\n" + text))
        assert trace.energy_between(0, 500) > 0
        with pytest.raises(MeterFault, match=r"log.csv: .* shown 10 W for .*: it is stuck"):
            trace.energy_between(500, 700)

    def test_absurd_sizes_are_refused(
        self, tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for text in ("x" * 10_000_000, "time,power\n0,1\n1," + "1" * 10_000_000):
            with pytest.raises(MeterError, match=r"log.csv, line \d has no end; is it a log\?"):
                read_trace(log(text))
        with pytest.raises(MeterError, match="line 1 has no end"):
            read_trace("/dev/zero")
        monkeypatch.setattr(trace_files, "MOST_LINES", 50)
        with pytest.raises(MeterError, match="has more than 50 lines; cut it, or average"):
            read_trace(log("time,power\n" + "0,1\n" * 100))

    def test_path_that_no_file_can_have_is_refused(self) -> None:
        for path in ("a\0b", "x" * 5000, "/dev/null/x"):
            with pytest.raises(MeterError, match=r"cannot be read .* give another path"):
                read_trace(path)

    @pytest.mark.parametrize("text", ["time,power\n", "time,power\n1,2\n", "time_s,energy_j\n1,2"])
    def test_too_few_samples_are_refused(self, log: Log, text: str) -> None:
        with pytest.raises(MeterError, match="too few usable samples; record for longer"):
            read_trace(log(text))

    def test_bytes_of_spreadsheets_and_of_other_alphabets_are_skipped(self, tmp_path: Path) -> None:
        path = tmp_path / "log.csv"
        path.write_bytes(b"\xef\xbb\xbftime,power,temperature(\xa1\xe6)\r\n0,1,9\r\n1,1,9\r\n")
        assert read_trace(str(path)).energy_between(0, 1) == 1

    def test_missing_files_and_folders_are_refused(self, tmp_path: Path) -> None:
        for path in (tmp_path / "absent.csv", tmp_path):
            with pytest.raises(MeterError, match=r"cannot be read .* give another path"):
                read_trace(str(path))


class TestGrowing:
    def test_each_line_is_read_once_it_is_complete(self, tmp_path: Path) -> None:
        path = tmp_path / "log.csv"
        text = LOGS["seconds and watts"]
        reader = TraceReader(str(path))
        for end in range(len(text) + 1):
            path.write_text(text[:end])
            reader.poll()
        assert reader.poll() == pytest.approx(1.9)  # of the last time, more rows may follow
        assert reader.poll(complete=True) == pytest.approx(2.0)
        assert list(reader.trace().totals_j) == list(read_trace(str(path)).totals_j)

    def test_traces_stay_as_they_were(self, tmp_path: Path) -> None:
        path = tmp_path / "log.csv"
        path.write_text(LOGS["seconds and watts"])
        reader = TraceReader(str(path))
        reader.poll()
        trace = reader.trace()
        with path.open("a") as file:
            file.write("3,10\n4,10\n")
        assert reader.poll() == 3
        assert trace.end_s < 2

    def test_few_samples_do_not_tell_the_period(self, tmp_path: Path) -> None:
        path = tmp_path / "log.csv"
        path.write_text("time,power\n0,10\n0.001,10\n0.002,10\n1,10\n")  # a hasty start
        reader = TraceReader(str(path))
        assert reader.poll() == -math.inf
        with path.open("a") as file:
            file.writelines(f"{time_s},10\n" for time_s in range(2, 20))
        reader.poll()
        assert reader.trace().energy_between(0, 18) == pytest.approx(180)

    def test_log_that_shrinks_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "log.csv"
        path.write_text(LOGS["watts"])
        reader = TraceReader(str(path))
        reader.poll()
        path.write_text("time,watts\n")
        with pytest.raises(MeterError, match="became shorter; record into a new file"):
            reader.poll()


cells = st.one_of(
    st.floats().map(str),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["", "nan", "-0.01", "2024-01-01T00:00:00Z", "0001-01-01", "9999-12-31", "#"]),
    st.text(max_size=8),
)


headers = st.one_of(
    st.sampled_from([log.splitlines()[0] for log in LOGS.values()]), st.text(max_size=30)
)


@settings(deadline=None, max_examples=200)
@given(headers, st.lists(st.lists(cells, max_size=4).map(",".join), max_size=15))
def test_any_text_is_a_trace_or_one_clear_line(header: str, lines: list[str]) -> None:
    check_that_joules_are_sane("\n".join([header, *lines]).encode("utf-8", "surrogatepass"))


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(["time_s,power_w", "timestamp,energy_j", "Time(ms),Main(mA),Main Voltage(V)"]),
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(), st.floats(-1e308, 1e308)), max_size=30),
)
def test_any_numbers_are_a_trace_or_one_clear_line(
    header: str, samples: list[tuple[float, float, float]]
) -> None:
    width = header.count(",") + 1
    lines = [",".join(str(cell) for cell in sample[:width]) for sample in sorted(samples)]
    check_that_joules_are_sane("\n".join([header, *lines]).encode())


def check_that_joules_are_sane(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        path.write_bytes(content)
        try:
            trace = read_trace(str(path))
            energy_j = trace.energy_between(trace.start_s, trace.end_s)
            assert math.isfinite(energy_j)
            assert trace.period_s > 0
            trace.find_pulse(PULSE)
        except MeterError as error:
            assert "\n" not in str(error)
