"""Results: a folder of what experiments found, and the pages made of it.

    plan.json             by which plan, where and since when
    journals/*.ampere     raw measurements, which an interrupted run goes on with; may be packed
    data/NAME.json        what an experiment found; it is not measured again
    figures/NAME.png/svg  drawn from the data, every time
    tables/NAME.md        the same in numbers
    index.md, index.html  all of it on one page, with every method side by side

Whoever has data/ can redraw everything without measuring; data are made anew from journals/.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from ampere.core import units
from ampere.core.fingerprint import local_fingerprint
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.meters.base import Provenance
from ampere.records.measurement import utc_now
from ampere.records.rows import parse_json
from ampere.reports.html import Report
from ampere_paper import figures
from ampere_paper.benches import BENCHES
from ampere_paper.document import Chapter, Document, markdown_table
from ampere_paper.drawing import FAMILIES, METHODS
from ampere_paper.experiments import EXPERIMENTS
from ampere_paper.experiments.experiment import Experiment, cell
from ampere_paper.plans import FOUR, Plan
from ampere_paper.published import SOURCES

SIDE_BY_SIDE = ("fig8", "fig9", "fig10")  # whose data are scores of families on devices
RECORDED = "recorded"
TITLES = {
    "index": "The paper's evaluation, reproduced",
    RECORDED: "Energies recorded by others",
}
SUFFIXES = (".png", ".svg")
OWN = ("index.html", "index.md", "data", "figures", "tables")  # what a run would write over
PLANS = {"quick": "--quick", "full": "the full one, without --quick"}
FORMAT = 1


@dataclass(frozen=True)
class Outcome:
    """What became of an experiment: data and what they say, or why there are none."""

    experiment: Experiment
    found: str
    data: Json = None
    failed: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Results:
    """The folder of a run."""

    folder: Path

    @classmethod
    def open(cls, folder: str | Path) -> Results:
        """A folder that a run has filled.

        Raises:
            DataError: It is no such folder.
        """
        found = cls(Path(folder))
        if not found._plan_file.is_file():
            raise DataError(
                f"{folder} holds no results: fill it with `ampere reproduce -o {folder}`"
            )
        found._begun()  # refuses what is not ours
        return found

    @classmethod
    def claim(cls, folder: str | Path, plan: Plan) -> Results:
        """A folder for results of this plan; made if it is not there.

        Raises:
            DataError: It holds those of another plan, or cannot be written to.
        """
        found = cls(Path(folder))
        if found._plan_file.exists():
            known = found._begun()["plan"]
            if known != plan.name:
                raise DataError(
                    f"{folder} holds measurements of the {known} plan: choose another folder for"
                    f" the {plan.name} one, or go on with {PLANS.get(known, known)}"
                )
        elif foreign := [name for name in OWN if (found.folder / name).exists()]:
            raise DataError(f"{folder} has {foreign[0]}, but not of ampere: choose another folder")
        try:
            for part in ("data", "figures", "journals", "tables"):
                (found.folder / part).mkdir(parents=True, exist_ok=True)
            if not found._plan_file.exists():
                begun = {"plan": plan.name, "begun": utc_now(), "machine": _machine()}
                found._plan_file.write_text(json.dumps(begun) + "\n")
        except OSError as error:
            raise DataError(f"cannot write to {folder}: {error.strerror or error}") from None
        return found

    def known(self, experiment: Experiment, plan: Plan) -> Json:
        """The data of an earlier run of the same sizes, if there are any.

        Those of more devices serve as well, and those that have recorded energies besides.
        """
        kept = self._kept(experiment.name)
        if not kept:
            return None
        wanted, earlier = _plan_row(experiment, plan), kept["plan"]
        sizes = {name: earlier["sizes"].get(name) for name in wanted["sizes"]}
        enough = earlier["recorded"] or not wanted["recorded"]
        return kept["data"] if enough and sizes == wanted["sizes"] else None

    def refuse_fewer(self, experiment: Experiment, plan: Plan) -> None:
        """Data of other devices are not to be replaced by those of this plan.

        Raises:
            DataError: There are some.
        """
        kept = self._kept(experiment.name)
        if others := set(kept["plan"]["sizes"] if kept else ()) - set(plan.sizes):
            raise DataError(
                f"{self.folder} has {experiment.name} of {', '.join(sorted(others))} too: ask for"
                " these devices as well, or choose another folder"
            )

    def keep(self, experiment: Experiment, plan: Plan, data: Json, refit: bool = False) -> None:
        """Remember what an experiment found; what is fitted anew keeps the day of measuring."""
        measured = self._kept(experiment.name).get("when", self._begun()["begun"])
        row = {"format": FORMAT, "experiment": experiment.name,
               "when": measured if refit else utc_now(),
               "plan": _plan_row(experiment, plan), "data": data}  # fmt: skip
        file = self.folder / "data" / f"{experiment.name}.json"
        draft = file.with_suffix(".part")
        draft.write_text(json.dumps(row, allow_nan=False) + "\n")
        draft.replace(file)  # whoever sees it sees all of it

    def show(self, experiment: Experiment, data: Json) -> None:
        """Draw the figures of an experiment, and write its table."""
        for name in experiment.figures:
            for suffix in SUFFIXES:
                self._figure(name).with_suffix(suffix).unlink(missing_ok=True)
        with figures.styled():
            for name, figure in experiment.draw(data).items():
                for suffix in SUFFIXES:
                    figures.save(figure, self._figure(name).with_suffix(suffix))
        table = markdown_table(experiment.table(data))
        file = self.folder / "tables" / f"{experiment.name}.md"
        file.write_text(f"{table}\n", encoding="utf-8")

    def write_pages(self, outcomes: Mapping[str, Outcome]) -> None:
        """Index pages of these outcomes and all earlier ones; recorded energies have their own."""
        known = self._with_earlier(outcomes)
        recorded = known.pop(RECORDED, None)
        index = self._index(known)
        if recorded is not None and recorded.data is not None:
            link = ("recorded", "energies by others' meters: recorded.md, recorded.html")
            index = replace(index, facts=[*index.facts, link])
            lead = f"Not measured here. {SOURCES}"
            self._write(RECORDED, Document(TITLES[RECORDED], lead, (), [self._chapter(recorded)]))
        self._write("index", index)

    def report(self) -> Report:
        """All that the folder holds, on one page.

        Raises:
            DataError: That is nothing yet.
        """
        known = self._with_earlier({})
        if not known:
            raise DataError(
                f"{self.folder} holds no data yet: go on with `ampere reproduce -o {self.folder}`"
            )
        return self._index(known).report()

    @property
    def _plan_file(self) -> Path:
        return self.folder / "plan.json"

    def _begun(self) -> dict[str, Json]:
        """By which plan, where and since when."""
        return _read(self._plan_file, ("plan", "begun", "machine"), "choose another folder")

    def _figure(self, name: str) -> Path:
        return self.folder / "figures" / name

    def _kept(self, name: str) -> dict[str, Json]:
        """The data of an experiment, with the plan that they were made by; empty if none."""
        file = self.folder / "data" / f"{name}.json"
        if not file.exists():
            return {}
        keys = ("format", "when", "plan", "data")
        kept = _read(file, keys, "delete it, and it is made anew")
        return kept if kept["format"] == FORMAT else {}

    def _with_earlier(self, outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
        """What was run now, and what the folder holds of the rest, in the paper's order."""
        found = {}
        for name, experiment in EXPERIMENTS.items():
            if name in outcomes:
                found[name] = outcomes[name]
            elif kept := self._kept(name):
                found[name] = Outcome(experiment, experiment.sentence(kept["data"]), kept["data"])
        return found

    def _index(self, known: Mapping[str, Outcome]) -> Document:
        chapters = [self._chapter(each) for each in known.values()]
        scores = [row for name in SIDE_BY_SIDE if name in known for row in known[name].data or ()]
        if scores:
            found = (
                "Mean absolute percentage error over unseen random members, in percent; `reported`"
                " is what the paper says of its own devices, where it gives a number. FLOPs and"
                " roofline are calibrated on the networks that the additive method learns from."
                " `metered again` is by how much two meterings of a network differ; truth is their"
                " mean, so an estimate may be nearer to it than they are to each other."
                " `inside 90 %` is how many percent of the networks lie inside their interval."
            )
            chapters.insert(0, Chapter("Side by side", "", found, (), side_by_side(scores)))
        lead = "Every figure and table of the paper, as far as it can be made here."
        return Document(TITLES["index"], lead, self._facts(), chapters, _highlights(scores))

    def _chapter(self, outcome: Outcome) -> Chapter:
        experiment = outcome.experiment
        title = f"{experiment.name}: {experiment.title}"
        if outcome.data is None:
            return Chapter(title, experiment.claim, outcome.found)
        places = map(self._figure, experiment.figures)
        drawn = [place for place in places if place.with_suffix(".svg").exists()]
        table, parts = experiment.table(outcome.data), experiment.parts(outcome.data)
        return Chapter(title, experiment.claim, outcome.found, drawn, table, parts)

    def _facts(self) -> list[tuple[str, str]]:
        """Of the folder, not of who looks at it: where and when its data were made."""
        kept = [row for name in EXPERIMENTS if (row := self._kept(name))]
        days = sorted({row["when"][:10] for row in kept}) or [self._begun()["begun"][:10]]
        dates = " to ".join(dict.fromkeys((days[0], days[-1])))
        used = {name for row in kept for name in row["plan"]["sizes"]}
        benches = ", ".join(bench.title for bench in BENCHES.values() if bench.name in used)
        what = "each table and figure says whether they are measured, modelled or simulated"
        raw = "journals/, one file for each purpose; data/ has what came of them"
        return [
            ("machine", f"{self._begun()['machine']}; {dates}"),
            ("plan", f"{self._begun()['plan']}, on {benches or 'no device yet'}"),
            ("joules", what),
            ("raw data", raw),
        ]

    def _write(self, name: str, document: Document) -> None:
        texts = {"md": document.markdown(self.folder), "html": document.report().html()}
        for suffix, text in texts.items():
            (self.folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")


def _plan_row(experiment: Experiment, plan: Plan) -> Json:
    """The plan, as far as it concerns an experiment, as it comes back from a file."""
    recorded = experiment.recorded and plan.recorded is not None
    return json.loads(json.dumps({**plan.to_json(), "recorded": recorded}))


def _read(file: Path, keys: Sequence[str], remedy: str) -> dict[str, Json]:
    """A file of ours; whatever else it is, one line says so."""
    try:
        row = parse_json(file.read_bytes())
    except DataError as error:
        raise DataError(f"{file} is damaged ({error}): {remedy}") from None
    if not isinstance(row, dict) or not row.keys() >= set(keys):
        raise DataError(f"{file} is not of ampere: {remedy}")
    return row


def _machine() -> str:
    identity = local_fingerprint({}).identity
    return ", ".join([identity["processor"], f"{identity['cores']} cores", identity["memory"]])


def _highlights(scores: Sequence[Mapping[str, Json]]) -> list[tuple[str, str]]:
    """Mean errors over all families and devices."""
    pairs = units.plural(len(scores), "pair")
    found = []
    for method in ("additive", "paper", "flops", "repeat"):
        errors = [row["mape"][method] for row in scores if method in row["mape"]]
        if errors:
            what = f"{METHODS[method].label}: mean error over {pairs} of family and device"
            found.append((f"{fmean(errors):.1f} %", what))
    return found


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
    return Page(
        "MAPE in percent", headers=headers, rows=cells, align="<<<<" + ">" * (len(headers) - 4)
    )
