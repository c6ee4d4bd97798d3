"""How long it takes to cut a model to half its energy, from profiles kept in benchmarks/results.

    python benchmarks/cutting.py              # about 2 minutes; one core

`million` is drawing, checking and scoring a million candidates within the budget, 90 % confidence
included; the other columns are the whole of `ampere.prune` without fine-tuning, the fit of the
profile and its tables made anew each time. Medians of three.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import json
import time
from pathlib import Path

import numpy as np
from machine import RESULTS, machine_line, write_section
from speed import median_s

import ampere
from ampere.pruning.search import make_space
from ampere.pruning.strategies import STRATEGIES, Random
from ampere.pytorch.models import make_slimmer

OWN = Path(__file__).parent / "models.py"
SUBJECTS = {
    "5-layer CNN": ("zoo:cnn5", "additive_cnn5_seed0.ampere.gz"),
    "ResNet-20": ("zoo:resnet", "additive_resnet_seed0.ampere.gz"),
    "LSTM": ("zoo:lstm", "additive_lstm_seed0.ampere.gz"),
    "Transformer": ("zoo:transformer", "additive_transformer_seed0.ampere.gz"),
    "U-Net": (f"{OWN}:unet", "own_additive_unet.ampere.gz"),
    "MobileNet": (f"{OWN}:mobilenet", "own_additive_mobilenet.ampere.gz"),
}


def million_s(model: str, profile: ampere.Profile) -> tuple[float, int]:
    """Seconds of one search, and how many free widths there are."""
    slimmer = make_slimmer(model, training=profile.training)
    space = make_space(slimmer, profile)
    limit_j = 0.5 * float(space.guide.cost(np.array([space.largest]))[0])
    find = Random(1_000_000).find
    find(space, limit_j, np.random.default_rng(0))  # tables are made when first asked for
    return median_s(lambda: find(space, limit_j, np.random.default_rng(0)), 3), len(space.names)


def whole_s(model: str, path: Path, strategy: str) -> float:
    """Seconds from the profile's file to the smaller model."""
    start = time.perf_counter()
    profile = ampere.Profile.load(path)
    ampere.prune(model, profile=profile, budget="50%", search=ampere.Search(strategy=strategy))
    return time.perf_counter() - start


def main() -> None:
    """Run all, print the table and keep it."""
    rows: list[tuple[str, int, float, dict[str, float]]] = []
    for title, (model, name) in SUBJECTS.items():
        seconds, widths = million_s(model, ampere.Profile.load(RESULTS / name))
        whole = {
            strategy: sorted(whole_s(model, RESULTS / name, strategy) for _ in range(3))[1]
            for strategy in STRATEGIES
        }
        rows.append((title, widths, seconds, whole))
        print(rows[-1])
    text = [f"Machine: {machine_line({'threads': '1'})}", ""]
    text += [
        "| model | free widths | million (s) | " + " | ".join(f"{s} (s)" for s in STRATEGIES) + " |"
    ]
    text += ["|---" * (3 + len(STRATEGIES)) + "|"]
    text += [
        f"| {title} | {widths} | {seconds:.2f} | "
        + " | ".join(f"{whole[s]:.1f}" for s in STRATEGIES) + " |"
        for title, widths, seconds, whole in rows
    ]  # fmt: skip
    print("\n".join(text))
    write_section("speed.md", "cutting", "\n".join(text))
    (RESULTS / "cutting.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
