"""Profile LeNet-5 on this machine, estimate five unseen variants, and check by metering them.

Takes half a minute on two cores if nothing else runs on them; beside other programs it measures all
the same, and says so with wide intervals. Interrupt it if you like: it goes on
where it stopped. Delete lenet5.ampere to start afresh.
"""

from __future__ import annotations

import sys

import ampere

PATH = "lenet5.ampere"
MODEL = "zoo:lenet5"
VAGUE = 3.0  # an interval from an end to one that is so many times as much: mostly a busy machine


def main() -> None:
    with ampere.LocalDevice() as device:
        print("1. Profile: train a few networks of LeNet-5's family, those that teach most.")
        with ampere.progress() as watch:
            profile = ampere.profile(
                MODEL,
                path=PATH,
                device=device,
                strategy=ampere.Strategy(max_measurements=20),
                effort=ampere.Effort(min_rounds=10, max_rounds=20, accept_busy=True),
                time_limit_s=140,
                watch=watch,
            )
        print(f"\n{profile}\n")

        print("2. Estimate five members of the family that were never run, then meter them.")
        with ampere.progress() as watch:
            evaluation = ampere.evaluate(
                MODEL,
                path=PATH,
                device=device,
                models=5,
                seed=5,
                baselines=["flops"],
                effort=ampere.Effort(accept_busy=True),
                watch=watch,
            )
    print(f"\n{evaluation.by_model('flops').text()}\n")
    print(evaluation)
    print("\nPer training step of a batch of 10; data loading and validation are not included.")
    low_j, high_j = profile.estimate(MODEL).energy_j_interval
    if high_j > VAGUE * low_j:
        print("\nThese intervals are wide, mostly since other programs ran: see `ampere doctor`,")
        print(f"then delete {PATH} and run it again when the machine is quiet.")
    print("\nNext: .venv/bin/ampere estimate 'zoo:lenet5(channels=[3,8])'", end="")
    print(f" --profile {PATH} --steps 2000 --battery-wh 15")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(f"interrupted: everything measured so far is in {PATH}; run it again to go on")
    except ampere.AmpereError as error:
        sys.exit(f"error: {error}")
