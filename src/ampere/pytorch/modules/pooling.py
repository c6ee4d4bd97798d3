"""Pooling: channels stay apart, positions are gathered."""

from __future__ import annotations

from ampere.pytorch.modules.base import without_parameters

RECORDS = (
    without_parameters(
        names=tuple(
            f"{kind}Pool{axes}d"
            for kind in ("Max", "Avg", "AdaptiveMax", "AdaptiveAvg")
            for axes in (1, 2, 3)
        ),
        functions=tuple(
            f"{kind}_pool{axes}d"
            for kind in ("max", "avg", "adaptive_max", "adaptive_avg")
            for axes in (1, 2, 3)
        ),
        keeps_places=True,
    ),
)
