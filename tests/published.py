"""Published energies in the layout of their extracts, a few rows each: joules follow from sizes."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

CONV = {"in_channels": 4, "out_channels": 8, "k_size": 3, "stride": 1, "side_length": 8}
LINEAR = {"input_size": 16, "output_size": 32}


def write_all(folder: Path, *, timed: bool = False) -> Path:
    """All files, with a few faults of meters in them, and seconds if they are wanted."""
    layers: list[dict[str, object]] = []
    joules: list[dict[str, object]] = []
    for i in range(12):
        arch, convs, width = f"net{i}", 1 + i % 4, 8 * (1 + i % 3)
        row = {"arch": arch, "k": 3, "h": 4, "cin": width, "cout": width}
        macs = 144 * width**2
        layers.append({**row, "kind": "conv", "count": convs, "macs": macs})
        layers.append({**row, "kind": "dense", "k": 1, "h": 1, "count": 1, "macs": width**2})
        for factor in (0.99, 1.01):
            energy = factor * (10 + convs * macs / 1e4)
            seconds = {"train_time_s_4ep": energy, "steps_mid_to_end": 30, "mid_epoch": 1}
            joules.append(
                {"arch": arch, "train_energy_J_per_step": energy, **(seconds if timed else {})}
            )
    joules.append({**joules[0], "train_energy_J_per_step": 0.0})
    _write(folder, "ecnas_layers.csv", layers)
    _write(folder, "ecnas_train.csv", joules)

    run: dict[str, object] = {"data_size": 128, "epochs": 10, "batch_size": 32}
    mlps = [
        {**run, "n_hidden_linear": depth, "hidden_size": width, "energy_J": energy * factor}
        for depth, width in itertools.product((1, 2, 3, 7), (16, 32, 48, 256))
        for factor in (0.98, 1.02)
        for energy in [100 + depth * width**2 / 100]
    ]
    other = {"epochs": 50, "n_hidden_linear": 1, "hidden_size": 16, "energy_J": 900.0}
    _write(folder, "broadwell_mlp_train.csv", [*mlps, {**run, **other}])

    isolated: list[dict[str, object]] = []
    for i in range(16):
        sizes: dict[str, object] = {"batch": 10 + i, "cin": 4 + i % 5, "cout": 8, "valid": 1}
        sizes |= {"fwd_J": 1.0 + i % 5, "bwd_J": 2.0}
        isolated.append({**sizes, "kind": "conv", "side": 9.0, "k": 3.0, "stride": 2.0})
        isolated.append({**sizes, "kind": "linear"})
    isolated += [{**isolated[1], "valid": 0}, {**isolated[1], "bwd_J": 0.0}]
    isolated.append({**isolated[0], "kind": "pool", "bwd_J": 0.0})
    _write(folder, "raptorlake_layers_train.csv", isolated)

    swept: list[dict[str, object]] = []
    for value, repeat in itertools.product(range(1, 9), range(2)):
        values = {"data_size": 100, "batch_size": 40, "epochs": value, "value": value}
        energy = 50 + value + repeat / 10
        swept.append({**values, **CONV, "kind": "cnn", "varied": "epochs", "energy_J": energy})
        if value < 4:
            linear = {"kind": "linear", "varied": "epochs", "energy_J": energy}
            swept.append({**values, **LINEAR, **linear})
    _write(folder, "cpu_sweeps_train.csv", swept)
    return folder


def write_more(folder: Path) -> Path:
    """What benchmarks look at besides: rows of a journal with fields of their own."""
    boarded = [
        board_row(arch, optimiser, factor)
        for arch in ("mlp 1x8", "mlp 2x8", "mlp 3x16", "conv 1x8", "conv 2x8", "conv 2x16")
        for optimiser in ("sgd", "adam")
        for factor in (0.98, 1.02)
    ]
    boarded.append({**boarded[0], "energy_j_per_step": 0.0})
    _write_lines(folder, "board_train.jsonl", boarded)
    linear = [gpu_row(device, i) for device in ("V100", "k80") for i in range(12)]
    linear.append({**linear[0], "energy_j_per_step": -1.0})
    _write_lines(folder, "gpu_linear_train_time.jsonl", linear)
    return folder


def board_row(arch: str, optimiser: str, factor: float) -> dict[str, object]:
    """A run of a network: so many layers of one width, and what loads a batch."""
    family, _, sizes = arch.partition(" ")
    depth, width = map(int, sizes.split("x"))
    operation = "conv" if family == "conv" else "linear"
    code, flops = ("sgd", "adam").index(optimiser), 1e6 * width**2
    layer = {
        "operation": operation,
        "widths": {"in": width, "out": width},
        "attributes": {"batch": 16, "optimizer": code},
        "features": {"flops": flops, "activation_bytes": 1e4 * width, "parameter_bytes": width**2},
    }
    hidden, last = (
        {**layer, "kind": f"{role} {operation} {optimiser}", "role": role, "count": count}
        for role, count in (("hidden", depth), ("last", 1))
    )
    loading = {
        "kind": "input b16",
        "operation": "input",
        "attributes": {"batch": 16},
        "features": {"flops": 0.0, "activation_bytes": 1e5, "parameter_bytes": 0.0},
    }
    return {
        "arch": arch,
        "split": family,
        "optimizer": optimiser,
        "batch": 16,
        "device": "board",
        "provenance": "recorded",
        "energy_j_per_step": factor * (5.0 + depth * flops * (1 + code) / 1e8),
        "layers": [loading, hidden, last],
    }


def gpu_row(device: str, i: int) -> dict[str, object]:
    """A linear layer by itself; seconds twice, once as joules."""
    n_in, n_out, batch = 64 + 32 * (i % 5), 64 + 64 * (i % 3), 8 + 4 * (i % 4)
    weights = n_in * n_out
    seconds = (1e-4 + 1e-9 * weights * batch) * (2 if device == "k80" else 1)
    return {
        "device": device,
        "provenance": "modelled",
        "energy_j_per_step": seconds,
        "time_s_per_step": seconds,
        "spread": 0.05,
        "repeats": 5,
        "split": f"{device} linear",
        "layers": [
            {
                "kind": "linear relu sgd",
                "operation": "linear",
                "role": "last",
                "widths": {"in": n_in, "out": n_out},
                "attributes": {"batch": batch, "activation": 1, "optimizer": 0},
                "features": {
                    "flops": 6.0 * weights * batch,
                    "activation_bytes": 4.0 * (n_in + n_out) * batch,
                    "parameter_bytes": 4.0 * weights,
                },
            }
        ],
    }


def _write_lines(folder: Path, name: str, rows: Sequence[Mapping[str, object]]) -> None:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def _write(folder: Path, name: str, rows: Sequence[Mapping[str, object]]) -> None:
    with (folder / name).open("w", newline="") as file:
        columns = list(dict.fromkeys(column for row in rows for column in row))
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
