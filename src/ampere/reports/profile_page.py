"""Reporting: a profile as a page, for people who were not there when it was made.

Every number is said to be what it is: modelled and simulated joules are never called measured,
estimates are called estimates, and what the fit divides among layers is called inferred.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ampere.core import units
from ampere.core.layers import Layer
from ampere.core.types import Json
from ampere.core.variants import MOST_LAYERS
from ampere.errors import DataError
from ampere.estimators.base import typical_error, usable
from ampere.estimators.encoding import STEP
from ampere.profiles.breakdown import ITSELF, PARTS, Division, divide
from ampere.profiles.estimate import interval
from ampere.profiles.landscape import Landscape, landscapes
from ampere.profiles.leave_one_out import Validation, validate
from ampere.profiles.profile import Profile
from ampere.reports.charts import Bar, Dot, Item, band, bars, scatter, strip
from ampere.reports.html import (
    TURNING,
    Chooser,
    Facts,
    Figure,
    Part,
    Report,
    Section,
    Table,
    Text,
    Toggles,
)
from ampere.reports.labels import SORTS, moment, network_of, short_names, sort_of, took
from ampere.reports.surface import Peak, surface

if TYPE_CHECKING:
    from torch import nn

    from ampere.pytorch.reader import Input

MOST_KINDS = 16  # that are drawn: a page of half a megabyte opens at once on a phone, too


def report(
    profile: Profile,
    model: nn.Module | str | Sequence[Layer] | None = None,
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
        f"Energy profile of {made_for}" if made_for else "Energy profile",
        f"{profile.device}. Joules are {profile.provenance.origin}.",
        tuple(_highlights(profile, division, validation)),
        (
            Section("Read with care", _warnings(profile)),
            Section("The profile", (Facts(_facts(profile)),), half=True),
            Section("What was profiled, in which order", tuple(_order(profile)), half=True),
            Section("Where the joules go", tuple(_portions(profile, division))),
            Section("Layers at other widths", tuple(_landscapes(profile, division)), half=True),
            Section(against, tuple(_agreement(profile, validation)), half=True),
            Section("All rows", (_rows(profile),)),
        ),
    )


def _highlights(
    profile: Profile, division: Division, validation: Validation | None
) -> Iterator[tuple[str, str]]:
    said = division.estimate
    low_j, high_j = map(units.joules, said.energy_j_interval)
    what = f"a training step of {division.model}, estimated; 90 % interval {low_j} to {high_j}"
    yield units.joules(said.energy_j), what
    if math.isfinite(said.time_s):
        yield units.seconds(said.time_s), "the same step, estimated"
    if validation is not None:
        # Layers of which subtraction leaves next to nothing would decide over a mean.
        mean = validation.of == "network"
        error = validation.mape if mean else validation.median
        what = f"{'mean' if mean else 'median'} error of a {validation.of}, leave one out"
        yield f"{error:.1f} %", what
    yield units.number(len(usable(profile.measurements))), "networks profiled"
    if profile.profiling_s:
        joules = f", and {units.joules(profile.profiling_j)}" if profile.profiling_j else ""
        yield units.seconds(profile.profiling_s), f"of profiling{joules}"


def _facts(profile: Profile) -> list[tuple[str, str]]:
    header, training = profile.header, profile.training
    settings = header.meter.get("settings")
    sorts = [sort_of(row) for row in profile.measurements]
    counts = [(sorts.count(number), sort) for number, sort in enumerate(SORTS)]
    found = [
        ("device", profile.device),
        ("meter", f"{header.meter.get('name', units.UNKNOWN)}{_in_words(settings)}"),
        ("joules", f"are {profile.provenance.origin}"),
        ("begun", moment(header.created)),
        ("rows", ", ".join(units.plural(*each) for each in counts if each[0])),
        ("took", _price(profile)),
        ("made for", header.model or units.UNKNOWN),
        ("training", f"batches of {training.batch_size}, {training.optimizer}"),
        ("method", profile.method),
        ("repeats", f"agree to {units.percent(typical_error(usable(profile.measurements)))}"),
    ]
    if header.idle_w is not None:
        found.append(("idle power", f"{units.watts(header.idle_w)}, in all joules"))
    if header.note:
        found.append(("note", header.note))
    return found


def _in_words(settings: Json) -> str:
    """What a meter was told, after its name."""
    if not isinstance(settings, Mapping):
        return f" {settings}" if settings else ""
    told = ", ".join(f"{name} {value}" for name, value in settings.items())
    return f" ({told})" if told else ""


def _price(profile: Profile) -> str:
    """What profiling took, as far as it is known."""
    known = [
        units.seconds(profile.profiling_s) if profile.profiling_s else "",
        f"{units.joules(profile.profiling_j)} in metered bursts" if profile.profiling_j else "",
    ]
    return " and ".join(filter(None, known)) or units.UNKNOWN


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


def _portions(profile: Profile, division: Division) -> Iterator[Part]:
    """A bar for each layer, boxes to tick for each kind, the same as a table."""
    said, portions = division.estimate, division.portions
    origin = profile.provenance.origin
    how = f"estimated by the {said.method} method from joules {origin}"
    yield Text(
        f"One training step of {division.model}, layer by layer, {how}. Whiskers are 90 %"
        " intervals."
    )
    yield from (Text(text, warning=True) for text in said.warnings)
    parted = any(portion.stages for portion in portions)
    if parted:
        yield Text(
            "Bars are divided as forward, backward and update were when each was run alone;"
            " together they take more than a step, so only their shares are shown."
        )
    kinds = list(dict.fromkeys(portion.kind.name for portion in portions))
    labels = short_names([kind for kind in kinds if kind != STEP.kind.name])
    rows = [
        Bar(
            each.name,
            f"{each.kind.name}, 90 % interval {' to '.join(map(units.joules, limits))}",
            each.energy_j,
            *limits,
            each.share,
            kinds.index(each.kind.name),
            each.stages,
        )
        for each in portions
        for limits in [each.energy_j_interval]
    ]
    low_j, high_j = map(units.joules, said.energy_j_interval)
    total = f"{units.joules(said.energy_j)} a step (90 % interval {low_j} to {high_j})"
    title = f"Joules of each layer of {division.model}"
    chart = bars(rows, title, f"{len(rows)} bars, {total}, {how}", PARTS if parted else ())
    figure = Figure("layers", chart, f"Joules a step and shares of the total, {how}.")
    unit, size = units.prefix_of(said.energy_j, "J")
    yield Toggles(figure, [labels.get(kind, ITSELF) for kind in kinds], total, unit, size)
    yield _portion_table(division)
    if parted:
        yield Table(
            ("kind of layer, each stage alone", *(f"{part} %" for part in PARTS)),
            [
                (kind, *(f"{100 * share:.0f}" for share in shares))
                for kind, shares in division.stages.items()
            ],
            "<>>>",
        )


def _portion_table(division: Division) -> Table:
    portions = division.portions
    energies = [each.energy_j for each in portions]
    unit, texts = units.same_unit([*energies, *(each.energy_j_std for each in portions)], "J")
    time_unit, times = units.same_unit([each.time_s for each in portions], "s")
    columns = (portions, texts[: len(portions)], texts[len(portions) :], times)
    rows = [
        (each.name, energy, std, units.percent(each.share), time, each.kind.name)
        for each, energy, std, time in zip(*columns, strict=True)
    ]
    headers = ("layer", f"estimate ({unit})", "± std", "share", f"time ({time_unit})", "kind")
    return Table(headers, rows, "<>>>><")


def _landscapes(profile: Profile, division: Division) -> Iterator[Part]:
    """Surfaces and curves, those first whose kinds cost the model most."""
    shares: dict[str, float] = defaultdict(float)
    for portion in division.portions:
        shares[portion.kind.name] += portion.share
    found = sorted(landscapes(profile), key=lambda land: -shares[land.kind.name])
    if not found:
        yield Text("No kind of layer was profiled at enough widths to draw it.")
        return
    yield Text(f"What one layer costs in a training step, over its widths. {TURNING}")
    labels = short_names([land.kind.name for land in found])
    shown = found[:MOST_KINDS]
    origin = profile.provenance.origin
    yield Chooser(tuple(_drawn(land, labels[land.kind.name], origin) for land in shown))
    kinds = {layer.kind.name for row in usable(profile.measurements) for layer in row.layers}
    if missing := len(kinds) - len(shown):
        yield Text(
            f"Not drawn: {units.plural(missing, 'kind')} of layers that matter less here, or were"
            " profiled at too few widths."
        )


def _drawn(land: Landscape, label: str, origin: str) -> Figure:
    """A surface over two widths, a curve over one."""
    values = [
        (mean, *interval(mean, std))
        for mean, std in zip(land.energy_j.flat, land.energy_j_std.flat, strict=True)
    ]
    reaches = [(high - mean) / mean for mean, _, high in values if mean > 0]
    fixed = "".join(f", {name}={width}" for name, width in land.fixed.items())
    dots = (
        "Dots are inferred: the joules of each profiled network, divided among its layers as the"
        " fit does."
        if land.inferred
        else "Dots are what subtraction left of each profiled variant."
    )
    caption = f"{land.kind.name}{fixed}, estimated from joules {origin}. {dots}"
    if others := land.sliced:
        caption += f" They have other sizes of {' and '.join(others)} as well."
    if reaches:
        typical, most = map(units.percent, (float(np.median(reaches)), max(reaches)))
        caption += f" 90 % interval: ± {typical} in the middle of all widths, ± {most} at most."
    title = f"Joules of one layer over {' and '.join(land.axes)}: {label}"
    names = list(land.axes)
    spots = [
        (
            [spot.widths[name] for name in names],
            spot.energy_j,
            ", ".join(f"{name}={spot.widths[name]}" for name in (*names, *land.sliced))
            + f": {units.joules(spot.energy_j)}{' inferred' if land.inferred else ''}",
        )
        for spot in land.spots
    ]
    if len(names) == 2:
        x, y = land.axes.values()
        peaks = [Peak(at[0], at[1], energy_j, text) for at, energy_j, text in spots]
        svg = surface(x, y, land.energy_j.tolist(), peaks, title, caption, (names[0], names[1]))
    else:
        (x,) = land.axes.values()
        marks = [Dot(at[0], energy_j, label=text) for at, energy_j, text in spots]
        svg = band(x, values, marks, title, caption, names[0], "energy of one layer")
    return Figure(f"widths {label}", svg, caption, label)


def _agreement(profile: Profile, validation: Validation | None) -> Iterator[Part]:
    """What the rows say of each other."""
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
            own,
            said,
            *limits,
            f"{metered} {units.joules(own)}, estimated {units.joules(said)}"
            f" ({' to '.join(map(units.joules, limits))})",
        )
        for own, said, limits in zip(*columns, strict=True)
    ]
    title = f"Estimated against {metered} joules, leave one out"
    caption = (
        f"{units.plural(len(dots), validation.of)}, joules a step with 90 % intervals; on the"
        f" dashed line both agree. Joules are {profile.provenance.origin}."
    )
    svg = scatter(dots, title, caption, metered, "estimated from all others")
    yield Figure("leave one out", svg, caption)


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
    title = "What was profiled, in which order, and what it took"
    caption = (
        f"{units.plural(len(items), 'row')} from left to right; variants are networks of up to"
        f" {MOST_LAYERS} layers. Joules are {profile.provenance.origin}."
    )
    yield Figure("order", strip(items, SORTS, title, caption), caption)


def _rows(profile: Profile) -> Table:
    """Everything that the profile's file holds, but raw bursts."""
    rows = profile.measurements
    remarks = {id(row): f"failed: {row.failed}" for row in rows if row.failed is not None}
    for rejection in profile.rejected:
        reason = rejection.reason.replace(repr(rejection.row), "it")
        remarks[id(rejection.row)] = f"left out: {reason}"
    unit, energies = units.same_unit([row.energy_j for row in rows], "J")
    time_unit, times = units.same_unit([row.time_s for row in rows], "s")
    body = [
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
    energy_title = f"{profile.provenance.metered} ({unit} a step)"
    headers = ("#", "when", "network", energy_title, "± error", f"time ({time_unit} a step)")
    return Table((*headers, "profiling took", "and", "remark"), body, "><<>>>>><")
