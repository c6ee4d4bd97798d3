"""A new device from a few measurements, with other devices to borrow from and without them.

    python benchmarks/transfer.py --data DIR     # a quarter of an hour; writes the page
    python benchmarks/transfer.py --parts d      # these anew, beside the others that are kept
    python benchmarks/transfer.py --tables       # the page of what is kept

(a) seconds of linear layers on six GPUs, (b) joules of whole jobs on four GPUs (Zeus), (c) networks
of the zoo on five simulated devices, (d) in three settings of this machine, which is to be left
alone meanwhile. Of each device in its turn a few rows are known, the others
are asked for: by its own rows alone, and with all rows of the other devices, which are the lenders.
Rows are drawn at random, the same for both; `chosen` are those that the prober asks for.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from machine import RESULTS, machine_line, write_section

import ampere
from ampere.acquisition.families import Network, members
from ampere.acquisition.loop import reference_of
from ampere.acquisition.prober import Prober
from ampere.core.layers import network_identity
from ampere.core.workloads import ModelSpec, Workload
from ampere.devices.base import Device
from ampere.devices.physics import simulated_devices
from ampere.devices.simulated import SimulatedDevice
from ampere.errors import DataError, NotCovered
from ampere.estimators.base import Fit, usable
from ampere.estimators.fitting import fit_additive
from ampere.estimators.lending.lenders import Lender, Lenders
from ampere.estimators.lending.unmeasured import UnmeasuredFit
from ampere.records.journal import read_journal
from ampere.records.measurement import Measurement
from ampere.sittings.effort import Effort
from ampere.sittings.measure import measure
from ampere_paper.published import gpus, zeus
from ampere_paper.published.answers import answer_of

SIZES = (4, 10, 20, 40)
ASKED = 120  # rows of a device that are asked for at most
FAMILIES = ("lenet5", "cnn5", "har", "lstm")
TEST_SEED = 1000
PROFILED = ampere.Strategy(max_measurements=20, tolerance=1e-9)
PARTS = {
    "a": "(a) Seconds of a training step of linear layers on six GPUs",
    "b": "(b) Joules of jobs on four GPUs (Zeus)",
    "c": "(c) Joules of networks of the zoo on five simulated devices",
    "d": "(d) Joules of networks of the zoo in three settings of this machine, modelled",
}
METERED = "cd"  # parts that are measured for this, not recorded
SETTINGS = {
    "one thread": ampere.Settings(threads=1),
    "two threads": ampere.Settings(threads=2),
    "without oneDNN": ampere.Settings(threads=1, onednn=False),
}
# What other virtual machines take meanwhile cannot be ended: it is accepted, as doubt.
EFFORT = Effort(accept_busy=True)
Row = dict[str, Any]
Rows = tuple[Sequence[Measurement], Sequence[Measurement]]  # known, and asked for


@dataclass(frozen=True)
class Subject:
    """A device in the part of the new one: what can be measured of it, what is asked, who lends."""

    part: str
    name: str
    known: Sequence[Measurement]
    asked: Sequence[Measurement]
    lenders: Lenders


def drawn(rows: Sequence[Measurement], seed: int) -> list[Measurement]:
    return [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]


def recorded_subjects(part: str, folder: Path) -> Iterator[Subject]:
    """Each of the recorded devices, all others being lenders."""
    sets = gpus.read(folder) if part == "a" else zeus.read(folder)
    fits = {data.name: fit_additive(data.rows) for data in sets}
    for data in sets:
        rows = drawn(data.rows, 0)
        others = [Lender(name, fit) for name, fit in fits.items() if name != data.name]
        half = max(len(rows) - ASKED, len(rows) // 2)
        yield Subject(part, data.name, rows[:half], rows[half:], Lenders(tuple(others)))


def rows_of(device: Device, family: str, path: Path, effort: Effort) -> Rows:
    """What `ampere profile` measures of a family on a device, and unseen members.

    Of each as many, or the rows that only restless devices have would be compared with all others'.
    """
    spec = ModelSpec(f"zoo:{family}")
    profile = ampere.profile(spec.model, path=path, device=device, strategy=PROFILED, effort=effort)
    unseen = list(itertools.islice(members(spec, random.Random(TEST_SEED)), 20))
    work = [(each.workload, each.layers) for each in unseen]
    asked = measure(device, work, reference_of(read_journal(path)[0], device), effort)
    return profile.measurements, usable(asked)


def openers(part: str) -> dict[str, Callable[[], Device]]:
    """The devices of a part, by name, to be opened."""
    if part == "c":
        return {name: partial(SimulatedDevice, name) for name in simulated_devices()}
    return {name: partial(ampere.LocalDevice, settings) for name, settings in SETTINGS.items()}


def metered_subjects(part: str, folder: Path) -> Iterator[Subject]:
    """Each device, family by family, the others being lenders."""
    for family in FAMILIES:
        rows: dict[str, Rows] = {}
        for name, make in openers(part).items():
            sys.stderr.write(f"{part} measuring {family}, {name}\n")
            with closing(make()) as device:
                path = folder / f"{part}_{name}_{family}.ampere"
                rows[name] = rows_of(device, family, path, EFFORT if part == "d" else Effort())
        fits = {name: fit_additive(known) for name, (known, _) in rows.items()}
        for name, (known, asked) in rows.items():
            others = [Lender(other, fit) for other, fit in fits.items() if other != name]
            yield Subject(part, f"{name}, {family}", known, asked, Lenders(tuple(others)))


def scores(fit: Fit, asked: Sequence[Measurement]) -> Row:
    """Errors and coverage, of the rows that a fit can answer."""
    errors, inside, widths = [], [], []
    for row in asked:
        try:
            answer = answer_of(fit, row.layers)
        except NotCovered:
            continue
        errors.append(abs(answer.energy_j / row.energy_j - 1))
        inside.append(answer.low_j <= row.energy_j <= answer.high_j)
        widths.append(answer.high_j / answer.low_j)
    if not errors:
        return {"mape": None, "coverage": None, "ratio": None, "answered": 0}
    return {
        "mape": fmean(errors),
        "coverage": fmean(inside),
        "ratio": median(widths),
        "answered": len(errors) / len(asked),
    }


def chosen(subject: Subject, n: int) -> list[Measurement]:
    """The rows that the prober asks for, one by one, with the lenders in mind."""
    by_key = {network_identity(row.layers): row for row in subject.known}
    probes = [Network("", Workload(row.layers), row.layers) for row in by_key.values()]
    questions = [row.layers for row in subject.asked]
    prober = Prober(probes, questions, tolerance=0.0, limit=n, lenders=subject.lenders)
    told: list[Measurement] = []
    while len(told) < n and (wanted := prober.ask()):
        told.append(by_key[network_identity(wanted[0].layers)])
        prober.tell(told[-1])
    return told


def examine(subject: Subject, seeds: int, sizes: Sequence[int]) -> Iterator[Row]:
    """Own rows alone, and with lenders; 0 rows have lenders alone."""
    base: Row = {"part": subject.part, "device": subject.name}
    yield (
        base
        | {"rows": 0, "how": "borrowing"}
        | scores(UnmeasuredFit(subject.lenders), subject.asked)
    )
    for n in (size for size in sizes if size <= len(subject.known)):
        for seed in range(seeds):
            few = drawn(subject.known, seed + 1)[:n]
            alone = fit_additive(few)
            yield base | {"rows": n, "seed": seed, "how": "alone"} | scores(alone, subject.asked)
            lent = fit_additive(few, lenders=subject.lenders)
            refused = {"refused": bool(lent.refused)}
            said = scores(lent, subject.asked)
            yield base | {"rows": n, "seed": seed, "how": "borrowing"} | refused | said
    if len(subject.known) >= 10:
        ten = chosen(subject, 10)
        fit = fit_additive(ten, lenders=subject.lenders)
        yield base | {"rows": 10, "how": "chosen"} | scores(fit, subject.asked)


def mean_of(rows: Sequence[Row], key: str) -> float | None:
    known = [row[key] for row in rows if row[key] is not None]
    return fmean(known) if known else None


def percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def table(rows: Sequence[Row]) -> str:
    """A line for each number of rows: means over devices and draws."""
    lines = []
    for n in sorted({row["rows"] for row in rows}):
        same = [row for row in rows if row["rows"] == n]
        cells = [str(n)]
        for how in ("alone", "borrowing", "chosen"):
            ours = [row for row in same if row["how"] == how]
            cells += [percent(mean_of(ours, "mape")), percent(mean_of(ours, "coverage"), 0)]
        refused = [row["refused"] for row in same if "refused" in row]
        cells.append(percent(fmean(refused), 0) if refused else "–")
        lines.append(cells)
    header = ["own rows", "alone: MAPE %", "inside 90 %", "borrowing: MAPE %", "inside 90 %"]
    header += ["borrowing, rows chosen: MAPE %", "inside 90 %", "lenders left out %"]
    return markdown(header, lines)


def device_table(rows: Sequence[Row]) -> str:
    """Each device by itself: at ten rows, and the worst that borrowing did to any size."""
    lines = []
    for name in dict.fromkeys(row["device"] for row in rows):
        own = [row for row in rows if row["device"] == name]

        def error(n: int, how: str, own: Sequence[Row] = own) -> float | None:
            return mean_of([row for row in own if (row["rows"], row["how"]) == (n, how)], "mape")

        ratios = [
            with_others / alone
            for n in sorted({row["rows"] for row in own})
            if (with_others := error(n, "borrowing")) and (alone := error(n, "alone"))
        ]
        cells = [percent(error(0, "borrowing")), percent(error(4, "borrowing"))]
        cells += [percent(error(10, how)) for how in ("alone", "borrowing", "chosen")]
        lines.append([name, *cells, f"{max(ratios):.2f}" if ratios else "–"])
    header = ["device", "0 rows, borrowing", "4, borrowing", "10, alone", "10, borrowing"]
    return markdown([*header, "10, chosen", "worst borrowing / alone"], lines)


def page(machines: Mapping[str, str], rows: Sequence[Row]) -> str:
    texts = [f"{gpus.SOURCE} {zeus.SOURCE} Simulated joules are simulated."]
    for part, title in PARTS.items():
        ours = [row for row in rows if row["part"] == part]
        if ours:
            made = "Measured and fitted" if part == "d" else "Fitted"
            texts += [f"**{title}**. {made} on: {machines[part]}", table(ours), device_table(ours)]
    return "\n\n".join(texts)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="the files")
    parser.add_argument("--tables", action="store_true", help="fit nothing")
    parser.add_argument("--parts", default="abcd", metavar="LETTERS", help="which of a, b, c, d")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="random draws")
    parser.add_argument("--out", type=Path, default=RESULTS / "transfer.json")
    parser.add_argument("--no-docs", action="store_true", help="leave docs/paper/transfer.md alone")
    options = parser.parse_args(arguments)
    nothing: dict[str, Any] = {"machines": {}, "rows": []}
    kept = json.loads(options.out.read_text()) if options.out.exists() else nothing
    if options.tables:
        write_section("transfer.md", "transfer", page(kept["machines"], kept["rows"]))
        return
    if options.data is None and set(options.parts) - set(METERED):
        parser.error("say where the files are: --data DIR")
    rows: list[Row] = [row for row in kept["rows"] if row["part"] not in options.parts]
    with tempfile.TemporaryDirectory() as folder:
        try:
            for part in options.parts:
                is_metered = part in METERED
                subjects = (
                    metered_subjects(part, Path(folder))
                    if is_metered
                    else recorded_subjects(part, options.data)
                )
                for subject in list(subjects):  # nothing is fitted while something is metered
                    sys.stderr.write(f"{part} {subject.name}\n")
                    sizes = (4, 10, 16) if is_metered else SIZES
                    rows += examine(subject, options.seeds, sizes)
        except DataError as error:
            parser.error(str(error))
    machines = kept["machines"] | dict.fromkeys(options.parts, machine_line({}))
    options.out.write_text(json.dumps({"machines": machines, "rows": rows}, indent=1) + "\n")
    text = page(machines, rows)
    print(text)
    if not options.no_docs:
        write_section("transfer.md", "transfer", text)


if __name__ == "__main__":
    main()
