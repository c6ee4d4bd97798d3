"""Metering: the meter of a run, opened as the user named it.

Where nothing better is there the model `cpu` is taken, and where Linux tells of children its kin
`tree`: a loader's workers are children, and their joules are the run's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from ampere.core.lock import lock_file, lock_holder, open_own
from ampere.meters.base import AUTO, Meter
from ampere.meters.calibration import calibrated
from ampere.meters.drivers.tree import TreeMeter
from ampere.meters.registry import choose_meter, open_meter, parse_meter

ALONE = ("cpu", "tree", "fake", "replay")  # meters that tell of one process, or of none


class RunMeter:
    """Opens the meter that a user named, for one process and its children.

    Args:
        text: As on the command line: `auto`, `rapl`, `cpu:idle_w=2.5`.
        pid: The root of the processes; by default this one.
        accelerator: Whose joules are wanted.
        note: Told where another gate reads the same meter.
    """

    def __init__(
        self,
        text: str = AUTO,
        *,
        pid: int | None = None,
        accelerator: str = "cpu",
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        name, self._settings = parse_meter(text)
        self.name = choose_meter(name, accelerator)
        if (name, self.name) == (AUTO, "cpu") and TreeMeter.obstacle() is None:
            self.name = "tree"
        self._pid = pid
        self._note = note
        self._lock: FileIO | None = None

    def __call__(self) -> Meter:
        """Open it.

        Raises:
            MeterError: It cannot be used.
        """
        settings = calibrated(self.name, self._settings)
        if self.name == "tree" and self._pid is not None:
            settings = {"pid": float(self._pid), **settings}
        meter = open_meter(self.name, **settings)
        if self.name not in ALONE:
            self._tell_of_neighbours()
        return meter

    def _tell_of_neighbours(self) -> None:
        """Two runs on one meter each see the joules of both."""
        if self._lock is not None:  # entered again: the neighbour would be this process
            return
        try:
            file = open_own(Path(tempfile.gettempdir()) / f"ampere-gate-{self.name}.lock")
        except (OSError, AttributeError):  # somebody else's file, or no such locks here
            return
        try:
            lock_file(file)
        except BlockingIOError:
            holder = lock_holder(file)
            file.close()
            other = f"process {holder}" if holder else "another process"
            self._note(f"{other} reads the meter {self.name}, too: each counts the joules of both")
            return
        self._lock = file  # closed with this object, when the gate lets go of it
