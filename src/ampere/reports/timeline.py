"""Timeline: a device over the time of a plan: its jobs, its battery, what its electricity is like.

     digits      │ faces │                bars, one row for each job at once
    ▔▔▔▔╲▁▁▁▁▁▁▁╱▔▔▔▔▔▔▔▔▔╲___            its battery: expected, 90 % of what may be, the reserve
    ▁▁▁▁▁▂▂▂▂▅▅▅▅▅▃▃▃▁▁▁▁▁▁▁▁            grams or money a kilowatt-hour
    0        2 h        4 h

Places along the time are shares of the width, so that letters stay as large as they are on a phone
and on a desk: a chart that is stretched as a whole would stretch them, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ampere.core import units
from ampere.fleet.plan import Assignment, Charge, Level, Standing
from ampere.reports.ranking import ORIGINS
from ampere.reports.svg import NAMESPACE, Svg, element, line, points

ROW, GAP = 22, 3
LETTERS = 15  # of a line of text
CURVE, STEPS = 70, 26  # heights of a battery and of a rate
AXIS = 18
BETWEEN = 8
ACROSS, UP = 1000.0, 100.0  # of what is stretched
MOST_POINTS = 400
TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
MOST_TICKS = 5
NARROW = 0.02  # of the width: no name can be read in such a bar
LATE = 0.85  # of the width: a number that stands further right ends at its place
MIXED = "mixed"  # the colour of joules of several kinds


@dataclass(frozen=True)
class Clock:
    """The time of a plan, from its beginning to the end of its last job."""

    until_s: float

    def share(self, time_s: float) -> float:
        """How far along this moment is, from 0 to 1."""
        return min(max(time_s / self.until_s, 0.0), 1.0)

    def at(self, time_s: float) -> str:
        """The same as a place."""
        return _percent(self.share(time_s))

    @property
    def ticks(self) -> list[float]:
        """A few round moments."""
        days = 86400 * max(1, -(-self.until_s // (86400 * MOST_TICKS)))
        steps = (step for step in TICKS if self.until_s / step <= MOST_TICKS)
        step_s = next(steps, days)
        return [number * step_s for number in range(int(self.until_s / step_s) + 1)]


def timeline(
    standing: Standing, jobs: Sequence[Assignment], clock: Clock, *, title: str, description: str
) -> Svg:
    """What a device does while a plan runs; of one that has nothing to show, nothing."""
    pieces: list[Svg] = []
    rows = list(rows_of(jobs))
    top = 2.0
    for row in rows:
        pieces += [_bar(job, standing, clock, top) for job in row]
        top += ROW + GAP
    for part, height in _curves(standing, clock):
        top += BETWEEN
        pieces.append(_placed(part, top, height))
        top += height
    if not pieces:
        return Markup("")
    return element(
        "svg",
        element("title", title),
        element("desc", description),
        *_axis(clock, top),
        *pieces,
        xmlns=NAMESPACE,
        role="img",
        class_="chart timeline",
        height=top + AXIS,
    )


def rows_of(jobs: Sequence[Assignment]) -> Iterator[list[Assignment]]:
    """Jobs that run at once stand below each other."""
    left = sorted(jobs, key=lambda job: (job.start_s, job.end_s))
    while left:
        row: list[Assignment] = []
        later: list[Assignment] = []
        for job in left:
            free = not row or job.start_s >= row[-1].end_s - 1e-6
            (row if free else later).append(job)
        yield row
        left = later


def _bar(job: Assignment, standing: Standing, clock: Clock, top: float) -> Svg:
    """A job; its name is cut where the bar ends."""
    kind = MIXED if standing.provenance is None else standing.provenance.metered
    colour = f"sort{ORIGINS.index(kind)}" if kind in ORIGINS else MIXED
    width = clock.share(job.end_s) - clock.share(job.start_s)
    note = (
        f"{job.job}: {units.seconds(job.start_s)} to {units.seconds(job.end_s)},"
        f" {units.plural(job.steps, 'step')}, {units.joules(job.energy_j)}"
    )
    return element(
        "svg",
        element("title", note),
        element("rect", width="100%", height=ROW, rx=3, class_=colour),
        *([element("text", job.job, x=6, y=15, class_=f"on-{colour}")] if width > NARROW else []),
        x=clock.at(job.start_s),
        y=top,
        width=_percent(max(width, 0.0005)),
        height=ROW,
        class_="job",
    )


def _curves(standing: Standing, clock: Clock) -> Iterator[tuple[list[Svg], float]]:
    """What stands below the jobs, each with its height."""
    if standing.capacity_j is not None and standing.charges:
        yield _battery(standing, standing.capacity_j, clock), LETTERS + CURVE
    if len(standing.carbon) > 1:
        yield _steps(standing.carbon, "gCO2e a kWh", clock), LETTERS + STEPS
    if len(standing.price) > 1:
        yield _steps(standing.price, f"{standing.currency} a kWh", clock), LETTERS + STEPS


def _battery(standing: Standing, capacity_j: float, clock: Clock) -> list[Svg]:
    def height(energy_j: float) -> float:
        return UP * (1 - min(max(energy_j / capacity_j, 0.0), 1.0))

    charges = thinned(standing.charges)
    across = [ACROSS * clock.share(each.time_s) for each in charges]
    middle, low, high = (
        list(zip(across, map(height, column), strict=True))
        for column in zip(*((c.energy_j, c.low_j, c.high_j) for c in charges), strict=True)
    )
    reserve = height(standing.reserve_j)
    drawn = [
        element("polygon", points=points([*low, *reversed(high)]), class_="band"),
        line("line", *middle),
    ]
    said = f"battery, {units.joules(capacity_j)} when full"
    if standing.reserve_j > 0:
        drawn.append(line("reserve", (0.0, reserve), (ACROSS, reserve)))
        said += f"; dashed: its reserve, {units.joules(standing.reserve_j)}"
    return [_label(said), _stretched(drawn, CURVE)]


def _steps(levels: Sequence[Level], unit: str, clock: Clock) -> list[Svg]:
    """A rate that changes, as stairs from 0 (or the lowest below it) up."""
    values = [level.per_kwh for level in levels]
    low, high = min(0.0, *values), max(0.0, *values)
    ends = [*(level.time_s for level in levels[1:]), clock.until_s]
    stairs: list[tuple[float, float]] = []
    for level, end_s in zip(levels, ends, strict=True):
        up = UP * (1 - (level.per_kwh - low) / ((high - low) or 1.0))
        stairs += [(ACROSS * clock.share(time_s), up) for time_s in (level.time_s, end_s)]
    ground = UP * (1 + low / ((high - low) or 1.0))
    area = points([(0.0, ground), *stairs, (ACROSS, ground)])
    said = f"{min(values):.3g} to {max(values):.3g} {unit}"
    return [_label(said), _stretched([element("polygon", points=area, class_="rate")], STEPS)]


def thinned(charges: Sequence[Charge]) -> list[Charge]:
    """No more points than can be seen; the last one is always among them."""
    every = -(-len(charges) // MOST_POINTS)
    kept = list(charges[::every])
    return kept if kept[-1] is charges[-1] else [*kept, charges[-1]]


def _axis(clock: Clock, bottom: float) -> Iterator[Svg]:
    for time_s in clock.ticks:
        at = clock.at(time_s)
        late = clock.share(time_s) > LATE
        side = "pale end" if late else "pale middle" if time_s else "pale"
        yield element("line", x1=at, x2=at, y1=0, y2=bottom + 3, class_="grid")
        said = units.seconds(time_s) if time_s else "0"
        yield element("text", said, x=at, y=bottom + AXIS - 3, class_=side)


def _label(said: str) -> Svg:
    return element("text", said, x=0, y=11, class_="pale")


def _stretched(drawn: Sequence[Svg], height: float) -> Svg:
    return element(
        "svg",
        *drawn,
        y=LETTERS,
        width="100%",
        height=height,
        viewBox=f"0 0 {ACROSS:.0f} {UP:.0f}",
        preserveAspectRatio="none",
    )


def _placed(pieces: Sequence[Svg], top: float, height: float) -> Svg:
    return element("svg", *pieces, y=top, width="100%", height=height)


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"
