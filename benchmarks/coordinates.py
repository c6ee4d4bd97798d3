"""Batch, map, length and optimiser as coordinates: profiled at two values, asked at others.

    python benchmarks/coordinates.py            # about ten minutes
    python benchmarks/coordinates.py --tables   # of what is kept
    python benchmarks/coordinates.py --calls    # the same rows fitted by layers and by calls

Families of the zoo are profiled at two settings, with a few networks each, into one file. Other
members are metered at these settings, between them and beyond them, and compared with estimates.
Leave the machine alone meanwhile. With `--calls`, nothing is measured: it says what a family loses
or gains where its rows are in the file of a survey, and so are fitted by calls.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from machine import RESULTS, machine_line, pack, show, write_section

import ampere
from ampere.acquisition.families import Network, members
from ampere.acquisition.loop import reference_of
from ampere.core.training import Training
from ampere.core.workloads import ModelSpec
from ampere.estimators.base import usable
from ampere.estimators.intervals import interval
from ampere.records.journal import Journal, read_journal
from ampere.sittings.effort import Effort
from ampere.sittings.measure import measure

# What other virtual machines take meanwhile cannot be ended: it is accepted, as doubt.
EFFORT = Effort(accept_busy=True)
NETWORKS, ASKED = 8, 5  # profiled and asked at each setting
KEPT = RESULTS / "coordinates.json"
PLACES = ("profiled", "between", "beyond")
FACTOR, COVERAGE = 1.5, (0.85, 0.95)  # what is wanted


@dataclass(frozen=True)
class Setting:
    """An input and a training, as a user would give them."""

    text: str
    input: str | None
    training: Training


@dataclass(frozen=True)
class Case:
    """A family, and what is varied."""

    name: str
    model: str
    settings: dict[str, tuple[Setting, ...]]

    @property
    def file(self) -> str:
        """The start of its files' names."""
        return f"coordinates_{self.name.replace(' ', '_')}_{self.model.partition(':')[2]}"


def batches(*sizes: int) -> tuple[Setting, ...]:
    return tuple(Setting(str(size), None, Training(size)) for size in sizes)


def inputs(*shapes: str) -> tuple[Setting, ...]:
    return tuple(Setting(shape.partition(":")[0], shape, Training()) for shape in shapes)


def optimizers(*names: str) -> tuple[Setting, ...]:
    return tuple(Setting(name, None, Training(optimizer=name)) for name in names)


def case(name: str, model: str, *settings: tuple[Setting, ...]) -> Case:
    return Case(name, model, dict(zip(PLACES, settings, strict=False)))


CASES = (
    case("batch", "zoo:cnn5", batches(8, 64), batches(16, 32), batches(128)),
    case("batch", "zoo:transformer", batches(4, 32), batches(8, 16), batches(64)),
    case("map", "zoo:resnet", inputs("3x16x16", "3x40x40"), inputs("3x24x24", "3x32x32"),
         inputs("3x56x56")),
    case("length", "zoo:lstm", inputs("16:int64<2000", "64:int64<2000"),
         inputs("32:int64<2000", "48:int64<2000"), inputs("128:int64<2000")),
    case("optimiser", "zoo:har", optimizers("sgd", "adam"), optimizers("momentum", "adamw")),
)  # fmt: skip


def asked(case: Case, setting: Setting) -> list[Network]:
    """Members that a profile did not choose: drawn by another seed."""
    spec = ModelSpec(case.model, setting.input, setting.training)
    rng = random.Random(f"coordinates {case.name} {setting.text}")
    return list(itertools.islice(members(spec, rng), ASKED))


def run() -> None:
    """Profile, and meter twice."""
    with ampere.LocalDevice(ampere.Settings(threads=1)) as device:
        for each in CASES:
            path = RESULTS / f"{each.file}.ampere"
            told = RESULTS / f"{each.file}_metered.ampere"
            for old in (path, told):
                old.unlink(missing_ok=True)
            for number, setting in enumerate(each.settings["profiled"], 1):
                strategy = ampere.Strategy(max_measurements=number * NETWORKS, tolerance=1e-6)
                profile = ampere.profile(
                    each.model,
                    setting.input,
                    path=path,
                    device=device,
                    training=setting.training,
                    strategy=strategy,
                    effort=EFFORT,
                    watch=show,
                )
            nominal = reference_of(profile.header, device)
            known = list(profile.measurements)
            every = [
                network
                for place in each.settings.values()
                for setting in place
                for network in asked(each, setting)
            ]
            with Journal.open(told, profile.header) as journal:
                for _ in range(2):
                    for some in itertools.zip_longest(*[iter(every)] * 5):
                        work = [(n.workload, n.layers) for n in some if n is not None]
                        keep = journal.append
                        known += measure(device, work, nominal, EFFORT, known=known, keep=keep)
            pack(path)
            pack(told)
    (RESULTS / "coordinates.machine").write_text(machine_line({"threads": "1"}) + "\n")


def score(case: Case, by_calls: bool = False) -> dict[str, Any]:
    """Errors at profiled settings, between and beyond them."""
    header, rows = read_journal(RESULTS / f"{case.file}.ampere.gz")
    rows = [replace(row, by_calls=by_calls) for row in rows]
    metered = read_journal(RESULTS / f"{case.file}_metered.ampere.gz")[1]
    pairs = list(zip(metered[: len(metered) // 2], metered[len(metered) // 2 :], strict=True))
    fit = ampere.fit(rows).fit
    found: dict[str, Any] = {"case": case.name, "model": case.model, "rows": len(usable(rows))}
    floor = fmean(abs(a.energy_j / b.energy_j - 1) for a, b in pairs)
    found |= {"floor": floor, "when": header.created}
    left = iter(pairs)
    for place, settings in case.settings.items():
        some = list(itertools.islice(left, ASKED * len(settings)))
        errors, inside = [], []
        for first, again in some:
            truth = fmean((first.energy_j, again.energy_j))
            total = fit.predict(first.layers).total
            low, high = interval(total.energy_j, total.energy_j_std)
            errors.append(total.energy_j / truth - 1)
            inside.append(low <= truth <= high)
        found[place] = {
            "settings": [setting.text for setting in settings],
            "mean": fmean(map(abs, errors)),
            "median": median(map(abs, errors)),
            "inside": sum(inside),
            "asked": len(inside),
        }
    return found


def table(found: Sequence[dict[str, Any]]) -> str:
    machine = (RESULTS / "coordinates.machine").read_text().strip()
    lines = [
        f"Machine: {machine} Joules are modelled from CPU time.",
        "",
        "| | model | twice | profiled at | error % | between | error % | beyond | error % |",
        "|---" * 9 + "|",
    ]
    for row in found:
        cells = [row["case"], f"`{row['model']}`", f"{100 * row['floor']:.1f}"]
        for place in PLACES:
            at = row.get(place)
            cells.append(", ".join(at["settings"]) if at else "")
            cells.append(_error(at))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def table_of_calls(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """Errors by layers and by calls, side by side."""
    machine = (RESULTS / "coordinates.machine").read_text().strip()
    header = "".join(f" {place}, by layers | by calls |" for place in PLACES)
    lines = [f"Machine: {machine} Mean errors in percent; modelled joules.", ""]
    lines += [f"| | model |{header}", "|---" * (2 + 2 * len(PLACES)) + "|"]
    for layers, calls in pairs:
        cells = [layers["case"], f"`{layers['model']}`"]
        for place in PLACES:
            cells += [_error(row.get(place)) for row in (layers, calls)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _error(at: dict[str, Any] | None) -> str:
    return f"{100 * at['mean']:.1f} ({at['inside']} of {at['asked']} inside)" if at else ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    parser.add_argument("--calls", action="store_true", help="measure nothing, compare two fits")
    options = parser.parse_args()
    if not (options.tables or options.calls):
        run()
    kept = [each for each in CASES if (RESULTS / f"{each.file}.ampere.gz").exists()]
    if options.calls:
        pairs = [(score(each), score(each, by_calls=True)) for each in kept]
        write_section("accuracy.md", "coordinates by calls", table_of_calls(pairs))
        return
    found = [score(each) for each in kept]
    KEPT.write_text(json.dumps(found, indent=1) + "\n")
    write_section("accuracy.md", "coordinates", table(found))


if __name__ == "__main__":
    main()
