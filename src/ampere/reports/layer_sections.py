"""Sections on layers: where the joules of a model go, and what its kinds of layers cost elsewhere.

What the fit divides among layers is called inferred, estimates are called estimates.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from ampere.core import units
from ampere.core.program.widths import Widths
from ampere.estimators.base import Share, usable
from ampere.estimators.encoding.encoder import STEP
from ampere.estimators.intervals import interval
from ampere.profiles.breakdown import ITSELF, PARTS, Division, Portion
from ampere.profiles.cautions import NOTABLE
from ampere.profiles.estimate import Estimate
from ampere.profiles.landscape import Landscape, landscapes
from ampere.profiles.profile import Profile
from ampere.reports.charts import Bar, Dot, band, bars
from ampere.reports.labels import short_names
from ampere.reports.parts import Chooser, Figure, Part, Table, Text, Toggles
from ampere.reports.surface import TURNING, Peak, surface

MOST_KINDS = 16  # that are drawn: a page of half a megabyte opens at once on a phone, too


def portion_parts(profile: Profile, division: Division) -> Iterator[Part]:
    """A bar for each layer, boxes to tick for each kind, the same as a table."""
    estimate = division.estimate
    source = f"estimated by the {estimate.method} method from joules {profile.provenance.origin}"
    yield Text(
        f"One training step of {division.model}, layer by layer, {source}. Whiskers are 90 %"
        " intervals."
    )
    own = [text for text in estimate.warnings if text not in profile.warnings]  # those stand above
    yield from (Text(warning, warning=True) for warning in own)
    divided = any(portion.stages for portion in division.portions)
    if divided:
        yield Text(
            "Bars are divided as forward, backward and update were when each was run alone;"
            " together they take more than a step, so only their shares are shown."
        )
    yield _portion_bars(division, source, PARTS if divided else ())
    yield _portion_table(division)
    if divided:
        yield Table(
            ("kind of layer, each stage alone", *(f"{part} %" for part in PARTS)),
            [
                (kind, *(f"{100 * share:.0f}" for share in shares))
                for kind, shares in division.stages.items()
            ],
            "<>>>",
        )


def operation_parts(profile: Profile, division: Division) -> Iterator[Part]:
    """A bar for each operation of the model, where a survey tells what calls cost."""
    estimate = division.estimate
    if not estimate.shares:
        return
    source = f"estimated from joules {profile.provenance.origin}"
    rows = [_share_bar(share, estimate) for share in estimate.shares]
    svg = bars(
        rows,
        title=f"Joules of each operation of {division.model}",
        description=f"{len(rows)} bars, {source}",
        part_names=(),
    )
    yield Text(
        f"One training step of {division.model} by what it does, whichever layer does it, {source}."
    )
    yield Figure("operations", svg, f"Joules a step and shares of the total, {source}.")


def _share_bar(share: Share, estimate: Estimate) -> Bar:
    limits_j = interval(share.cost.energy_j, share.cost.energy_j_std, estimate.method)
    known = "measured at such sizes"
    if share.borrowed > NOTABLE:
        known = "never measured here, borrowed from other operations"
    elif share.extrapolated > NOTABLE:
        known = f"{units.percent(share.extrapolated)} beyond the sizes that were measured"
    return Bar(
        label=share.operation,
        note=f"{known}, 90 % interval {' to '.join(map(units.joules, limits_j))}",
        energy_j=share.cost.energy_j,
        limits_j=limits_j,
        share=share.cost.energy_j / estimate.energy_j,
        group=0,
        parts=(),
    )


def _portion_bars(division: Division, source: str, part_names: tuple[str, ...]) -> Toggles:
    estimate, portions = division.estimate, division.portions
    kinds = list(dict.fromkeys(portion.kind.name for portion in portions))
    labels = short_names([kind for kind in kinds if kind != STEP.kind.name])
    rows = [_portion_bar(portion, kinds.index(portion.kind.name)) for portion in portions]
    low_j, high_j = map(units.joules, estimate.energy_j_interval)
    total = f"{units.joules(estimate.energy_j)} a step (90 % interval {low_j} to {high_j})"
    svg = bars(
        rows,
        title=f"Joules of each layer of {division.model}",
        description=f"{len(rows)} bars, {total}, {source}",
        part_names=part_names,
    )
    unit, unit_j = units.prefix_of(estimate.energy_j, "J")
    return Toggles(
        figure=Figure("layers", svg, f"Joules a step and shares of the total, {source}."),
        groups=[labels.get(kind, ITSELF) for kind in kinds],
        total=total,
        unit=unit,
        unit_j=unit_j,
    )


def _portion_bar(portion: Portion, group: int) -> Bar:
    limits_j = portion.energy_j_interval
    return Bar(
        label=portion.name,
        note=f"{portion.kind.name}, 90 % interval {' to '.join(map(units.joules, limits_j))}",
        energy_j=portion.energy_j,
        limits_j=limits_j,
        share=portion.share,
        group=group,
        parts=portion.stages,
    )


def _portion_table(division: Division) -> Table:
    portions = division.portions
    energies_j = [portion.energy_j for portion in portions]
    stds_j = [portion.energy_j_std for portion in portions]
    unit, texts = units.same_unit([*energies_j, *stds_j], "J")
    time_unit, times = units.same_unit(
        [math.nan if portion.time_s is None else portion.time_s for portion in portions], "s"
    )
    columns = (portions, texts[: len(portions)], texts[len(portions) :], times)
    rows = [
        (portion.name, energy, std, units.percent(portion.share), time, portion.kind.name)
        for portion, energy, std, time in zip(*columns, strict=True)
    ]
    headers = ("layer", f"estimate ({unit})", "± std", "share", f"time ({time_unit})", "kind")
    return Table(headers, rows, "<>>>><")


def landscape_parts(profile: Profile, division: Division) -> Iterator[Part]:
    """Surfaces and curves, those first whose kinds cost the model most."""
    shares: dict[str, float] = defaultdict(float)
    for portion in division.portions:
        shares[portion.kind.name] += portion.share
    lands = sorted(landscapes(profile), key=lambda land: -shares[land.kind.name])
    if not lands:
        yield Text("No kind of layer was profiled at enough widths to draw it.")
        return
    yield Text(f"What one layer costs in a training step, over its widths. {TURNING}")
    labels = short_names([land.kind.name for land in lands])
    drawn, origin = lands[:MOST_KINDS], profile.provenance.origin
    yield Chooser(tuple(_landscape_figure(land, labels[land.kind.name], origin) for land in drawn))
    kinds = {layer.kind.name for row in usable(profile.measurements) for layer in row.layers}
    if missing := len(kinds) - len(drawn):
        yield Text(
            f"Not drawn: {units.plural(missing, 'kind')} of layers that matter less here, or were"
            " profiled at too few widths."
        )


def _landscape_figure(land: Landscape, label: str, origin: str) -> Figure:
    """A surface over two widths, a curve over one."""
    values = [
        (mean, *interval(mean, std, "additive" if land.inferred else "paper"))
        for mean, std in zip(land.energy_j.flat, land.energy_j_std.flat, strict=True)
    ]
    caption = _landscape_caption(land, values, origin)
    title = f"Joules of one layer over {' and '.join(land.axes)}: {label}"
    if len(land.axes) == 2:
        (x_name, x), (y_name, y) = land.axes.items()
        svg = surface(
            x,
            y,
            land.energy_j.tolist(),
            [
                Peak(widths[x_name], widths[y_name], energy_j, text)
                for widths, energy_j, text in _spots(land)
            ],
            title=title,
            description=caption,
            axis_names=(x_name, y_name),
        )
    else:
        ((x_name, x),) = land.axes.items()
        svg = band(
            x,
            values,
            [Dot(widths[x_name], energy_j, label=text) for widths, energy_j, text in _spots(land)],
            title=title,
            description=caption,
            x_title=x_name,
            y_title="energy of one layer",
        )
    return Figure(f"widths {label}", svg, caption, label)


def _landscape_caption(
    land: Landscape, values: Sequence[tuple[float, float, float]], origin: str
) -> str:
    """What is drawn, what its dots are, and how sure it is."""
    fixed = "".join(f", {name}={width}" for name, width in land.fixed.items())
    dots = (
        "Dots are inferred: the joules of each profiled network, divided among its layers as the"
        " fit does."
        if land.inferred
        else "Dots are what subtraction left of each profiled variant."
    )
    caption = f"{land.kind.name}{fixed}, estimated from joules {origin}. {dots}"
    if land.sliced:
        caption += f" They have other sizes of {' and '.join(land.sliced)} as well."
    reaches = [(high - mean) / mean for mean, _, high in values if mean > 0]
    if reaches:
        typical, most = map(units.percent, (float(np.median(reaches)), max(reaches)))
        caption += f" 90 % interval: ± {typical} in the middle of all widths, ± {most} at most."
    return caption


def _spots(land: Landscape) -> Iterator[tuple[Widths, float, str]]:
    """Layers that are known: their widths, their joules, and both in words."""
    for spot in land.spots:
        sizes = ", ".join(f"{name}={spot.widths[name]}" for name in (*land.axes, *land.sliced))
        inferred = " inferred" if land.inferred else ""
        yield spot.widths, spot.energy_j, f"{sizes}: {units.joules(spot.energy_j)}{inferred}"
