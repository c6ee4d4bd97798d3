"""Data sets: energies of training that others metered and published, as measurements.

A folder holds extracts of public data sets, one row a metered run; the functions name columns:

ecnas_train, ecnas_layers    91 CNNs on CIFAR-10, 3 repeats, a GPU and two CPUs, NVML and RAPL
broadwell_mlp_train          MLPs, depth × width, 5 repeats, a CPU, RAPL, start-up included
raptorlake_layers_train      random conv and linear layers by themselves, another CPU, RAPL
cpu_sweeps_train             one conv or linear layer, one setting varied, 10 repeats, start-up too

Networks that were metered several times are one row, their mean. What is one step here is whatever
was metered: a batch, or a process from its start to its end.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ampere.core.boundary.files import read_whole
from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.errors import DataError
from ampere.meters.base import Provenance
from ampere.records.measurement import Measurement

SOURCES = (
    "EC-NAS: PedramBakh/EC-NAS-Bench, commit 1a82fdd, MIT (ICASSP 2024). Broadwell, Raptorlake,"
    " sweeps: willowec/characterizing-pytorch-power, commit 4067417, MIT."
)
FILES = (
    "ecnas_train.csv",
    "ecnas_layers.csv",
    "broadwell_mlp_train.csv",
    "raptorlake_layers_train.csv",
    "cpu_sweeps_train.csv",
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
FLOAT = 4  # bytes
# FLOPs of a training step for each multiply-accumulate of a forward pass: the pass itself, the
# weights' gradient and, unless the layer stands first, that of its input.
WHOLE, FIRST = 6, 4

Run = tuple[float | None, float | None]  # joules, unless they cannot be true, and seconds


@dataclass(frozen=True)
class Recorded:
    """A data set as measurements.

    `rejected` rows are faults of a meter. `repeat` is the mean relative deviation of one repeat
    from the mean of its repeats, None where nothing was repeated: the floor for a single run. What
    is asked are means, whose own floor is lower. `times_s` stand beside the rows, not in them,
    where they would be fitted as well; None where nobody took them.
    """

    name: str
    rows: tuple[Measurement, ...]
    rejected: int
    repeat: float | None
    times_s: tuple[float | None, ...] = ()


def refuse_incomplete(folder: Path) -> None:
    """See that all files are there.

    Raises:
        DataError: Some are not.
    """
    if missing := [name for name in FILES if not (folder / name).is_file()]:
        raise DataError(f"{folder} has no {', '.join(missing)}: name the folder of these files")


def read_sets(folder: Path) -> dict[str, Recorded]:
    """The data sets of networks and of layers, by a short name; sweeps stand apart."""
    refuse_incomplete(folder)
    return {
        "ecnas": ecnas(folder),
        "broadwell": broadwell(folder),
        "conv": raptorlake(folder, "conv"),
        "linear": raptorlake(folder, "linear"),
    }


def records(folder: Path, name: str) -> list[dict[str, str]]:
    """The rows of a file.

    Raises:
        DataError: It cannot be read.
    """
    file = folder / name
    try:
        text = read_whole(file, own=True).decode("utf-8-sig")
        return list(csv.DictReader(io.StringIO(text, newline="")))
    except (OSError, DataError, ValueError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{file} cannot be read: {reason}") from None


def averaged(name: str, metered: Iterable[tuple[tuple[Layer, ...], Sequence[Run]]]) -> Recorded:
    """One measurement a network from its repeats, leaving out what cannot be true."""
    rows: list[Measurement] = []
    times_s: list[float | None] = []
    deviations: list[float] = []
    rejected = 0
    for layers, runs in metered:
        joules = [energy_j for energy_j, _ in runs if energy_j is not None and energy_j > 0]
        rejected += len(runs) - len(joules)
        if not joules:
            continue
        mean = statistics.fmean(joules)
        spread = statistics.stdev(joules) / mean if len(joules) > 1 else 0.0
        if len(joules) > 1:
            deviations += [abs(energy_j / mean - 1) for energy_j in joules]
        rows.append(
            Measurement(
                layers, mean, spread=spread, repeats=len(joules), provenance=Provenance.RECORDED
            )
        )
        times_s.append(_mean_time_s(runs))
    repeat = statistics.fmean(deviations) if deviations else None
    return Recorded(name, tuple(rows), rejected, repeat, tuple(times_s))


def _mean_time_s(runs: Sequence[Run]) -> float | None:
    """Of the runs whose joules are true; None where one of them has no seconds."""
    times_s = [time_s for energy_j, time_s in runs if energy_j is not None and energy_j > 0]
    taken = [time_s for time_s in times_s if time_s is not None]
    return statistics.fmean(taken) if len(taken) == len(times_s) else None


def ecnas(folder: Path) -> Recorded:
    """Whole CNNs, joules a step of 256 images."""
    layers: dict[str, list[Layer]] = defaultdict(list)
    for row in records(folder, "ecnas_layers.csv"):
        layers[row["arch"]].append(ecnas_layer(row))
    networks = {arch: tuple(listed) for arch, listed in layers.items()}
    runs: dict[str, list[Run]] = defaultdict(list)
    for row in records(folder, "ecnas_train.csv"):
        runs[row["arch"]].append((_joules(row["train_energy_J_per_step"]), _ecnas_time_s(row)))
    return averaged("EC-NAS", [(networks[arch], metered) for arch, metered in runs.items()])


def _ecnas_time_s(row: Mapping[str, str]) -> float | None:
    """Seconds a step: joules are those of the epochs after the middle one, seconds of all four."""
    steps, middle = _number(row, "steps_mid_to_end"), _number(row, "mid_epoch")
    time_s = _number(row, "train_time_s_4ep")
    if steps is None or middle is None or time_s is None:
        return None
    return time_s / (steps * 4 / (4 - middle))


def ecnas_layer(row: Mapping[str, str]) -> Layer:
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
            runs[cell].append((_joules(row["energy_J"]), _number(row, "wall_s")))
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


def _raptorlake_run(row: Mapping[str, str]) -> Run:
    """Forward and backward together, if both can be true."""
    forward_j, backward_j = float(row["fwd_J"]), float(row["bwd_J"])
    true = row["valid"] == "1" and forward_j > 0 and backward_j > 0
    forward_s, backward_s = _number(row, "fwd_s"), _number(row, "bwd_s")
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
        runs[sweep][value].append((_joules(row["energy_J"]), _number(row, "wall_s")))
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


def _joules(text: str) -> float | None:
    """Joules, unless they are no number."""
    energy_j = float(text)
    return energy_j if math.isfinite(energy_j) else None


def _number(row: Mapping[str, str], column: str) -> float | None:
    """A number that not every extract has."""
    text = row.get(column)
    return float(text) if text else None
