"""Units: numbers of joules, seconds, FLOPs... in words that a person reads at a glance.

The numbers in one column of a table share their unit (`same_unit`), so that they can be compared
and added by eye.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

UNKNOWN = "unknown"
HOUR_J = 3600.0  # a watt-hour
LONG = 10  # so many minutes, hours or days, and a column is told in them
CENT, LEAST_MONEY = 0.01, 1e-12  # less money is none

_PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}


def joules(energy_j: float) -> str:
    """`1.23 mJ`, `45.6 J`, `1.20 kJ`."""
    return _with_prefix(energy_j, "J")


def watts(power_w: float) -> str:
    """`850 mW`, `2.70 W`."""
    return _with_prefix(power_w, "W")


def watt_hours(energy_j: float) -> str:
    """Joules in the unit of batteries: `12.9 mWh`, `15.0 Wh`."""
    return _with_prefix(energy_j / HOUR_J, "Wh")


def grams(mass_g: float) -> str:
    """Emissions: `2.71 mgCO2e`, `1.20 kgCO2e`."""
    return _with_prefix(mass_g, "gCO2e")


def money(amount: float, currency: str) -> str:
    """`1.20 EUR`, `0.0145 EUR`; below a cent `14.5 µEUR`."""
    if 0 < abs(amount) < CENT:
        return _with_prefix(amount, currency) if abs(amount) >= LEAST_MONEY else f"0.00 {currency}"
    digits = 2 - math.floor(math.log10(abs(amount))) if amount else 2
    return f"{amount:.{max(digits, 2)}f} {currency}"


def memory(size: float) -> str:
    """Bytes: `512 MB`."""
    return _with_prefix(size, "B")


def flops(count: float) -> str:
    """`743 MFLOP`."""
    return _with_prefix(count, "FLOP")


def bytes_(count: float) -> str:
    """`16.4 kB`, `2.10 MB`."""
    return _with_prefix(count, "B")


def seconds(time_s: float) -> str:
    """`2.31 ms`, `12.0 s`, `1 min 5 s`, `1 h 12 min`, `2 d 3 h`."""
    if not math.isfinite(time_s) or abs(time_s) < 59.95:
        return _with_prefix(time_s, "s")
    for size, unit, smaller_size, smaller in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        whole, rest = divmod(round(time_s / smaller_size), size // smaller_size)
        if whole:
            return f"{whole} {unit} {rest} {smaller}" if rest else f"{whole} {unit}"
    return UNKNOWN


def percent(share: float | None) -> str:
    """A share in percent: `26.5 %`."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    return f"{_rounded(100 * share, 1)} %"


def number(count: float) -> str:
    """`48,120`."""
    return f"{count:,.0f}"


def plural(count: int, noun: str) -> str:
    """`1 step`, `2,000 steps`."""
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def times(name: str, count: int) -> str:
    """`conv2 ×3` for three of the same."""
    return f"{name} ×{count}" if count > 1 else name


def same_unit(values: Sequence[float], unit: str) -> tuple[str, list[str]]:
    """A column of numbers and the unit they share: four digits for the largest of them."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    power, decimals = _scale(largest, digits=4)
    texts = [
        _rounded(value / 10.0**power, decimals) if math.isfinite(value) else UNKNOWN
        for value in values
    ]
    return f"{_PREFIXES[power]}{unit}", texts


def same_time(values: Sequence[float]) -> tuple[str, list[str]]:
    """A column of seconds; what is long is told in minutes, hours or days, not in ks."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if largest >= LONG * size:
            _, decimals = _scale(min(largest / size, 999), digits=4)
            return unit, [
                _rounded(value / size, decimals) if math.isfinite(value) else UNKNOWN
                for value in values
            ]
    return same_unit(values, "s")


def prefix_of(largest: float, unit: str) -> tuple[str, float]:
    """The unit in which a number is short, such as `mJ`, and its size."""
    power, _ = _scale(largest, digits=3)
    return f"{_PREFIXES[power]}{unit}", 10.0**power


def _scale(largest: float, digits: int) -> tuple[int, int]:
    """The power of ten of a prefix, and the decimals that leave this many digits."""
    if largest == 0 or not math.isfinite(largest):
        return 0, digits - 1
    exponent = int(f"{largest:.{digits - 1}e}".partition("e")[2])  # after rounding: 999.9 is 1000
    power = min(max(3 * (exponent // 3), min(_PREFIXES)), max(_PREFIXES))
    return power, max(0, digits - 1 - (exponent - power))


def _rounded(value: float, decimals: int) -> str:
    """A number with these decimals; what is little never looks like nothing."""
    if 0 < value < 0.5 / 10**decimals:
        return f"<{1 / 10**decimals:.{decimals}f}"
    return f"{value:.{decimals}f}"


def _with_prefix(value: float, unit: str) -> str:
    if not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return f"0 {unit}"
    power, decimals = _scale(abs(value), digits=3)
    return f"{value / 10.0**power:.{decimals}f} {_PREFIXES[power]}{unit}"
