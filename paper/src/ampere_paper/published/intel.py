"""Two Intel CPUs, by RAPL: MLPs, single layers, and sweeps of one setting.

broadwell_mlp_train          MLPs, depth × width, 5 repeats, start-up included
raptorlake_layers_train      random conv, linear and pooling layers by themselves
cpu_sweeps_train             one conv or linear layer, one setting varied, 10 repeats, start-up too
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere_paper.published.extracts import (
    FIRST,
    FLOAT,
    WHOLE,
    Recorded,
    Run,
    averaged,
    joules,
    number,
    records,
)

SOURCE = (
    "Broadwell, Raptorlake, sweeps: willowec/characterizing-pytorch-power, commit 4067417, MIT."
)
# Columns that a sweep may vary, and what they are called here.
SWEPT = {
    "side_length": "side",
    "k_size": "k",
    "stride": "stride",
    "batch_size": "batch",
    "data_size": "samples",
    "epochs": "epochs",
    "in_channels": "in",
    "out_channels": "out",
    "input_size": "in",
    "output_size": "out",
}


def broadwell(folder: Path) -> Recorded:
    """Whole processes that train an MLP: 128 samples in batches of 32, 10 epochs.

    Widths up to 240 alone, which is a full grid; wider ones are another sweep, where the device
    runs other numbers of threads.
    """
    runs: dict[tuple[int, int], list[Run]] = defaultdict(list)
    for row in records(folder, "broadwell_mlp_train.csv"):
        settings = row["data_size"], row["batch_size"], row["epochs"]
        if settings == ("128", "32", "10") and int(row["hidden_size"]) <= 240:
            cell = int(row["n_hidden_linear"]), int(row["hidden_size"])
            runs[cell].append((joules(row["energy_J"]), number(row, "wall_s")))
    return averaged("Broadwell MLP", [(mlp(*cell), metered) for cell, metered in runs.items()])


def mlp(depth: int, width: int) -> tuple[Layer, Layer]:
    """Equal hidden layers, the first counted like the others, and one that sums up."""
    samples, steps = 1280, 40
    hidden = LayerKind("hidden linear", Role.HIDDEN, "linear")
    last = LayerKind("last linear", Role.LAST, "linear")

    def features(n_in: int, n_out: int) -> Features:
        weights = n_in * n_out
        moved = FLOAT * samples * (n_in + n_out)
        return Features(WHOLE * samples * weights, moved, FLOAT * steps * weights)

    widths = Widths({"width": width})
    return (
        Layer("hidden", hidden, widths, features(width, width), count=depth),
        Layer("last", last, widths, features(width, 1)),
    )


def raptorlake(folder: Path, operation: str) -> Recorded:
    """Layers by themselves, joules of one batch, forward and backward."""
    metered = []
    for row in records(folder, "raptorlake_layers_train.csv"):
        if row["kind"] == operation:
            settings = {name: float(row[name] or 1) for name in ("side", "k", "stride", "batch")}
            layer = alone(operation, int(row["cin"]), int(row["cout"]), settings)
            metered.append(((layer,), [_raptorlake_run(row)]))
    return averaged(f"Raptorlake {operation}", metered)


def raptorlake_pools(folder: Path) -> Recorded:
    """Pooling layers by themselves, joules of one batch forward: they were not trained."""
    metered = []
    for row in records(folder, "raptorlake_layers_train.csv"):
        if row["kind"] == "pool":
            settings = {name: float(row[name] or 1) for name in ("side", "k", "stride", "batch")}
            forward_j = float(row["fwd_J"])
            true = row["valid"] == "1" and forward_j > 0
            layer = pool(int(row["cin"]), settings)
            metered.append(((layer,), [(forward_j if true else None, number(row, "fwd_s"))]))
    return averaged("Raptorlake pool", metered)


def pool(channels: int, settings: Mapping[str, float]) -> Layer:
    """A pooling layer: an operation for each number in each window, and nothing to learn."""
    batch, side, k = settings["batch"], settings["side"], settings["k"]
    out_side = (side - k) // settings["stride"] + 1
    features = Features(
        flops=batch * channels * (out_side * k) ** 2,
        activation_bytes=FLOAT * batch * channels * (side**2 + out_side**2),
        parameter_bytes=0.0,
    )
    kind = LayerKind("pool", Role.LAST, "pool", dict(settings))
    return Layer("pool", kind, Widths({"channels": channels}), features)


def _raptorlake_run(row: Mapping[str, str]) -> Run:
    """Forward and backward together, if both can be true."""
    forward_j, backward_j = float(row["fwd_J"]), float(row["bwd_J"])
    true = row["valid"] == "1" and forward_j > 0 and backward_j > 0
    forward_s, backward_s = number(row, "fwd_s"), number(row, "bwd_s")
    time_s = None if forward_s is None or backward_s is None else forward_s + backward_s
    return (forward_j + backward_j if true else None, time_s)


def alone(operation: str, n_in: int, n_out: int, settings: Mapping[str, float]) -> Layer:
    """A network of one layer, fed `samples` in batches, `epochs` times; one batch if not said.

    All settings are attributes, since layers with the same ones are taken for the same layer.
    """
    batch = settings["batch"]
    samples, epochs = settings.get("samples", batch), settings.get("epochs", 1.0)
    side, k = settings["side"], settings["k"]
    out_side = (side - k) // settings["stride"] + 1
    weights, steps = n_in * n_out * k**2, epochs * math.ceil(samples / batch)
    features = Features(
        flops=FIRST * epochs * samples * weights * out_side**2,
        activation_bytes=FLOAT * epochs * samples * (n_in * side**2 + n_out * out_side**2),
        parameter_bytes=FLOAT * steps * weights,
    )
    kind = LayerKind(operation, Role.LAST, operation, dict(settings))
    return Layer(operation, kind, Widths({"in": n_in, "out": n_out}), features)


def sweeps(folder: Path) -> list[Recorded]:
    """Whole processes that train one layer; a data set for each setting that is varied."""
    runs: dict[tuple[str, ...], dict[float, list[Run]]] = defaultdict(lambda: defaultdict(list))
    layers: dict[tuple[tuple[str, ...], float], Layer] = {}
    for row in records(folder, "cpu_sweeps_train.csv"):
        varied, value = row["varied"], float(row["value"])
        fixed = (name for name in SWEPT if name != varied)
        sweep = (row["kind"], varied, *(row[name] for name in fixed))
        runs[sweep][value].append((joules(row["energy_J"]), number(row, "wall_s")))
        layers[sweep, value] = swept_layer(row)
    return [
        averaged(
            f"{sweep[0]} {sweep[1]}",
            [((layers[sweep, value],), values[value]) for value in sorted(values)],
        )
        for sweep, values in sorted(runs.items())
    ]


def swept_layer(row: Mapping[str, str]) -> Layer:
    """The one layer of a run of a sweep."""
    settings = {"side": 1.0, "k": 1.0, "stride": 1.0}  # what a linear layer leaves empty
    settings |= {ours: float(row[theirs]) for theirs, ours in SWEPT.items() if row[theirs]}
    n_in, n_out = int(settings.pop("in")), int(settings.pop("out"))
    return alone("conv" if row["kind"] == "cnn" else "linear", n_in, n_out, settings)
