"""Pruning to a budget, proved with a meter: is the smaller model inside, and how good is it?

    python benchmarks/pruning.py              # about an hour; --seeds 1 for a look
    python benchmarks/pruning.py --cuts       # by joules, metered and not trained: 40 minutes

For each model and seed: profile the model anew, draw its weights and a split of the data, cut it to
25, 50 and 75 % of its energy by joules and, with the same random stream, by FLOPs, meter all of
them and the full model (twice: the floor) in interleaved bursts, and train each for the same number
of iterations. Data are scikit-learn's digits at 32×32. `inside` counts models whose metered joules
are at most the budget's share of the full model's. With --cuts the question is only whether budgets
hold, by the estimate alone and with candidates verified by the meter; both are kept, and stand on
the page, apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from machine import RESULTS, machine_line, write_section

import ampere
from ampere.acquisition.loop import reference_of
from ampere.core.choices import smallest
from ampere.core.inputs import Inputs
from ampere.core.workloads import Workload
from ampere.datasets.samples import Dataset
from ampere.devices.base import Device
from ampere.errors import DataError
from ampere.pruning.result import Pruning
from ampere.pruning.verify import VERIFYING
from ampere.pytorch.pruning.tuner import judge, load_data, tune
from ampere.pytorch.runtime.loader import load_model
from ampere.sittings.measure import measure

LSTM = f"{Path(__file__).parent / 'models.py'}:row_lstm"
BUDGETS = (25, 50, 75)
GUIDES = ("energy", "flops")
CUTS = ("energy", "verified")  # by joules both; the second meters candidates before it takes one
HELD, NEAR = 0.9, 0.03  # share of cuts that must be inside; how near their mean is to the budget
NETWORKS = 24  # of a profile
BATCH_SIZE = 16  # with 10, what every step costs anyhow keeps the smallest CNN above 15 %


@dataclass(frozen=True)
class Subject:
    """A model, how long it is trained, and with how many seeds."""

    title: str
    model: str
    iterations: int
    seeds: int


SUBJECTS = (
    Subject("5-layer CNN", "zoo:cnn5", 1000, 10),
    Subject("ResNet-8, twice as wide", "zoo:resnet(depth=8, widths=[32, 64, 128])", 300, 5),
    Subject("LSTM over rows", LSTM, 1000, 5),
)


@dataclass(frozen=True)
class Row:
    """One model after cutting, metering and training."""

    subject: str
    seed: int
    budget: int  # percent; 100 is the full model
    guide: str
    estimated: float  # joules as a share of the full model's
    metered: float
    energy_j: float
    accuracy: float | None  # None if it was not trained
    kept: float
    prune_s: float
    widths: Mapping[str, int]
    estimated_j: float | None = None  # of a step; None in rows from before it was kept


@dataclass(frozen=True)
class Seed:
    """What holds for all models of a seed."""

    subject: str
    seed: int
    floor: float  # the full model, metered twice at the same time
    least: float  # the smallest of the family, as a share of the full model
    profiling_s: float


def cut_all(
    model: torch.nn.Module,
    inputs: Inputs,
    profile: ampere.Profile,
    device: Device,
    seed: int,
    guides: Sequence[str],
) -> dict[tuple[int, str], tuple[Pruning, float]]:
    """A model cut to every budget by every guide, and the seconds that each took."""
    cut: dict[tuple[int, str], tuple[Pruning, float]] = {}
    for budget in BUDGETS:
        for guide in guides:
            start = time.perf_counter()
            try:
                pruning = ampere.prune(
                    model,
                    inputs,
                    profile=profile,
                    budget=f"{budget}%",
                    search=ampere.Search(
                        guide="flops" if guide == "flops" else "energy", least=0.05
                    ),
                    verification=ampere.Verification(device) if guide == "verified" else None,
                    seed=seed,
                )
            except DataError as error:  # even the smallest takes more
                sys.stderr.write(f"{budget} % by {guide}: {error}\n")
                continue
            cut[budget, guide] = pruning, time.perf_counter() - start
    return cut


def trained_accuracy(model: torch.nn.Module, *, data: Dataset, iterations: int, seed: int) -> float:
    """On test samples, after training."""
    tune(model, data.train, iterations, batch_size=BATCH_SIZE, seed=seed)
    return judge(model, data.test).accuracy


def untrained(model: torch.nn.Module) -> None:
    """Nobody asks how good it is."""


def run(
    subject: Subject, seed: int, device: Device, guides: Sequence[str], trained: bool
) -> tuple[Seed, list[Row]]:
    torch.manual_seed(seed)
    model, inputs = load_model(subject.model)
    with tempfile.TemporaryDirectory() as folder:
        profile = ampere.profile(
            subject.model,
            path=Path(folder) / "profile.ampere",
            device=device,
            training=ampere.Training(BATCH_SIZE, "momentum"),
            strategy=ampere.Strategy(max_measurements=NETWORKS, seed=seed, tolerance=0.001),
        )
    cut = cut_all(model, inputs, profile, device, seed, guides)
    whole = next(iter(cut.values()))[0].layers_before
    networks = [whole, whole, smallest(whole), *(p.slim.layers for p, _ in cut.values())]
    rows = measure(
        device,
        [(Workload(layers), layers) for layers in networks],
        reference_of(profile.header, device),
        VERIFYING,
    )
    joules = [row.energy_j for row in rows]
    full_j = (joules[0] + joules[1]) / 2
    (spec,) = inputs
    accuracy: Callable[[torch.nn.Module], float | None] = untrained
    if trained:
        data = load_data("digits", spec.shape, seed=seed)
        accuracy = partial(trained_accuracy, data=data, iterations=subject.iterations, seed=seed)
    result_rows = [
        Row(
            subject=subject.title,
            seed=seed,
            budget=budget,
            guide=guide,
            estimated=pruning.after.energy_j / pruning.before.energy_j,
            metered=energy_j / full_j,
            energy_j=energy_j,
            accuracy=accuracy(pruning.model),
            kept=pruning.importance_kept,
            prune_s=prune_s,
            widths=pruning.widths,
            estimated_j=pruning.after.energy_j,
        )
        for ((budget, guide), (pruning, prune_s)), energy_j in zip(
            cut.items(), joules[3:], strict=True
        )
    ]
    result_rows.append(
        Row(
            subject=subject.title,
            seed=seed,
            budget=100,
            guide="none",
            estimated=1.0,
            metered=1.0,
            energy_j=full_j,
            accuracy=accuracy(model),
            kept=1.0,
            prune_s=0.0,
            widths={},
            estimated_j=next(iter(cut.values()))[0].before.energy_j,
        )
    )
    floor = abs(joules[0] - joules[1]) / full_j
    return Seed(subject.title, seed, floor, joules[2] / full_j, profile.profiling_s), result_rows


def mean_accuracy(rows: Sequence[Row]) -> str:
    known = [row.accuracy for row in rows if row.accuracy is not None]
    return f"{statistics.fmean(known):.1%}" if known else "–"


def held(rows: Sequence[Row], guide: str = "energy") -> str:
    """Whether cuts by joules hold their budgets."""
    cuts = [row for row in rows if row.guide == guide]
    if not cuts:
        return ""
    inside = sum(row.metered <= row.budget / 100 for row in cuts)
    beyond = 100 * statistics.fmean(row.metered - row.budget / 100 for row in cuts)
    off = 100 * statistics.fmean(row.metered - row.estimated for row in cuts)
    by = "By joules, verified by the meter" if guide == "verified" else "By joules"
    verdict = "kept" if inside >= HELD * len(cuts) else "missed"
    near = "kept" if abs(beyond) <= 100 * NEAR else "missed"
    return (
        f"{by}: {inside} of {len(cuts)} inside their budget ({HELD:.0%} wanted: {verdict});"
        f" metered {beyond:+.1f} points from the budget on average (within 3: {near}), and"
        f" {off:+.1f} points from what was estimated.{sides(rows)}"
    )


def sides(rows: Sequence[Row]) -> str:
    """Whether the profile is wrong about the full model or about its cuts, where it is kept."""
    off = {
        name: [row.energy_j / row.estimated_j - 1 for row in some if row.estimated_j]
        for name, some in (
            ("the full model", [row for row in rows if row.budget == 100]),
            ("its cuts by joules", [row for row in rows if row.guide == "energy"]),
        )
    }
    texts = [f"{name} {statistics.fmean(each):+.1%}" for name, each in off.items() if each]
    return f" In joules, metered against estimated: {', '.join(texts)}." if texts else ""


def lines(rows: Sequence[Row], seeds: Sequence[Seed]) -> Iterator[str]:
    """The tables, in Markdown."""
    yield "| model | budget | guide | estimated | metered, mean (min to max) | inside | inside and within 5 points | accuracy | full model's |"  # noqa: E501
    yield "|---|---|---|---|---|---|---|---|---|"
    for title in dict.fromkeys(row.subject for row in rows):
        own = [row for row in rows if row.subject == title]
        full = mean_accuracy([row for row in own if row.budget == 100])
        for budget in BUDGETS:
            for guide in dict.fromkeys((*GUIDES, *CUTS)):
                some = [row for row in own if (row.budget, row.guide) == (budget, guide)]
                if not some and guide not in {row.guide for row in rows}:
                    continue  # nobody asked
                if not some:
                    yield f"| {title} | {budget} % | {guide} | not possible | | | | | {full} |"
                    continue
                shares = [row.metered for row in some]
                inside = sum(share <= budget / 100 for share in shares)
                close = sum(budget / 100 - 0.05 <= share <= budget / 100 for share in shares)
                estimated = statistics.fmean(row.estimated for row in some)
                yield (
                    f"| {title} | {budget} % | {guide} | {estimated:.1%} |"
                    f" {statistics.fmean(shares):.1%} ({min(shares):.1%} to {max(shares):.1%}) |"
                    f" {inside} of {len(some)} | {close} of {len(some)} |"
                    f" {mean_accuracy(some)} | {full} |"
                )
    yield ""
    yield "| model | seeds | floor: full model metered twice | smallest of the family | profiling | cutting | and verifying |"  # noqa: E501
    yield "|---|---|---|---|---|---|---|"
    for title in dict.fromkeys(seed.subject for seed in seeds):
        mine = [seed for seed in seeds if seed.subject == title]
        cutting = [
            row.prune_s
            for row in rows
            if row.subject == title and row.budget < 100 and row.guide != "verified"
        ]
        verified = [r.prune_s for r in rows if r.subject == title and r.guide == "verified"]
        yield (
            f"| {title} | {len(mine)} | {statistics.fmean(s.floor for s in mine):.1%} |"
            f" {statistics.fmean(s.least for s in mine):.1%} |"
            f" {statistics.fmean(s.profiling_s for s in mine):.0f} s |"
            f" {statistics.median(cutting):.1f} s |"
            + (f" {statistics.median(verified):.1f} s |" if verified else " – |")
        )


def main() -> None:
    """Run all, print the tables and keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, help="at most so many for each model")
    parser.add_argument("--only", help="one model, by a part of its title")
    parser.add_argument("--again", action="store_true", help="measure what is there already, too")
    parser.add_argument("--cuts", action="store_true", help="by joules alone, not trained")
    options = parser.parse_args()
    path = RESULTS / ("pruning_cuts.json" if options.cuts else "pruning.json")
    guides = CUTS if options.cuts else GUIDES
    kept = json.loads(path.read_text()) if path.exists() and not options.again else {}
    rows = [Row(**row) for row in kept.get("rows", [])]
    seeds = [Seed(**seed) for seed in kept.get("seeds", [])]
    with ampere.LocalDevice(ampere.Settings(threads=1)) as device:
        identity = device.fingerprint.identity
        machine = machine_line({key: identity[key] for key in ("threads", "framework")})
        for subject in SUBJECTS:
            if options.only and options.only not in subject.title:
                continue
            for seed in range(min(subject.seeds, options.seeds or subject.seeds)):
                if any((s.subject, s.seed) == (subject.title, seed) for s in seeds):
                    continue
                sys.stderr.write(f"{time.strftime('%H:%M:%S')} {subject.title}, seed {seed}\n")
                finished, more = run(subject, seed, device, guides, not options.cuts)
                seeds, rows = [*seeds, finished], [*rows, *more]
                whole = {"machine": machine, "seeds": list(map(asdict, seeds)),
                         "rows": list(map(asdict, rows))}  # fmt: skip
                path.write_text(json.dumps(whole, indent=1) + "\n")
    measured_on = json.loads(path.read_text())["machine"]  # where and when, not who looks at it
    text = "\n".join([f"Machine: {measured_on} Joules are modelled from CPU time.", "",
                      held(rows), "", held(rows, "verified"), "", *lines(rows, seeds)])  # fmt: skip
    print(text)
    write_section("pruning.md", "cuts" if options.cuts else "pruning", text)


if __name__ == "__main__":
    main()
