"""Matrix: `ampere measure` beside other work, against what it says undisturbed."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from ampere.core.types import Json
from ampere.records.measurement import REACH
from measured.codes import MEASURE_S, Code
from measured.disturbances import DISTURBANCES, PROGRAMS, beside, disturbed
from measured.part import Keep, Part, Scale, say
from measured.processes import LOOK_S, REFUSED, Look

NEAR = 0.1  # of the undisturbed value: not disturbed
HALF = 40  # answers after half of the bursts, where no undisturbed run tells


@dataclass(frozen=True)
class Way:
    """A way to measure: whose code, and what it is told."""

    name: str
    code: str
    options: tuple[str, ...] = ()


WAYS = (
    Way("new", "new", ("--patience", "8")),
    Way("old", "old"),
    Way("accepted", "new", ("--accept-busy",)),
)


@dataclass(frozen=True)
class Answer:
    """What `ampere measure` said; `at` is when each of its bursts began."""

    exit_code: int | None
    error: str
    seconds: float
    joules: float | None = None
    interval: tuple[float, float] | None = None
    warnings: tuple[str, ...] = ()
    at: tuple[float, ...] = ()


@dataclass
class Trace:
    """How often a worker had answered, at which times."""

    looks: list[tuple[float, int]] = field(default_factory=list)

    def note(self, worker: int, answers: int) -> float:
        """Write down how far it is now."""
        self.looks.append((time.time(), answers))
        return LOOK_S

    def at(self, moment_s: float) -> int:
        """How far it was."""
        return max((answers for at_s, answers in self.looks if at_s <= moment_s), default=HALF)


def ask(code: Code, workload: tuple[str, int], options: Sequence[str], look: Look) -> Answer:
    """Measure a workload by the real command."""
    model, threads = workload
    words = ("measure", model, "--threads", str(threads), "--json", *options)
    ended = code.ampere(*words, timeout_s=MEASURE_S, look=look)
    if ended.code != 0:
        return Answer(ended.code, ended.complaint, ended.seconds)
    row = json.loads(ended.output.splitlines()[-1])
    joules = row["energy_j_per_step"]
    reach = REACH * row["spread"] / math.sqrt(row["repeats"])
    low, high = row.get("energy_j_interval") or (joules * (1 - reach), joules * (1 + reach))
    warnings, at = row.get("warnings", ()), row["bursts"]["at"]
    return Answer(0, "", ended.seconds, joules, (low, high), tuple(warnings), tuple(at))


def undisturbed(
    codes: Mapping[str, Code], workload: tuple[str, int], repeats: int
) -> tuple[list[dict[str, Json]], dict[str, float]]:
    """Runs of each code in turn, and how often their workers had answered in the middle."""
    runs: list[dict[str, Json]] = []
    halves: dict[str, list[int]] = {name: [] for name in codes}
    for _ in range(repeats):
        for name, code in codes.items():
            trace = Trace()
            answer = ask(code, workload, (), Look(trace.note))
            if answer.at:
                halves[name].append(trace.at((answer.at[0] + answer.at[-1]) / 2))
            runs.append({"workload": workload[0], "code": name, **asdict(answer)})
            say(f"{workload[0]}, undisturbed, {name}: {answer.joules or answer.error}")
    return runs, {name: median(found) if found else HALF for name, found in halves.items()}


def run_matrix(scale: Scale, codes: Mapping[str, Code], keep: Keep) -> None:
    """Every disturbance for every workload, each way in turn, between undisturbed runs."""
    quiet: list[dict[str, Json]] = []
    cells: list[dict[str, Json]] = []
    with beside(list(PROGRAMS)) as pids:
        for workload in scale.workloads:
            runs, halves = undisturbed(codes, workload, scale.quiet)
            quiet += runs
            for disturbance, way in itertools.product(DISTURBANCES, WAYS):
                with disturbed(disturbance, pids, halves[way.code]) as look:
                    answer = ask(codes[way.code], workload, way.options, look)
                cell = {"workload": workload[0], "disturbance": disturbance.name, "way": way.name}
                cells.append({**cell, **asdict(answer)})
                result = answer.joules or answer.error
                say(f"{workload[0]}, {disturbance.name}, {way.name}: {result}")
            quiet += undisturbed(codes, workload, scale.quiet)[0]
            keep({"quiet": quiet, "cells": cells})


def verdict(cell: Mapping[str, Any], quiet_j: float | None) -> str:
    """What a measurement that may have been disturbed is worth."""
    if cell["exit_code"] != 0:
        return "refused" if REFUSED in cell["error"] else "failed"
    if quiet_j is None:
        return "nothing to compare with"
    if abs(cell["joules"] / quiet_j - 1) <= NEAR:
        return "within 10 %"
    low, high = cell["interval"]
    return "inside its interval" if low <= quiet_j <= high else "WRONG"


def matrix_table(data: Mapping[str, Any]) -> list[str]:
    """A row a disturbance, a column a workload, and how often each verdict was given."""
    workloads = list(dict.fromkeys(cell["workload"] for cell in data["cells"]))
    names = [way.name for way in WAYS]
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    text = [
        f"`ampere measure` beside other work: {', '.join(names)} (new with `--accept-busy`), each"
        " as a multiple of what the same code says undisturbed.",
        "",
        f"| | {' | '.join(workloads)} |",
        "|---" * (1 + len(workloads)) + "|",
    ]
    for disturbance in dict.fromkeys(cell["disturbance"] for cell in data["cells"]):
        columns = []
        for workload in workloads:
            shown = []
            for way in WAYS:
                quiet_j = undisturbed_j(data["quiet"], workload, way.code)
                wanted = (workload, disturbance, way.name)
                cell = next(each for each in data["cells"] if place(each) == wanted)
                judged = verdict(cell, quiet_j)
                if disturbance != DISTURBANCES[0].name:
                    counts[way.name][judged] += 1
                loud = f"**{judged}**" if judged == "WRONG" else judged
                told = cell["exit_code"] == 0 and quiet_j is not None
                factor = f"{cell['joules'] / quiet_j:.2f} " if told and quiet_j else ""
                shown.append(f"{way.name}: {factor}{loud}")
            columns.append("<br>".join(shown))
        text.append(f"| {disturbance} | {' | '.join(columns)} |")
    text += ["", "Of all cells with a disturbance:", ""]
    for name, counted in counts.items():
        each = ", ".join(f"{judged} {number}" for judged, number in counted.most_common())
        text.append(f"- {name}: {each} (of {counted.total()})")
    return text


def place(cell: Mapping[str, Any]) -> tuple[str, str, str]:
    return cell["workload"], cell["disturbance"], cell["way"]


def undisturbed_j(runs: Sequence[Mapping[str, Any]], workload: str, code: str) -> float | None:
    """The middle of what a code says of a workload when nothing disturbs it."""
    said = [
        run["joules"]
        for run in runs
        if run["workload"] == workload and run["code"] == code and run["joules"] is not None
    ]
    return median(said) if said else None


MATRIX = Part(run_matrix, matrix_table)
