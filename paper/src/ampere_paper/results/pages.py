"""Pages: what a folder of results holds, as documents with every method side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from ampere.core import units
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.meters.base import Provenance
from ampere_paper.experiments.words import cell
from ampere_paper.figures.canvas import FAMILIES, METHODS
from ampere_paper.lab.plans import FOUR
from ampere_paper.published.datasets import SOURCES
from ampere_paper.results.document import Chapter, Document
from ampere_paper.results.outcome import Outcome

SIDE_BY_SIDE = ("fig8", "fig9", "fig10")  # whose data are scores of families on devices
EXPLAINED = (
    "Mean absolute percentage error over unseen random members, in percent; `reported` is what the"
    " paper says of its own devices, where it gives a number. FLOPs and roofline are calibrated on"
    " the networks that the additive method learns from. `metered again` is by how much two"
    " meterings of a network differ; truth is their mean, so an estimate may be nearer to it than"
    " they are to each other. `inside 90 %` is how many percent of the networks lie inside their"
    " interval."
)


def index_page(
    outcomes: Mapping[str, Outcome], facts: Sequence[tuple[str, str]], figures: Path
) -> Document:
    """All of these on one page, after the scores of all families and devices."""
    chapters = [_chapter(each, figures) for each in outcomes.values()]
    scores = [row for name in SIDE_BY_SIDE if name in outcomes for row in outcomes[name].data or ()]
    if scores:
        table = side_by_side(scores)
        chapters.insert(0, Chapter("Side by side", finding=EXPLAINED, table=table))
    return Document(
        title="The paper's evaluation, reproduced",
        lead="Every figure and table of the paper, as far as it can be made here.",
        facts=facts,
        chapters=chapters,
        highlights=_highlights(scores),
    )


def recorded_page(outcome: Outcome, facts: Sequence[tuple[str, str]], figures: Path) -> Document:
    """Energies recorded by others, apart from what was measured here."""
    return Document(
        title="Energies recorded by others",
        lead=f"Not measured here. {SOURCES}",
        facts=facts,
        chapters=[_chapter(outcome, figures)],
    )


def _chapter(outcome: Outcome, figures: Path) -> Chapter:
    experiment = outcome.experiment
    title = f"{experiment.name}: {experiment.title}"
    if outcome.data is None:
        return Chapter(title, experiment.claim, outcome.finding)
    places = [figures / name for name in experiment.figures]
    return Chapter(
        title=title,
        claim=experiment.claim,
        finding=outcome.finding,
        figures=[place for place in places if place.with_suffix(".svg").is_file()],
        table=experiment.table(outcome.data),
        parts=experiment.parts(outcome.data),
    )


def _highlights(scores: Sequence[Mapping[str, Json]]) -> list[tuple[str, str]]:
    """Mean errors over all families and devices."""
    pairs = units.plural(len(scores), "pair")
    highlights = []
    for method in ("additive", "paper", "flops", "repeat"):
        errors = [row["mape"][method] for row in scores if method in row["mape"]]
        if errors:
            what = f"{METHODS[method].label}: mean error over {pairs} of family and device"
            highlights.append((f"{fmean(errors):.1f} %", what))
    return highlights


def side_by_side(rows: Sequence[Mapping[str, Json]]) -> Page:
    """What the paper reports, both methods and every baseline, for each family and device."""
    headers = ("family", "device", "joules", "reported", *(look.label for look in METHODS.values()),
               "inside 90 %")  # fmt: skip
    order = list(FAMILIES)
    cells = [
        (
            FAMILIES[row["family"]],
            row["title"],
            Provenance(row["provenance"]).metered,
            "≈ 10" if row["family"] in FOUR else "–",
            *(cell(row["mape"].get(method)) for method in METHODS),
            f"{100 * row['coverage_90']:.0f}",
        )
        for row in sorted(rows, key=lambda row: order.index(row["family"]))
    ]
    align = "<<<<" + ">" * (len(headers) - 4)
    return Page("MAPE in percent", headers=headers, rows=cells, align=align)
