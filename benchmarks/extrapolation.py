"""Beyond what was measured: the small half is known, the large half is asked about.

    python benchmarks/extrapolation.py            # from what is kept; measures what is not there
    python benchmarks/extrapolation.py --again    # measures batches and own models anew, 8 minutes

    sizes      whole networks of benchmarks/additive.py, by their FLOPs: those below the members'
               median are known, members above the largest of them are asked for
    batches    members of the six families at batches of 4 and 8; others at 16 and 32 are asked for
    own        two models of benchmarks/models.py, profiled at half of their width; the factory's
               own models at larger widths are asked for

What counts is the share of asked networks inside the 90 % interval: nobody can be exact there, but
one can say how little one knows. The table goes to docs/paper/accuracy.md, what was measured to
benchmarks/results. Run it after benchmarks/additive.py, and leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from additive import SEEDS
from machine import RESULTS, machine_line, pack, write_section
from own_models import FAMILIES, Arguments, Family

import ampere
from ampere.acquisition.families import Network, members
from ampere.acquisition.loop import open_journal, reference_of
from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.core.workloads import ModelSpec
from ampere.devices.base import Device
from ampere.estimators.base import Fit, usable
from ampere.estimators.baselines.flops import fit_flops_affine
from ampere.estimators.fitting import fit_additive
from ampere.profiles.estimate import estimate
from ampere.records.journal import Journal, read_journal
from ampere.records.measurement import Measurement
from ampere.sittings.measure import measure
from ampere.zoo.families import family_names

KNOWN_BATCHES, ASKED_BATCHES = (4, 8), (16, 32)
KNOWN, ASKED = 16, 10  # networks of a family at all of these batches
TOGETHER = 5
# Half of the width that is asked about at the most; networks of a profile; members asked for.
OWN: dict[str, Arguments] = {
    "vit_tiny": {"width": 48, "depth": 2},
    "unet": {"width": 8, "levels": 3},
}
NETWORKS, LARGER = 24, 10
LOW, HIGH = 0.85, 0.95  # the share inside that is right for a 90 % interval


@dataclass(frozen=True)
class Question:
    """What is known, and what is asked: layers and the joules that they took."""

    part: str
    name: str
    known: Sequence[Measurement]
    asked: Sequence[tuple[tuple[Layer, ...], float]]

    def answer(self) -> dict[str, Any]:
        """How far off, and how sure."""
        ours = _scores(fit_additive(self.known), self.asked)
        flops = _scores(fit_flops_affine(self.known), self.asked)
        counts = {"known": len(self.known), "asked": len(self.asked)}
        return {"part": self.part, "name": self.name, **counts, **ours, "flops": flops["mape"]}


def _scores(fit: Fit, asked: Sequence[tuple[tuple[Layer, ...], float]]) -> dict[str, float]:
    answers = [(estimate(layers, fit), joules) for layers, joules in asked]
    errors = [100 * (answer.energy_j / joules - 1) for answer, joules in answers]
    inside = [
        answer.energy_j_interval[0] <= joules <= answer.energy_j_interval[1]
        for answer, joules in answers
    ]
    up = [100 * (answer.energy_j_interval[1] / answer.energy_j - 1) for answer, _ in answers]
    return {
        "mape": statistics.fmean(map(abs, errors)),
        "bias": statistics.median(errors),
        "inside": statistics.fmean(inside),
        "up": statistics.fmean(up),
    }


def flops_of(layers: Sequence[Layer]) -> float:
    return sum((layer.features.flops or 0.0) * layer.count for layer in layers)


def of_sizes(family: str) -> Question:
    """Small whole networks that were probed, and larger members."""

    def rows(name: str) -> list[Measurement]:
        return usable(read_journal(RESULTS / f"additive_{family}_{name}.ampere.gz")[1])

    metered = [
        (a.layers, (a.energy_j + b.energy_j) / 2)
        for a, b in zip(rows("first"), rows("second"), strict=True)
    ]
    middle = statistics.median(flops_of(layers) for layers, _ in metered)
    lengths = {len(layers) for layers, _ in metered}  # variants have other ones
    probed = [row for seed in SEEDS for row in rows(f"seed{seed}") if len(row.layers) in lengths]
    known = [row for row in probed if flops_of(row.layers) <= middle][:NETWORKS]
    largest = max(flops_of(row.layers) for row in known)
    return Question("sizes", family, known, [m for m in metered if flops_of(m[0]) > largest])


def of_batches(family: str) -> Question:
    rows = usable(read_journal(kept(f"batches_{family}"))[1])

    def at(batches: Sequence[int]) -> list[Measurement]:
        return [row for row in rows if row.layers[0].kind.attributes.get("batch") in batches]

    asked = [(row.layers, row.energy_j) for row in at(ASKED_BATCHES)]
    return Question("batches", family, at(KNOWN_BATCHES), asked)


def of_own(name: str) -> Question:
    rows = usable(read_journal(kept(f"own_{name}"))[1])
    metered = usable(read_journal(kept(f"own_{name}_larger"))[1])
    asked = [(row.layers, row.energy_j) for row in metered]
    return Question("own", name, rows, asked)


def kept(name: str) -> Path:
    return RESULTS / f"extrapolation_{name}.ampere.gz"


def measure_batches(family: str, device: Device) -> None:
    """Members of a family at small batches and at large ones, in a random order."""
    rng = random.Random(f"extrapolation {family}")
    spec = ModelSpec(f"zoo:{family}")
    networks: list[Network] = []
    for batches, many in ((KNOWN_BATCHES, KNOWN), (ASKED_BATCHES, ASKED)):
        for batch in batches:
            trained = replace(spec, training=Training(batch_size=batch))
            networks += itertools.islice(members(trained, rng), many // len(batches))
    rng.shuffle(networks)
    meter(networks, RESULTS / f"extrapolation_batches_{family}.ampere", device)


def measure_own(family: Family, device: Device) -> None:
    """A profile of a model of half the width, and larger models by their own code."""
    small = OWN[family.name]
    path = RESULTS / f"extrapolation_own_{family.name}.ampere"
    strategy = ampere.Strategy(max_measurements=NETWORKS, tolerance=1e-6)
    ampere.profile(family.spec(small), path=path, device=device, strategy=strategy)
    larger = [a for a in family.draw(2 * LARGER) if int(a["width"]) > int(small["width"])]
    networks = [family.member(arguments) for arguments in larger[:LARGER]]
    asked = RESULTS / f"extrapolation_own_{family.name}_larger.ampere"
    header, _ = read_journal(path)
    Journal.open(asked, header).close()
    meter(networks, asked, device)
    pack(path)


def meter(networks: Sequence[Network], path: Path, device: Device) -> None:
    journal, _ = open_journal(path, device)
    with journal:
        nominal = reference_of(journal.header, device)
        for i in range(0, len(networks), TOGETHER):
            work = [(each.workload, each.layers) for each in networks[i : i + TOGETHER]]
            known = journal.measurements
            measure(device, work, nominal, known=known, keep=journal.append)
    pack(path)


def measure_missing(again: bool) -> None:
    if again:
        for path in RESULTS.glob("extrapolation_*.ampere.gz"):
            path.unlink()
    families = [name for name in family_names() if not kept(f"batches_{name}").exists()]
    own = [name for name in OWN if not kept(f"own_{name}_larger").exists()]
    if not families and not own:
        return
    with ampere.LocalDevice(ampere.Settings(threads=1)) as device:
        for name in families:
            sys.stderr.write(f"batches of {name}\n")
            measure_batches(name, device)
        for name in own:
            sys.stderr.write(f"larger than {name}\n")
            measure_own(FAMILIES[name], device)
        identity = device.fingerprint.identity
        settings = {key: identity[key] for key in ("threads", "framework")}
    (RESULTS / "extrapolation.machine").write_text(machine_line(settings) + "\n")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Question by question, and all of each part together."""
    text = [
        "| part | model | known | asked | MAPE % | median error % | inside 90 % | interval up to |"
        " FLOPs affine, MAPE % |",
        "|---" * 9 + "|",
    ]
    for row in rows:
        text.append(
            f"| {row['part']} | {row['name']} | {row['known']} | {row['asked']} |"
            f" {row['mape']:.1f} | {row['bias']:+.1f} | {row['inside']:.0%} | +{row['up']:.0f} % |"
            f" {row['flops']:.1f} |"
        )
    text.append("")
    for part in ("sizes", "batches", "own", ""):
        some = [row for row in rows if part in ("", row["part"])]
        asked = sum(row["asked"] for row in some)
        inside = sum(row["inside"] * row["asked"] for row in some) / asked
        verdict = "kept" if LOW <= inside <= HIGH else "missed"
        text.append(
            f"- {part or 'all'}: {inside:.0%} of {asked} inside (85 to 95 % wanted: {verdict}),"
            f" mean error {statistics.fmean(row['mape'] for row in some):.1f} %"
        )
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--again", action="store_true", help="measure anew")
    options = parser.parse_args()
    measure_missing(options.again)
    questions = [*map(of_sizes, family_names()), *map(of_batches, family_names())]
    rows = [question.answer() for question in (*questions, *map(of_own, OWN))]
    (RESULTS / "extrapolation.json").write_text(json.dumps(rows, indent=1) + "\n")
    machine = (RESULTS / "extrapolation.machine").read_text().strip()
    text = f"Machine: {machine}\n\n{table(rows)}"
    print(text)
    write_section("accuracy.md", "extrapolation", text)


if __name__ == "__main__":
    main()
