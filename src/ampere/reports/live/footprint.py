"""Footprint: what the joules of a run are in grams of CO₂ and in money, where that was told."""

from __future__ import annotations

from collections.abc import Iterator

from ampere.reports.live.amounts import short
from ampere.reports.live.history import History

J_PER_KWH = 3.6e6
GRAMS_PER_KG = 1000.0
LEAST = 0.0001


def footprint(history: History) -> Iterator[tuple[str, str]]:
    """Numbers, and what each is."""
    start, status = history.start, history.status
    grams_per_kwh = start.carbon_g_per_kwh if start else None
    price_per_kwh = start.price_per_kwh if start else None
    grams = _so_far(history, status.spent_gco2e if status else None, grams_per_kwh)
    if grams is not None:
        in_kg = grams >= GRAMS_PER_KG
        told = f"{short(grams / GRAMS_PER_KG)} kg" if in_kg else f"{short(grams, LEAST)} g"
        yield f"{told}CO₂e", f"so far{_rate(grams_per_kwh, 'g')}"
    cost = _so_far(history, status.spent_cost if status else None, price_per_kwh)
    if cost is not None:
        currency = start.currency if start else ""
        yield f"{short(cost, LEAST)} {currency}".strip(), f"so far{_rate(price_per_kwh, currency)}"


def _so_far(history: History, told: float | None, per_kwh: float | None) -> float | None:
    """Of all that is spent: as the last look, which may be a little older, has it, or by rate."""
    if told is not None and history.status is not None and history.status.spent_j > 0:
        return told * history.spent_j / history.status.spent_j
    return None if per_kwh is None else history.spent_j / J_PER_KWH * per_kwh


def _rate(per_kwh: float | None, unit: str) -> str:
    return "" if per_kwh is None else f", at {short(per_kwh)} {unit}/kWh"
