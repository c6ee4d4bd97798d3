"""Accuracy: estimates from profiles of both codes, against members metered by plain bursts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import ampere
from ampere.core.types import Json
from ampere.core.workloads import workload_identity
from ampere.errors import AmpereError
from ampere.sittings.bursts import take_burst, warm_up
from measured.codes import SCRIPT, Code
from measured.part import QUICK, Keep, Part, Scale, say
from measured.profiles import make_profile

METER_S = 240.0  # when metering a family's members is given up
PLAIN_S, PLAIN_BURSTS = 0.1, 8  # bursts that members are metered by
MEMBERS_SEED = 1


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
        words = (str(SCRIPT), "--meter", model, *(["--quick"] if scale is QUICK else []))
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


ACCURACY = Part(run_accuracy, accuracy_table)
