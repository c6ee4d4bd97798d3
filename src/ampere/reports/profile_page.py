"""The page of a profile, for people who were not there when it was made.

Every number is said to be what it is: modelled and simulated joules are never called measured,
estimates are called estimates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ampere.core import units
from ampere.core.boundary.example_inputs import Input
from ampere.core.layers import Layer
from ampere.core.program.structure import TORCH
from ampere.core.types import Json
from ampere.core.variants import MOST_LAYERS
from ampere.errors import DataError
from ampere.estimators.base import typical_error, usable
from ampere.frameworks.readers import Model
from ampere.profiles.breakdown import Division, divide
from ampere.profiles.leave_one_out import Validation, validate
from ampere.profiles.profile import Profile
from ampere.profiles.summary import moment_facts
from ampere.reports.charts import Dot, Item, scatter, strip
from ampere.reports.html import Report
from ampere.reports.labels import SORTS, moment, network_of, sort_of, took
from ampere.reports.layer_sections import landscape_parts, operation_parts, portion_parts
from ampere.reports.parts import Facts, Figure, Part, Section, Table, Text


def report(
    profile: Profile,
    model: Model | Sequence[Layer] | None = None,
    input: Input | None = None,
) -> Report:
    """A page on a profile.

    Args:
        profile: What to report.
        model: Whose layers to show; by default the one that the profile was made for if it is of
            the zoo (a file that somebody sent must not run code of theirs), else the largest
            profiled network.
        input: What the model is fed, as for `estimate`.

    Raises:
        DataError: No row can be used.
        NotCovered: The profile knows no layer of the model.
    """
    if not usable(profile.measurements):
        raise DataError("there is nothing to report: every row failed, or there are none")
    division, validation = divide(profile, model, input), validate(profile.fit)
    made_for = profile.header.model
    against = f"Estimated against {profile.provenance.metered}"
    return Report(
        title=f"Energy profile of {made_for}" if made_for else "Energy profile",
        lead=f"{profile.device}. Joules are {profile.provenance.origin}.{_trained_by(profile)}",
        highlights=tuple(_highlights(profile, division, validation)),
        sections=(
            Section("Read with care", _warnings(profile)),
            Section("The profile", (Facts(_facts(profile)),), half=True),
            Section("What was profiled, in which order", tuple(_order(profile)), half=True),
            Section("Where the joules go", tuple(portion_parts(profile, division))),
            *_operations(profile, division),
            Section("Layers at other widths", tuple(landscape_parts(profile, division)), half=True),
            Section(against, tuple(_agreement(profile, validation)), half=True),
            Section("All rows", (_rows(profile),)),
        ),
    )


def _trained_by(profile: Profile) -> str:
    """Who trains there, where it is not torch."""
    return "" if profile.runtime == TORCH else f" They are of training by {profile.runtime}."


def _operations(profile: Profile, division: Division) -> Iterator[Section]:
    """What a survey tells of operations, and other profiles do not."""
    if parts := tuple(operation_parts(profile, division)):
        yield Section("What operations cost", parts)


def _highlights(
    profile: Profile, division: Division, validation: Validation | None
) -> Iterator[tuple[str, str]]:
    estimate = division.estimate
    low_j, high_j = map(units.joules, estimate.energy_j_interval)
    yield (
        units.joules(estimate.energy_j),
        f"a training step of {division.model}, estimated; 90 % interval {low_j} to {high_j}",
    )
    if estimate.time_s is not None:
        yield units.seconds(estimate.time_s), "the same step, estimated"
    if validation is not None:
        # Layers of which subtraction leaves next to nothing would decide over a mean.
        if validation.of == "network":
            average, error = "mean", validation.mape
        else:
            average, error = "median", validation.median
        yield f"{error:.1f} %", f"{average} error of a {validation.of}, leave one out"
    yield units.number(len(usable(profile.measurements))), "networks profiled"
    if profile.profiling_s:
        joules = f", and {units.joules(profile.profiling_j)}" if profile.profiling_j else ""
        yield units.seconds(profile.profiling_s), f"of profiling{joules}"


def _facts(profile: Profile) -> list[tuple[str, str]]:
    header, training = profile.header, profile.training
    settings = header.meter.get("settings")
    sorts = [sort_of(row) for row in profile.measurements]
    counts = [(sorts.count(number), sort) for number, sort in enumerate(SORTS)]
    facts = [
        ("device", profile.device),
        ("meter", f"{header.meter.get('name', units.UNKNOWN)}{_in_words(settings)}"),
        *([] if profile.runtime == TORCH else [("runtime", profile.runtime)]),
        ("joules", f"are {profile.provenance.origin}"),
        ("begun", moment(header.created)),
        ("rows", ", ".join(units.plural(count, sort) for count, sort in counts if count)),
        ("took", _price(profile)),
        ("made for", str(header.model or units.UNKNOWN)),
        ("training", f"batches of {training.batch_size}, {training.optimizer}"),
        ("method", profile.method),
        ("repeats", f"agree to {units.percent(typical_error(usable(profile.measurements)))}"),
    ]
    facts += moment_facts(profile)
    if header.idle_w is not None:
        facts.append(("idle power", f"{units.watts(header.idle_w)}, in all joules"))
    if header.note:
        facts.append(("note", header.note))
    return facts


def _in_words(settings: Json) -> str:
    """The settings of a meter, after its name."""
    if not isinstance(settings, Mapping):
        return f" {settings}" if settings else ""
    listed = ", ".join(f"{name} {value}" for name, value in settings.items())
    return f" ({listed})" if listed else ""


def _price(profile: Profile) -> str:
    """What profiling took, as far as it is known."""
    costs = [
        units.seconds(profile.profiling_s) if profile.profiling_s else "",
        f"{units.joules(profile.profiling_j)} in metered bursts" if profile.profiling_j else "",
    ]
    return " and ".join(filter(None, costs)) or units.UNKNOWN


def _warnings(profile: Profile) -> tuple[Part, ...]:
    texts = [
        *(
            f"failed: {row.failed} ({network_of(row)})"
            for row in profile.measurements
            if row.failed
        ),
        *profile.warnings,
    ]
    if not texts:
        return (Text("Nothing to warn of: no row failed, and none had to be left out."),)
    return tuple(Text(text, warning=True) for text in texts)


def _order(profile: Profile) -> Iterator[Part]:
    """What was profiled one after the other, and what each took."""
    items = [
        Item(f"{number}: {network_of(row)}, {took(row)}", sort_of(row), row.cost_s, row.metered_j)
        for number, row in enumerate(profile.measurements, 1)
    ]
    if not any(item.time_s or item.energy_j for item in items):
        yield Text("What each row took is not known: they were told without it.")
        return
    alone = math.fsum(row.cost_s for row in profile.measurements if row.stage != "step")
    besides = f"; single stages, for baselines, another {units.seconds(alone)}" if alone else ""
    yield Text(f"Profiling took {_price(profile)}{besides}. Warming up is in the seconds only.")
    caption = (
        f"{units.plural(len(items), 'row')} from left to right; variants are networks of up to"
        f" {MOST_LAYERS} layers. Joules are {profile.provenance.origin}."
    )
    title = "What was profiled, in which order, and what it took"
    yield Figure("order", strip(items, SORTS, title=title, description=caption), caption)


def _agreement(profile: Profile, validation: Validation | None) -> Iterator[Part]:
    """Each row estimated from all others, against what was metered."""
    metered = profile.provenance.metered
    if validation is None:
        yield Text("Too few rows to leave one out and estimate it from the others.")
        return
    yield Text(
        f"Leave one out: each {validation.of} of this profile, estimated from all others, against"
        f" what was {metered} of it. Mean error (MAPE) {validation.mape:.1f} %, median"
        f" {validation.median:.1f} %; {validation.inside} of {len(validation)} lie inside their"
        " 90 % interval."
    )
    yield Text(
        "This is no test on fresh models: scales were fitted with all rows, and networks were"
        " chosen to teach. `ampere evaluate` is one."
    )
    columns = (validation.metered_j.tolist(), validation.energy_j.tolist(), validation.intervals)
    dots = [
        Dot(
            metered_j,
            estimated_j,
            limits_j,
            f"{metered} {units.joules(metered_j)}, estimated {units.joules(estimated_j)}"
            f" ({' to '.join(map(units.joules, limits_j))})",
        )
        for metered_j, estimated_j, limits_j in zip(*columns, strict=True)
    ]
    caption = (
        f"{units.plural(len(dots), validation.of)}, joules a step with 90 % intervals; on the"
        f" dashed line both agree. Joules are {profile.provenance.origin}."
    )
    svg = scatter(
        dots,
        title=f"Estimated against {metered} joules, leave one out",
        description=caption,
        x_title=metered,
        y_title="estimated from all others",
    )
    yield Figure("leave one out", svg, caption)


def _rows(profile: Profile) -> Table:
    """Everything that the profile's file holds, but raw bursts."""
    rows = profile.measurements
    remarks = {id(row): f"failed: {row.failed}" for row in rows if row.failed is not None}
    for rejection in profile.rejected:
        reason = rejection.reason.replace(repr(rejection.row), "it")
        remarks[id(rejection.row)] = f"left out: {reason}"
    unit, energies = units.same_unit([row.energy_j for row in rows], "J")
    time_unit, times = units.same_unit([row.time_s for row in rows], "s")
    cells = [
        (
            str(number),
            moment(row.when),
            network_of(row),
            *((energy, units.percent(row.error), time) if row.failed is None else ("", "", "")),
            units.seconds(row.cost_s) if row.cost_s else "",
            units.joules(row.metered_j) if row.metered_j else "",
            remarks.get(id(row), ""),
        )
        for number, (row, energy, time) in enumerate(zip(rows, energies, times, strict=True), 1)
    ]
    energy_header = f"{profile.provenance.metered} ({unit} a step)"
    headers = ("#", "when", "network", energy_header, "± error", f"time ({time_unit} a step)")
    return Table((*headers, "profiling took", "and", "remark"), cells, "><<>>>>><")
