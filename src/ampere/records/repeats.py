"""Repeats: how well measurements of the same network agree, within a sitting and between sittings.

Bursts of one sitting share its moment: what they agree to says how well the mean is known that the
device had then, and nothing of what it will have in three minutes. Only networks that were measured
in several sittings tell that. As long as there are few, what is usual counts beside them.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from ampere.core.workloads import workload_identity
from ampere.records.measurement import Measurement

USUAL = 0.1  # relative standard deviation between sittings, where nothing is known
USUAL_CROWDED = 0.2  # where threads take all cores: they wait for whoever else needs one
USUAL_WEIGHT = 2  # repeats that it counts as much as


@dataclass(frozen=True)
class Repeats:
    """Relative standard deviations of joules.

    `within` is that of bursts of a sitting, `between` that of a network's sittings, up to `apart_s`
    apart, found in `degrees` repeats of them; None and 0 where none was repeated. `when` says when
    that was, if it was not now.
    """

    within: float
    between: float | None = None
    degrees: int = 0
    apart_s: float = 0.0
    when: str = ""
    usual: float = USUAL

    @property
    def error(self) -> float:
        """What a sitting may be off by: what was found, and while that is little, the usual."""
        found = 0.0 if self.between is None else self.degrees * self.between**2
        return math.sqrt((found + USUAL_WEIGHT * self.usual**2) / (self.degrees + USUAL_WEIGHT))


def repeats_of(rows: Iterable[Measurement]) -> Repeats:
    """What rows tell; those of one sitting, or that do not say which, tell nothing of others."""
    good = [row for row in rows if row.failed is None and row.energy_j_per_step is not None]
    networks: defaultdict[object, list[Measurement]] = defaultdict(list)
    for row in good:
        if row.sitting:
            networks[row.device, workload_identity(row.stage, row.layers)].append(row)
    squares, degrees, apart_s = 0.0, 0, 0.0
    for repeated in networks.values():
        if len({row.sitting for row in repeated}) < 2:
            continue
        logs = [math.log(row.energy_j) for row in repeated]
        squares += (len(logs) - 1) * statistics.variance(logs)
        degrees += len(logs) - 1
        moments = [row.timestamp for row in repeated if math.isfinite(row.timestamp)]
        apart_s = max(apart_s, max(moments, default=0.0) - min(moments, default=0.0))
    within = statistics.median(row.spread for row in good) if good else 0.0
    between = math.sqrt(squares / degrees) if degrees else None
    return Repeats(within, between, degrees, apart_s)
