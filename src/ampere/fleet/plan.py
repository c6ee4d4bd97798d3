"""Plan: who runs what and when, what that takes, and what was not placed.

A plan is kept as JSON (`plan.json`): data, which is read field by field and never run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import read_text
from ampere.core.boundary.moments import utc_moment
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.fleet.plan_table import page_of
from ampere.meters.base import Provenance

VERSION = 1
MOST_BYTES = 64 * 2**20
MOST_ITEMS = 10**6
MOST_S = 1e10


@dataclass(frozen=True)
class Assignment:
    """A job, or some of its steps, on a member.

    Args:
        job: The name of the task.
        member: Who runs it.
        start_s: When it begins, as expected.
        end_s: When it ends, as expected.
        steps: How many of its steps.
        energy_j: Joules of these, as expected.
        energy_j_interval: Their 90 % interval.
        p_battery: The probability that the member's battery lasts to the end of it, with all that
            comes before; 1 on the mains.
        p_deadline: The probability that it ends in time; 1 without a deadline.
        share: Of its joules that pruning leaves, where the plan has it pruned.
    """

    job: str
    member: str
    start_s: float
    end_s: float
    steps: int
    energy_j: float
    energy_j_interval: tuple[float, float]
    p_battery: float = 1.0
    p_deadline: float = 1.0
    share: float = 1.0

    @classmethod
    def from_json(cls, row: Json, where: str = "") -> Assignment:
        """Read what `asdict` made.

        Raises:
            DataError: It is something else.
        """
        fields = Fields(row, where)
        interval = _interval(fields)
        start_s = fields.number("start_s", least=0, most=MOST_S)
        return cls(
            job=fields.text("job", most=200),
            member=fields.text("member", most=200),
            start_s=start_s,
            end_s=fields.number("end_s", least=start_s, most=MOST_S),
            steps=fields.whole("steps", least=1, most=10**15),
            energy_j=fields.number("energy_j", above=0),
            energy_j_interval=interval,
            p_battery=fields.number("p_battery", 1.0, least=0, most=1),
            p_deadline=fields.number("p_deadline", 1.0, least=0, most=1),
            share=fields.number("share", 1.0, above=0, most=1),
        )


@dataclass(frozen=True)
class Unplaced:
    """A job that fits nowhere, why, and the least change with which it would."""

    job: str
    reason: str
    change: str = ""

    @classmethod
    def from_json(cls, row: Json, where: str = "") -> Unplaced:
        """Read what `asdict` made."""
        fields = Fields(row, where)
        return cls(fields.text("job", most=200), fields.text("reason"), fields.text("change", ""))


@dataclass(frozen=True)
class Charge:
    """Joules in a battery at one moment: expected, and the 90 % interval."""

    time_s: float
    energy_j: float
    low_j: float
    high_j: float

    @classmethod
    def from_json(cls, row: Json, where: str = "") -> Charge:
        """Read what `asdict` made."""
        fields = Fields(row, where)
        return cls(
            fields.number("time_s", least=0, most=MOST_S),
            *(fields.number(name) for name in ("energy_j", "low_j", "high_j")),
        )


@dataclass(frozen=True)
class Level:
    """What a kilowatt-hour emits or costs from a moment on."""

    time_s: float
    per_kwh: float

    @classmethod
    def from_json(cls, row: Json, where: str = "") -> Level:
        """Read what `asdict` made."""
        fields = Fields(row, where)
        return cls(fields.number("time_s", least=0, most=MOST_S), fields.number("per_kwh"))


@dataclass(frozen=True)
class Standing:
    """A member as the plan leaves it.

    Args:
        member: Its name.
        device: Whose profile it has, in a few words.
        provenance: Where the joules of that come from; None if they are mixed or not known.
        energy_j: Joules of all jobs that it runs, as expected.
        energy_j_interval: Their 90 % interval, jointly: errors of one profile are shared.
        p_battery: The probability that its battery holds for its whole queue; 1 on the mains.
        capacity_j: What its battery holds; None on the mains.
        reserve_j: What must stay in it.
        charges: Its battery over time; none on the mains.
        carbon: Grams of CO2e a kilowatt-hour while the plan runs; none where it is not known.
        price: What a kilowatt-hour costs meanwhile, in `currency`.
        currency: Of the price.
    """

    member: str
    device: str
    provenance: Provenance | None
    energy_j: float
    energy_j_interval: tuple[float, float]
    p_battery: float = 1.0
    capacity_j: float | None = None
    reserve_j: float = 0.0
    charges: tuple[Charge, ...] = ()
    carbon: tuple[Level, ...] = ()
    price: tuple[Level, ...] = ()
    currency: str = ""

    @classmethod
    def from_json(cls, row: Json, where: str = "") -> Standing:
        """Read what `asdict` made."""
        fields = Fields(row, where)
        interval = _interval(fields)
        said = fields.text("provenance", None, most=50)
        known = {each.value: each for each in Provenance}
        if said is not None and said not in known:
            fields.refuse("provenance", f"one of {', '.join(known)}")
        return cls(
            member=fields.text("member", most=200),
            device=fields.text("device", ""),
            provenance=None if said is None else known[said],
            energy_j=fields.number("energy_j", least=0),
            energy_j_interval=interval,
            p_battery=fields.number("p_battery", 1.0, least=0, most=1),
            capacity_j=fields.number("capacity_j", None, above=0),
            reserve_j=fields.number("reserve_j", 0.0, least=0),
            charges=tuple(
                Charge.from_json(each, place)
                for place, each in fields.items("charges", most=MOST_ITEMS)
            ),
            carbon=_levels(fields, "carbon"),
            price=_levels(fields, "price"),
            currency=fields.text("currency", "", most=10),
        )


@dataclass(frozen=True)
class Plan:
    """Who runs what and when.

    Args:
        begins: The moment that its seconds count from, ISO 8601 in UTC.
        assignments: In the order of their starts.
        unplaced: What fits nowhere.
        standings: A line for each member of the fleet.
        objective: What was minimised: `energy`, `carbon`, `price`, `makespan`, or a mix with its
            weights.
        cost: What the plan comes to in that.
        bound: What no plan can be better than.
        energy_j: Joules of all assignments, as expected.
        bound_j: Joules that no plan of the same jobs can be better than.
        confidence: How surely batteries shall hold and deadlines be kept.
        warnings: What a reader should know.
    """

    begins: str
    assignments: tuple[Assignment, ...]
    unplaced: tuple[Unplaced, ...]
    standings: tuple[Standing, ...]
    objective: str
    cost: float
    bound: float
    energy_j: float
    bound_j: float
    confidence: float
    warnings: tuple[str, ...] = field(default=())

    @property
    def gap(self) -> float | None:
        """By how much it may be worse than the best, as a share of the bound.

        None where no bound above 0 is known, as with prices below 0.
        """
        return max(0.0, self.cost / self.bound - 1) if self.bound > 0 else None

    def of_member(self, name: str) -> Sequence[Assignment]:
        """What this member runs, in order."""
        return [each for each in self.assignments if each.member == name]

    def __repr__(self) -> str:
        return page_of(self).text()

    def _repr_html_(self) -> str:
        return page_of(self).html()

    def to_json(self) -> dict[str, Json]:
        """Plain data, as `ampere schedule` writes it."""
        row = asdict(self)
        for standing in row["standings"]:
            provenance = standing["provenance"]
            standing["provenance"] = None if provenance is None else provenance.value
        return {"version": VERSION, **row, "gap": self.gap}

    @classmethod
    def from_json(cls, row: Json, where: str = "") -> Plan:
        """Read what `to_json` made.

        Raises:
            DataError: It is something else, or of a newer ampere.
        """
        fields = Fields(row, where)
        if fields.whole("version", least=1) > VERSION:
            raise DataError("this plan is of a newer ampere: update it")

        def every(name: str) -> list[tuple[str, Json]]:
            return fields.items(name, most=MOST_ITEMS)

        return cls(
            begins=utc_moment(fields, "begins"),
            assignments=tuple(Assignment.from_json(e, at) for at, e in every("assignments")),
            unplaced=tuple(Unplaced.from_json(e, at) for at, e in every("unplaced")),
            standings=tuple(Standing.from_json(e, at) for at, e in every("standings")),
            objective=fields.text("objective", most=200),
            cost=fields.number("cost"),  # below 0 where electricity is
            bound=fields.number("bound"),
            energy_j=fields.number("energy_j", least=0),
            bound_j=fields.number("bound_j", least=0),
            confidence=fields.number("confidence", above=0, most=1),
            warnings=tuple(str(each) for _, each in every("warnings")),
        )


def _levels(fields: Fields, name: str) -> tuple[Level, ...]:
    listed = fields.items(name, most=MOST_ITEMS)
    return tuple(Level.from_json(each, place) for place, each in listed)


def _interval(fields: Fields) -> tuple[float, float]:
    ends = fields.numbers("energy_j_interval", least=0)
    if len(ends) != 2 or ends[0] is None or ends[1] is None or ends[0] > ends[1]:
        fields.refuse("energy_j_interval", "two numbers, the lower one first")
    return ends[0], ends[1]


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """The plan that `ampere schedule` wrote into a file.

    Raises:
        DataError: The file cannot be read, or is of something else.
    """
    name, text = read_text(path, MOST_BYTES, "a plan by `ampere schedule -o`")
    try:
        return Plan.from_json(parse_json(text))
    except DataError as error:
        raise DataError(f"{name}: {error}; a plan is what `ampere schedule -o` writes") from None


def is_plan(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks like a plan; a profile begins with the header of its journal."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        begin = file.read(4096).lstrip()
    known = any(name in begin for name in (b'"begins"', b'"assignments"'))  # or sorted by a tool
    return begin.startswith(b"{") and b'"ampere_journal"' not in begin and known
