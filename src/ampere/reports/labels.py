"""Labels: measured rows and kinds of layers in a few words, for tables and charts."""

from __future__ import annotations

from collections.abc import Sequence

from ampere.core import units
from ampere.core.groups import grouped
from ampere.core.variants import MOST_LAYERS
from ampere.records.measurement import Measurement

SORTS = ("network", "variant", "single stage", "failure")
_NETWORK, _VARIANT, _STAGE, _FAILURE = range(len(SORTS))
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
    """What metering a row took, in seconds and joules."""
    joules = f" and {units.joules(row.metered_j)}" if row.metered_j else ""
    return f"{units.seconds(row.cost_s)}{joules}{' in vain' if row.failed else ''}"


def sort_of(row: Measurement) -> int:
    """The number of a row's sort among all sorts."""
    if row.failed is not None:
        return _FAILURE
    if row.stage != "step":
        return _STAGE
    layers = sum(layer.count for layer in row.layers)
    return _VARIANT if layers <= MOST_LAYERS else _NETWORK


def short_names(kinds: Sequence[str]) -> dict[str, str]:
    """Names of kinds without the words that all of them share, and digests where none is needed."""
    names = [kind.split() for kind in kinds]
    shared = set.intersection(*map(set, names)) if len(names) > 1 else set()
    for dropped in ("#", "\0"):  # words that start with it: digests, then none
        labels = [
            " ".join(word for word in name if word not in shared and not word.startswith(dropped))
            for name in names
        ]
        if len(set(labels)) == len(labels) and all(labels):
            return dict(zip(kinds, labels, strict=True))
    return dict(zip(kinds, kinds, strict=True))
