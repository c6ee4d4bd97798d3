"""The CSV logs of lab meters, read into traces of power.

    Monsoon PowerTool   Time (s),Main Avg Current (mA),Main Avg Power (mW),Main Avg Voltage (V)
    Monsoon PyMonsoon   Time(ms),Main(mA),USB(mA),Main Voltage(V),USB Voltage(V),
    Joulescope          #time,current,voltage,power,charge,energy  or  #time (s),current (A),...
    ChargerLAB POWER-Z  ...,Vbus(V),Ibus(A),Power(W),...           the line above is a title
    others              time_s,power_w   timestamp,watts   time_s,energy_j (a running total)

Units come from the header; a column without one is in SI units. Time counts seconds from anywhere,
or is epoch seconds, epoch milliseconds or an ISO 8601 date (without a zone: this machine's).
PyMonsoon writes seconds below `Time(ms)`, and stamps a packet of samples with one time: rows of the
same time are averaged. The channels of a Monsoon that have a voltage are added up.

An empty cell or `nan` is a lost sample, and so are watts below `FLOOR_W` (noise around 0 is not) or
beyond what any device draws. What that means for the joules is decided where those of every meter
are: in `Integral`.
"""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import AUTO
from ampere.meters.integration import Integral
from ampere.meters.traces import PowerTrace, median_step

# Where the watts (or joules so far) stand, best first: a sum of products of columns and units.
FORMATS = {
    "monsoon": (
        "main avg power W + usb avg power W",
        "main avg power W",
        "usb avg power W",
        "main avg current A * main avg voltage V",
        "main A * main voltage V + usb A * usb voltage V",
        "main A * main voltage V",
        "usb A * usb voltage V",
    ),
    "joulescope": ("power W", "current A * voltage V"),
    "power-z": ("power W", "vbus V * ibus A"),
    "generic": ("power W", "watts W", "current A * voltage V", "energy J", "joules J"),
}
TIMES = ("time", "timestamp", "time stamp", "datetime", "date time", "elapsed time")
FLOOR_W = -0.05
FROZEN_S = 600.0  # a lab's meter has more digits than the same ones for so long
MOST_J = 1e12  # of a running total; beyond, its digits no longer tell a joule's parts
LONGEST = 65536  # bytes of a line
MOST_LINES = 20_000_000  # over an hour of a Monsoon's 5 kHz

_SCALES = {"": 1.0, "k": 1e3, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9}
_UNITS = {
    **{(p + unit).lower(): (unit, scale) for unit in "sAVWJ" for p, scale in _SCALES.items()},
    **{p + "wh": ("J", 3600 * _SCALES[p]) for p in ("", "k", "m")},
}
_SEPARATOR = re.compile("[,;\t]")
_HEADER_LINES = 20  # what looks like a header further down is none
_EARLY = 10  # samples that tell the period


def read_trace(path: str, format: str = AUTO) -> PowerTrace:
    """Read a log that is complete.

    Raises:
        MeterError: If it cannot be read or is damaged; the line is named.
    """
    reader = TraceReader(path, format)
    reader.poll(complete=True)
    return reader.trace()


class TraceReader:
    """Reads a log that may still grow, each line once."""

    def __init__(self, path: str, format: str = AUTO) -> None:
        if format != AUTO and format not in FORMATS:
            raise MeterError(f"no log format {format!r}; choose {', '.join([AUTO, *FORMATS])}")
        self._path = Path(path)
        chosen = list(FORMATS) if format == AUTO else [format]
        self._ways = list(dict.fromkeys(way for name in chosen for way in FORMATS[name]))
        self._offset = self._line = 0
        self._titles: list[str] = []  # lines up to the header
        self._columns: _Columns | None = None
        self._stamp_s = self._last_j = -math.inf
        self._rows = array("d")  # the values of that time
        self._early: list[tuple[float, float]] = []
        self._integral: Integral | None = None
        self._times_s, self._totals_j, self._lost_s = array("d"), array("d"), array("d")
        self._faults: list[tuple[float, float, str]] = []

    def poll(self, *, complete: bool = False) -> float:
        """Read what was added to the log, and return the time that it reaches by now.

        Args:
            complete: Nothing will be added; otherwise the last line, or time, may be unfinished.
        """
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._offset:
                    raise MeterError(f"{self._path} became shorter; record into a new file")
                file.seek(self._offset)
                while line := file.readline(LONGEST):
                    self._check_size(line)
                    if not (line.endswith(b"\n") or complete):
                        break
                    self._offset += len(line)
                    self._line += 1
                    self._take(line.decode("utf-8", "replace").strip("\ufeff\r\n "))
        except (OSError, ValueError) as error:  # the latter: a path that no file can have
            reason = getattr(error, "strerror", error)
            raise MeterError(f"{self._path} cannot be read ({reason}); give another path") from None
        if complete:
            self._end_time()
            self._begin()
        return self._times_s[-1] if len(self._times_s) > 1 else -math.inf

    def trace(self) -> PowerTrace:
        """What was read so far."""
        if self._columns is None:
            raise self._unreadable()
        if len(self._times_s) < 2:
            raise MeterError(f"{self._path} holds too few usable samples; record for longer")
        return PowerTrace(
            self._times_s[:],
            self._totals_j[:],
            tuple(self._faults),
            lost_s=self._lost_s[:],
            counted=self._columns.total,
        )

    def _check_size(self, line: bytes) -> None:
        if len(line) == LONGEST and not line.endswith(b"\n"):
            raise MeterError(f"{self._path}, line {self._line + 1} has no end; is it a log?")
        if self._line >= MOST_LINES:
            raise MeterError(f"{self._path} has more than {MOST_LINES} lines; cut it, or average")

    def _take(self, line: str) -> None:
        if self._columns is None:
            self._columns = _find_columns(line, self._ways)
            self._titles.append(line)
            if self._columns is None and len(self._titles) == _HEADER_LINES:
                raise self._unreadable()
        elif line and not line.startswith("#"):
            self._take_row(line, self._columns)

    def _take_row(self, line: str, columns: _Columns) -> None:
        where = f"{self._path}, line {self._line}"
        try:
            time_s, value = columns.read(line)
        except (ValueError, OverflowError, OSError) as error:  # the latter: dates in odd years
            raise MeterError(f"{where}: {line[:60]!r}: {error}; correct the log") from None
        if time_s < self._stamp_s:
            span = f"{self._stamp_s:.10g} to {time_s:.10g} s"
            raise MeterError(f"{where}: time runs back from {span}; correct the log")
        if columns.total and value < self._last_j:
            span = f"{self._last_j:g} to {value:g} J"
            raise MeterError(f"{where}: the total falls from {span}; correct the log")
        if columns.total and abs(value) > MOST_J:
            raise MeterError(f"{where}: no meter's total is {value:g} J; correct the log")
        if time_s > self._stamp_s:
            self._end_time()
        self._stamp_s = time_s
        self._rows.append(value)
        self._last_j = self._last_j if math.isnan(value) else value

    def _end_time(self) -> None:
        """All rows of one time are known: together they are one sample."""
        rows, self._rows = self._rows, array("d")
        values = [value for value in rows if math.isfinite(value)]
        if not rows or self._columns is None:
            return
        if not self._columns.total:
            self._sample(self._stamp_s, sum(values) / len(values) if values else math.nan)
        elif values:
            self._append(self._stamp_s, values[-1])

    def _sample(self, time_s: float, power_w: float) -> None:
        if self._integral is None:
            self._early.append((time_s, power_w))
            if len(self._early) == _EARLY:
                self._begin()
            return
        believed = self._integral.add(time_s, power_w)
        try:
            self._integral.look(time_s)
        except MeterFault as fault:
            if not self._times_s:
                return  # the log begins with its first good sample
            since_s = self._times_s[-1]
            if self._faults and self._faults[-1][1] == since_s:
                since_s = self._faults.pop()[0]
            self._faults.append((since_s, time_s, f"{self._path}: {fault}"))
        if not believed:
            self._lost_s.append(time_s)
        self._append(time_s, self._integral.energy_j)

    def _append(self, time_s: float, total_j: float) -> None:
        self._times_s.append(time_s)
        self._totals_j.append(total_j)

    def _begin(self) -> None:
        """The first samples tell their period, without which a gap cannot be told."""
        if len(self._early) < 2 or self._columns is None:
            return
        period_s = median_step([time_s for time_s, _ in self._early])
        if self._columns.mislabelled and period_s > 0.1:
            raise MeterError(
                f"{self._path}: PyMonsoon writes seconds below Time(ms), but {period_s:g} from row "
                "to row is too slow for a Monsoon; rename the column to Time(s) or Timestamp(ms)"
            )
        self._integral = Integral(period_s, frozen_s=FROZEN_S, floor_w=FLOOR_W)
        early, self._early = self._early, []
        for time_s, power_w in early:
            self._sample(time_s, power_w)

    def _unreadable(self) -> MeterError:
        title = max(self._titles, key=lambda line: len(_SEPARATOR.findall(line)), default="")
        return MeterError(
            f"{self._path} has no columns that can be read; it shows {title[:200]!r}, needed are "
            f"a time and {'; or '.join(self._ways)}"
        )


@dataclass(frozen=True)
class _Columns:
    """Where the numbers of a row stand, and by what they are multiplied."""

    count: int
    time: tuple[int, float]
    terms: tuple[tuple[tuple[int, float], ...], ...]  # a sum of products
    total: bool
    mislabelled: bool

    def read(self, line: str) -> tuple[float, float]:
        """Seconds, and watts or joules; NaN where a cell is empty.

        Raises:
            ValueError: If the line is broken.
        """
        cells = _SEPARATOR.split(line)
        if len(cells) < self.count or any(cell.strip() for cell in cells[self.count :]):
            raise ValueError(f"{len(cells)} cells instead of {self.count}")
        column, scale = self.time
        products = (math.prod(_number(cells[i]) * by for i, by in term) for term in self.terms)
        return _clock_s(cells[column], scale), sum(products, 0.0)


def _find_columns(line: str, ways: list[str]) -> _Columns | None:
    cells = _SEPARATOR.split(re.sub(r"^#(= header=)?", "", line).rstrip(",;\t "))
    columns: dict[str, tuple[int, float]] = {}
    for index, cell in enumerate(cells):
        text = re.sub(r'[\s_()\[\]"]+', " ", cell).strip().lower()
        name, _, last_word = text.rpartition(" ")
        unit, scale = _UNITS.get(last_word, ("", 1.0))
        for possible in unit or "sAVWJ":
            columns.setdefault(f"{name if unit else text} {possible}", (index, scale))
    times = [columns[f"{name} s"] for name in TIMES if f"{name} s" in columns]
    for way in ways:
        terms = [[column.strip() for column in term.split("*")] for term in way.split("+")]
        if times and all(column in columns for term in terms for column in term):
            index, scale = times[0]
            python = terms[0][0] in ("main A", "usb A") and columns.get("time s") == times[0]
            mislabelled = python and scale == 1e-3
            return _Columns(
                count=len(cells),
                time=(index, 1.0 if mislabelled else scale),
                terms=tuple(tuple(columns[column] for column in term) for term in terms),
                total=way.endswith(" J"),
                mislabelled=mislabelled,
            )
    return None


def _number(cell: str) -> float:
    text = cell.strip(' "')
    if text.startswith("np.float64("):  # how PyMonsoon writes with NumPy 2
        text = text[11:-1]
    value = float(text or "nan")
    if math.isinf(value):
        raise ValueError("not finite")
    return value


def _clock_s(cell: str, scale: float) -> float:
    try:
        time_s = _number(cell) * scale
    except ValueError:
        text = cell.strip(' "').replace("/", "-").replace("Z", "+00:00")
        text = re.sub(r"\.(\d+)", lambda match: "." + match[1][:6].ljust(6, "0"), text)
        return datetime.fromisoformat(text).timestamp()
    if abs(time_s) >= 1e11:  # the year 5138: these are milliseconds
        time_s /= 1000
    if not abs(time_s) < 1e11:
        raise ValueError("neither seconds nor epoch milliseconds")
    return time_s
