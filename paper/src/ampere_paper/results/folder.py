"""Folder: where the results of a run are, and the pages made of them.

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
from dataclasses import dataclass
from pathlib import Path

from ampere.core.boundary.fields import parse_json
from ampere.core.fingerprint import local_fingerprint
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.records.measurement import utc_now
from ampere_paper.experiments import EXPERIMENTS
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.figures import style
from ampere_paper.lab.benches import BENCHES
from ampere_paper.lab.plans import Plan
from ampere_paper.results.document import Document, markdown_table
from ampere_paper.results.outcome import Outcome
from ampere_paper.results.pages import index_page, recorded_page

RECORDED = "recorded"
SUFFIXES = (".png", ".svg")
OWN = ("index.html", "index.md", "data", "figures", "tables")  # what a run would write over
PLANS = {"quick": "--quick", "full": "the full one, without --quick"}
FORMAT = 1


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
        results = cls(Path(folder))
        if not results._plan_file.is_file():
            raise DataError(
                f"{folder} holds no results: fill it with `ampere reproduce -o {folder}`"
            )
        results._begun()  # refuses what is not ours
        return results

    @classmethod
    def claim(cls, folder: str | Path, plan: Plan) -> Results:
        """A folder for results of this plan; made if it is not there.

        Raises:
            DataError: It holds those of another plan, or cannot be written to.
        """
        results = cls(Path(folder))
        if results._plan_file.exists():
            earlier = results._begun()["plan"]
            if earlier != plan.name:
                raise DataError(
                    f"{folder} holds measurements of the {earlier} plan: choose another folder for"
                    f" the {plan.name} one, or go on with {PLANS.get(earlier, earlier)}"
                )
        elif foreign := [name for name in OWN if (results.folder / name).exists()]:
            raise DataError(f"{folder} has {foreign[0]}, but not of ampere: choose another folder")
        try:
            for part in ("data", "figures", "journals", "tables"):
                (results.folder / part).mkdir(parents=True, exist_ok=True)
            if not results._plan_file.exists():
                begun = {"plan": plan.name, "begun": utc_now(), "machine": _machine()}
                results._plan_file.write_text(json.dumps(begun) + "\n")
        except OSError as error:
            raise DataError(f"cannot write to {folder}: {error.strerror or error}") from None
        return results

    def earlier_data(self, experiment: Experiment, plan: Plan) -> Json:
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
                (self._figures / name).with_suffix(suffix).unlink(missing_ok=True)
        with style.styled():
            for name, figure in experiment.draw(data).items():
                for suffix in SUFFIXES:
                    style.save(figure, (self._figures / name).with_suffix(suffix))
        table = markdown_table(experiment.table(data))
        file = self.folder / "tables" / f"{experiment.name}.md"
        file.write_text(f"{table}\n", encoding="utf-8")

    def write_pages(self, outcomes: Mapping[str, Outcome]) -> None:
        """Index pages of these outcomes and all earlier ones; recorded energies have their own."""
        every, facts = self._with_earlier(outcomes), self._facts()
        recorded = every.pop(RECORDED, None)
        if recorded is not None and recorded.data is not None:
            self._write(RECORDED, recorded_page(recorded, facts[:2], self._figures))
            facts.append(("recorded", "energies by others' meters: recorded.md, recorded.html"))
        self._write("index", index_page(every, facts, self._figures))

    @property
    def _plan_file(self) -> Path:
        return self.folder / "plan.json"

    def _begun(self) -> dict[str, Json]:
        """By which plan, where and since when."""
        return _read(self._plan_file, ("plan", "begun", "machine"), "choose another folder")

    @property
    def _figures(self) -> Path:
        return self.folder / "figures"

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
        every = {}
        for name, experiment in EXPERIMENTS.items():
            if name in outcomes:
                every[name] = outcomes[name]
            elif kept := self._kept(name):
                every[name] = Outcome(experiment, experiment.sentence(kept["data"]), kept["data"])
        return every

    def _facts(self) -> list[tuple[str, str]]:
        """Of the folder, not of who looks at it: where and when its data were made."""
        kept = [row for name in EXPERIMENTS if (row := self._kept(name))]
        days = sorted({row["when"][:10] for row in kept}) or [self._begun()["begun"][:10]]
        dates = " to ".join(dict.fromkeys((days[0], days[-1])))
        used = {name for row in kept for name in row["plan"]["sizes"]}
        benches = ", ".join(bench.title for bench in BENCHES.values() if bench.name in used)
        what = "each table and figure says whether they are measured, modelled or simulated"
        raw = "journals/, one file for each purpose; data/ has what came of them"
        recorded = any(row["plan"]["recorded"] for row in kept)
        return [
            ("machine", f"{self._begun()['machine']}; {dates}"),
            ("made by", _command(self._begun()["plan"], recorded)),
            ("plan", f"{self._begun()['plan']}, on {benches or 'no device yet'}"),
            ("joules", what),
            ("raw data", raw),
        ]

    def _write(self, name: str, document: Document) -> None:
        texts = {"md": document.markdown(self.folder), "html": document.report().html()}
        for suffix, text in texts.items():
            (self.folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")


def _command(plan: str, recorded: bool) -> str:
    """What makes such a folder, and what makes it anew without measuring."""
    options = ["--quick"] * (plan == "quick") + ["--recorded DIR"] * recorded
    return f"`{' '.join(['ampere reproduce -o FOLDER', *options])}`; with `--refit` from journals/"


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
