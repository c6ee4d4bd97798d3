"""A small board of 5 V with an external meter: 30 networks, 11 optimisers, joules a step.

Rows are those of a journal with fields of their own: `arch` is the network, `split` its family. The
pseudo-layer `input` stands for loading a batch. Repeats of a setting are one row, their mean, even
though a few of them differ by far more than a meter does. Nobody took seconds.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from ampere.core.boundary.fields import Fields
from ampere.core.layers import Layer
from ampere_paper.published.extracts import Recorded, Run, Tags, averaged, metered_rows

FILE = "board_train.jsonl"
SOURCE = "Board: cengizmehmet/PowerEstimationNetworks, commit 103caa1, MIT."
# Optimisers by the moments of the gradient that they follow: at most the first, the second, both.
FAMILIES = {
    "plain": ("sgd", "asgd", "rprop"),
    "scaled": ("adagrad", "adadelta", "rmsprop"),
    "Adam and kin": ("adam", "adamw", "adamax", "nadam", "radam"),
}

Setting = tuple[str, str, int, tuple[Layer, ...]]


def read(folder: Path) -> Recorded:
    """Whole networks, one row for each of their settings: network, optimiser, batch."""
    runs: dict[Setting, list[Run]] = defaultdict(list)
    tags: dict[Setting, Tags] = {}
    faults = 0
    for fields, row in metered_rows(folder, FILE):
        if row is None:
            faults += 1
            continue
        setting = _setting(fields, row.layers)
        tags[setting] = _tags(fields)
        runs[setting].append((row.energy_j_per_step, None))
    data = averaged("Board", [(setting[-1], metered) for setting, metered in runs.items()])
    return replace(data, rejected=data.rejected + faults, tags=tuple(tags.values()))


def _setting(fields: Fields, layers: tuple[Layer, ...]) -> Setting:
    return fields.text("arch"), fields.text("optimizer"), fields.whole("batch", least=1), layers


def _tags(fields: Fields) -> Tags:
    """What is known of a network besides its layers."""
    return {
        "arch": fields.text("arch"),
        "network": fields.text("split"),
        "optimiser": family_of(fields.text("optimizer")),
        "batch": str(fields.whole("batch", least=1)),
    }


def family_of(optimiser: str) -> str:
    """The family of an optimiser; one that nobody has heard of is its own."""
    return next((name for name, members in FAMILIES.items() if optimiser in members), optimiser)
