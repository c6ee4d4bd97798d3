"""Profile LeNet-5 on this machine, estimate five unseen variants, and check by metering them.

Takes about two minutes on two cores. Interrupt it if you like: it goes on where it stopped.
Delete lenet5.ampere to start afresh.
"""

from __future__ import annotations

import itertools
import random
import sys

import ampere
from ampere.acquisition.families import members
from ampere.acquisition.loop import reference_of
from ampere.acquisition.measure import measure
from ampere.cli.progress import progress
from ampere.core.page import table
from ampere.core.units import joules, percent
from ampere.core.workloads import ModelSpec
from ampere.estimators.flops import fit_flops
from ampere.profiles.estimate import estimate

PATH = "lenet5.ampere"
MODEL = "zoo:lenet5"


def main() -> None:
    with ampere.LocalDevice() as device:
        print("1. Profile: train a few networks of LeNet-5's family, those that teach most.")
        with progress() as watch:
            profile = ampere.profile(
                MODEL,
                path=PATH,
                device=device,
                strategy=ampere.Strategy(max_measurements=20),
                effort=ampere.Effort(min_rounds=10, max_rounds=20),
                time_limit_s=140,
                watch=watch,
            )
        print(f"\n{profile}\n")

        print(
            "2. Estimate five members of the family that were never run, then train and meter them."
        )
        unseen = list(itertools.islice(members(ModelSpec(MODEL), random.Random(5)), 5))
        workloads = [(member.workload, member.layers) for member in unseen]
        metered = measure(device, workloads, reference_of(profile.header, device))

    proxy = fit_flops(profile.measurements)
    word = device.provenance.metered
    rows = []
    for member, row in zip(unseen, metered, strict=True):
        answer = profile.estimate(member.layers)
        by_flops = estimate(member.layers, proxy).energy_j
        low, high = answer.energy_j_interval
        real = row.energy_j
        rows.append(
            [
                member.name,
                joules(answer.energy_j),
                f"{joules(low)} – {joules(high)}",
                joules(real),
                percent(answer.energy_j / real - 1),
                joules(by_flops),
                percent(by_flops / real - 1),
            ]
        )
    headers = [
        "model",
        "estimate",
        "90 % interval",
        f"metered ({word})",
        "error",
        "by FLOPs",
        "error",
    ]
    print()
    print(table(headers, rows, "<>>>>>>"))
    print(f"\nPer training step of a batch of 10. Joules are {device.provenance.origin}.")
    print("Data loading and validation are not included.")
    print("\nNext: .venv/bin/ampere estimate 'zoo:lenet5(channels=[3,8])'", end="")
    print(f" --profile {PATH} --steps 2000 --battery-wh 15")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(f"interrupted: everything measured so far is in {PATH}; run it again to go on")
    except ampere.AmpereError as error:
        sys.exit(f"error: {error}")
