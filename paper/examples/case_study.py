"""The paper's case study: half the energy, by joules and by FLOPs (section 4.3, figure 13).

    python paper/examples/case_study.py --data celeba:~/celeba --iterations 2000 -o study

Profiles a 5-layer CNN on this machine unless given a profile, cuts it to 50 % guided by joules
and guided by FLOPs, trains all three side by side under the meter, and writes study.json and
study.png. Takes about four minutes on two cores, half of them for the profile. Drawn again by

    draw_study(Study.load("study/study.json"), "study.pdf")
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import ampere
from ampere.cli.progress import progress
from ampere_paper.figures.training import draw_study
from ampere_paper.study.case_study import study
from ampere_paper.study.race import Schedule

MODEL = "zoo:cnn5"
POINTS = 20  # of every curve, at most
LEARNING_RATE = 0.05  # with batches of 10 and plain gradient descent


def main() -> None:
    args = parse()
    args.output.mkdir(parents=True, exist_ok=True)
    if args.profile is None:
        print("1. Profile: train a few networks of the CNN's family, those that teach most.")
        profile = profile_here(args.output / "cnn5.ampere")
    else:
        profile = ampere.Profile.load(args.profile)
        print(f"1. The profile is {args.profile}.")

    print("2. Cut the CNN to half its joules and to half its FLOPs, and train all three.")
    with progress() as watch:
        found = study(
            MODEL,
            args.data,
            profile=profile,
            budget="50%",
            schedule=Schedule(
                iterations=args.iterations,
                every=max(5, args.iterations // POINTS),
                learning_rate=LEARNING_RATE,
            ),
            watch=watch,
        )
    found.save(args.output / "study.json")
    print(f"\n{found}\n")
    draw_study(found, args.output / "study.png")
    print(f"Wrote study.json and study.png into {args.output}.")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a CNN on half its energy.")
    parser.add_argument("--data", default="digits", help="digits, or celeba:DIR")
    parser.add_argument("--iterations", type=int, default=400, help="training steps of each model")
    parser.add_argument("--profile", type=Path, help="of zoo:cnn5 on this machine")
    parser.add_argument("-o", "--output", type=Path, default=Path("study"), metavar="DIR")
    return parser.parse_args()


def profile_here(path: Path) -> ampere.Profile:
    """What is there already is gone on with."""
    with progress() as watch:
        return ampere.profile(
            MODEL,
            path=path,
            strategy=ampere.Strategy(max_measurements=20),
            effort=ampere.Effort(min_rounds=10, max_rounds=20),
            time_limit_s=140,
            watch=watch,
        )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted: what was profiled is kept; run it again to go on")
    except ampere.AmpereError as error:
        sys.exit(f"error: {error}")
