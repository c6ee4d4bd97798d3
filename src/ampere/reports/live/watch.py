"""Watch: the runs that are looked at, all of them followed together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ampere.core.types import Json
from ampere.reports.live.amounts import Amounts
from ampere.reports.live.follower import Follower, Look
from ampere.reports.live.history import History
from ampere.reports.live.places import Place, find_runs
from ampere.reports.live.standing import Standing, standing_of

SEARCH_S = 3.0  # between looks for new runs
SKEW_S = 60.0  # a clock that is further ahead tells nothing
PATIENCE_S = 0.5  # of one look at all files; what is left is read at the next one


@dataclass
class Run:
    """One run: where it is, and what is known of it."""

    place: Place
    follower: Follower
    history: History = field(default_factory=History)
    obstacle: str = ""
    behind: bool = True
    changed_at: float | None = None

    def look(self) -> None:
        """Read what is new."""
        look: Look = self.follower.look()
        if look.anew:
            self.history = History()
        self.history.take(look.lines)
        self.obstacle, self.behind = look.obstacle, look.behind
        self.changed_at = look.changed_at or self.changed_at

    @property
    def name(self) -> str:
        """What it calls itself, or its folder."""
        start = self.history.start
        return " ".join(start.name.split() if start else ()) or self.place.label

    def standing(self, now: float, amounts: Amounts | None = None) -> Standing:
        """How it stands at a moment, in seconds since 1970."""
        told = [
            each
            for each in (self.history.told_at_s, self.changed_at)
            if each is not None and each < now + SKEW_S
        ]
        silence_s = now - max(told, default=now)
        unit = amounts or Amounts.of([self.history])
        return standing_of(self.history, silence_s, self.obstacle, unit)

    def to_json(self, now: float) -> dict[str, Json]:
        """How it stands at a moment, as plain data."""
        history, standing = self.history, self.standing(now)
        status = history.status
        return {
            "file": str(self.place.path),
            "name": self.name,
            "state": standing.word,
            "verdict": standing.sentence,
            "step": history.step,
            "steps": history.steps,
            "spent_j": history.spent_j,
            "forecast_j": status.forecast_j if status else None,
            "forecast_j_interval": status.forecast_j_interval if status else None,
            "power_w": status.power_w if status else None,
            "budget_j": history.budget_j,
            "provenance": history.provenance.value if history.provenance else None,
            "damaged_lines": history.damaged,
        }


class Watch:
    """Follows all runs under some names; many threads may ask it.

    Args:
        named: Folders, files, folders of runs; they need not be there yet.
        clock: Seconds since 1970.
    """

    def __init__(self, named: Sequence[Path], clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.lock = threading.Lock()  # hold it while runs are read from
        self.more = False  # there are more runs than are shown
        self._named = tuple(named)
        self._runs: dict[str, Run] = {}
        self._searched_s = -SEARCH_S
        self._next = 0

    @property
    def runs(self) -> tuple[Run, ...]:
        """All of them, in the order in which they were named."""
        return tuple(self._runs.values())

    def find(self, key: str) -> Run | None:
        """The run of an address."""
        return self._runs.get(key)

    def look(self) -> bool:
        """Read what is new, for half a second at most; whether there is more. Holds the lock."""
        with self.lock:
            end_s = time.monotonic() + PATIENCE_S
            if time.monotonic() - self._searched_s >= SEARCH_S:
                self._search()
                self._searched_s = time.monotonic()
            runs = self.runs
            for _ in runs:  # goes on where the last look ended, so that every run has its turn
                runs[self._next % len(runs)].look()
                self._next += 1
                if time.monotonic() > end_s:
                    break
            return any(run.behind for run in runs)

    def catch_up(self) -> None:
        """Read all that there is now."""
        while self.look():
            pass

    def to_json(self) -> list[Json]:
        """How all runs stand now, as plain data."""
        self.catch_up()
        return [run.to_json(self.clock()) for run in self.runs]

    def _search(self) -> None:
        places, self.more = find_runs(self._named)
        self._runs = {
            place.key: self._runs.get(place.key) or Run(place, Follower(place.path))
            for place in places
        }
