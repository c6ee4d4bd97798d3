"""Six GPUs: random linear layers by themselves, forward, backward and update.

Nobody metered joules: what stands for energy here is seconds of a step, means of 5 repeats. A data
set for each GPU.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from ampere.records.measurement import Measurement
from ampere_paper.published.extracts import Recorded, metered_rows

FILE = "gpu_linear_train_time.jsonl"
SOURCE = (
    "GPUs (seconds, not joules): CDECatapult/ml-performance-prediction, commit e649f32, Apache-2.0."
)
MEAN_DEVIATION = math.sqrt(2 / math.pi)  # of a normal distribution, in standard deviations


def read(folder: Path) -> list[Recorded]:
    """A data set for each device, in the order of their names."""
    rows: dict[str, list[Measurement]] = defaultdict(list)
    rejected: dict[str, int] = defaultdict(int)
    for fields, row in metered_rows(folder, FILE):
        device = fields.text("device")
        if row is None:
            rejected[device] += 1
        else:  # the same seconds twice would be two witnesses to a fit
            rows[device].append(replace(row, time_s_per_step=None))
    return [
        Recorded(
            name=f"GPU linear, {device}",
            rows=tuple(ours),
            rejected=rejected[device],
            repeat=_repeat(ours),
            tags=({"GPU": device},) * len(ours),
        )
        for device, ours in sorted(rows.items(), key=lambda item: item[0].lower())
    ]


def _repeat(rows: list[Measurement]) -> float | None:
    """The mean deviation of one repeat, as far as spreads of a few tell it."""
    spreads = [row.spread for row in rows if row.repeats > 1]
    return MEAN_DEVIATION * fmean(spreads) if spreads else None
