"""What disturbances, drift and thrift do to measurements, with this code and with that before it.

    python benchmarks/measuring.py                        # all parts, 45 to 55 minutes on 2 cores
    python benchmarks/measuring.py --parts matrix,speed
    python benchmarks/measuring.py --tables               # anew, from what was kept
    python benchmarks/measuring.py --quick                # does it run? a few minutes

The code before is a git worktree in build/before, removed at the end; its commands run in processes
of their own, in turn with those of this code and never beside them.

    matrix    20 minutes  `ampere measure` beside other work, against what it says undisturbed
    repeats    6 minutes  how sittings agree, raw and corrected, as it is and with a drift on top
    speed      6 minutes  seconds of `ampere measure` and of `ampere profile`
    accuracy  20 minutes  estimates from profiles of both, against members metered by plain bursts

Tables go to docs/paper/measuring.md, what they are made of to benchmarks/results; with --quick only
the latter, to build. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from statistics import fmean, median
from typing import Any

from machine import RESULTS, machine_line, write_section
from measured.codes import BEFORE, MEASURE_S, ROOT, Code, worktree
from measured.disturbances import PROGRAMS, disturb
from measured.matrix import MATRIX
from measured.part import QUICK, TRIES, Keep, Part, Scale, say
from measured.repeats import REPEATS

import ampere
from ampere.core.types import Json
from ampere.core.workloads import workload_identity
from ampere.errors import AmpereError
from ampere.records.measurement import utc_now
from ampere.sittings.bursts import take_burst, warm_up

PAGE = "measuring.md"
# When each is given up:
PROFILE_S, METER_S = 400.0, 240.0
PLAIN_S, PLAIN_BURSTS = 0.1, 8  # bursts that members are metered by
MEMBERS_SEED = 1
MEASURED = (("zoo:lenet5",), ("zoo:resnet", "--threads", "1"))
PROFILED = "zoo:cnn5"


# Speed: seconds of commands.


def run_speed(scale: Scale, codes: Mapping[str, Code], keep: Keep) -> None:
    """Each command of both codes in turn, the other one first the next time."""
    runs: list[dict[str, Json]] = []
    for repeat in range(scale.repeats):
        order = list(codes.values())[:: 1 if repeat % 2 == 0 else -1]
        for words, code in itertools.product(MEASURED, order):
            ended = code.ampere("measure", *words, "--json", timeout_s=MEASURE_S)
            error = "" if ended.code == 0 else ended.complaint or "no end"
            run = {"what": " ".join(words), "code": code.name, "seconds": ended.seconds}
            runs.append({**run, "error": error})
            say(f"measure {' '.join(words)}, {code.name}: {ended.seconds:.1f} s {error}")
        for code in order:
            profiled = make_profile(code, PROFILED, scale.networks)
            runs.append({"what": "profile", **profiled.to_json()})
            profiled.path.unlink(missing_ok=True)
        keep({"networks": scale.networks, "runs": runs})


@dataclass(frozen=True)
class Profiled:
    """A profile that was made: seconds in all, those after start-up, and those of its networks."""

    code: str
    model: str
    path: Path
    seconds: float
    tries: int
    error: str
    measuring_s: float | None = None
    costs_s: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """What is kept of it."""
        return {key: value for key, value in asdict(self).items() if key != "path"}


def make_profile(code: Code, model: str, networks: int) -> Profiled:
    """Profile a family; where other work kept it from that, the same command goes on."""
    path = code.home / f"{code.name}_{model.partition(':')[2]}.ampere"
    path.unlink(missing_ok=True)
    words = ["profile", model, "--profile", str(path), "--threads", "1", "--json"]
    words += ["--measurements", str(networks), "--tolerance", "0.001"]
    words += ["--sittings", "1"] if code.name == "new" else []
    seconds, tries = 0.0, 0
    while tries < TRIES:
        ended = code.ampere(*words, timeout_s=PROFILE_S)
        seconds, tries = seconds + ended.seconds, tries + 1
        if not ended.is_busy:
            break
        say(ended.complaint)
    if ended.code != 0:
        error = ended.complaint or "no end"
        say(f"profile {model}, {code.name}: {error}")
        return Profiled(code.name, model, path, seconds, tries, error)
    profile = ampere.Profile.load(path)
    created_s = datetime.fromisoformat(profile.header.created).timestamp()
    measuring_s = max(row.timestamp for row in profile.measurements) - created_s
    costs_s = tuple(row.cost_s for row in profile.measurements)
    say(f"profile {model}, {code.name}: {seconds:.1f} s, {len(costs_s)} rows")
    return Profiled(code.name, model, path, seconds, tries, "", measuring_s, costs_s)


def speed_table(data: Mapping[str, Any]) -> list[str]:
    """Medians of both codes, and their ratio."""
    good = [run for run in data["runs"] if not run["error"] and run.get("tries", 1) == 1]
    profile = f"profile of {data['networks']} networks"
    commands = dict.fromkeys(run["what"] for run in data["runs"] if run["what"] != "profile")
    figures: list[tuple[str, str, Callable[[Any], float]]] = [
        *((f"`ampere measure {what}`", what, lambda run: run["seconds"]) for what in commands),
        (f"{profile}, in all", "profile", lambda run: run["seconds"]),
        (f"{profile}, after start-up", "profile", lambda run: run["measuring_s"]),
        ("a network of it", "profile", lambda run: fmean(run["costs_s"])),
        ("its first network", "profile", lambda run: run["costs_s"][0]),
        ("its other networks, each", "profile", lambda run: fmean(run["costs_s"][1:])),
    ]
    text = ["Seconds, medians.", "", "| | old | new | new / old | runs |", "|---" * 5 + "|"]
    for name, what, figure in figures:
        values = {
            code: [figure(run) for run in good if run["what"] == what and run["code"] == code]
            for code in ("old", "new")
        }
        if all(values.values()):
            old, new = (median(values[code]) for code in ("old", "new"))
            runs = " and ".join(str(len(each)) for each in values.values())
            text.append(f"| {name} | {old:.2f} | {new:.2f} | {new / old:.2f} | {runs} |")
    left = len(data["runs"]) - len(good)
    return [*text, "", f"Left out, since the machine was busy or they failed: {left}."]


# Accuracy: estimates from rows of both.


def run_accuracy(scale: Scale, codes: Mapping[str, Code], keep: Keep) -> None:
    """Profiles of both codes in turn, family by family; then members by plain bursts; again."""
    profiles: list[dict[str, Json]] = []
    truths: list[dict[str, Json]] = []
    for moment, family in itertools.product(range(scale.times), scale.families):
        model = f"zoo:{family}"
        drawn = ampere.sample(model, scale.members, seed=MEMBERS_SEED)
        for code in list(codes.values())[:: 1 if moment % 2 == 0 else -1]:
            profiled = make_profile(code, model, scale.networks)
            estimates: list[tuple[float, ...] | None] = []
            if not profiled.error:
                try:
                    estimates = estimate(profiled.path, drawn)
                except AmpereError as error:
                    profiled = replace(profiled, error=str(error))
            about = {"family": family, "moment": moment, "estimates": estimates}
            profiles.append({**about, **profiled.to_json()})
            profiled.path.unlink(missing_ok=True)
        words = (__file__, "--meter", model, *(["--quick"] if scale is QUICK else []))
        metered = codes["new"].python(*words, timeout_s=METER_S)
        if metered.code == 0:
            joules = json.loads(metered.output)
            truths.append({"family": family, "moment": moment, "joules": joules})
        say(f"members of {family}, {moment + 1} of {scale.times}: {metered.complaint or 'metered'}")
        keep({"profiles": profiles, "truths": truths})


def estimate(path: Path, drawn: Sequence[ampere.Network]) -> list[tuple[float, ...] | None]:
    """Joules of members and their intervals; None for those that were profiled themselves."""
    profile = ampere.Profile.load(path)
    seen = {workload_identity(row.stage, row.layers) for row in profile.measurements}
    answers: list[tuple[float, ...] | None] = []
    for each in drawn:
        answer = profile.estimate(each.layers)
        unseen = workload_identity("step", each.layers) not in seen
        answers.append((answer.energy_j, *answer.energy_j_interval) if unseen else None)
    return answers


def meter(model: str, members: int) -> list[float]:
    """Joules of members by plain bursts, side by side, as they are read."""
    drawn = ampere.sample(model, members, seed=MEMBERS_SEED)
    with ampere.LocalDevice(ampere.Settings(threads=1)) as device:
        handles = [device.load(each.workload).handle for each in drawn]
        steps = [warm_up(device, handle, PLAIN_S, PLAIN_S) for handle in handles]
        rounds = [
            [take_burst(device, *each)[0] for each in zip(handles, steps, strict=True)]
            for _ in range(PLAIN_BURSTS)
        ]
    return [
        fmean(burst.energy_j / burst.steps for burst in each) for each in zip(*rounds, strict=True)
    ]


@dataclass(frozen=True)
class Score:
    """How the estimates of a family's profiles by one code compare with what members took."""

    errors: list[float]
    inside: list[bool]
    seconds: list[float]

    @classmethod
    def of(cls, profiles: Sequence[Mapping[str, Any]], truth: Sequence[float]) -> Score:
        """Every member for every profile."""
        pairs = [
            (each, true_j)
            for profile in profiles
            if not profile["error"]
            for each, true_j in zip(profile["estimates"], truth, strict=True)
            if each is not None
        ]
        return cls(
            [abs(each[0] / true_j - 1) for each, true_j in pairs],
            [each[1] <= true_j <= each[2] for each, true_j in pairs],
            [profile["seconds"] for profile in profiles if not profile["error"]],
        )

    def __add__(self, other: Score) -> Score:
        return Score(
            self.errors + other.errors, self.inside + other.inside, self.seconds + other.seconds
        )

    def __str__(self) -> str:
        if not self.errors:
            return "– | – | –"
        return f"{fmean(self.errors):.1%} | {fmean(self.inside):.0%} | {fmean(self.seconds):.0f}"


def accuracy_table(data: Mapping[str, Any]) -> list[str]:
    """Errors, coverage and seconds, by family and code, and of all families."""
    text = [
        "Mean absolute error over unseen members and profiles, share of members inside the 90 %"
        " interval, and seconds a profile. Floor: how the members' own meterings differ.",
        "",
        "| family | floor | old: error | inside | s | new: error | inside | s |",
        "|---" * 8 + "|",
    ]
    floors: list[float] = []
    scores: dict[str, list[Score]] = {"old": [], "new": []}
    for family in dict.fromkeys(each["family"] for each in data["truths"]):
        metered = [each["joules"] for each in data["truths"] if each["family"] == family]
        truth = [fmean(each) for each in zip(*metered, strict=True)]
        floors.append(
            fmean(abs(j / t - 1) for each in metered for j, t in zip(each, truth, strict=True))
        )
        for code, found in scores.items():
            own = [p for p in data["profiles"] if (p["family"], p["code"]) == (family, code)]
            found.append(Score.of(own, truth))
        shown = " | ".join(str(found[-1]) for found in scores.values())
        text.append(f"| {family} | {floors[-1]:.1%} | {shown} |")
    totals = [sum(found, Score([], [], [])) for found in scores.values()]
    if floors:
        text.append(f"| all | {fmean(floors):.1%} | {' | '.join(map(str, totals))} |")
    again = [p for p in data["profiles"] if p["tries"] > 1 or p["error"]]
    return [
        *text,
        "",
        *(
            f"- {p['family']}, {p['code']}, profile {p['moment'] + 1}: "
            + (p["error"].partition(";")[0] or f"{p['tries']} tries, since the machine was busy")
            for p in again
        ),
    ]


# All parts: what is kept of them, and what is shown of that.


PARTS: Mapping[str, Part] = {
    "matrix": MATRIX,
    "repeats": REPEATS,
    "speed": Part(run_speed, speed_table),
    "accuracy": Part(run_accuracy, accuracy_table),
}


def kept_as(part: str, quick: bool) -> Path:
    return (ROOT / "build" if quick else RESULTS) / f"measuring_{part}.json"


def show(part: str, quick: bool) -> None:
    """Print the table of what was kept, and put it on its page."""
    path = kept_as(part, quick)
    if not path.exists():
        say(f"{part}: nothing is kept")
        return
    data = json.loads(path.read_text(encoding="utf-8"))
    text = "\n".join([f"Machine: {data['machine']}", "", *PARTS[part].table(data)])
    print(f"{text}\n", flush=True)
    if not quick:
        write_section(PAGE, part, text)


def run_parts(parts: Sequence[str], before: str, quick: bool) -> list[str]:
    """One part after the other, kept as it comes; returns those that were broken off."""
    broken = []
    if not Path(ampere.__file__).is_relative_to(ROOT):
        raise SystemExit(f"{ampere.__file__} is not of {ROOT}: set PYTHONPATH")
    framework = {"framework": f"torch {version('torch')}"}
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        codes = {"new": Code("new", ROOT, home)}
        if any(PARTS[part].needs_before for part in parts):
            codes["old"] = Code("old", stack.enter_context(worktree(before)), home)
        for code in codes.values():
            code.verify()
        for part in parts:
            about = {"machine": machine_line(framework), "date": utc_now(), "before": before}
            path = kept_as(part, quick)
            path.parent.mkdir(exist_ok=True)

            def keep(data: Mapping[str, Json], path: Path = path, about: Any = about) -> None:
                path.write_text(json.dumps({**about, **data}, indent=1) + "\n", encoding="utf-8")

            say(f"{part} begins")
            try:
                PARTS[part].run(QUICK if quick else Scale(), codes, keep)
            except AmpereError as error:
                say(f"{part} was broken off: {error}")
                broken.append(part)
            else:
                show(part, quick)
    return broken


def leave(number: int, frame: object) -> None:
    """End as after Ctrl-C, so that whatever was started ends, too."""
    raise SystemExit(128 + number)


def main() -> None:
    """Run the parts that are wanted, or only make their tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--before", default=BEFORE, metavar="REV")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--disturb", choices=PROGRAMS, help=argparse.SUPPRESS)
    parser.add_argument("--meter", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.disturb:
        disturb(options.disturb)
        return
    if options.meter:
        print(json.dumps(meter(options.meter, (QUICK if options.quick else Scale()).members)))
        return
    parts = options.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    if options.tables:
        for part in parts:
            show(part, options.quick)
        return
    if broken := run_parts(parts, options.before, options.quick):
        raise SystemExit(f"broken off: {', '.join(broken)}")
    say("done")


if __name__ == "__main__":
    main()
