"""Speed: seconds of `ampere measure` and of `ampere profile`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from statistics import fmean, median
from typing import Any

from ampere.core.types import Json
from measured.codes import MEASURE_S, Code
from measured.part import Keep, Part, Scale, say
from measured.profiles import make_profile

MEASURED = (("zoo:lenet5",), ("zoo:resnet", "--threads", "1"))
PROFILED = "zoo:cnn5"


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


SPEED = Part(run_speed, speed_table)
