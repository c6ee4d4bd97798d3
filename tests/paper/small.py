"""A plan that takes seconds, and ways to look at what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ampere_paper.lab.plans import LITTLE, Plan, Sizes

KEPT = Path(__file__).parents[2] / "docs" / "paper"
TINY = Sizes(
    families=("cnn5",), points=2, networks=6, pool=2, models=3, cnns=5, levels=2, sweep=7, tests=2,
    cuts=1, round_to=16, effort=LITTLE,
)  # fmt: skip
SOME = ("lenet5", "cnn5", "transformer", "resnet")
PLAN = Plan("tiny", {"oppo": TINY, "xavier": replace(TINY, families=SOME)})
ONE = PLAN.on(["xavier"])


def numbers(tree: Any) -> Iterator[float]:
    """All numbers in plain data."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from numbers(each)
    elif isinstance(tree, (int, float)):
        yield tree


def data_of(folder: Path, name: str) -> Any:
    return json.loads((folder / "data" / f"{name}.json").read_text())["data"]
