"""Published energies of training that others metered: some are known, the others are asked for.

    python benchmarks/recorded.py --data DIR     # some minutes; writes docs/paper/published.md
    python benchmarks/recorded.py --data DIR --ablation     # parts of the model left out in turn

What the data sets are, what is asked of them, by which methods, and what is counted stands in
`ampere_paper.published`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import ablation
from machine import RESULTS, machine_line, write_section

from ampere.core.groups import grouped
from ampere.errors import DataError
from ampere_paper.published import board, gpus, intel
from ampere_paper.published.cases import LONG, Case, alternating, make_cases, more_cases
from ampere_paper.published.datasets import ALL_FILES, ALL_SOURCES, read_sets, refuse_incomplete
from ampere_paper.published.extracts import Recorded
from ampere_paper.published.methods import METHODS, OURS
from ampere_paper.published.scores import Row, examine, summary

NO_WORSE = 1.03  # than the best of the others
NAMES = {"flops_affine": "FLOPs affine", "log_process": "log process"}
NONE = "does not apply"
EXPLAINED = (
    "`bias` is the median signed error; `thirds` are the coverages of the small, middle and large"
    " asked rows; `score` is the mean interval score in log joules, width and misses together (the"
    " smaller the better). The paper's method applies where rows isolate kinds of layers; it knows"
    " widths alone, so settings that vary within a kind are noise to it."
)


def percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def called(method: str) -> str:
    return NAMES.get(method, method)


def between(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def bar_of(row: Row) -> str:
    if row["bar"] is None:
        return ""
    median = row["median_bar"]
    return f"{100 * row['bar']:g}" + (f" (median {100 * median:g})" if median else "")


def table(rows: Sequence[Row]) -> str:
    header = ["known", "method", "n known", "n asked", "MAPE %", "bar %", "median error %"]
    header += ["bias %", "coverage of 90 % interval", "thirds", "score", "left out", "CPU s a fit"]
    lines = []
    for row in rows:
        cells = [row["case"], called(row["method"])]
        cells += [between(row["known"]), between(row["asked"])]
        if row["mape"] is None:
            lines.append([*cells, NONE, *[""] * (len(header) - 5)])
            continue
        cells += [percent(row["mape"]), bar_of(row), percent(row["median_error"])]
        cells += [f"{100 * row['bias']:+.1f}", f"{row['coverage']:.0%}"]
        cells += [" / ".join(percent(third, 0) for third in row["thirds"]), f"{row['score']:.2f}"]
        lines.append([*cells, str(row["left_out"]), f"{row['fit_s']:.2f}"])
    return markdown(header, lines)


def others_best(errors: Sequence[tuple[str, float | None]]) -> tuple[str, float]:
    """The best of the methods that are not ours and apply."""
    return min(
        ((name, error) for name, error in errors if name != OURS and error is not None),
        key=lambda pair: pair[1],
    )


def ratio_table(rows: Sequence[Row]) -> str:
    """Ours against the best of the others, case by case."""
    lines = []
    for same in grouped(rows, lambda row: row["case"]):
        ours = next(row for row in same if row["method"] == OURS)
        name, best = others_best([(row["method"], row["mape"]) for row in same])
        verdict = f"misses {NO_WORSE:g}" if ours["mape"] > NO_WORSE * best else ""
        lines.append(
            [
                ours["case"],
                percent(ours["repeat"]),
                percent(ours["mape"]),
                f"{percent(best)} ({called(name)})",
                f"{ours['mape'] / best:.2f}",
                verdict,
            ]
        )
    header = ["known", "repeat %", "additive %", "best of the others %", "additive / best", ""]
    return markdown(header, lines)


def parts_table(rows: Sequence[Row]) -> str:
    """MAPE of every method on the parts of each case that has some, and more of ours."""
    cases = grouped((row for row in rows if "parts" in row), lambda row: row["case"])
    lines = []
    for same in cases:
        by_method = {row["method"]: row["parts"] for row in same}
        for i, ours in enumerate(by_method[OURS]):
            errors = [
                (method, by_method[method][i]["mape"] if method in by_method else None)
                for method in METHODS
            ]
            cells = [f"{ours['tag']}: {ours['part']}", str(ours["asked"])]
            cells += [percent(error) for _, error in errors]
            cells += [percent(ours["median_error"]), f"{100 * ours['bias']:+.1f}"]
            cells += [f"{ours['coverage']:.0%}", f"{ours['mape'] / others_best(errors)[1]:.2f}"]
            lines.append(cells)
    header = ["part", "n asked", *map(called, METHODS)]
    header += ["median of additive", "bias of additive", "coverage of additive", "additive / best"]
    return markdown(header, lines)


def sets_table(sets: Sequence[Recorded]) -> str:
    lines = [
        [
            data.name,
            str(len(data.rows)),
            "" if data.repeat is None else percent(data.repeat),
            str(data.rejected),
        ]
        for data in sets
    ]
    return markdown(["data set", "networks", "repeat %", "rejected"], lines)


def sweeps_table(names: Sequence[str], rows: Sequence[Row]) -> str:
    """MAPE in percent on each sweep, and what is typical of them."""
    columns = [[*row["mape_by_split"]] for row in rows]
    columns.append([*rows[0]["coverage_by_split"]])
    for column in columns:
        known = [value for value in column if value is not None]
        whole = len(known) == len(column)
        column += [statistics.median(known), statistics.fmean(known)] if whole else [None, None]
    lines = [
        [name, *map(percent, numbers[:-1]), f"{percent(numbers[-1], 0)}%"]
        for name, *numbers in zip([*names, "median", "mean"], *columns, strict=True)
    ]
    header = ["sweep", *(called(row["method"]) for row in rows), "coverage of additive"]
    return markdown(header, lines)


def examine_all(cases: Sequence[Case]) -> list[Row]:
    rows: list[Row] = []
    for case in cases:
        for method in METHODS:
            sys.stderr.write(f"\r{len(rows):3}/{len(cases) * len(METHODS):<3}")
            sys.stderr.write(f" {called(method):12} {case.name:70.70}")
            sys.stderr.flush()
            rows.append(examine(case, method))
    sys.stderr.write("\n")
    return rows


def page(
    machine: str, rows: Sequence[Row], sets: Sequence[Recorded], swept: Sequence[Recorded]
) -> str:
    """Everything that goes to the docs."""
    long = [data.name for data in swept if len(data.rows) >= LONG]
    of_sweeps = [row for row in rows if row["case"] == alternating(swept).name]
    return "\n\n".join(
        [
            f"Joules recorded by others: {ALL_SOURCES}",
            f"Fitted on: {machine}",
            table(rows),
            EXPLAINED,
            "Parts of the board's and the GPUs' rows, all splits together, MAPE in percent:",
            parts_table(rows),
            "Each sweep by itself, MAPE in percent:",
            sweeps_table(long, of_sweeps),
            "`repeat` is the mean deviation of one repeat from the mean of its repeats, the floor"
            " for a single run (asked are the means); `rejected` rows are faults of a meter:",
            sets_table(sets),
            f"MAPE of the additive method, as a multiple of the best of the others ({NO_WORSE:g} is"
            " allowed):",
            ratio_table(rows),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the files")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="random splits at most")
    parser.add_argument("--ablation", action="store_true", help="what parts of the model are worth")
    parser.add_argument("--out", type=Path, help="benchmarks/results/recorded.json, ablation.json")
    parser.add_argument(
        "--no-docs", action="store_true", help="leave docs/paper/published.md alone"
    )
    options = parser.parse_args(arguments)
    folder: Path = options.data
    try:
        refuse_incomplete(folder, ALL_FILES)
        sets, swept = read_sets(folder), intel.sweeps(folder)
        boarded, devices = board.read(folder), gpus.read(folder)
    except DataError as error:
        parser.error(str(error))
    cases = make_cases(sets, swept, options.seeds)
    cases += more_cases(sets["broadwell"], boarded, devices, options.seeds)
    out = options.out or RESULTS / ("ablation.json" if options.ablation else "recorded.json")
    if options.ablation:
        ablation.main(cases, out, docs=not options.no_docs)
        return
    rows = examine_all(cases)

    machine = machine_line({})
    everything = [*sets.values(), *swept, boarded, *devices]
    whole = {
        "machine": machine,
        "sources": ALL_SOURCES,
        "sets": [summary(data) for data in everything],
        "rows": rows,
    }
    out.write_text(json.dumps(whole, indent=1) + "\n")
    text = page(machine, rows, everything, swept)
    print(text)
    if not options.no_docs:
        write_section("published.md", "recorded", text)


if __name__ == "__main__":
    main()
