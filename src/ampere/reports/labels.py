"""Wording: measured rows and kinds of layers in a few words, for tables and charts."""

from __future__ import annotations

from collections.abc import Sequence

from ampere.core import units
from ampere.core.groups import grouped
from ampere.core.variants import MOST_LAYERS
from ampere.records.measurement import Measurement

SORTS = ("network", "variant", "single stage", "failure")
MOST_NAMED = 4  # layers of a network in a line of a table


def network_of(row: Measurement) -> str:
    """A row's network in a line, and which stage of it was run alone."""
    groups = grouped(row.layers, lambda layer: layer.identity)
    names = [
        units.times(
            f"{same[0].kind.operation}"
            f"({', '.join(f'{name}={width}' for name, width in same[0].widths.items())})",
            sum(layer.count for layer in same),
        )
        for same in groups[:MOST_NAMED]
    ]
    rest = sum(layer.count for same in groups[MOST_NAMED:] for layer in same)
    more = f" and {units.plural(rest, 'more layer')}" if rest else ""
    return " + ".join(names) + more + ("" if row.stage == "step" else f", {row.stage} alone")


def moment(when: str) -> str:
    """A moment as people read it; whoever wrote it may have written any text."""
    return when.replace("T", " ").replace("+00:00", " UTC")


def took(row: Measurement) -> str:
    """The seconds and joules of metering it."""
    joules = f" and {units.joules(row.metered_j)}" if row.metered_j else ""
    return f"{units.seconds(row.cost_s)}{joules}{' in vain' if row.failed else ''}"


def sort_of(row: Measurement) -> int:
    """Its number among the sorts."""
    if row.failed is not None:
        return 3
    if row.stage != "step":
        return 2
    return int(sum(layer.count for layer in row.layers) <= MOST_LAYERS)


def short_names(kinds: Sequence[str]) -> dict[str, str]:
    """Names of kinds without the words that all of them share, and digests where none is needed."""
    words = [name.split() for name in kinds]
    shared = set.intersection(*map(set, words)) if len(words) > 1 else set()
    for digest in ("#", "\0"):
        short = [
            " ".join(word for word in each if word not in shared and not word.startswith(digest))
            for each in words
        ]
        if len(set(short)) == len(short) and all(short):
            return dict(zip(kinds, short, strict=True))
    return dict(zip(kinds, kinds, strict=True))
