"""The five simulated devices, four families each: profiled, and compared with what they simulate.

    python benchmarks/simulated.py            # about 3 minutes

For each device and family: an additive profile as `ampere profile --device simulated:NAME` makes
it, and 20 unseen members, whose joules the same simulated meter tells twice. Coverage is also told
by thirds of the members' joules, and the interval score with it: the mean width in log joules, and
20 times what is missed by (the smaller the better). Joules are simulated:
the table shows that the pipeline works for devices that differ, coarse meters and all, not how well
it would do on real ones.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from machine import RESULTS, machine_line, write_section
from thirds import in_thirds, inside_by_thirds, is_inside, mean_score

import ampere
from ampere.acquisition.families import members
from ampere.acquisition.loop import reference_of
from ampere.core.groups import grouped
from ampere.core.workloads import ModelSpec
from ampere.devices.physics import simulated_devices
from ampere.devices.simulated import SimulatedDevice
from ampere.estimators.baselines.flops import fit_flops
from ampere.profiles.estimate import estimate
from ampere.records.journal import read_journal
from ampere.sittings.measure import measure

FAMILIES = ("lenet5", "cnn5", "har", "lstm")
TEST_SEED = 1000

Row = dict[str, Any]


def evaluate(name: str, family: str, models: int, folder: Path) -> Row:
    """Profile a family on a device, then ask for members that it has not seen."""
    spec = ModelSpec(f"zoo:{family}")
    path = folder / f"{name}_{family}.ampere"
    with SimulatedDevice(name) as device:
        start = time.monotonic()
        profile = ampere.profile(spec.model, path=path, device=device)
        profiled_s = time.monotonic() - start
        drawn = list(itertools.islice(members(spec, random.Random(TEST_SEED)), models))
        nominal = reference_of(read_journal(path)[0], device)
        work = [(network.workload, network.layers) for network in drawn]
        first, second = (measure(device, work, nominal) for _ in range(2))
    pairs = list(zip(first, second, strict=True))
    truth = [(a.energy_j + b.energy_j) / 2 for a, b in pairs]
    estimates = [profile.estimate(network.layers) for network in drawn]
    flops = [estimate(network.layers, fit_flops(profile.measurements)) for network in drawn]
    intervals = [each.energy_j_interval for each in estimates]
    return {
        "device": name,
        "family": family,
        "measurements": len(profile.measurements),
        "seconds": profiled_s,
        "additive": 100
        * fmean(abs(s.energy_j / j - 1) for s, j in zip(estimates, truth, strict=True)),
        "flops": 100 * fmean(abs(s.energy_j / j - 1) for s, j in zip(flops, truth, strict=True)),
        "repeat": 100 * fmean(abs(a.energy_j / b.energy_j - 1) for a, b in pairs),
        "coverage": fmean(map(is_inside, intervals, truth)),
        "thirds": inside_by_thirds(intervals, truth),
        "score": mean_score(intervals, truth),
    }


def by_device(rows: Sequence[Row]) -> list[str]:
    """How well intervals hold on each device, all of its families together; each has as many."""
    text = [
        "| device | in 90 % interval | small / middle / large third | score |",
        "|---" * 4 + "|",
    ]
    for same in [*grouped(rows, lambda row: str(row["device"])), list(rows)]:
        name = same[0]["device"] if same != rows else "all"
        thirds = [fmean(third) for third in zip(*(row["thirds"] for row in same), strict=True)]
        text.append(
            f"| {name} | {fmean(row['coverage'] for row in same):.0%} | {in_thirds(thirds)} |"
            f" {fmean(row['score'] for row in same):.2f} |"
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=20)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in simulated_devices():
            for family in FAMILIES:
                sys.stderr.write(f"{time.strftime('%H:%M:%S')} {name} {family}\n")
                rows.append(evaluate(name, family, options.models, Path(folder)))
    total_s = sum(float(row["seconds"]) for row in rows)
    text = [
        f"Machine: {machine_line({'threads': '1'})} Joules are simulated. Profiling all"
        f" {len(rows)} took {total_s:.0f} s here.",
        "",
        "| device | family | measurements | MAPE % | FLOPs | repeat | in 90 % interval"
        " | small / middle / large third | score | s here |",
        "|---" * 10 + "|",
    ]
    text += [
        f"| {r['device']} | {r['family']} | {r['measurements']} | {r['additive']:.1f}"
        f" | {r['flops']:.1f} | {r['repeat']:.1f} | {r['coverage']:.0%} | {in_thirds(r['thirds'])}"
        f" | {r['score']:.2f} | {r['seconds']:.1f} |"
        for r in rows
    ]
    text += ["", *by_device(rows)]
    print("\n".join(text))
    write_section("simulated.md", "simulated", "\n".join(text))
    (RESULTS / "simulated.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
