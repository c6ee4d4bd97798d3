"""EC-NAS: 91 CNNs on CIFAR-10, 3 repeats, a GPU and two CPUs, by NVML and RAPL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere_paper.published.extracts import (
    FLOAT,
    WHOLE,
    Recorded,
    Run,
    averaged,
    joules,
    number,
    records,
)

SOURCE = "EC-NAS: PedramBakh/EC-NAS-Bench, commit 1a82fdd, MIT (ICASSP 2024)."


def read(folder: Path) -> Recorded:
    """Whole CNNs, joules a step of 256 images."""
    layers: dict[str, list[Layer]] = defaultdict(list)
    for row in records(folder, "ecnas_layers.csv"):
        layers[row["arch"]].append(layer_of(row))
    networks = {arch: tuple(listed) for arch, listed in layers.items()}
    runs: dict[str, list[Run]] = defaultdict(list)
    for row in records(folder, "ecnas_train.csv"):
        runs[row["arch"]].append((joules(row["train_energy_J_per_step"]), _time_s(row)))
    return averaged("EC-NAS", [(networks[arch], metered) for arch, metered in runs.items()])


def _time_s(row: Mapping[str, str]) -> float | None:
    """Seconds a step: joules are those of the epochs after the middle one, seconds of all four."""
    steps, middle = number(row, "steps_mid_to_end"), number(row, "mid_epoch")
    time_s = number(row, "train_time_s_4ep")
    if steps is None or middle is None or time_s is None:
        return None
    return time_s / (steps * 4 / (4 - middle))


def layer_of(row: Mapping[str, str]) -> Layer:
    """A line of the list of layers."""
    operation, k, side = row["kind"], int(row["k"]), int(row["h"])
    n_in, n_out, images = int(row["cin"]), int(row["cout"]), 256
    features = Features(
        flops=WHOLE * images * float(row["macs"]),
        activation_bytes=FLOAT * images * (n_in + n_out) * side**2,
        parameter_bytes=FLOAT * n_in * n_out * k**2 if operation in ("conv", "dense") else 0.0,
    )
    role = Role.LAST if operation == "dense" else Role.HIDDEN
    kind = LayerKind(f"{operation} {k} @{side}", role, operation, {"k": k, "side": side})
    widths = Widths({"in": n_in, "out": n_out})
    return Layer(operation, kind, widths, features, count=int(row["count"]))
