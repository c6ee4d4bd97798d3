"""Published energies of training that others metered: some are known, the others are asked for.

    python benchmarks/recorded.py --data DIR     # half a minute; writes docs/paper/published.md

What the data sets are, and what is asked of them, stands in `ampere_paper.published`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from machine import RESULTS, machine_line, write_section

from ampere.errors import DataError
from ampere_paper.published.cases import LONG, METHODS, Row, examine, make_cases, summary
from ampere_paper.published.datasets import SOURCES, Recorded, read_sets, sweeps


def table(rows: Sequence[Row]) -> str:
    lines = [
        "| known | method | n known | n asked | MAPE % | bar % | median error %"
        " | coverage of 90 % interval | left out | s a fit |",
        "|---" * 10 + "|",
    ]
    for row in rows:
        cells = [row["case"], row["method"], *(between(row[key]) for key in ("known", "asked"))]
        cells += [f"{100 * row['mape']:.1f}", f"{100 * row['bar']:g}" if row["bar"] else ""]
        cells += [f"{100 * row['median_error']:.1f}", f"{row['coverage']:.0%}"]
        cells += [str(row["left_out"]), f"{row['fit_s']:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def between(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def sets_table(sets: Sequence[Recorded]) -> str:
    lines = ["| data set | networks | repeat % | rejected |", "|---|---|---|---|"]
    for data in sets:
        repeat = "" if data.repeat is None else f"{100 * data.repeat:.1f}"
        lines.append(f"| {data.name} | {len(data.rows)} | {repeat} | {data.rejected} |")
    return "\n".join(lines)


def sweeps_table(names: Sequence[str], rows: Sequence[Row]) -> str:
    """MAPE in percent on each sweep, and what is typical of them."""
    lines = ["| sweep | " + " | ".join(row["method"] for row in rows) + " | coverage of additive |"]
    lines.append("|---" * (len(rows) + 2) + "|")
    columns = [[100 * value for value in row["mape_by_split"]] for row in rows]
    columns.append([100 * value for value in rows[0]["coverage_by_split"]])
    for column in columns:
        column += [statistics.median(column), statistics.fmean(column)]
    for name, *numbers in zip([*names, "median", "mean"], *columns, strict=True):
        cells = [f"{number:.1f}" for number in numbers[:-1]] + [f"{numbers[-1]:.0f}%"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the CSV files")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="random splits at most")
    parser.add_argument("--out", type=Path, default=RESULTS / "recorded.json")
    parser.add_argument(
        "--no-docs", action="store_true", help="leave docs/paper/published.md alone"
    )
    options = parser.parse_args(arguments)
    folder: Path = options.data
    try:
        sets, swept = read_sets(folder), sweeps(folder)
    except DataError as error:
        parser.error(str(error))
    cases = make_cases(sets, swept, options.seeds)
    rows: list[Row] = []
    for case in cases:
        for method in METHODS:
            sys.stderr.write(f"\r{len(rows):3}/{len(cases) * len(METHODS):<3} {case.name:70.70}")
            rows.append(examine(case, method))
    sys.stderr.write("\n")

    machine = machine_line({})
    everything = [*sets.values(), *swept]
    whole = {
        "machine": machine,
        "sources": SOURCES,
        "sets": [summary(data) for data in everything],
        "rows": rows,
    }
    options.out.write_text(json.dumps(whole, indent=1) + "\n")
    text = "\n\n".join(
        [
            f"Joules recorded by others: {SOURCES}",
            f"Fitted on: {machine}",
            table(rows),
            "Each sweep by itself, MAPE in percent:",
            sweeps_table([data.name for data in swept if len(data.rows) >= LONG], rows[-3:]),
            "`repeat` is the mean deviation of one repeat from the mean of its repeats, the floor"
            " for a single run (asked are the means); `rejected` rows are faults of a meter:",
            sets_table(everything),
        ]
    )
    print(text)
    if not options.no_docs:
        write_section("published.md", "recorded", text)


if __name__ == "__main__":
    main()
