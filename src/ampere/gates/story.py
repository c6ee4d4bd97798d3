"""Story: what a gate tells of a run, a line of JSON at a time: a start, statuses, an end.

    RUN/gate.jsonl
      {"event": "start", "run": "a1b2...", "time": "2026-11-18T09:00:00+00:00", "budget_j": 7200}
      {"event": "status", "time": ..., "step": 120, "spent_j": 431.0, "forecast_j": 6810.0,
       "forecast_j_interval": [6120.0, 7580.0], "power_w": 3.6, "budget_j": 7200.0,
       "verdict": "inside", "provenance": "modelled", ...}
      {"event": "end", "time": ..., "reason": "finished", "step": 2000, "spent_j": 6790.2, ...}

A run that is resumed goes on in the same file with another start. A file without an end is of a
run that goes on, or that was killed: its last time tells which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import TypeAlias, TypeVar

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import is_there, read_whole
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.meters.base import Provenance

W = TypeVar("W", bound="Watching")

FILE = "gate.jsonl"
VERSION = 1
LONGEST_LINE = 1_000_000
LONGEST_NAME, LONGEST_NOTE = 200, 2000  # of a part, and of a line for people


class Verdict(str, Enum):
    """How a run stands to its budget."""

    INSIDE = "inside"  # it will stay inside, with the asked confidence
    RISK = "at risk"  # it may not
    OVER = "over"  # it will not
    STOP = "stop"  # the next window could exceed the budget: it ends now
    FREE = "no budget"
    UNGATED = "ungated"  # the meter failed: nobody watches


class Reason(str, Enum):
    """Why a run ended."""

    FINISHED = "finished"
    BUDGET = "budget"
    REFUSED = "refused"  # before it began
    FAILED = "failed"  # the training itself raised something
    LEFT = "left"  # the loop ended before its steps were done


@dataclass(frozen=True)
class Part:
    """A layer, or an operation, of what was estimated before the run."""

    name: str
    energy_j: float

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return {"name": self.name, "energy_j": self.energy_j}

    @classmethod
    def read(cls, row: Json, place: str) -> Part:
        """What `to_json` wrote."""
        fields = Fields(row, place)
        return cls(fields.text("name", most=LONGEST_NAME), fields.number("energy_j", least=0))


@dataclass(frozen=True)
class Start:
    """What was known before the first step; of a resumed run, before its next one."""

    run: str
    time: str
    provenance: Provenance
    meter: str = ""
    device: str = ""
    name: str = ""
    steps: int | None = None
    budget: str = ""  # as the user wrote it
    budget_j: float | None = None
    confidence: float = 0.9
    step: int = 0
    spent_j: float = 0.0
    estimate_j: float | None = None
    estimate_j_interval: tuple[float, float] | None = None
    layers: tuple[Part, ...] = ()
    carbon_g_per_kwh: float | None = None
    price_per_kwh: float | None = None
    currency: str = ""
    grid: str = ""  # whose electricity it is: a country, if one was named
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """A line of the file."""
        return {
            "event": "start",
            "version": VERSION,
            "run": self.run,
            "time": self.time,
            "provenance": self.provenance.value,
            "meter": self.meter,
            "device": self.device,
            "name": self.name,
            "steps": self.steps,
            "budget": self.budget,
            "budget_j": self.budget_j,
            "confidence": self.confidence,
            "step": self.step,
            "spent_j": self.spent_j,
            "estimate_j": self.estimate_j,
            "estimate_j_interval": _listed(self.estimate_j_interval),
            "layers": [part.to_json() for part in self.layers],
            "carbon_g_per_kwh": self.carbon_g_per_kwh,
            "price_per_kwh": self.price_per_kwh,
            "currency": self.currency,
            "grid": self.grid,
            "notes": list(self.notes),
        }

    @classmethod
    def read(cls, fields: Fields) -> Start:
        """What `to_json` wrote, or somebody else."""
        version = fields.whole("version", VERSION)
        if version > VERSION:
            raise DataError(f"version {version} of a run is newer than this ampere: update it")
        return cls(
            run=fields.text("run", most=100),
            time=fields.text("time", most=100),
            provenance=_provenance(fields),
            meter=fields.text("meter", "", most=200),
            device=fields.text("device", "", most=1000),
            name=fields.text("name", "", most=1000),
            steps=fields.whole("steps", None, least=1),
            budget=fields.text("budget", "", most=200),
            budget_j=fields.number("budget_j", None, above=0),
            confidence=fields.number("confidence", 0.9, least=0, most=1),
            step=fields.whole("step", 0),
            spent_j=fields.number("spent_j", 0.0, least=0),
            estimate_j=fields.number("estimate_j", None, least=0),
            estimate_j_interval=_interval(fields, "estimate_j_interval"),
            layers=tuple(Part.read(item, place) for place, item in fields.items("layers")),
            carbon_g_per_kwh=fields.number("carbon_g_per_kwh", None, least=0),
            price_per_kwh=fields.number("price_per_kwh", None),
            currency=fields.text("currency", "", most=20),
            grid=fields.text("grid", "", most=200),
            notes=_texts(fields, "notes"),
        )


@dataclass(frozen=True)
class Status:
    """One look at a run: spent so far, what it will come to, and how that stands to the budget."""

    time: str
    step: int
    spent_j: float
    provenance: Provenance
    verdict: Verdict
    elapsed_s: float = 0.0
    steps: int | None = None
    power_w: float | None = None
    forecast_j: float | None = None
    forecast_j_interval: tuple[float, float] | None = None
    budget_j: float | None = None
    stops_at: int | None = None  # the step at which the budget will be spent, if before the end
    overhead: float | None = None  # joules per joule of the estimate, as far as it is known
    spent_gco2e: float | None = None
    spent_cost: float | None = None
    notes: tuple[str, ...] = field(default=())  # what happened since the last look

    def to_json(self) -> dict[str, Json]:
        """A line of the file."""
        return {
            "event": "status",
            "time": self.time,
            "step": self.step,
            "steps": self.steps,
            "elapsed_s": self.elapsed_s,
            "spent_j": self.spent_j,
            "forecast_j": self.forecast_j,
            "forecast_j_interval": _listed(self.forecast_j_interval),
            "power_w": self.power_w,
            "budget_j": self.budget_j,
            "verdict": self.verdict.value,
            "provenance": self.provenance.value,
            "stops_at": self.stops_at,
            "overhead": self.overhead,
            "spent_gco2e": self.spent_gco2e,
            "spent_cost": self.spent_cost,
            "notes": list(self.notes),
        }

    @classmethod
    def read(cls, fields: Fields) -> Status:
        """What `to_json` wrote, or somebody else."""
        return cls(
            time=fields.text("time", most=100),
            step=fields.whole("step"),
            spent_j=fields.number("spent_j", least=0),
            provenance=_provenance(fields),
            verdict=Verdict(fields.choice("verdict", [each.value for each in Verdict])),
            elapsed_s=fields.number("elapsed_s", 0.0, least=0),
            steps=fields.whole("steps", None, least=1),
            power_w=fields.number("power_w", None, least=0),
            forecast_j=fields.number("forecast_j", None, least=0),
            forecast_j_interval=_interval(fields, "forecast_j_interval"),
            budget_j=fields.number("budget_j", None, above=0),
            stops_at=fields.whole("stops_at", None),
            overhead=fields.number("overhead", None, least=0),
            spent_gco2e=fields.number("spent_gco2e", None, least=0),
            spent_cost=fields.number("spent_cost", None),
            notes=_texts(fields, "notes"),
        )


@dataclass(frozen=True)
class End:
    """How a run ended, and what it took in all."""

    time: str
    reason: Reason
    step: int
    spent_j: float
    provenance: Provenance
    elapsed_s: float = 0.0
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Json]:
        """A line of the file."""
        return {
            "event": "end",
            "time": self.time,
            "reason": self.reason.value,
            "step": self.step,
            "spent_j": self.spent_j,
            "provenance": self.provenance.value,
            "elapsed_s": self.elapsed_s,
            "notes": list(self.notes),
        }

    @classmethod
    def read(cls, fields: Fields) -> End:
        """What `to_json` wrote, or somebody else."""
        return cls(
            time=fields.text("time", most=100),
            reason=Reason(fields.choice("reason", [each.value for each in Reason])),
            step=fields.whole("step"),
            spent_j=fields.number("spent_j", least=0),
            provenance=_provenance(fields),
            elapsed_s=fields.number("elapsed_s", 0.0, least=0),
            notes=_texts(fields, "notes"),
        )


Event: TypeAlias = Start | Status | End
_EVENTS = {"start": Start, "status": Status, "end": End}


def read_event(line: str | bytes, place: str = "") -> Event:
    """One line of a run's file.

    Raises:
        DataError: It is none.
    """
    fields = Fields(parse_json(line), place)
    kind: type[Event] = _EVENTS[fields.choice("event", tuple(_EVENTS))]
    return kind.read(fields)


def read_events(lines: Iterable[str | bytes], place: str = "") -> Iterator[Event]:
    """The events of a file; a last line that was cut off by a crash is left out."""
    pending: DataError | None = None
    for number, line in enumerate(lines, 1):
        if pending is not None:
            raise pending
        if not line.strip():
            continue
        try:
            if len(line) > LONGEST_LINE:
                raise DataError("it is longer than anybody needs")
            yield read_event(line)
        except DataError as error:
            pending = DataError(f"{place}, line {number}: {error}")


def last_event(path: Path, run: str | None = None) -> Event | None:
    """The last thing that a file tells of a run, or of whichever is last; None if there is nothing.

    Raises:
        DataError: The file is no story, or is one of other runs only.
    """
    if not is_there(path):
        return None
    last: Event | None = None
    current, runs = "", []
    for event in read_events(read_whole(path).splitlines(), str(path)):
        if isinstance(event, Start):
            current = event.run
            runs.append(current)
        if run is None or current == run:
            last = event
    if last is None and runs:
        raise DataError(
            f"{path} tells of another run ({runs[-1]}): choose another folder for this one,"
            " or resume that one"
        )
    return last


def last_run(path: Path) -> str:
    """The run that a file told of last; empty if it tells of none."""
    events = read_events(read_whole(path).splitlines(), str(path))
    return next((event.run for event in reversed(list(events)) if isinstance(event, Start)), "")


def story_path(run: str | Path) -> Path:
    """The file of a run: of a folder the one inside it."""
    path = Path(run)
    return path / FILE if path.is_dir() or path.suffix != ".jsonl" else path


def _listed(interval: tuple[float, float] | None) -> Json:
    return None if interval is None else list(interval)


def _interval(fields: Fields, name: str) -> tuple[float, float] | None:
    values = fields.numbers(name, least=0)
    if not values:
        return None
    low, high = values if len(values) == 2 else (None, None)
    if low is None or high is None or low > high:
        fields.refuse(name, "two numbers, the lower first")
    return low, high


def _provenance(fields: Fields) -> Provenance:
    return Provenance(fields.choice("provenance", [each.value for each in Provenance]))


def _texts(fields: Fields, name: str) -> tuple[str, ...]:
    texts = []
    for place, item in fields.items(name, most=1000):
        if not isinstance(item, str) or len(item) > LONGEST_NOTE:
            raise DataError(f"{place} must be a short text")
        texts.append(item)
    return tuple(texts)


class Watching:
    """Something that is started and finished around a training, or entered by `with`."""

    def start(self) -> None:
        """Begin to count."""
        raise NotImplementedError

    def finish(self, reason: Reason | None = None) -> None:
        """Tell the end."""
        raise NotImplementedError

    def __enter__(self: W) -> W:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        interrupted = isinstance(error, KeyboardInterrupt)  # by a person: nothing has failed
        self.finish(None if error is None else Reason.LEFT if interrupted else Reason.FAILED)
