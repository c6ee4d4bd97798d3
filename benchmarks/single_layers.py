"""What single layers cost, metered as differences of whole networks, against what profiles say.

    python benchmarks/single_layers.py            # 4 minutes, after benchmarks/additive.py
    python benchmarks/single_layers.py vit_tiny gpt mobilenet   # only these; the others stay
    python benchmarks/single_layers.py --tables   # of what is kept

A model with more blocks, and the same one with fewer, are metered side by side: the difference is
what the blocks cost inside a network. A profile that was fitted to whole networks and a few
variants, at random widths, has not seen these blocks; its lines for them are checked, with their
interval, in which the noise of both measurements is, too. Two families of the zoo, and three models
of benchmarks/models.py, which are profiled here unless their profile is kept. What is metered is
kept in journals, and so are the profiles. And every line of the first of each implies watts, joules
over seconds, which the device must have been seen to draw.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from machine import RESULTS, machine_line, pack, write_section
from own_models import MODELS

import ampere
from ampere.acquisition.loop import reference_of
from ampere.core.fingerprint import refuse_to_mix
from ampere.core.groups import grouped
from ampere.core.layers import Layer
from ampere.core.workloads import ModelSpec, Workload
from ampere.devices.base import Device
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.encoding.contexts import contexts_of
from ampere.estimators.encoding.encoder import distinct
from ampere.estimators.fitting import fit_additive
from ampere.pytorch.models import read
from ampere.records.journal import Journal, read_journal
from ampere.records.measurement import REACH, succeeded
from ampere.sittings.measure import measure

Row = dict[str, Any]
NETWORKS = 24  # of a profile
WIDER = 1.3  # than what the device showed: where the watts of a line may lie


@dataclass(frozen=True)
class Subject:
    """Models of one kind with fewer and with more blocks, and the profile that is asked."""

    name: str
    profile: str
    pairs: Sequence[tuple[str, str]]
    profiled: str = ""  # the model to make it from, if it is not there

    @property
    def path(self) -> Path:
        """The journal of the profile."""
        return RESULTS / f"{self.profile}.ampere.gz"

    @property
    def metered_path(self) -> Path:
        """The journal of what was metered: the smaller and the larger model of each pair."""
        return RESULTS / f"single_layers_{self.name}_metered.ampere"

    def make(self, device: Device) -> None:
        """Profile a model of two blocks, unless that was done."""
        path = self.path.with_suffix("")
        if not self.path.exists():
            strategy = ampere.Strategy(max_measurements=NETWORKS, tolerance=1e-6)
            ampere.profile(self.profiled, path=path, device=device, strategy=strategy)
            pack(path)


def deeper(model: str, widths: Sequence[int]) -> Subject:
    """A model of `benchmarks/models.py` at some widths, with one block and with three."""

    def spec(width: int, depth: int) -> str:
        return f"{MODELS}:{model}(width={width}, depth={depth})"

    pairs = [(spec(width, 1), spec(width, 3)) for width in widths]
    return Subject(model, f"single_layers_{model}", pairs, spec(max(widths), 2))


SUBJECTS = (
    Subject(
        "transformer",
        "additive_transformer_seed0",
        [
            (
                f"zoo:transformer(d_model={w}, layers={a})",
                f"zoo:transformer(d_model={w}, layers={b})",
            )
            for w, a, b in (
                (128, 2, 4),
                (96, 1, 3),
                (64, 2, 4),
                (40, 1, 4),
                (112, 1, 2),
                (72, 2, 4),
            )
        ],
    ),
    Subject(
        "resnet",
        "additive_resnet_seed0",
        [
            (f"zoo:resnet(widths={w}, depth={a})", f"zoo:resnet(widths={w}, depth={b})")
            for w, a, b in (
                ([16, 32, 64], 8, 20),
                ([8, 16, 32], 14, 26),
                ([12, 24, 40], 8, 20),
                ([16, 16, 16], 8, 20),
                ([5, 20, 50], 8, 20),
                ([10, 30, 30], 14, 26),
            )
        ],
    ),
    deeper("vit_tiny", (96, 80, 64, 48)),
    deeper("gpt", (96, 80, 64, 48)),
    deeper("mobilenet", (24, 20, 16, 12)),
)


def added(small: Sequence[Layer], large: Sequence[Layer]) -> list[Layer]:
    """The layers that the larger network has beyond the smaller one."""
    unmatched = Counter((layer.kind.name, layer.widths) for layer in small)
    more = []
    for layer in large:
        key = (layer.kind.name, layer.widths)
        if unmatched[key] > 0:
            unmatched[key] -= 1
        else:
            more.append(layer)
    return more


def judge(fit: AdditiveFit, names: tuple[str, str], metered: float) -> Row:
    """What the profile says that the added blocks cost inside the larger network."""
    small, large = map(read, names)
    more = added(small, large)
    layers, counts = distinct([more])
    context = contexts_of([large])
    mean, cov = fit.energy.predict(fit.encoder.encode(layers), counts, context)
    estimated = float(mean[0])
    std = estimated * math.sqrt(max(float(cov[0, 0]), 0.0))
    # Side by side both have the same drift, but each its own noise.
    totals = np.array([fit.predict(each).total.energy_j for each in (small, large)])
    noise = np.maximum(fit.energy.noise_var(totals) - fit.energy.drift_var, 0.0)
    unsure = math.sqrt(float(noise @ np.square(totals)))
    reach = REACH * fit.energy.widening * math.hypot(std, unsure)
    return {
        "network": names[1].removeprefix(f"{MODELS}:"),
        "blocks": len(more),
        "metered": metered,
        "estimated": estimated,
        "reach": reach,
        "inside": abs(estimated - metered) <= reach,
    }


def meter(subject: Subject, device: Device) -> list[float]:
    """Joules that the blocks of each pair took."""
    subject.make(device)
    header, _ = read_journal(subject.path)
    refuse_to_mix(device.fingerprint, header.fingerprint)
    nominal = reference_of(header, device)
    subject.metered_path.unlink(missing_ok=True)
    differences = []
    with Journal.open(subject.metered_path, header) as journal:
        for names in subject.pairs:
            work = [(Workload(model=ModelSpec(name)), read(name)) for name in names]
            small, large = succeeded(measure(device, work, nominal), names[1])
            journal.append(small, large)
            differences.append(large.energy_j - small.energy_j)
    pack(subject.metered_path)
    return differences


def watts_of(subject: Subject, fit: AdditiveFit) -> str:
    """A row of watts that lines imply, and that the device showed."""
    lines = [line.cost for line in fit.predict(read(subject.pairs[0][1])).lines]
    drawn = [line.energy_j / line.time_s for line in lines if line.time_s]
    shown = [row.energy_j / row.time_s for row in fit.measurements]
    low, high, least, most = min(drawn), max(drawn), min(shown), max(shown)
    fine = least / WIDER <= low and high <= WIDER * most
    return (
        f"| {subject.name} | {low:.2f} to {high:.2f} | {least:.2f} to {most:.2f} |"
        f" {'yes' if fine else 'no'} |"
    )


def table(kept: dict[str, Any]) -> str:
    """What was metered, judged by fits of the profiles that are kept."""
    rows, watts = [], []
    for subject in (subject for subject in SUBJECTS if subject.name in kept):
        fit = fit_additive(read_journal(subject.path)[1])
        pairs = zip(subject.pairs, kept[subject.name]["metered"], strict=True)
        rows += [judge(fit, names, metered) for names, metered in pairs]
        watts.append(watts_of(subject, fit))
    machines = grouped(kept, lambda name: str(kept[name]["machine"]))
    text = [f"Machine ({', '.join(names)}): {kept[names[0]]['machine']}\n" for names in machines]
    text += [
        "| network | blocks added | metered (mJ) | estimated (mJ) | error | inside |",
        "|---|---|---|---|---|---|",
    ]
    text += [
        f"| `{row['network']}` | {row['blocks']} | {1e3 * row['metered']:.2f} |"
        f" {1e3 * row['estimated']:.2f} ± {1e3 * row['reach']:.2f} |"
        f" {row['estimated'] / row['metered'] - 1:+.0%} | {'yes' if row['inside'] else 'no'} |"
        for row in rows
    ]
    error = fmean(abs(row["estimated"] / row["metered"] - 1) for row in rows)
    inside = sum(row["inside"] for row in rows)
    text += ["", f"{inside} of {len(rows)} differences lie inside; mean error {error:.1%}.", ""]
    text += ["| model | watts of its lines | watts that the device showed | within 1.3 × that |"]
    return "\n".join([*text, "|---|---|---|---|", *watts])


def main() -> None:
    """Meter the pairs, compare, and keep the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [subject.name for subject in SUBJECTS]
    parser.add_argument("models", nargs="*", help=f"of {', '.join(names)}; all unless given")
    parser.add_argument("--tables", action="store_true", help="of what is kept")
    options = parser.parse_args()
    if unknown := set(options.models) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(names)}")
    path = RESULTS / "single_layers.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    if not options.tables:
        with ampere.LocalDevice(ampere.Settings(threads=1)) as device:
            identity = device.fingerprint.identity
            machine = machine_line({key: identity[key] for key in ("threads", "framework")})
            for subject in SUBJECTS:
                if subject.name in (options.models or names):
                    metered = meter(subject, device)
                    kept[subject.name] = {"machine": machine, "metered": metered}
                    path.write_text(json.dumps(kept, indent=1) + "\n")
    text = table(kept)
    print(text)
    write_section("accuracy.md", "single layers", text)


if __name__ == "__main__":
    main()
