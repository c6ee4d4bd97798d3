"""Measurement: joules and seconds per training step, raw and immutable."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from ampere.errors import DataError
from ampere.layers import Json, Layer
from ampere.meters.meter import Provenance


@dataclass(frozen=True)
class Measurement:
    """What one training step of one network took on one device.

    `spread` is the relative standard deviation of the joules of `repeats` bursts, outliers left out.
    `energy_j_per_step` includes `idle_j_per_step`. A failed one has a reason and no numbers.
    """

    layers: tuple[Layer, ...]
    energy_j_per_step: float = math.nan
    time_s_per_step: float = math.nan
    idle_j_per_step: float | None = None
    spread: float = 0.0
    repeats: int = 1
    device: str = ""
    provenance: Provenance = Provenance.EXTERNAL
    when: str = ""
    stage: str = "step"
    failed: str | None = None
    cost_s: float = 0.0
    bursts: Mapping[str, Json] = field(default_factory=dict, compare=False)
