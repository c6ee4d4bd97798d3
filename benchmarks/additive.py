"""The additive method against the paper's: error and coverage against the number of measurements.

    python benchmarks/additive.py                       # all families, about 45 minutes on 2 cores
    python benchmarks/additive.py lenet5 --models 10
    python benchmarks/additive.py --refit               # from the measurements that were kept

For each family of the zoo, in this order: unseen random members are metered; the paper's profiler
measures its variants; the additive prober measures what it asks for, with three seeds (the first
one as many networks as the paper's, the others a third of that, at least 24); the members are
metered once more. All on one scale. Members that a prober asked for are left out of its test. A
roofline, FLOPs with an offset and a log process are fitted to the networks that the additive method
is told, and asked for the same members. The table goes to docs/paper/accuracy.md, the raw
measurements to benchmarks/results. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from machine import RESULTS, machine_line, pack, write_section
from thirds import in_thirds, inside_by_thirds, is_inside, mean_score

import ampere
from ampere.acquisition.families import Network, members, read_network
from ampere.acquisition.isolator import Isolator
from ampere.acquisition.loop import Comebacks, open_journal, reference_of, run_profiler
from ampere.acquisition.prober import make_prober
from ampere.acquisition.strategy import Strategy
from ampere.core.training import Training
from ampere.core.workloads import ModelSpec
from ampere.devices.base import Device
from ampere.estimators.base import Fit
from ampere.estimators.fitting import fit_additive
from ampere.estimators.paper import fit_paper
from ampere.frameworks.models import plan_variants
from ampere.profiles.estimate import estimate
from ampere.pytorch.models import read
from ampere.records.journal import Journal, read_journal
from ampere.records.measurement import Measurement
from ampere.sittings.measure import measure
from ampere.zoo.families import family_names
from ampere_paper.published.methods import METHODS

ONCE = Comebacks(0)  # as before there were any
SEEDS = (0, 1, 2)
TEST_SEED = 1000
SIZES = (6, 12, 24)
TOGETHER = 5
BESIDE = ("roofline", "flops_affine", "log_process")  # fitted on the networks that ours is told


@dataclass(frozen=True)
class Score:
    """How well a fit says what members cost."""

    mape: float
    bias: float
    coverage: float
    half_interval: float
    errors: list[float]
    thirds: list[float]  # coverage of the small, the middle and the large
    score: float
    # By how much networks took more than estimated, a factor of e of joules: as they are estimated
    # and as they were metered, where whatever the meter errs by is on both sides.
    slope: float
    slope_by_meter: float

    @classmethod
    def of(cls, fit: Fit, layers: Sequence[Any], truth: Sequence[float]) -> Score:
        """Compare what a fit says of networks with what they took."""
        answers = [estimate(each, fit) for each in layers]
        errors = [a.energy_j / j - 1 for a, j in zip(answers, truth, strict=True)]
        intervals = [a.energy_j_interval for a in answers]
        half = [(a.energy_j_interval[1] - a.energy_j) / a.energy_j for a in answers]
        expected, took = np.log([a.energy_j for a in answers]), np.log(truth)
        return cls(
            mape=100 * fmean(map(abs, errors)),
            bias=100 * fmean(errors),
            coverage=fmean(map(is_inside, intervals, truth)),
            half_interval=fmean(half),
            errors=errors,
            thirds=inside_by_thirds(intervals, truth),
            score=mean_score(intervals, truth),
            slope=float(np.polyfit(expected, took - expected, 1)[0]),
            slope_by_meter=float(np.polyfit(took, took - expected, 1)[0]),
        )


def say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def meter(
    drawn: Sequence[Network], journal: Journal, device: Device, seed: int
) -> list[Measurement]:
    """Each member once, in a company that the seed decides."""
    order = list(range(len(drawn)))
    random.Random(seed).shuffle(order)
    nominal = reference_of(journal.header, device)
    measured: dict[int, Measurement] = {}
    for i in range(0, len(order), TOGETHER):
        batch = order[i : i + TOGETHER]
        work = [(drawn[k].workload, drawn[k].layers) for k in batch]
        measured |= dict(zip(batch, measure(device, work, nominal), strict=True))
    return [measured[k] for k in range(len(drawn))]


def run(family: str, threads: int, models: int, max_points: int) -> None:
    """Measure everything for one family; what is measured goes to journals."""
    spec = ModelSpec(f"zoo:{family}")
    drawn = list(itertools.islice(members(spec, random.Random(TEST_SEED)), models))
    layers = read(spec.model)
    paths = journals(family)
    for path in paths.values():
        path.unlink(missing_ok=True)
    with ampere.LocalDevice(ampere.Settings(threads=threads)) as device:
        paper, _ = open_journal(paths["paper"], device, model=spec.model)
        opened = {
            name: paper if name == "paper" else Journal.open(path, paper.header)
            for name, path in paths.items()
        }
        say(f"{family}: {models} members")
        for row in meter(drawn, paper, device, 0):
            opened["first"].append(row)
        say(f"{family}: the paper's variants")
        strategy = Strategy("paper", max_points=max_points)
        run_profiler(Isolator(plan_variants(layers), strategy), device, paper, comebacks=ONCE)
        used = len(paper.measurements)
        for seed in SEEDS:
            limit = max(max(SIZES), used if seed == SEEDS[0] else math.ceil(used / 3))
            say(f"{family}: what seed {seed} asks for, {limit} of the paper's {used}")
            strategy = Strategy(seed=seed, max_measurements=limit, tolerance=1e-6)
            asker = make_prober(read_network(spec.model, None, Training()), strategy)
            run_profiler(asker, device, opened[f"seed{seed}"], comebacks=ONCE)
        say(f"{family}: {models} members once more")
        for row in meter(drawn, paper, device, 1):
            opened["second"].append(row)
        for journal in opened.values():
            journal.close()
            pack(journal.path)
        identity = device.fingerprint.identity
    settings = {key: identity[key] for key in ("threads", "framework")}
    (RESULTS / f"additive_{family}.machine").write_text(machine_line(settings) + "\n")


def journals(family: str) -> dict[str, Path]:
    names = ("first", "paper", *(f"seed{seed}" for seed in SEEDS), "second")
    return {name: RESULTS / f"additive_{family}_{name}.ampere" for name in names}


def analyse(family: str) -> dict[str, Any]:
    """Scores of every method from the measurements that were kept."""
    rows = {name: read_journal(f"{path}.gz")[1] for name, path in journals(family).items()}
    pairs = [
        (a, b)
        for a, b in zip(rows["first"], rows["second"], strict=True)
        if not a.failed and not b.failed
    ]
    truth = [(a.energy_j + b.energy_j) / 2 for a, b in pairs]
    layers = [a.layers for a, _ in pairs]
    repeat = 100 * fmean(abs(a.energy_j / b.energy_j - 1) for a, b in pairs)
    used = len(rows["paper"])
    result: dict[str, Any] = {
        "family": family,
        "models": len(pairs),
        "repeat": repeat,
        "paper_measurements": used,
        "paper_s": sum(row.cost_s for row in rows["paper"]),
        "paper": asdict(Score.of(fit_paper(rows["paper"]), layers, truth)),
        "beside": [],
        "additive": [],
    }
    for seed in SEEDS:
        own = rows[f"seed{seed}"]
        third = math.ceil(used / 3)
        sizes = sorted({*SIZES, math.ceil(used / 10), math.ceil(used / 5), third, len(own)})
        for n in (size for size in sizes if size <= len(own)):
            start = time.process_time()
            fit = fit_additive(own[:n])
            spent = time.process_time() - start
            asked = {_widths(row) for row in own[:n]}
            unseen = [i for i, each in enumerate(layers) if _key(each) not in asked]
            score = Score.of(fit, [layers[i] for i in unseen], [truth[i] for i in unseen])
            if n in SIZES:
                members = [(pairs[i][0], truth[i]) for i in unseen]
                result["beside"] += [
                    {"seed": seed, "n": n, **asdict(beside(name, own[:n], members))}
                    for name in BESIDE
                ]
            result["additive"].append(
                {
                    "seed": seed,
                    "n": n,
                    "fit_s": spent,
                    "measuring_s": sum(row.cost_s for row in own[:n]),
                    "rounded": fit.encoder.rounded,
                    "rejected": len(fit.rejected),
                    "context": fit.energy.dearer(float(fit.energy.rows.context.depth.max())),
                    **asdict(score),
                }
            )
    both = [*rows["paper"], *rows["seed0"][:12]]
    result["variants_and_12"] = asdict(Score.of(fit_additive(both), layers, truth))
    result["variants"] = asdict(Score.of(fit_additive(rows["paper"]), layers, truth))
    result["depth"] = transfer(rows, layers, truth)
    result["machine"] = (RESULTS / f"additive_{family}.machine").read_text().strip()
    return result


@dataclass(frozen=True)
class Beside:
    """How well a simpler method does, told of the same networks."""

    method: str
    mape: float
    coverage: float
    score: float


def beside(
    method: str, known: Sequence[Measurement], asked: Sequence[tuple[Measurement, float]]
) -> Beside:
    """Fit one of the simpler methods, and ask it for these members."""
    rows, truth = zip(*asked, strict=True)
    answers = METHODS[method](known).answers(rows)
    intervals = [(each.low_j, each.high_j) for each in answers]
    return Beside(
        method=method,
        mape=100 * fmean(abs(a.energy_j / j - 1) for a, j in zip(answers, truth, strict=True)),
        coverage=fmean(map(is_inside, intervals, truth)),
        score=mean_score(intervals, truth),
    )


def transfer(
    rows: dict[str, list[Measurement]], layers: Sequence[Any], truth: Sequence[float]
) -> dict[str, Any]:
    """Errors by depth of a fit that saw shallow networks only: the shallower half of the depths."""
    depth = [sum(layer.count for layer in each) for each in layers]
    depths = sorted(set(depth))
    if len(depths) < 2:
        return {}
    shallow = set(depths[: max(1, len(depths) // 2)])
    probed = [row for seed in SEEDS for row in rows[f"seed{seed}"]]
    small = [row for row in probed if sum(layer.count for layer in row.layers) <= max(shallow)]
    fit = fit_additive(small)
    every = fit_additive(probed)
    by_depth: dict[str, Any] = {}
    for d in depths:
        chosen = [i for i, each in enumerate(depth) if each == d]
        args = [layers[i] for i in chosen], [truth[i] for i in chosen]
        by_depth[str(d)] = {
            "models": len(chosen),
            "shallow": asdict(Score.of(fit, *args)),
            "all": asdict(Score.of(every, *args)),
        }
    return {"shallow": sorted(shallow), "rows": len(small), "by_depth": by_depth}


def _key(layers: Sequence[Any]) -> str:
    return repr(sorted((layer.kind.name, repr(layer.widths)) for layer in layers))


def _widths(row: Measurement) -> str:
    return _key(row.layers)


def table(families: Sequence[dict[str, Any]]) -> str:
    """All tables, in Markdown."""
    machine = "Machine: " + " ".join(sorted({row["machine"] for row in families}))
    parts = (errors, same_networks, pooled, beyond_layers, across_depth)
    return "\n".join([machine, *(line for part in parts for line in ("", *part(families)))])


def at(row: dict[str, Any], n: int, field: str) -> float:
    """A figure of the additive method after so many networks, mean over the seeds."""
    return fmean(each[field] for each in row["additive"] if each["n"] == n)


def errors(families: Sequence[dict[str, Any]]) -> list[str]:
    text = [
        "MAPE in percent (coverage of the 90 % interval; measurements) over unseen members.",
        "Additive: mean of three seeds, by networks measured; `all`: the first seed alone.",
        "",
        "| family | repeat | paper | additive, 6 | 12 | 24 | a tenth | a fifth | a third | all |",
        "|---" * 10 + "|",
    ]
    for row in families:
        used = row["paper_measurements"]
        last = max(each["n"] for each in row["additive"])
        cells = [
            f"{row['repeat']:.1f}",
            f"{row['paper']['mape']:.1f} ({row['paper']['coverage']:.0%}; {used})",
        ]
        for n in (*SIZES, math.ceil(used / 10), math.ceil(used / 5), math.ceil(used / 3), last):
            cells.append(f"{at(row, n, 'mape'):.1f} ({at(row, n, 'coverage'):.0%}; {n})")
        text.append(f"| {row['family']} | " + " | ".join(cells) + " |")
    return text


def same_networks(families: Sequence[dict[str, Any]]) -> list[str]:
    text = [
        "Every method told of the same networks: MAPE in percent (coverage of the 90 % interval)"
        " after 6 / 12 / 24 of them, mean of three seeds; `best` is additive, by the best of the"
        " others, after 12 and 24:",
        "",
        "| family | additive | "
        + " | ".join(name.replace("_", " ") for name in BESIDE)
        + " | best |",
        "|---" * (len(BESIDE) + 3) + "|",
    ]
    for row in families:
        ours = [at(row, n, "mape") for n in SIZES]
        others = {name: [told(row, name, n, "mape") for n in SIZES] for name in BESIDE}
        cells = [by_sizes(ours, [at(row, n, "coverage") for n in SIZES])]
        for name, errors in others.items():
            cells.append(by_sizes(errors, [told(row, name, n, "coverage") for n in SIZES]))
        best = [mine / min(each) for mine, *each in zip(ours, *others.values(), strict=True)]
        cells.append(" / ".join(f"{ratio:.2f}" for ratio in best[1:]))
        text.append(f"| {row['family']} | " + " | ".join(cells) + " |")
    return text


def told(row: dict[str, Any], method: str, n: int, field: str) -> float:
    """A figure of a simpler method after so many networks, mean over the seeds."""
    return fmean(e[field] for e in row["beside"] if (e["method"], e["n"]) == (method, n))


def by_sizes(errors: Sequence[float], coverages: Sequence[float]) -> str:
    """`8.5 / 9.0 / 7.1 (100 / 98 / 98)`."""
    inside = " / ".join(f"{100 * share:.0f}" for share in coverages)
    return " / ".join(f"{error:.1f}" for error in errors) + f" ({inside})"


def pooled(families: Sequence[dict[str, Any]]) -> list[str]:
    text = [
        "Pooled over all members of all families and seeds; thirds are by metered joules, `score`"
        " is the mean interval score in log joules (width, and 20 times what is missed by);"
        " `slope` is by how many percent networks take more than estimated for each factor of e of"
        " estimated joules, and in brackets of metered ones, where noise alone makes one:",
        "",
        "| measurements | MAPE | coverage of 90 % | small / middle / large third | score |"
        " half interval | least of a family | slope |",
        "|---" * 8 + "|",
    ]
    for n in SIZES:
        each = [(e, row) for row in families for e in row["additive"] if e["n"] == n]
        count = sum(len(e["errors"]) for e, _ in each)
        inside = sum(e["coverage"] * len(e["errors"]) for e, _ in each)
        per = [fmean(e["coverage"] for e, r in each if r is row) for row in families]
        thirds = [fmean(third) for third in zip(*(e["thirds"] for e, _ in each), strict=True)]
        text.append(
            f"| {n} | {fmean(e['mape'] for e, _ in each):.1f} | {inside / count:.0%} of {count} |"
            f" {in_thirds(thirds)} | {fmean(e['score'] for e, _ in each):.2f} |"
            f" {fmean(e['half_interval'] for e, _ in each):.0%} | {min(per):.0%} |"
            f" {fmean(100 * e['slope'] for e, _ in each):+.1f}"
            f" ({fmean(100 * e['slope_by_meter'] for e, _ in each):+.1f}) |"
        )
    return text


def beyond_layers(families: Sequence[dict[str, Any]]) -> list[str]:
    def cell(score: dict[str, Any]) -> str:
        return f"{score['mape']:.1f} ({score['bias']:+.1f})"

    text = [
        "What whole networks cost beyond their layers in variants, and rows of both kinds:",
        "",
        "| family | variants alone (bias) | variants and 12 networks (bias) | 24 networks (bias) |",
        "|---" * 4 + "|",
    ]
    for row in families:
        text.append(
            f"| {row['family']} | {cell(row['variants'])} | {cell(row['variants_and_12'])} |"
            f" {at(row, 24, 'mape'):.1f} ({at(row, 24, 'bias'):+.1f}) |"
        )
    return text


def across_depth(families: Sequence[dict[str, Any]]) -> list[str]:
    text = [
        "Transfer across depth: MAPE (bias), fitted on networks of the shallow depths only:",
        "",
    ]
    for row in families:
        if row["depth"]:
            cells = [
                f"{d} layers: {score['shallow']['mape']:.1f}"
                f" ({score['shallow']['bias']:+.1f}; {score['models']})"
                for d, score in row["depth"]["by_depth"].items()
            ]
            text.append(
                f"- {row['family']} (shallow: {', '.join(map(str, row['depth']['shallow']))};"
                f" {row['depth']['rows']} networks): {', '.join(cells)}"
            )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=list(family_names()))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--max-points", type=int, default=14)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--refit", action="store_true")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    families = []
    for family in options.families:
        kept = RESULTS / f"additive_{family}.json"
        fresh = options.again or not kept.exists()
        if fresh:
            run(family, options.threads, options.models, options.max_points)
        if fresh or options.refit:
            kept.write_text(json.dumps(analyse(family), indent=1) + "\n")
        families.append(json.loads(kept.read_text()))
        say(f"{family}: done")
    text = table(families)
    print(text)
    write_section("accuracy.md", "additive", text)


if __name__ == "__main__":
    main()
