"""Models that are not in the zoo, from end to end: read, profile one, estimate others, meter them.

    python benchmarks/own_models.py                    # about 15 minutes on 2 cores
    python benchmarks/own_models.py --method paper     # about 35 minutes
    python benchmarks/own_models.py vit_tiny --models 5 --folder /tmp/trial

For each family of benchmarks/models.py one member is profiled, the largest, by the paper's method
or the additive one: then networks of its depth, at widths up to its own, are measured.
The others are real models, not the profiled one's layers at other widths: the factory builds them
with other arguments, widths and depths, and each is read anew. Then two ways of fine-tuning: what a
frozen body saves, as estimated and as metered side by side.

What is already in the results is not run again unless --again is given; a profile that was
interrupted goes on. The table goes to docs/paper/accuracy.md, unless --folder puts the results
elsewhere. Run it from the root of the repository, and leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from machine import RESULTS, machine_line, pack, show, write_section

import ampere
from ampere.acquisition.families import Network
from ampere.acquisition.loop import open_journal, reference_of
from ampere.core.workloads import ModelSpec, Workload
from ampere.devices.base import Device
from ampere.estimators.base import usable
from ampere.estimators.baselines.flops import fit_flops, fit_flops_affine
from ampere.estimators.baselines.roofline import fit_roofline
from ampere.estimators.fitting import fit_additive
from ampere.evaluation.evaluate import compare
from ampere.evaluation.evaluation import Evaluation
from ampere.profiles.estimate import estimate
from ampere.records.journal import read_journal
from ampere.sittings.measure import measure

MODELS = os.path.relpath(Path(__file__).with_name("models.py"))
METHODS = ("additive", "paper", "roofline", "flops", "flops_affine", "extrapolation", "repeat")
STEPS = 10  # for the extrapolation
PAIRS = 5  # members of each way of fine-tuning

Row = dict[str, Any]
Arguments = Mapping[str, int | str]


@dataclass(frozen=True)
class Family:
    """Models of one factory: the one to profile, and what the arguments of the others may be."""

    name: str
    profiled: Arguments
    choices: Mapping[str, Sequence[int]]

    def spec(self, arguments: Arguments) -> str:
        """What names a member to ampere."""
        return f"{MODELS}:{self.text(arguments)}"

    def text(self, arguments: Arguments) -> str:
        """What names a member to people."""
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})"

    def draw(self, count: int) -> list[Arguments]:
        """Distinct members, without the profiled one."""
        points = itertools.product(*self.choices.values())
        every = [dict(zip(self.choices, point, strict=True)) for point in points]
        return list(random.Random(0).sample([a for a in every if a != self.profiled], count))

    def member(self, arguments: Arguments) -> Network:
        """A model as its factory builds it, and its layers as they are read from it."""
        spec = self.spec(arguments)
        layers = ampere.read_layers(spec)
        return Network(self.text(arguments), Workload(model=ModelSpec(spec)), layers)


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "vit_tiny",
            {"width": 96, "depth": 2},
            {"width": range(32, 97, 4), "depth": range(1, 5)},  # widths are multiples of the heads
        ),
        Family(
            "mobilenet",
            {"width": 24, "depth": 2},
            {"width": range(6, 25), "depth": range(1, 4)},
        ),
        Family(
            "gpt",
            {"width": 96, "depth": 2},
            {"width": range(24, 97, 4), "depth": range(1, 5)},
        ),
        Family(
            "unet",
            {"width": 16, "levels": 3},
            {"width": range(4, 17), "levels": (2, 3)},
        ),
        Family(
            "question_answering",
            {"width": 32, "hidden": 96, "depth": 2},
            {"width": range(8, 33), "hidden": range(16, 97), "depth": range(1, 4)},
        ),
    )
}
TUNED = (("vit_tiny", "head"), ("mobilenet", "head"), ("vit_tiny", "lora"), ("gpt", "lora"))


@dataclass(frozen=True)
class Way:
    """How profiles are made, and where they are kept."""

    method: str
    folder: Path
    measurements: int
    max_points: int

    def path(self, name: str) -> Path:
        """The journal of a family."""
        stem = "own" if self.method == "paper" else f"own_{self.method}"
        return self.folder / f"{stem}_{name}.ampere"

    @property
    def kept(self) -> Path:
        """The results of all families."""
        return self.folder / ("own_models.json" if self.method == "paper" else "own_additive.json")

    def profile(self, spec: str, path: Path, device: Device) -> ampere.Profile:
        """Profile one model; what the journal has already does not count."""
        before = len(usable(ampere.Profile.load(path).measurements)) if path.exists() else 0
        strategy = ampere.Strategy(
            self.method, before + self.measurements, max_points=self.max_points
        )
        return ampere.profile(spec, path=path, device=device, strategy=strategy, watch=show)


def on_machine(device: Device) -> str:
    identity = device.fingerprint.identity
    return machine_line({key: identity[key] for key in ("threads", "framework")})


def run(family: Family, way: Way, device: Device, models: int) -> Row:
    path = way.path(family.name)
    start = time.monotonic()
    way.profile(family.spec(family.profiled), path, device)
    spent = time.monotonic() - start
    evaluation = evaluate(family, path, device, models, way.method)
    kinds = {layer.kind.name for layer in family.member(family.profiled).layers}
    rows = usable(ampere.Profile.load(path).measurements)
    every = {layer.kind.name for row in rows for layer in row.layers}
    sys.stderr.write("\n")
    return evaluation.to_json() | {
        "profiled": family.text(family.profiled),
        "kinds": len(kinds),
        "stand_ins": len(every - kinds),
        "wall_s": spent,
        "machine": on_machine(device),
    }


def evaluate(family: Family, path: Path, device: Device, models: int, method: str) -> Evaluation:
    """As `ampere.evaluate`, for members that their own code builds."""
    journal, _ = open_journal(path, device)
    with journal:
        profile = ampere.Profile(tuple(journal.measurements), journal.header, method)
        covered, failed = [], []
        for member in map(family.member, family.draw(models)):
            missing = ", ".join(layer.name for layer in profile.estimate(member.layers).uncovered)
            if missing:
                failed.append(f"{member.name}: the profile does not cover {missing}")
            else:
                covered.append(member)
        others = [fit(profile.measurements) for fit in (fit_roofline, fit_flops, fit_flops_affine)]
        evaluation = compare(covered, profile, others, journal, device, steps=STEPS, watch=show)
    return replace(evaluation, failed=(*failed, *evaluation.failed))


def run_tuned(family: Family, tune: str, way: Way, device: Device) -> Row:
    """Add the frozen kinds to a copy of the family's profile, then compare frozen with full."""
    path = way.path(f"{family.name}_{tune}")
    if not path.exists():
        shutil.copy(way.path(family.name), path)
    before = ampere.Profile.load(way.path(family.name))
    profile = way.profile(family.spec({**family.profiled, "tune": tune}), path, device)
    nominal = reference_of(profile.header, device)
    pairs, failed = [], []
    for arguments in family.draw(PAIRS):
        members = [family.member(a) for a in (arguments, {**arguments, "tune": tune})]
        estimates = [profile.estimate(member.layers) for member in members]
        metered = measure(device, [(m.workload, m.layers) for m in members], nominal)
        reasons = [f"the profile does not cover {layer.name}" for answer in estimates
                   for layer in answer.uncovered]  # fmt: skip
        reasons += [row.failed.text for row in metered if row.failed is not None]
        if reasons:
            failed.append(f"{members[1].name}: {'; '.join(reasons)}")
            continue
        pairs.append(
            {
                "model": members[1].name,
                "estimated_j": [answer.energy_j for answer in estimates],
                "metered_j": [row.energy_j for row in metered],
            }
        )
    sys.stderr.write("\n")
    return {
        "model": family.name,
        "tune": tune,
        "measurements": len(usable(profile.measurements)) - len(usable(before.measurements)),
        "profiling_s": profile.profiling_s - before.profiling_s,
        "provenance": device.provenance.value,
        "pairs": pairs,
        "failed": failed,
        "machine": on_machine(device),
    }


def share(pair: Row, key: str) -> float:
    full, frozen = pair[key]
    return float(frozen / full)


def table(rows: Mapping[str, Row], tuned: Mapping[str, Row]) -> str:
    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.1f}"

    machines = {row["machine"] for row in (*rows.values(), *tuned.values())}
    methods = [m for m in METHODS if any(m in row["mape"] for row in rows.values())]
    text = ["Machine: " + " ".join(sorted(machines)), ""]
    text += [
        "MAPE in percent over unseen members, other widths and depths, built by their own code;",
        "`repeat` is the floor: the error of metering the same model a second time.",
        "",
        "| profiled | members | kinds + stand-ins | "
        + " | ".join(methods)
        + " | coverage of 90 % interval | measurements | seconds |",
        "|---" * (len(methods) + 6) + "|",
    ]
    for row in rows.values():
        cells = [f"`{row['profiled']}`", str(len(row["models"]))]
        cells.append(f"{row['kinds']} + {row['stand_ins']}")
        cells += [number(row["mape"].get(method)) for method in methods]
        cells += [
            f"{row['coverage_90']:.0%}",
            str(row["measurements"]),
            f"{row['profiling_s']:.0f}",
        ]
        text.append("| " + " | ".join(cells) + " |")
    if tuned:
        text += [
            "",
            "Fine-tuning: joules of a step that trains only the head, or adapters of rank 4 (and",
            "the head, where it is no embedding too), as a share of a step that trains everything;",
            "means over unseen members, metered side by side. `error` is the MAPE of the frozen",
            "models' estimates; measurements and seconds are what their kinds took in addition.",
            "",
            "| model | trained | members | share estimated | metered | error | measurements |"
            " seconds |",
            "|---" * 8 + "|",
        ]
    for row in tuned.values():
        if not row["pairs"]:
            continue
        shares = [
            fmean(share(p, key) for p in row["pairs"]) for key in ("estimated_j", "metered_j")
        ]
        misses = [abs(p["estimated_j"][1] / p["metered_j"][1] - 1) for p in row["pairs"]]
        cells = [row["model"], row["tune"], str(len(row["pairs"])), *(f"{s:.2f}" for s in shares)]
        cells += [number(100 * fmean(misses)), str(row["measurements"])]
        text.append("| " + " | ".join([*cells, f"{row['profiling_s']:.0f}"]) + " |")
    broken = [reason for row in (*rows.values(), *tuned.values()) for reason in row["failed"]]
    if broken:
        text += ["", "Without these:", "", *(f"- {reason}" for reason in broken)]
    return "\n".join(text)


def refit(row: Row, journal: Path) -> None:
    """Estimates of what was metered, made anew by the present code from what was profiled."""
    fit = fit_additive(read_journal(journal)[1])
    off, inside = [], []
    for member in row["models"]:
        answer = estimate(ampere.read_layers(f"{MODELS}:{member['model']}"), fit)
        true_j = fmean(member["metered_j"])
        low_j, high_j = answer.energy_j_interval
        member["estimates_j"]["additive"] = answer.energy_j
        member["interval_j"] = [low_j, high_j]
        off.append(100 * (answer.energy_j / true_j - 1))
        inside.append(low_j <= true_j <= high_j)
    row["mape"]["additive"], row["bias"]["additive"] = fmean(map(abs, off)), fmean(off)
    row["coverage_90"] = fmean(inside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--method", choices=("additive", "paper"), default="additive")
    parser.add_argument("--measurements", type=int, default=24, help="with additive")
    parser.add_argument("--max-points", type=int, default=14, help="with paper")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--refit", action="store_true", help="of models that were metered before")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(exist_ok=True)
    way = Way(options.method, folder, options.measurements, options.max_points)
    kept = way.kept
    done: dict[str, dict[str, Row]] = {"models": {}, "tuned": {}}
    if kept.exists():
        done = json.loads(kept.read_text())
    tuned = [(name, tune) for name, tune in TUNED if name in options.families]
    if options.again:  # a journal that is there would be resumed, not measured again
        for name in [*options.families, *(f"{name}_{tune}" for name, tune in tuned)]:
            done["models"].pop(name, None)
            done["tuned"].pop(name, None)
            way.path(name).unlink(missing_ok=True)
    if options.refit:
        for name, row in done["models"].items():
            refit(row, way.path(name).with_suffix(".ampere.gz"))
        kept.write_text(json.dumps(done, indent=1) + "\n")
    with ampere.LocalDevice(ampere.Settings(threads=options.threads)) as device:
        for name in options.families:
            if name not in done["models"]:
                row = run(FAMILIES[name], way, device, options.models)
                done["models"][name] = row
                kept.write_text(json.dumps(done, indent=1) + "\n")
        for name, tune in tuned:
            if f"{name}_{tune}" not in done["tuned"]:
                row = run_tuned(FAMILIES[name], tune, way, device)
                done["tuned"][f"{name}_{tune}"] = row
                kept.write_text(json.dumps(done, indent=1) + "\n")
    text = table(done["models"], done["tuned"])
    print(text)
    if folder == RESULTS:
        for path in folder.glob("own_*.ampere"):
            pack(path)
        write_section(
            "accuracy.md", "own models" if way.method == "paper" else "own models additive", text
        )


if __name__ == "__main__":
    main()
