"""The same training job under CodeCarbon, carbontracker, ampere and nobody.

    make comparison                            # ten minutes; leave the machine alone
    python benchmarks/comparison.py --tables   # of what is kept
    python benchmarks/comparison.py --quick    # a minute, to see that it runs; nothing is kept

What each said before, during and after, in joules and seconds, and what it cost. Each run is a
process of its own; rounds go through all ways, in another order each time, and a way is compared
with the plain run of its own round. The table goes to docs/comparison.md, what was said to
benchmarks/results/comparison.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from machine import RESULTS, machine_line, write_section

KEPT = RESULTS / "comparison.json"
JOB = Path(__file__).with_name("comparison_job.py")
TITLES = {
    "plain": "nobody",
    "codecarbon": "CodeCarbon",
    "carbontracker": "carbontracker",
    "ampere": "ampere",
    "ampere_kept": "ampere, freed memory kept",
}
ROUNDS, SECONDS, MEASUREMENTS = 5, 15.0, 16  # a job should take so long, a profile so many
QUICK = (1, 4.0, 5)
SETTINGS: tuple[str, ...] = ("threads", "framework")  # of the device, beside the machine
OURS = ("ampere", "ampere_kept")
KWH_J = 3.6e6
PRINTED = re.compile(
    r"(Predicted|Actual) consumption for \d+ epoch\(s\):\s+Time:\s+(?:(\d+) days?, )?"
    r"(\d+):(\d\d):(\d\d)\s+Energy:\s+([\d.]+) kWh"
)
SO_FAR = re.compile(r"([\d.]+) kWh of electricity")

Said = dict[str, Any]


# ------------------------------------------------------------------------------- running


def run_job(way: str, folder: Path, epoch_steps: int) -> Said:
    """Run the job in a process of its own; what it told, and what its tracker printed."""
    command = [sys.executable, str(JOB), "--way", way, "--folder", str(folder)]
    begun_s = time.perf_counter()
    done = subprocess.run(
        [*command, "--epoch-steps", str(epoch_steps)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=folder,
    )
    took_s = time.perf_counter() - begun_s
    if done.returncode:
        raise SystemExit(f"{way} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    said: Said = json.loads((folder / "said.json").read_text(encoding="utf-8"))
    read = {"codecarbon": heard_codecarbon, "carbontracker": heard_carbontracker}.get(way)
    return {"process_s": took_s, **said, **(read(done.stdout) if read else {})}


def heard_codecarbon(text: str) -> Said:
    """The joules so far, at the middle one of its looks."""
    looks = [KWH_J * float(each) for each in SO_FAR.findall(text)]
    return {"half_j": looks[len(looks) // 2] if looks else None, "looks": len(looks)}


def heard_carbontracker(text: str) -> Said:
    """What it predicted after the first epoch, and what it calls actual."""
    said: Said = {}
    for what, days, hours, minutes, seconds, kwh in PRINTED.findall(text):
        key = "during" if what == "Predicted" else "after"
        time_s = 86400 * int(days or 0) + 3600 * int(hours) + 60 * int(minutes) + int(seconds)
        said |= {f"{key}_j": KWH_J * float(kwh), f"{key}_s": time_s}
    if "after_j" not in said:
        raise SystemExit(f"carbontracker did not say what it counted:\n{text[-3000:]}")
    return said


def make_profile(path: Path, measurements: int, accept_busy: bool) -> Said:
    """Profile the job's family once, as a user would, and say what that took."""
    from comparison_job import BATCH, IMAGE, build

    import ampere
    from ampere.sittings.effort import Effort

    begun_s = time.perf_counter()
    with ampere.LocalDevice(ampere.Settings(threads=1)) as device:
        profile = ampere.profile(
            build(),
            IMAGE,
            path=path,
            device=device,
            training=ampere.Training(batch_size=BATCH, optimizer="sgd"),
            strategy=ampere.Strategy(max_measurements=measurements),
            effort=Effort(accept_busy=accept_busy),
        )
        identity = dict(device.fingerprint.identity)
    settings = {key: identity[key] for key in SETTINGS if key in identity}
    return {
        "seconds": time.perf_counter() - begun_s,
        "rows": len(profile.measurements),
        "machine": machine_line(settings),
        "joules": profile.provenance.value,
        "busy": accept_busy,
    }


def steps_for(seconds: float, folder: Path) -> int:
    """Steps of an epoch, so that a plain job takes about so long here."""
    pilot = 50
    pilot_s: float = run_job("plain", folder, pilot)["train_s"]  # of all epochs
    return max(20, round(pilot * seconds / pilot_s))


def versions() -> dict[str, str]:
    """What was compared."""
    names = {"codecarbon": "codecarbon", "carbontracker": "carbontracker", "torch": "torch"}
    found = {}
    for way, name in {**names, "ampere": "ampere-energy"}.items():
        try:
            found[way] = version(name)
        except PackageNotFoundError:
            raise SystemExit(f"{name} is not installed: run it by `make comparison`") from None
    return found


def measure(rounds: int, seconds: float, measurements: int, accept_busy: bool) -> Said:
    """All rounds; every way once in each, beginning with another one each time."""
    ways = list(TITLES)
    compared = versions()
    load_before = os.getloadavg()
    runs: list[dict[str, Said]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        profile = make_profile(folder / "job.ampere", measurements, accept_busy)
        epoch_steps = steps_for(seconds, folder)
        for number in range(rounds):
            first = number % len(ways)
            found = {}
            for way in ways[first:] + ways[:first]:
                sys.stderr.write(f"round {number + 1} of {rounds}: {way}\n")
                found[way] = run_job(way, folder, epoch_steps)
            runs.append({way: found[way] for way in ways})
    return {
        "versions": compared,
        "profile": profile,
        "epoch_steps": epoch_steps,
        "load": [load_before[0], os.getloadavg()[0]],
        "cores": os.cpu_count(),
        "rounds": runs,
    }


# -------------------------------------------------------------------------------- tables


def middle(kept: Said, way: str, key: str) -> float:
    """The median over rounds."""
    return median(float(each[way][key]) for each in kept["rounds"])


def joules(value: float) -> str:
    return f"{value:.0f} J" if value >= 100 else f"{value:.3g} J"


def between(low: float, high: float) -> str:
    return f"{low:.3g} to {high:.3g}"


def ratios(kept: Said, way: str, cost: Callable[[Said], float]) -> str:
    """Against the plain run of the same round: the median, and from where to where."""
    return spread([cost(each[way]) / cost(each["plain"]) for each in kept["rounds"]])


def spread(found: Sequence[float]) -> str:
    return f"{median(found):.3f} ({min(found):.3f} to {max(found):.3f})"


def half_way(run: Said, steps: int) -> Said:
    """The look of a gate that is nearest to half of the steps."""
    looks = [each for each in run["during"] if each["forecast_j"] is not None]
    found: Said = min(looks, key=lambda each: abs(float(each["step"]) - steps / 2))
    return found


def of_ampere(kept: Said, way: str) -> list[str]:
    """What it said in the last round: an interval has no median."""
    from comparison_job import EPOCHS

    last = kept["rounds"][-1][way]
    look = half_way(last, EPOCHS * kept["epoch_steps"])
    return [
        f"{joules(last['before_j'])} ({between(*last['before_j_interval'])}),"
        f" {last['before_s']:.1f} s ({between(*last['before_s_interval'])})",
        f"half way: {joules(look['spent_j'])} so far, {joules(look['forecast_j'])} in the end"
        f" ({between(*look['forecast_j_interval'])})",
        f"{joules(last['after_j'])}, {last['after_s']:.1f} s",
    ]


def said_table(kept: Said) -> list[str]:
    last = kept["rounds"][-1]
    code, carbon = last["codecarbon"], last["carbontracker"]
    half = "nothing" if code["half_j"] is None else f"half way: {joules(code['half_j'])} so far"
    rows = {
        "plain": ["nothing", "nothing", f"nothing; {last['plain']['train_s']:.1f} s by the clock"],
        "codecarbon": ["nothing", half, f"{joules(code['after_j'])}, {code['after_s']:.1f} s"],
        "carbontracker": [
            "nothing",
            f"after the first epoch: {joules(carbon['during_j'])}, {carbon['during_s']} s in all",
            f"{joules(carbon['after_j'])}, {carbon['after_s']} s",
        ],
        **{way: of_ampere(kept, way) for way in OURS if way in last},
    }
    table = ["| watched by | before | during | after |", "|---|---|---|---|"]
    return table + [f"| {named(kept, way)} | {' | '.join(cells)} |" for way, cells in rows.items()]


def named(kept: Said, way: str) -> str:
    name, *rest = TITLES[way].split(",")
    number = kept["versions"].get("ampere" if way in OURS else way, "")
    return ",".join([f"{name} {number}".strip(), *rest])


def foreseen_table(kept: Said) -> list[str]:
    """What was said first against what the same tool counted at the end, over all rounds."""
    keys = {"carbontracker": ("during", "its first epoch")}
    keys |= {way: ("before", "the run") for way in OURS if way in kept["rounds"][0]}
    table = [
        "| watched by | foresaw | joules / its own count later | seconds / its own count later |",
        "|---|---|---|---|",
        f"| {named(kept, 'codecarbon')} | nothing | - | - |",
    ]
    for way, (key, when) in keys.items():
        runs = [each[way] for each in kept["rounds"]]
        cells = [
            spread([run[f"{key}_{unit}"] / run[f"after_{unit}"] for run in runs]) for unit in "js"
        ]
        moment = "after" if key == "during" else key
        table.append(f"| {named(kept, way)} | {moment} {when} | {' | '.join(cells)} |")
    return table


def cost_table(kept: Said) -> list[str]:
    from comparison_job import EPOCHS

    table = [
        "| watched by | seconds of training / plain | its CPU-seconds / plain"
        " | page faults a step | waited for at ends of epochs | to import and start | to end |",
        "|---|---|---|---|---|---|---|",
    ]
    steps = EPOCHS * kept["epoch_steps"]
    for way in kept["rounds"][0]:
        cells = [f"{middle(kept, way, key):.2f} s" for key in ("epoch_calls_s", "start_s")]
        table.append(
            f"| {named(kept, way)} | {ratios(kept, way, lambda run: run['train_s'])}"
            f" | {ratios(kept, way, lambda run: run['train_cpu_s'])}"
            f" | {faults(kept, way, steps)} | {' | '.join(cells)}"
            f" | {middle(kept, way, 'stop_s'):.2f} s |"
        )
    return table


def faults(kept: Said, way: str, steps: int) -> str:
    """Of pages in a step; not every round that is kept counted them."""
    counted = all("faults" in each[way] for each in kept["rounds"])
    return f"{middle(kept, way, 'faults') / steps:.0f}" if counted else "not counted"


def how(kept: Said) -> str:
    from comparison_job import BATCH, EPOCHS

    low, high = sorted(kept["load"])
    profile = kept["profile"]
    plain = [each["plain"]["train_s"] for each in kept["rounds"]]
    return (
        f"Machine: {profile['machine']} Made by `make comparison`. Load average {low:.1f} to"
        f" {high:.1f} on {kept['cores']} cores, the job's own thread included. {EPOCHS} epochs of"
        f" {kept['epoch_steps']} steps in batches of {BATCH}; {len(kept['rounds'])} rounds. The"
        f" plain runs took {min(plain):.1f} to {max(plain):.1f} s: no ratio below is known better"
        f" than they agree. ampere's profile: {profile['rows']} rows in {profile['seconds']:.0f} s,"
        f" once for the family; joules {profile['joules']}."
        + (" Other programs ran beside it, which was accepted." if profile["busy"] else "")
    )


def tables(kept: Said) -> str:
    """All that is put on the page."""
    said = "What each said, in the last round (in brackets, the 90 % interval):"
    foreseen = "What was foreseen, median of the rounds (in brackets, from the least to the most):"
    cost = "What watching cost, the same:"
    parts = [[how(kept)], [said], said_table(kept), [foreseen], foreseen_table(kept)]
    return "\n\n".join("\n".join(part) for part in [*parts, [cost], cost_table(kept)])


def main() -> None:
    """Run all, print the tables and keep them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", action="store_true", help="of what is kept; nothing runs")
    parser.add_argument("--quick", action="store_true", help="one short round; nothing is kept")
    parser.add_argument("--accept-busy", action="store_true", help="profile beside other programs")
    options = parser.parse_args()
    if options.quick:
        print(tables(measure(*QUICK, options.accept_busy)))
        return
    if not options.tables:
        kept = measure(ROUNDS, SECONDS, MEASUREMENTS, options.accept_busy)
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    text = tables(json.loads(KEPT.read_text(encoding="utf-8")))
    print(text)
    write_section("../comparison.md", "comparison", text)


if __name__ == "__main__":
    main()
