"""Quiet: whether a device worked for nobody else while steps ran there.

    others   cores that other processes and other virtual machines had, as a share of those that
             the steps used, or of those that were free for others, where these are more. A meter of
             the whole machine has their joules in it: then it is a share of the used ones
    absent   share of a burst in which no core worked for its steps: others were let first, the
             process was stopped, its memory was on a disk, or its quota was used up

Rounds that were disturbed are taken again, once the device has calmed down. A device that does not
is refused, with the names of those that kept it busy.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ampere.core import units
from ampere.core.page import printable
from ampere.devices.base import Burst, Device
from ampere.errors import Busy
from ampere.meters.registry import meter_classes
from ampere.meters.surroundings import TICK_S, Evidence, Watched
from ampere.sittings.effort import Effort
from ampere.sittings.limit import Limit

LIMIT = 0.05  # share of cores that others may have
ABSENT, ABSENT_S = 0.1, 0.002  # of a burst, and on top of that
WINDOW_S = 0.3  # over which others are looked at: kernels count in hundredths of a second
LOOK_S = 0.25  # at a time, while a device is waited for
NAMED = 0.03  # cores that a process must use to be named

LOG = logging.getLogger("ampere")


@dataclass(frozen=True)
class Load:
    """What others had of a device's cores, and how long nothing worked for the steps."""

    others: float
    stolen: float
    absent: float
    rounding: float = 0.0  # of others: what counting in ticks may have made
    is_crowded: bool = False  # several threads and others together need more cores than there are

    @property
    def is_busy(self) -> bool:
        """Whether others, or other virtual machines, had more than they may."""
        return self.others + self.stolen - self.rounding > LIMIT

    @property
    def is_disturbing(self) -> bool:
        """Whether that, or steps were kept from running, by whomever."""
        return self.is_busy or self.absent > ABSENT


def load_of(bursts: Sequence[Burst], *, whole_machine: bool, threads: int = 1) -> Load:
    """What ran beside these bursts, as far as they tell.

    Args:
        bursts: Those that are looked at together.
        whole_machine: Whether the meter counts the joules of others, too.
        threads: That their steps want; those that wait for each other may have used less.
    """
    told = [(burst.time_s, each) for burst in bursts if (each := burst.evidence) is not None]
    time_s = math.fsum(seconds for seconds, _ in told)
    if not told or time_s <= 0:
        return Load(0.0, 0.0, 0.0)
    used = max(math.fsum(each.cpu_s for _, each in told) / time_s, 1.0)
    free, wanted = told[-1][1].cores - used, max(used, threads)
    others_s = _sum(each.others_s for _, each in told)
    shared_s = time_s * (used if whole_machine else max(used, free))
    return Load(
        others=others_s / shared_s,
        stolen=_sum(each.stolen_s for _, each in told) / (time_s * used),
        absent=_sum(each.absent_s for _, each in told) / time_s,
        # Each end of a burst is rounded to a tick, evenly: two standard deviations of them all.
        rounding=TICK_S * max(2 * math.sqrt(len(told) / 6), 1.0) / shared_s,
        is_crowded=wanted > 1.1
        and others_s > LIMIT * time_s
        and told[-1][1].cores - wanted - others_s / time_s < 0.1,
    )


def counts_others(device: Device) -> bool:
    """Whether the joules of a device's meter have those of other programs in them."""
    meter = meter_classes().get(device.meter["name"])
    only_accelerators = meter is not None and "cpu" not in meter.accelerators
    return device.provenance.metered == "measured" and not only_accelerators


class Guard:
    """Who looks at every round of a sitting, and waits while the device is busy."""

    def __init__(self, device: Device, effort: Effort, limit: Limit | None = None) -> None:
        self._device, self._effort, self._limit = device, effort, limit or Limit()
        self.whole_machine = counts_others(device)
        self._recent: deque[Sequence[Burst]] = deque()
        self._why = "the device is busy"
        self._told = False
        self.waited_s = 0.0

    def load(self, bursts: Sequence[Burst]) -> Load:
        """What ran beside these bursts."""
        return load_of(bursts, whole_machine=self.whole_machine)

    def disturbed(self, bursts: Sequence[Burst]) -> int:
        """How many of the latest rounds must be taken again, the one of these bursts included."""
        if self._effort.accept_busy:
            return 0
        self._recent.append(bursts)
        while len(self._recent) > 1 and _time_s(list(self._recent)[1:]) >= WINDOW_S:
            self._recent.popleft()
        load = self.load([burst for turn in self._recent for burst in turn])
        if load.is_busy:
            others = units.percent(load.others + load.stolen)
            return self._refuse(
                len(self._recent), f"the device is busy: others had {others} of its cores"
            )
        absent = max((_absent(burst) for burst in bursts), default=0.0)
        if absent <= ABSENT:
            return 0
        return self._refuse(
            1,
            f"steps were kept from running for {units.percent(absent)} of a burst: their process"
            " was stopped, shares its cores, or its quota is used up",
        )

    def wait(self) -> None:
        """Until the device is quiet.

        Raises:
            Busy: It did not become so in time.
        """
        while True:
            patience_s = min(self._effort.patience_s - self.waited_s, self._limit.left_s)
            watched = self._device.watch(LOOK_S)
            self.waited_s += watched.time_s
            who = who_is_busy(watched, whole_machine=self.whole_machine)
            busy = who is not None
            if busy:
                self._why = f"the device is busy: {who}"
            if patience_s <= 0:
                raise Busy(
                    f"{self._why}; end that, wait, or measure all the same with"
                    " --accept-busy (in Python Effort(accept_busy=True))"
                )
            if not busy:
                return
            if not self._told:
                LOG.warning("%s: waiting for it to end", self._why)
                self._told = True

    def _refuse(self, rounds: int, why: str) -> int:
        """Rounds that were in vain are waited for, too."""
        self.waited_s += _time_s(list(self._recent)[-rounds:])
        self._recent.clear()
        self._why = why
        return rounds


def who_is_busy(watched: Watched, *, whole_machine: bool = False) -> str | None:
    """Who kept a machine busy while nothing was asked of it; None if it was quiet, or untold."""
    burst = Burst(1, 1.0, watched.time_s, evidence=watched.evidence)
    if watched.evidence is None or not load_of([burst], whole_machine=whole_machine).is_busy:
        return None
    return _who(watched, watched.evidence)


def _who(watched: Watched, evidence: Evidence) -> str:
    names = [
        f"{printable(each.name)} (pid {each.pid}) takes {each.cores:.2f}"
        for each in watched.processes
        if each.cores >= NAMED
    ]
    others = (evidence.others_s or 0.0) / watched.time_s
    stolen = (evidence.stolen_s or 0.0) / watched.time_s
    if not names and others >= stolen:
        names = [f"other processes take {others:.2f}"]
    if stolen > LIMIT or not names:
        names.append(f"other virtual machines take {stolen:.2f}")
    return f"{', '.join(names)} of its {units.plural(evidence.cores, 'core')}"


def _absent(burst: Burst) -> float:
    """The share of a burst in which nothing worked for its steps, beyond what is usual."""
    absent_s = None if burst.evidence is None else burst.evidence.absent_s
    return 0.0 if absent_s is None else max(absent_s - ABSENT_S, 0.0) / burst.time_s


def _time_s(rounds: Sequence[Sequence[Burst]]) -> float:
    return math.fsum(burst.time_s for turn in rounds for burst in turn)


def _sum(values: Iterable[float | None]) -> float:
    return math.fsum(value for value in values if value is not None)
