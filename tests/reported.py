"""A profile that has something of everything: networks, variants, stages, a failure, odd names."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import cache
from typing import Any

from ampere.core.fingerprint import Fingerprint
from ampere.core.layers import Layer, LayerKind
from ampere.meters.base import Provenance
from ampere.profiles.profile import Profile
from ampere.records.failure import Cause, Failure
from ampere.records.journal import Header
from ampere.records.measurement import Measurement
from fakes import HIDDEN, LAST, exact, plain_layer, plain_model

SHARES = {"forward": 0.3, "backward": 0.5, "update": 0.2}
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\x1b[31m\u202e\x00"


@cache  # a profile is fitted once, too
def made_up(
    provenance: Provenance = Provenance.SIMULATED,
    *,
    method: str = "additive",
    suffix: str = "",
    whole: int = 10,
) -> Profile:
    """Twenty and more rows with a little noise; `suffix` is added to every name."""
    rng = random.Random(7)
    models = [plain_model(*(rng.randrange(1, 65) for _ in range(3))) for _ in range(whole)]
    models += [(plain_layer(LAST, in_=width),) for width in (1, 20, 40, 64)]
    models += [plain_model(width) for width in (1, 20, 40, 64)]
    models += [plain_model(a, b) for a in (1, 32, 64) for b in (1, 32, 64)]
    rows = [
        _told(exact(layers), math.exp(rng.gauss(0, 0.02)), i) for i, layers in enumerate(models)
    ]
    layer = plain_layer(HIDDEN, in_=32, out=32)
    for stage, share in SHARES.items():
        rows.append(replace(exact((layer,)), stage=stage, energy_j_per_step=share, cost_s=0.5))
    rows.append(
        replace(exact(models[0]), energy_j_per_step=None, time_s_per_step=None,
                failed=Failure(f"out of memory{suffix}", Cause.MEMORY), cost_s=1.0)
    )  # fmt: skip
    rows = [
        replace(
            row, provenance=provenance, layers=tuple(_named(each, suffix) for each in row.layers)
        )
        for row in rows
    ]
    header = Header(
        Fingerprint({"device": f"pi{suffix}"}),
        {"name": f"fake{suffix}", "settings": {"gain": suffix}},
        provenance,
        created="2026-01-02T03:04:05+00:00",
        idle_w=1.5,
        model=f"mine.py:Net{suffix}",
        note=f"a note{suffix}",
    )
    return Profile(tuple(rows), header, method, notes=(f"a limit ended it early{suffix}",))


def _told(row: Measurement, factor: float, number: int) -> Measurement:
    joules = factor * row.energy_j_per_step
    bursts: dict[str, Any] = {"energy_j": [joules] * 4, "steps": 5, "time_s": [0.01] * 4}
    return replace(
        row,
        energy_j_per_step=joules,
        spread=0.02,
        repeats=4,
        cost_s=0.5 + 0.1 * (number % 5),
        when=f"2026-01-02T03:{number // 60:02}:{number % 60:02}+00:00",
        bursts=bursts,
    )


def _named(layer: Layer, suffix: str) -> Layer:
    kind = layer.kind
    named = LayerKind(f"{kind.name}{suffix}", kind.role, f"{kind.operation}{suffix}")
    return Layer(f"{layer.name}{suffix}", named, layer.widths, layer.features, count=layer.count)
