"""Desk: the pages of a watch, made when they are asked for, at most twice a second each."""

from __future__ import annotations

import json
import threading
import time
from datetime import datetime, timezone
from pathlib import Path

from ampere.errors import DataError
from ampere.reports.html import refuse_to_overwrite, write_page
from ampere.reports.labels import moment
from ampere.reports.live.overview_page import overview_page
from ampere.reports.live.page import LivePage
from ampere.reports.live.run_page import run_page
from ampere.reports.live.watch import Watch

ALL = "all"
FRESH_S = 0.5


class Desk:
    """Answers for pages by their keys: `all`, or a run's.

    Args:
        watch: The runs.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._lock = threading.Lock()
        self._looked_s = -FRESH_S
        self._pieces: dict[str, tuple[float, str]] = {}  # when each was made

    def page(self, key: str) -> LivePage | None:
        """A page as it is now; None if there is none of this key."""
        with self._lock:
            if time.monotonic() - self._looked_s >= FRESH_S:
                self._watch.look()
                self._looked_s = time.monotonic()
            return self._made(key)

    def pieces(self, key: str) -> str | None:
        """The same in pieces, as one line of JSON."""
        made_s, text = self._pieces.get(key, (-FRESH_S, ""))
        if time.monotonic() - made_s < FRESH_S:
            return text
        page = self.page(key)
        if page is None:
            self._pieces.pop(key, None)
            return None
        text = json.dumps(page.pieces(), allow_nan=False)
        self._pieces[key] = (time.monotonic(), text)
        return text

    def _made(self, key: str) -> LivePage | None:
        watch = self._watch
        with watch.lock:
            now, runs = watch.clock(), watch.runs
            if key != ALL:
                run = watch.find(key)
                return None if run is None else run_page(run, now, home=len(runs) > 1)
            if len(runs) == 1:
                return run_page(runs[0], now, home=False)
            return overview_page(runs, now, watch.more)


def save_snapshot(watch: Watch, path: Path) -> None:
    """Write what is known now to a new file: a page that needs no server.

    Raises:
        DataError: There is nothing to show, or the file cannot be written.
    """
    refuse_to_overwrite(path)
    watch.catch_up()
    begun = [run for run in watch.runs if run.history.provenance is not None]
    if not begun:
        first = watch.runs[0]
        why = first.history.first_damage or first.obstacle or "it has told nothing yet"
        raise DataError(f"there is no run to show: {first.place.path}: {why}")
    now = watch.clock()
    if len(watch.runs) == 1:
        page = run_page(begun[0], now, home=False)
    else:
        page = overview_page(watch.runs, now, watch.more, linked=False)
    taken = datetime.fromtimestamp(now, timezone.utc).isoformat(timespec="seconds")
    write_page(path, page.html(f"as of {moment(taken)}"))
