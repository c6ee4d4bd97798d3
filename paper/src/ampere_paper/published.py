"""Recordings: energies of training that others metered and published, as measurements.

A folder holds extracts of public data sets, one row a metered run; the functions name columns:

ecnas_train, ecnas_layers    91 CNNs on CIFAR-10, 3 repeats, a GPU and two CPUs, NVML and RAPL
broadwell_mlp_train          MLPs, depth × width, 5 repeats, a CPU, RAPL, start-up included
raptorlake_layers_train      random conv and linear layers by themselves, another CPU, RAPL
cpu_sweeps_train             one conv or linear layer, one setting varied, 10 repeats, start-up too

Networks that were metered several times are one row, their mean. What is one step here is whatever
was metered: a batch, or a process from its start to its end. A `Case` is a question: some rows are
known, the others are asked for.
"""

from __future__ import annotations

import csv
import math
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.widths import Widths
from ampere.errors import DataError
from ampere.estimators.additive import fit_additive, fit_roofline
from ampere.estimators.base import Fit
from ampere.estimators.flops import fit_flops_affine
from ampere.meters.base import Provenance
from ampere.profiles.estimate import estimate
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
METHODS: Mapping[str, Callable[[Sequence[Measurement]], Fit]] = {
    "additive": fit_additive,
    "roofline": fit_roofline,
    "flops_affine": fit_flops_affine,
}
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
LONG = 6  # values of a sweep, for half of them to show its course
FLOAT = 4  # bytes
# FLOPs of a training step for each multiply-accumulate of a forward pass: the pass itself, the
# weights' gradient and, unless the layer stands first, that of its input.
WHOLE, FIRST = 6, 4

Networks = Sequence[Measurement]
Row = dict[str, Any]
Run = tuple[float, float]  # joules and seconds


@dataclass(frozen=True)
class Recorded:
    """A data set as measurements.

    `rejected` rows are faults of a meter. `repeat` is the mean relative deviation of one repeat
    from the mean of its repeats, None where nothing was repeated: the floor for a single run. What
    is asked are means, whose own floor is lower. `times_s` stand beside the rows, not in them,
    where they would be fitted as well; NaN where nobody took them.
    """

    name: str
    rows: tuple[Measurement, ...]
    rejected: int
    repeat: float | None
    times_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class Case:
    """A question: what is known, and what is asked, several times over."""

    name: str
    splits: tuple[tuple[Networks, Networks], ...]
    bar: float | None = None  # MAPE that the additive method should reach


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


def make_cases(
    sets: Mapping[str, Recorded], swept: Sequence[Recorded], seeds: int = 5
) -> list[Case]:
    """Every question, with so many random splits at most."""
    layers = (sets["conv"], sets["linear"])
    return [
        drawn(sets["ecnas"], 20, seeds, bar=0.03),
        drawn(sets["ecnas"], 40, seeds, bar=None),
        by_depth(sets["broadwell"], (1, 3, 7, 15), bar=0.03),
        by_depth(sets["broadwell"], (1, 2, 3), bar=0.07),
        *(drawn(data, 160, min(seeds, 3), bar=0.16) for data in layers),
        alternating(swept),
    ]


def records(folder: Path, name: str) -> list[dict[str, str]]:
    """The rows of a file."""
    with (folder / name).open(newline="") as file:
        return list(csv.DictReader(file))


def averaged(name: str, metered: Iterable[tuple[tuple[Layer, ...], Sequence[Run]]]) -> Recorded:
    """One measurement a network from its repeats, leaving out what cannot be true."""
    rows: list[Measurement] = []
    times: list[float] = []
    deviations: list[float] = []
    rejected = 0
    for layers, repeats in metered:
        runs = [run for run in repeats if math.isfinite(run[0]) and run[0] > 0]
        rejected += len(repeats) - len(runs)
        if not runs:
            continue
        joules = [energy for energy, _ in runs]
        mean = statistics.fmean(joules)
        spread = statistics.stdev(joules) / mean if len(joules) > 1 else 0.0
        if len(joules) > 1:
            deviations += [abs(energy / mean - 1) for energy in joules]
        rows.append(
            Measurement(
                layers, mean, spread=spread, repeats=len(joules), provenance=Provenance.RECORDED
            )
        )
        times.append(statistics.fmean(seconds for _, seconds in runs))
    repeat = statistics.fmean(deviations) if deviations else None
    return Recorded(name, tuple(rows), rejected, repeat, tuple(times))


def ecnas(folder: Path) -> Recorded:
    """Whole CNNs, joules a step of 256 images."""
    layers: dict[str, list[Layer]] = defaultdict(list)
    for row in records(folder, "ecnas_layers.csv"):
        layers[row["arch"]].append(ecnas_layer(row))
    networks = {arch: tuple(found) for arch, found in layers.items()}
    runs: dict[str, list[Run]] = defaultdict(list)
    for row in records(folder, "ecnas_train.csv"):
        # Joules are those of the epochs after the middle one, seconds those of all four.
        steps = _number(row, "steps_mid_to_end") * 4 / (4 - _number(row, "mid_epoch"))
        seconds = _number(row, "train_time_s_4ep") / steps
        runs[row["arch"]].append((float(row["train_energy_J_per_step"]), seconds))
    return averaged("EC-NAS", [(networks[arch], found) for arch, found in runs.items()])


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
            runs[cell].append((float(row["energy_J"]), _number(row, "wall_s")))
    return averaged("Broadwell MLP", [(mlp(*cell), found) for cell, found in runs.items()])


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
            forward, backward = float(row["fwd_J"]), float(row["bwd_J"])
            true = row["valid"] == "1" and forward > 0 and backward > 0
            seconds = _number(row, "fwd_s") + _number(row, "bwd_s")
            settings = {name: float(row[name] or 1) for name in ("side", "k", "stride", "batch")}
            layer = alone(operation, int(row["cin"]), int(row["cout"]), settings)
            metered.append(((layer,), [(forward + backward if true else math.nan, seconds)]))
    return averaged(f"Raptorlake {operation}", metered)


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
    found: dict[tuple[str, ...], dict[float, list[Run]]] = defaultdict(lambda: defaultdict(list))
    layers: dict[tuple[tuple[str, ...], float], Layer] = {}
    for row in records(folder, "cpu_sweeps_train.csv"):
        varied, value = row["varied"], float(row["value"])
        fixed = (name for name in SWEPT if name != varied)
        sweep = (row["kind"], varied, *(row[name] for name in fixed))
        found[sweep][value].append((float(row["energy_J"]), _number(row, "wall_s")))
        layers[sweep, value] = swept_layer(row)
    return [
        averaged(
            f"{sweep[0]} {sweep[1]}",
            [((layers[sweep, value],), values[value]) for value in sorted(values)],
        )
        for sweep, values in sorted(found.items())
    ]


def swept_layer(row: Mapping[str, str]) -> Layer:
    """The one layer of a run of a sweep."""
    settings = {"side": 1.0, "k": 1.0, "stride": 1.0}  # what a linear layer leaves empty
    settings |= {ours: float(row[theirs]) for theirs, ours in SWEPT.items() if row[theirs]}
    n_in, n_out = int(settings.pop("in")), int(settings.pop("out"))
    return alone("conv" if row["kind"] == "cnn" else "linear", n_in, n_out, settings)


def drawn(data: Recorded, known: int, seeds: int, bar: float | None) -> Case:
    """Some rows drawn at random, half of them at most; the rest is asked."""
    known, splits = min(known, len(data.rows) // 2), []
    for seed in range(seeds):
        rows = random.Random(seed).sample(data.rows, len(data.rows))
        splits.append((rows[:known], rows[known:]))
    return Case(f"{data.name}, any {known} of {len(data.rows)}", tuple(splits), bar)


def by_depth(data: Recorded, depths: Sequence[int], bar: float) -> Case:
    """Networks of these depths at every second width; all others are asked."""
    widths = sorted({row.layers[0].widths["width"] for row in data.rows})[::2]

    def is_known(row: Measurement) -> bool:
        hidden = row.layers[0]
        return hidden.count in depths and hidden.widths["width"] in widths

    known = [row for row in data.rows if is_known(row)]
    asked = [row for row in data.rows if not is_known(row)]
    name = f"{data.name}, {'/'.join(map(str, depths))} hidden layers at {len(widths)} widths"
    return Case(name, ((known, asked),), bar)


def alternating(found: Sequence[Recorded]) -> Case:
    """Every second value of each long sweep; the others are asked."""
    long = [data for data in found if len(data.rows) >= LONG]
    splits = tuple((data.rows[::2], data.rows[1::2]) for data in long)
    return Case(f"{len(long)} sweeps of one setting, every second value", splits)


def examine(case: Case, method: str) -> Row:
    """Fit what is known of each split, and compare what it says with what is asked."""
    errors: list[list[float]] = []
    inside: list[list[bool]] = []
    seconds: list[float] = []
    left_out = 0
    for known, asked in case.splits:
        start = time.perf_counter()
        fit = METHODS[method](known)
        seconds.append(time.perf_counter() - start)
        left_out += len(getattr(fit, "rejected", ()))
        errors.append([])
        inside.append([])
        for row in asked:
            said = estimate(row.layers, fit)
            low, high = said.energy_j_interval
            errors[-1].append(abs(said.energy_j / row.energy_j - 1))
            inside[-1].append(low <= row.energy_j <= high)
    mape, coverage = (list(map(statistics.fmean, splits)) for splits in (errors, inside))
    return {
        "case": case.name,
        "method": method,
        "known": [len(known) for known, _ in case.splits],
        "asked": [len(asked) for _, asked in case.splits],
        "mape": statistics.fmean(mape),
        "bar": case.bar if method == "additive" else None,
        "median_error": statistics.median(error for split in errors for error in split),
        "coverage": statistics.fmean(coverage),
        "left_out": left_out,
        "fit_s": statistics.median(seconds),
        "mape_by_split": mape,
        "coverage_by_split": coverage,
    }


def summary(data: Recorded) -> Row:
    """What may be kept of a data set: counts, no data."""
    return {
        "set": data.name,
        "networks": len(data.rows),
        "repeat": data.repeat,
        "rejected": data.rejected,
    }


def _number(row: Mapping[str, str], column: str) -> float:
    """A number that not every extract has."""
    return float(row.get(column) or math.nan)
