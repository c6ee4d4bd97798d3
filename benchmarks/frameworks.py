"""Other runtimes than torch: how well members of families are estimated that MNN or JAX trains.

    python benchmarks/frameworks.py --runtime mnn                  # 6 minutes on 2 quiet cores
    python benchmarks/frameworks.py --runtime jax                  # half an hour
    python benchmarks/frameworks.py --runtime mnn lenet5 --models 4
    python benchmarks/frameworks.py --runtime jax nnx_residual nnx_transformer nnx_recurrent
    python benchmarks/frameworks.py --runtime jax --missing        # families without results
    python benchmarks/frameworks.py --refit                        # from what was kept

For each family, in this order, by one runtime: unseen random members are metered; the additive
prober measures what it asks for; the members are metered once more, which is the floor that nothing
can be better than. FLOPs times a factor, fitted on the same networks, stand beside it. A bar is the
larger of 1.5 times the floor and 6 %. Then whether costs add up at all: the same network with more
and more blocks must lie on a line. The tables go to docs/paper/frameworks.md, the measurements to
benchmarks/results. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from machine import DOCS, RESULTS, machine_line, pack, write_section

import ampere
from ampere.acquisition.families import Network, members, read_network
from ampere.acquisition.loop import Comebacks, open_journal, reference_of, run_profiler
from ampere.acquisition.prober import make_prober
from ampere.acquisition.strategy import Strategy
from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.core.workloads import ModelSpec, Workload
from ampere.devices.base import Device
from ampere.estimators.base import Fit
from ampere.estimators.baselines.flops import fit_flops
from ampere.estimators.fitting import fit_additive
from ampere.frameworks.models import layers_of
from ampere.profiles.estimate import estimate
from ampere.records.journal import Journal, read_journal
from ampere.records.measurement import Measurement
from ampere.sittings.effort import Effort
from ampere.sittings.measure import measure

FAMILIES = ("lenet5", "cnn5", "lstm", "transformer", "resnet")
# Models of flax.nnx that are not in the zoo; members are the same at other widths.
OWN = {
    f"nnx_{name}": ModelSpec(f"benchmarks/flax_models.py:{name}", input)
    for name, input in (
        ("residual", "32x32x3"),
        ("transformer", "12:int64<50"),
        ("recurrent", "28x5"),
    )
}
RUNTIMES = ("mnn", "jax")
PARTS = ("first", "asked", "second", "deeper")
TEST_SEED = 2000
MODELS, MEASUREMENTS, TOGETHER = 16, 24, 5
# Of a family with few widths the prober asks for members as well, which are then not unseen: more
# of them, so that fifteen remain.
MORE_MODELS = {"transformer": 28, "nnx_transformer": 28}
# The same blocks, more and more of them.
DEEPER = {
    "resnet": [f"zoo:resnet(depth={depth})" for depth in (8, 14, 20, 26, 32)],
    "transformer": [f"zoo:transformer(layers={layers})" for layers in (1, 2, 3, 4, 5, 6)],
}
FACTOR, BAR = 1.5, 6.0
PATIENCE_S = 600.0  # a sitting waits so long for a machine that others are at


@dataclass(frozen=True)
class Score:
    """How well a fit says what unseen members cost, in percent."""

    mape: float
    bias: float
    coverage: float

    @classmethod
    def of(cls, fit: Fit, rows: Sequence[tuple[Sequence[Layer], float]]) -> Score:
        """Compare what a fit says of networks with what they took."""
        answers = [(estimate(layers, fit), joules) for layers, joules in rows]
        errors = [answer.energy_j / joules - 1 for answer, joules in answers]
        inside = [a.energy_j_interval[0] <= j <= a.energy_j_interval[1] for a, j in answers]
        return cls(100 * fmean(map(abs, errors)), 100 * fmean(errors), fmean(inside))


def say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def path_of(runtime: str, family: str, part: str) -> Path:
    return RESULTS / f"frameworks_{runtime}_{family}_{part}.ampere"


def kept_at(runtime: str, family: str) -> Path:
    return RESULTS / f"frameworks_{runtime}_{family}.json"


def models_of(family: str, given: argparse.Namespace) -> int:
    return given.models or MORE_MODELS.get(family, MODELS)


def meter(
    work: Sequence[tuple[Workload, Sequence[Layer]]],
    journal: Journal,
    device: Device,
    seed: int,
    effort: Effort,
) -> None:
    """Each network once, in a company that the seed decides; rows stay in the order given."""
    order = list(range(len(work)))
    random.Random(seed).shuffle(order)
    nominal = reference_of(journal.header, device, effort)
    measured: dict[int, Measurement] = {}
    for i in range(0, len(order), TOGETHER):
        batch = order[i : i + TOGETHER]
        rows = measure(device, [work[k] for k in batch], nominal, effort)
        measured |= dict(zip(batch, rows, strict=True))
    for k in range(len(work)):
        journal.append(measured[k])


def run(runtime: str, family: str, given: argparse.Namespace) -> None:
    """Measure everything for one family by one runtime."""
    models, measurements = models_of(family, given), given.measurements
    effort = Effort(patience_s=PATIENCE_S, accept_busy=given.accept_busy)
    spec = OWN.get(family, ModelSpec(f"zoo:{family}"))
    drawn: list[Network] = list(itertools.islice(members(spec, random.Random(TEST_SEED)), models))
    work = [(Workload(tuple(each.layers)), each.layers) for each in drawn]
    paths = {part: path_of(runtime, family, part) for part in PARTS}
    for path in paths.values():
        path.unlink(missing_ok=True)
    with ampere.LocalDevice(ampere.Settings(threads=given.threads, runtime=runtime)) as device:
        first, _ = open_journal(paths["first"], device, effort=effort, model=spec.model)
        opened = {
            part: first if part == "first" else Journal.open(path, first.header)
            for part, path in paths.items()
        }
        say(f"{runtime} {family}: {models} members")
        meter(work, opened["first"], device, 0, effort)
        say(f"{runtime} {family}: {measurements} networks that the prober asks for")
        strategy = Strategy(max_measurements=measurements, tolerance=1e-6)
        asker = make_prober(read_network(spec.model, spec.input, Training()), strategy)
        run_profiler(asker, device, opened["asked"], effort=effort, comebacks=Comebacks(0))
        say(f"{runtime} {family}: {models} members once more")
        meter(work, opened["second"], device, 1, effort)
        deeper = [layers_of(ModelSpec(name)) for name in DEEPER.get(family, [])]
        meter(
            [(Workload(tuple(each)), each) for each in deeper], opened["deeper"], device, 2, effort
        )
        for journal in opened.values():
            journal.close()
            pack(journal.path)
        identity = device.fingerprint.identity
    settings = {key: identity[key] for key in ("threads", "framework")}
    machine = RESULTS / f"frameworks_{runtime}_{family}.machine"
    machine.write_text(machine_line(settings) + "\n")


def analyse(runtime: str, family: str) -> dict[str, Any]:
    """Scores from the measurements that were kept."""
    rows = {part: read_journal(f"{path_of(runtime, family, part)}.gz")[1] for part in PARTS}
    pairs = [
        (a, b)
        for a, b in zip(rows["first"], rows["second"], strict=True)
        if not a.failed and not b.failed
    ]
    asked = {_key(row.layers) for row in rows["asked"]}
    unseen = [
        (a.layers, (a.energy_j + b.energy_j) / 2) for a, b in pairs if _key(a.layers) not in asked
    ]
    floor = 100 * fmean(abs(a.energy_j / b.energy_j - 1) for a, b in pairs)
    machine = RESULTS / f"frameworks_{runtime}_{family}.machine"
    return {
        "runtime": runtime,
        "family": family,
        "models": len(unseen),
        "failed": sum(bool(row.failed) for part in PARTS for row in rows[part]),
        "measurements": len(rows["asked"]),
        "floor": floor,
        "bar": max(FACTOR * floor, BAR),
        "drift": _drift(rows["asked"], [*rows["first"], *rows["second"]]),
        "additive": asdict(Score.of(fit_additive(rows["asked"]), unseen)),
        "flops": asdict(Score.of(fit_flops(rows["asked"]), unseen)),
        "deeper": _line([row for row in rows["deeper"] if not row.failed]),
        "machine": machine.read_text().strip(),
    }


def _key(layers: Sequence[Layer]) -> str:
    return repr(sorted((layer.kind.name, repr(layer.widths), layer.count) for layer in layers))


def _drift(asked: Sequence[Measurement], members: Sequence[Measurement]) -> float:
    """What the reference workload took more while the asked networks were metered, in percent."""

    def reference_j(rows: Sequence[Measurement]) -> float:
        return fmean(median(row.bursts["reference_energy_j"]) for row in rows if row.bursts)

    return 100 * (reference_j(asked) / reference_j(members) - 1)


def _line(rows: Sequence[Measurement]) -> dict[str, float] | None:
    """How well joules of networks that differ by blocks alone lie on a line."""
    if len(rows) < 3:
        return None
    blocks = np.array([sum(layer.count for layer in row.layers) for row in rows], float)
    joules = np.array([row.energy_j for row in rows])
    slope, start = np.polyfit(blocks, joules, 1)
    off = joules - (start + slope * blocks)
    around = joules - joules.mean()
    return {
        "networks": len(rows),
        "r2": float(1 - off @ off / (around @ around)),
        "worst": float(100 * np.abs(off / joules).max()),
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Both tables, in Markdown."""
    machines = " ".join(sorted({row["machine"] for row in rows}))
    text = [
        f"Machine: {machines}",
        "",
        "MAPE in percent over unseen members, after so many measured networks; floor: the members"
        " metered twice; drift: how much more the reference workload took while those networks were"
        " measured than while the members were.",
        "",
        "| runtime | family | members | networks | floor | drift | MAPE (bias) | bar | in 90 %"
        " | FLOPs |",
        "|---" * 10 + "|",
    ]
    for row in rows:
        own, flops = row["additive"], row["flops"]
        verdict = "" if own["mape"] <= row["bar"] else " **missed**"
        text.append(
            f"| {row['runtime']} | {row['family']} | {row['models']} | {row['measurements']} |"
            f" {row['floor']:.1f} | {row['drift']:+.1f} | {own['mape']:.1f} ({own['bias']:+.1f}) |"
            f" {row['bar']:.1f}{verdict} | {own['coverage']:.0%} | {flops['mape']:.1f} |"
        )
    text += ["", "Additivity: the same network with more and more blocks, on a line.", ""]
    text += ["| runtime | family | networks | R² | farthest from the line |", "|---" * 5 + "|"]
    text += [
        f"| {row['runtime']} | {row['family']} | {row['deeper']['networks']:.0f} |"
        f" {row['deeper']['r2']:.4f} | {row['deeper']['worst']:.1f} % |"
        for row in rows
        if row["deeper"]
    ]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--runtime", choices=RUNTIMES)
    parser.add_argument("--models", type=int, help="members of a family; 16 if not said")
    parser.add_argument("--measurements", type=int, default=MEASUREMENTS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--missing", action="store_true", help="families without results alone")
    parser.add_argument("--refit", action="store_true", help="from what was measured before")
    parser.add_argument("--accept-busy", action="store_true", help="to try it, not to publish")
    given = parser.parse_args()
    if not given.refit:
        if given.runtime is None:
            parser.error("say which runtime is measured: --runtime mnn or --runtime jax")
        if given.runtime != "jax" and OWN.keys() & set(given.families):
            parser.error("models of flax.nnx are trained by JAX alone: --runtime jax")
        for family in given.families:
            if given.missing and kept_at(given.runtime, family).exists():
                continue
            run(given.runtime, family, given)
            row = analyse(given.runtime, family)
            kept_at(given.runtime, family).write_text(json.dumps(row, indent=1) + "\n")
            say(json.dumps({key: row[key] for key in ("family", "floor", "additive", "flops")}))
    kept = [
        analyse(runtime, family)
        for runtime in RUNTIMES
        for family in (*FAMILIES, *OWN)
        if kept_at(runtime, family).exists()
    ]
    (DOCS / "frameworks.md").touch()
    write_section("frameworks.md", "frameworks", table(kept))


if __name__ == "__main__":
    main()
