"""Summary: a profile as a page of text: its kinds of layers, what it took, what to doubt."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ampere.core import units
from ampere.core.groups import grouped
from ampere.core.layers import Layer
from ampere.core.page import Page
from ampere.core.program.structure import TORCH
from ampere.core.variants import MOST_LAYERS
from ampere.estimators.base import typical_error, usable
from ampere.estimators.drift import usual_drift
from ampere.estimators.survey import calls_of, is_survey
from ampere.profiles.doubts import is_one_moment
from ampere.records.measurement import Measurement
from ampere.records.repeats import repeats_of

if TYPE_CHECKING:
    from ampere.profiles.profile import Profile

PAYOFF_STEPS = 20  # steps of a model that would tell its cost about as well
# Before its first step a model is built and warmed up; where rows do not tell how long that took,
# it was so for networks of six families on two cores (docs/paper/speed.md).
LOADING_S = 0.3


def summarise(profile: Profile) -> Page:
    """A row for each kind of layers, or for each operation of a survey, and facts below."""
    good = usable(profile.measurements)
    if is_survey(good):
        return _survey(profile, good)
    layers = [layer for row in good for layer in row.layers]
    kinds = grouped(layers, lambda layer: layer.kind.name)
    counts = [_points(kind) for kind in kinds]
    return Page(
        f"Profile of {profile.device}: {units.plural(len(good), 'measurement')}"
        f" of {units.plural(len(kinds), 'kind')} of layers",
        headers=("role", "operation", "widths", "points", "kind"),
        rows=[_row(kind) for kind in kinds],
        align="<<<><",
        bars={"points": [count / max(counts) for count in counts]},
        facts=[*_facts(profile), *(("warning", text) for text in profile.warnings)],
    )


def _survey(profile: Profile, rows: Sequence[Measurement]) -> Page:
    """What calls were measured, operation by operation."""
    networks = [calls_of(row.layers) for row in rows]
    operations = grouped([call for calls in networks for call in calls], _operation)
    operations.sort(key=lambda calls: -sum(call.count * call.part for call in calls))
    return Page(
        f"Survey of {profile.device}: {units.plural(len(networks), 'measurement')}"
        f" of {units.plural(len(operations), 'operation')}",
        headers=("operation", "networks", "sizes", "smallest", "largest"),
        rows=[_operation_row(calls, networks) for calls in operations],
        align="<>>>>",
        facts=[*_facts(profile), *(("warning", text) for text in profile.warnings)],
    )


def _operation(call: Layer) -> str:
    return call.kind.operation


def _operation_row(
    calls: Sequence[Layer], networks: Sequence[Sequence[Layer]]
) -> tuple[str, str, str, str, str]:
    """How often an operation was measured, and from which size to which."""
    name = _operation(calls[0])
    within = sum(any(_operation(call) == name for call in network) for network in networks)
    flops = [call.features.flops or 0.0 for call in calls]
    moved = [call.features.activation_bytes or 0.0 for call in calls]
    sizes, text = (flops, units.flops) if max(flops) else (moved, units.bytes_)
    smallest, largest = (text(size) if size else "" for size in (min(sizes), max(sizes)))
    different = len({call.identity for call in calls})
    return name, units.number(within), units.number(different), smallest, largest


def pays_off_after(profile: Profile) -> int | None:
    """After how many models the profile has taken less time than a short run of each would.

    They are run one after the other by a process that has loaded its framework, as networks of a
    profile are: loading it for each model would take longer.
    """
    good = usable(profile.measurements)
    whole = [row for row in good if len(row.layers) > MOST_LAYERS] or good
    runs = [
        _loading_s(row) + PAYOFF_STEPS * row.time_s
        for row in whole
        if row.time_s_per_step is not None
    ]
    if not runs or not profile.profiling_s:
        return None
    return math.ceil(profile.profiling_s / statistics.median(runs))


def _loading_s(row: Measurement) -> float:
    """What building a network and warming it up took, or takes as a rule."""
    told = row.bursts.get("loading_s")
    return LOADING_S if told is None else float(told)


def _row(layers: Sequence[Layer]) -> tuple[str, str, str, str, str]:
    """Layers of one kind."""
    kind = layers[0].kind
    names = dict.fromkeys(name for layer in layers for name in layer.widths)
    sizes = {name: [each.widths[name] for each in layers if name in each.widths] for name in names}
    widths = " ".join(f"{name}={min(each)}..{max(each)}" for name, each in sizes.items())
    return kind.role.value, kind.operation, widths, units.number(_points(layers)), kind.name


def _points(layers: Sequence[Layer]) -> int:
    """At how many widths they were measured."""
    return len({layer.widths for layer in layers})


def _facts(profile: Profile) -> list[tuple[str, str]]:
    rows = profile.measurements
    is_paper = profile.method == "paper"
    facts = [
        ("energy", f"joules are {profile.provenance.origin}"),
        ("measuring", _price(profile)),
        ("method", f"paper, kernel {profile.kernel}" if is_paper else profile.method),
    ]
    if error := typical_error(usable(rows)):
        facts.append(("repeats", f"agree to {units.percent(error)} within a measurement"))
    if (repeats := repeats_of(usable(rows))).between is not None:
        again = units.plural(repeats.degrees, "time")
        facts.append(
            (
                "again",
                f"{units.percent(repeats.between)} off when it came back {again}, within"
                f" {units.seconds(repeats.apart_s)}",
            )
        )
    facts += moment_facts(profile)
    if profile.runtime != TORCH:
        facts.append(("runtime", f"{profile.runtime} trained them: it is for that runtime only"))
    if profile.header.model:
        fed = f", fed {profile.header.input}" if profile.header.input else ""
        facts.append(("made for", f"{profile.header.model}{fed}"))
    if failed := sum(row.failed is not None for row in rows):
        facts.append(("failed", units.plural(failed, "measurement")))
    if alone := sum(row.stage != "step" for row in rows):
        facts.append(("baselines", f"{units.plural(alone, 'measurement')} of single stages"))
    return facts


def moment_facts(profile: Profile) -> list[tuple[str, str]]:
    """That all rows are of one moment, and what that means for estimates; nothing if they are not.

    It is no warning: intervals allow for what is usual, by the method that knows of moments.
    """
    if not is_one_moment(profile.measurements):
        return []
    drift = units.percent(usual_drift(profile.header.fingerprint))
    allowed = "" if profile.method == "paper" else f", and {drift} is allowed for"
    return [
        (
            "moments",
            f"one: how far the device is from it at other times was not seen{allowed}"
            " (--sittings 2 --pause 180 comes back later)",
        )
    ]


def _price(profile: Profile) -> str:
    """What measuring took, and how many models it saves a short run of."""
    text = f"took {units.seconds(profile.profiling_s)}"
    if profile.profiling_j:
        text += f" and {units.joules(profile.profiling_j)}"
    if (models := profile.pays_off_after) is not None:
        text += f"; pays off after {units.plural(models, 'model')} that need not be built, warmed"
        text += f" up and run for {PAYOFF_STEPS} steps"
    return text
