"""An LSTM with as many threads as cores, at different times: does one sitting know its doubt?

    python benchmarks/two_threads.py            # one time more, three minutes; run it on three
    python benchmarks/two_threads.py --tables   # of what is kept
    python benchmarks/two_threads.py --again    # forget the times before

Threads that take all cores wait for each other, and for whoever else has one of them, so the same
step takes another time a minute later. A profile is made in one go, then, after a pause, members
that it has not seen are metered. The table goes to docs/paper/accuracy.md, what was measured to
benchmarks/results. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from machine import RESULTS, machine_line, pack, write_section

import ampere
from ampere.acquisition.families import members
from ampere.acquisition.loop import reference_of, rest
from ampere.core.workloads import ModelSpec
from ampere.records.journal import Journal, read_journal
from ampere.sittings.measure import measure

MODEL, THREADS = "zoo:lstm", 2
NETWORKS, MEMBERS, TOGETHER = 16, 10, 5
PAUSE_S = 60.0
INSIDE, HALF = 0.8, 0.25  # what is wanted


def profiled(number: int) -> Path:
    return RESULTS / f"two_threads_{number}.ampere"


def metered(number: int) -> Path:
    return RESULTS / f"two_threads_{number}_members.ampere"


def packed(path: Path) -> Path:
    return path.with_name(f"{path.name}.gz")


def times() -> list[int]:
    """Numbers of the times that are kept whole."""
    numbers = itertools.takewhile(lambda n: packed(metered(n)).exists(), itertools.count(1))
    return list(numbers)


def run(number: int) -> None:
    """One time more: a profile, a pause, and members that it has not seen."""
    path = profiled(number)
    for each in (path, metered(number)):
        each.unlink(missing_ok=True)
    drawn = itertools.islice(members(ModelSpec(MODEL), random.Random(1000)), MEMBERS)
    with ampere.LocalDevice(ampere.Settings(threads=THREADS)) as device:
        strategy = ampere.Strategy(max_measurements=NETWORKS, seed=number, tolerance=1e-6)
        profile = ampere.profile(MODEL, path=path, device=device, strategy=strategy)
        rest(device, PAUSE_S)
        nominal = reference_of(profile.header, device)
        known = list(profile.measurements)
        work = [(member.workload, member.layers) for member in drawn]
        with Journal.open(metered(number), profile.header) as journal:
            for i in range(0, len(work), TOGETHER):
                some = work[i : i + TOGETHER]
                known += measure(device, some, nominal, known=known, keep=journal.append)
    pack(path)
    pack(metered(number))


def score(number: int) -> dict[str, Any]:
    profile = ampere.Profile.load(packed(profiled(number)))
    header, rows = read_journal(packed(metered(number)))
    asked = [row for row in rows if row.failed is None]
    answers = [profile.estimate(row.layers) for row in asked]
    intervals = [answer.energy_j_interval for answer in answers]
    return {
        "when": header.created,
        "members": len(asked),
        "mape": fmean(
            abs(answer.energy_j / row.energy_j - 1)
            for answer, row in zip(answers, asked, strict=True)
        ),
        "inside": fmean(
            low <= row.energy_j <= high for (low, high), row in zip(intervals, asked, strict=True)
        ),
        "half": fmean(
            (high - low) / 2 / answer.energy_j
            for (low, high), answer in zip(intervals, answers, strict=True)
        ),
    }


def table(rows: list[dict[str, Any]]) -> str:
    text = [
        f"`{MODEL}` with {THREADS} threads: profiles of {NETWORKS} networks made in one go, members"
        " metered after a pause of a minute.",
        "",
        "| begun | members | MAPE % | inside 90 % | half of the interval |",
        "|---" * 5 + "|",
    ]
    for row in rows:
        text.append(
            f"| {row['when']} | {row['members']} | {100 * row['mape']:.1f} | {row['inside']:.0%} |"
            f" {row['half']:.0%} |"
        )
    inside, half = fmean(row["inside"] for row in rows), fmean(row["half"] for row in rows)
    words = [
        f"{inside:.0%} inside ({'kept' if inside >= INSIDE else 'missed'}: at least {INSIDE:.0%})",
        f"half intervals of {half:.0%} ({'kept' if half <= HALF else 'missed'}: at most"
        f" {HALF:.0%})",
    ]
    return "\n".join([*text, "", f"- {'; '.join(words)}"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    parser.add_argument("--again", action="store_true", help="forget the times before")
    options = parser.parse_args()
    if options.again:
        for path in RESULTS.glob("two_threads_*.ampere.gz"):
            path.unlink()
    if not options.tables:
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} one time more\n")
        run(len(times()) + 1)
        machine = machine_line({"threads": str(THREADS)})
        (RESULTS / "two_threads.machine").write_text(machine + "\n")
    rows = [score(number) for number in times()]
    (RESULTS / "two_threads.json").write_text(json.dumps(rows, indent=1) + "\n")
    machine = (RESULTS / "two_threads.machine").read_text().strip()
    text = f"Machine: {machine}\n\n{table(rows)}"
    print(text)
    write_section("accuracy.md", "two threads", text)


if __name__ == "__main__":
    main()
