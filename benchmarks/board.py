"""Networks of a small board that are unlike those that were profiled, in joules of a real meter.

    python benchmarks/board.py --data DIR     # the folder with board_train.jsonl: a few minutes

VGG, ResNet and half of the plain CNNs and MLPs are fitted, by architecture; the other half is asked
about, and ConvNeXt and recurrent networks, which have operations that no fitted row has: those must
be named, and the truth must be inside the interval. Whoever recorded these rows kept no calls, so
layers are known by their own operations.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from machine import RESULTS, machine_line, write_section

from ampere.estimators.base import Prediction
from ampere.estimators.fitting import fit_additive
from ampere.estimators.intervals import interval
from ampere.records.measurement import Measurement
from ampere_paper.published import board

KEPT = RESULTS / "board.json"
FITTED, FOREIGN = ("vgg", "resnet"), ("convnext", "rnn", "lstm", "gru", "recurrent")
SEEDS = 5

Networks = dict[str, dict[str, list[Measurement]]]  # rows by family and architecture


def networks(folder: Path) -> Networks:
    found: Networks = defaultdict(lambda: defaultdict(list))
    data = board.read(folder)
    for row, tags in zip(data.rows, data.tags, strict=True):
        found[tags["network"]][tags["arch"]].append(row)
    return found


def split(found: Networks, seed: int) -> tuple[list[Measurement], dict[str, list[Measurement]]]:
    """Rows that are fitted, and those that are asked about, by family."""
    rng = random.Random(seed)
    fitted: list[Measurement] = []
    asked: dict[str, list[Measurement]] = {}
    for family, by_name in sorted(found.items()):
        names = sorted(by_name)
        rng.shuffle(names)
        half = len(names) // 2
        if any(word in family.lower() for word in FITTED):
            half = len(names)
        elif any(word in family.lower() for word in FOREIGN):
            half = 0
        fitted += [row for name in names[:half] for row in by_name[name]]
        if names[half:]:
            asked[family] = [row for name in names[half:] for row in by_name[name]]
    return fitted, asked


def unknown(prediction: Prediction) -> set[str]:
    """Operations of which a prediction says that no row has them."""
    borrowed = {line.layer.kind.operation for line in prediction.lines if line.borrowed}
    return borrowed | {layer.kind.operation for layer in prediction.uncovered}


def judged(fitted: Sequence[Measurement], asked: Sequence[Measurement]) -> dict[str, Any]:
    """Errors of these rows; what has nothing that is known has no number, and no error."""
    fit = fit_additive(fitted)
    errors, inside, named, refused = [], [], set[str](), 0
    for row in asked:
        prediction = fit.predict(row.layers)
        named |= unknown(prediction)
        if prediction.uncovered:
            refused += 1
            continue
        total = prediction.total
        low, high = interval(total.energy_j, total.energy_j_std)
        errors.append(total.energy_j / row.energy_j - 1)
        inside.append(low <= row.energy_j <= high)
    return {"errors": errors, "inside": inside, "named": sorted(named), "refused": refused}


def score(folder: Path) -> list[dict[str, Any]]:
    found = networks(folder)
    by_family: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for seed in range(SEEDS):
        fitted, asked = split(found, seed)
        for family, rows in asked.items():
            by_family[family].append(judged(fitted, rows))
    scores = []
    for family, parts in by_family.items():
        absolute = [abs(error) for part in parts for error in part["errors"]]
        inside = [each for part in parts for each in part["inside"]]
        scores.append(
            {
                "family": family,
                "asked": len(absolute),
                "mean": fmean(absolute) if absolute else None,
                "median": median(absolute) if absolute else None,
                "inside": fmean(inside) if inside else None,
                "refused": sum(part["refused"] for part in parts),
                "named": sorted({name for part in parts for name in part["named"]}),
            }
        )
    return scores


def table(scores: Sequence[dict[str, Any]]) -> str:
    lines = [
        f"{board.SOURCE} {SEEDS} splits. Machine of the fits: {machine_line({})}",
        "",
        "| asked | rows | mean % | median % | inside 90 % | operations named as never measured |",
        "|---" * 6 + "|",
    ]
    for row in scores:
        numbers = [
            "" if row[name] is None else f"{100 * row[name]:.{digits}f}"
            for name, digits in (("mean", 1), ("median", 1), ("inside", 0))
        ]
        named = ", ".join(f"`{name}`" for name in row["named"])
        lines.append(f"| {row['family']} | {row['asked']} | {' | '.join(numbers)} | {named} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with board_train.jsonl")
    scores = score(parser.parse_args().data)
    KEPT.write_text(json.dumps(scores, indent=1) + "\n")
    write_section("published.md", "unlike networks", table(scores))


if __name__ == "__main__":
    main()
