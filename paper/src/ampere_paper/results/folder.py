"""Folder: where the results of a run are, and the pages made of them.

    plan.json             by which plan, where and since when
    journals/*.ampere     raw measurements, which an interrupted run goes on with; may be packed
    data/NAME.json        what an experiment found; it is not measured again
    figures/NAME.png/svg  drawn from the data, every time
    tables/NAME.md        the same in numbers
    index.md, index.html  all of it on one page, with every method side by side

Whoever has data/ can redraw everything without measuring; data are made anew from journals/. A
folder may come from somebody else: what is damaged or foreign in it is refused in one line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from ampere.core.boundary.fields import Fields, parse_json, shown
from ampere.core.boundary.files import read_whole, write_whole
from ampere.core.fingerprint import local_fingerprint
from ampere.core.page import printable
from ampere.core.program.trees import map_leaves
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
MOST_BYTES = 2**24  # of a file of data; the largest of the paper's has 80 kB
ANEW = "delete it, and it is made anew"

R = TypeVar("R")


@dataclass(frozen=True)
class Begun:
    """By which plan, since when and where."""

    plan: str
    begun: str
    machine: str

    @classmethod
    def read(cls, row: Fields) -> Begun:
        """What plan.json says."""
        return cls(row.text("plan", most=100), row.text("begun", most=100), row.text("machine"))


@dataclass(frozen=True)
class Kept:
    """What an experiment found, when, and by which plan."""

    when: str
    plan: Mapping[str, Json]
    data: Json

    @classmethod
    def read(cls, row: Fields) -> Kept | None:
        """What a file of data says; nothing if it is of another format."""
        if row.whole("format") != FORMAT:
            return None
        plan = row.inner("plan")
        plan.inner("sizes").names()
        plan.flag("recorded")
        data = map_leaves(_harmless, row.plain("data"))
        return cls(row.text("when", most=100), row.plain("plan"), data)

    @property
    def benches(self) -> set[str]:
        """Where it was measured."""
        return set(self.plan["sizes"])


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
            earlier = results._begun().plan
            if earlier != plan.name:
                raise DataError(
                    f"{folder} holds measurements of the {earlier} plan: choose another folder for"
                    f" the {plan.name} one, or go on with {PLANS.get(earlier, earlier)}"
                )
        elif foreign := [name for name in OWN if (results.folder / name).exists()]:
            raise DataError(f"{folder} has {foreign[0]}, but not of ampere: choose another folder")
        try:
            results.folder.mkdir(parents=True, exist_ok=True)
            if not results._plan_file.exists():  # first of all: the rest is ours by it
                begun = Begun(plan.name, utc_now(), _machine())
                _write(results._plan_file, json.dumps(asdict(begun)) + "\n")
            for part in ("data", "figures", "journals", "tables"):
                (results.folder / part).mkdir(exist_ok=True)
        except OSError as error:
            raise DataError(f"cannot write to {folder}: {error.strerror or error}") from None
        return results

    def earlier_data(self, experiment: Experiment, plan: Plan) -> Json:
        """The data of an earlier run of the same sizes, if there are any.

        Those of more devices serve as well, and those that have recorded energies besides.
        """
        kept = self._kept(experiment.name)
        if kept is None:
            return None
        wanted, earlier = _plan_row(experiment, plan), kept.plan
        sizes = {name: earlier["sizes"].get(name) for name in wanted["sizes"]}
        enough = earlier.get("recorded") or not wanted["recorded"]
        if not enough or sizes != wanted["sizes"]:
            return None
        return self._told(experiment, kept).data

    def refuse_fewer(self, experiment: Experiment, plan: Plan) -> None:
        """Data of other devices are not to be replaced by those of this plan.

        Raises:
            DataError: There are some.
        """
        kept = self._kept(experiment.name)
        if others := (kept.benches if kept else set()) - set(plan.sizes):
            raise DataError(
                f"{self.folder} has {experiment.name} of {', '.join(sorted(others))} too: ask for"
                " these devices as well, or choose another folder"
            )

    def refuse_damaged(self, made_anew: Collection[Experiment]) -> None:
        """See that all data can be shown in the end, but those that are about to be made.

        Raises:
            DataError: Some cannot.
        """
        names = {experiment.name for experiment in made_anew}
        self._with_earlier({}, names)

    def keep(self, experiment: Experiment, plan: Plan, data: Json, refit: bool = False) -> None:
        """Remember what an experiment found; what is fitted anew keeps the day of measuring."""
        kept = self._kept(experiment.name)
        measured = kept.when if kept else self._begun().begun
        row = {"format": FORMAT, "experiment": experiment.name,
               "when": measured if refit else utc_now(),
               "plan": _plan_row(experiment, plan), "data": data}  # fmt: skip
        _write(self._data_file(experiment.name), json.dumps(row, allow_nan=False) + "\n")

    def keep_error(self, experiment: Experiment, text: str) -> None:
        """Keep a traceback for whoever mends it; with no text, there is none."""
        file = self.folder / "data" / f"{experiment.name}.error"
        if text:
            _write(file, text)
        else:
            file.unlink(missing_ok=True)

    def show(self, experiment: Experiment, data: Json) -> None:
        """Draw the figures of an experiment, and write its table."""
        with style.styled():
            drawn = experiment.draw(data)
            for name, figure in drawn.items():
                for suffix in SUFFIXES:
                    style.save(figure, (self._figures / name).with_suffix(suffix), own=True)
        for name in set(experiment.figures) - set(drawn):  # of an earlier run
            for suffix in SUFFIXES:
                (self._figures / name).with_suffix(suffix).unlink(missing_ok=True)
        table = markdown_table(experiment.table(data))
        _write(self.folder / "tables" / f"{experiment.name}.md", f"{table}\n")

    def write_pages(self, outcomes: Mapping[str, Outcome]) -> None:
        """Index pages of these outcomes and all earlier ones; recorded energies have their own."""
        every, facts = self._with_earlier(outcomes), self._facts()
        recorded = every.pop(RECORDED, None)
        if recorded is not None and recorded.data is not None:
            self._write_page(RECORDED, recorded_page(recorded, facts[:2], self._figures))
            facts.append(("recorded", "energies by others' meters: recorded.md, recorded.html"))
        self._write_page("index", index_page(every, facts, self._figures))

    @property
    def _plan_file(self) -> Path:
        return self.folder / "plan.json"

    def _begun(self) -> Begun:
        """By which plan, where and since when."""
        return _read(self._plan_file, Begun.read, "choose another folder")

    @property
    def _figures(self) -> Path:
        return self.folder / "figures"

    def _data_file(self, name: str) -> Path:
        return self.folder / "data" / f"{name}.json"

    def _kept(self, name: str) -> Kept | None:
        """The data of an experiment, with the plan that they were made by, if there are any."""
        file = self._data_file(name)
        return _read(file, Kept.read, ANEW) if file.exists() else None

    def _told(self, experiment: Experiment, kept: Kept) -> Outcome:
        """What data of a file say.

        Raises:
            DataError: They are not what the experiment makes.
        """
        try:
            outcome = Outcome(experiment, experiment.sentence(kept.data), kept.data)
            index_page({experiment.name: outcome}, (), self._figures)
        except Exception as error:  # of any type: it reads them as its own
            file = self._data_file(experiment.name)
            raise DataError(f"{file} is damaged ({shown(repr(error))}): {ANEW}") from error
        return outcome

    def _with_earlier(
        self, outcomes: Mapping[str, Outcome], without: Collection[str] = ()
    ) -> dict[str, Outcome]:
        """What was run now, and what the folder holds of the rest, in the paper's order."""
        every = {}
        for name, experiment in EXPERIMENTS.items():
            if name in outcomes:
                every[name] = outcomes[name]
            elif name not in without and (kept := self._kept(name)):
                every[name] = self._told(experiment, kept)
        return every

    def _facts(self) -> list[tuple[str, str]]:
        """Of the folder, not of who looks at it: where and when its data were made."""
        kept = [each for name in EXPERIMENTS if (each := self._kept(name))]
        begun = self._begun()
        days = sorted({each.when[:10] for each in kept}) or [begun.begun[:10]]
        dates = " to ".join(dict.fromkeys((days[0], days[-1])))
        used = {name for each in kept for name in each.benches}
        benches = ", ".join(bench.title for bench in BENCHES.values() if bench.name in used)
        what = "each table and figure says whether they are measured, modelled or simulated"
        raw = "journals/, one file for each purpose; data/ has what came of them"
        recorded = any(each.plan.get("recorded") for each in kept)
        return [
            ("machine", f"{begun.machine}; {dates}"),
            ("made by", _command(begun.plan, recorded)),
            ("plan", f"{begun.plan}, on {benches or 'no device yet'}"),
            ("joules", what),
            ("raw data", raw),
        ]

    def _write_page(self, name: str, document: Document) -> None:
        texts = {"md": document.markdown(self.folder), "html": document.report().html()}
        for suffix, text in texts.items():
            _write(self.folder / f"{name}.{suffix}", text)


def _command(plan: str, recorded: bool) -> str:
    """What makes such a folder, and what makes it anew without measuring."""
    options = ["--quick"] * (plan == "quick") + ["--recorded DIR"] * recorded
    return f"`{' '.join(['ampere reproduce -o FOLDER', *options])}`; with `--refit` from journals/"


def _harmless(leaf: Json) -> Json:
    """Texts of others go into figures, which bear no letters that nobody can see."""
    return printable(leaf) if isinstance(leaf, str) else leaf


def _plan_row(experiment: Experiment, plan: Plan) -> Json:
    """The plan, as far as it concerns an experiment, as it comes back from a file."""
    recorded = experiment.recorded and plan.recorded is not None
    return json.loads(json.dumps({**plan.to_json(), "recorded": recorded}))


def _read(file: Path, read: Callable[[Fields], R], remedy: str) -> R:
    """A file of ours; whatever else it is, one line says so."""
    try:
        return read(Fields(parse_json(read_whole(file, MOST_BYTES, own=True))))
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}") from None
    except DataError as error:
        raise DataError(f"{file} is damaged, or not of ampere ({error}): {remedy}") from None


def _write(file: Path, text: str) -> None:
    """Whoever sees it sees all of it."""
    try:
        write_whole(file, text, own=True)
    except OSError as error:
        raise DataError(
            f"cannot write {file}: {error.strerror or error}; what was measured is kept, and the"
            " same command goes on from there"
        ) from None


def _machine() -> str:
    identity = local_fingerprint({}).identity
    return ", ".join([identity["processor"], f"{identity['cores']} cores", identity["memory"]])
