"""Questions to published energies by which nothing of the method was chosen.

    python benchmarks/fresh.py --data DIR     # some minutes; writes a section of published.md

The form of the additive method was chosen by the questions of `recorded.py`. Here are others, which
were asked once it was fixed (2026-11-18): pooling layers, which nobody had looked at; all layers of
Raptorlake together; a half, a quarter and less of the rows that are known there; jobs of the Zeus
traces on each GPU by itself. The same methods and scores as there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from machine import RESULTS, machine_line, write_section
from recorded import EXPLAINED, examine_all, ratio_table, table

from ampere.errors import DataError
from ampere_paper.published import ecnas, gpus, intel, zeus
from ampere_paper.published.cases import Case, drawn, on_each
from ampere_paper.published.datasets import ALL_FILES, ALL_SOURCES, refuse_incomplete
from ampere_paper.published.extracts import Recorded


def questions(folder: Path, seeds: int) -> list[Case]:
    """What is asked, with so many random splits at most."""
    few = min(seeds, 3)
    pools = intel.raptorlake_pools(folder)
    conv, linear = (intel.raptorlake(folder, name) for name in ("conv", "linear"))
    rows = (*conv.rows, *linear.rows, *pools.rows)
    rejected = conv.rejected + linear.rejected + pools.rejected
    mixed = Recorded("Raptorlake, all layers", rows, rejected, None)
    networks, devices, jobs = ecnas.read(folder), gpus.read(folder), zeus.read(folder)
    return [
        *(drawn(pools, n, few, bar=None) for n in (40, 160)),
        drawn(mixed, 240, few, bar=None),
        *(drawn(data, n, few, bar=None) for data in (conv, linear) for n in (40, 80)),
        *(drawn(networks, n, seeds, bar=None) for n in (6, 10)),
        *(each_of(devices, "GPU linear", n, few) for n in (10, 20, 80)),
        *(each_of(jobs, "Zeus' jobs", n, few) for n in (20, 40)),
    ]


def each_of(every: Sequence[Recorded], name: str, n: int, seeds: int) -> Case:
    """Some rows of each device by itself; jobs have no tags that answers are counted by."""
    case = on_each(every, n, seeds, bar=0.0)
    return replace(case, name=f"{name}, any {n} of each of {len(every)}", bar=None, parts=())


def main() -> None:
    """Ask all, print the tables and keep them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the files")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="random splits at most")
    options = parser.parse_args()
    try:
        refuse_incomplete(options.data, (*ALL_FILES, zeus.FILE))
        cases = questions(options.data, options.seeds)
    except DataError as error:
        parser.error(str(error))
    rows, machine = examine_all(cases), machine_line({})
    whole = {"machine": machine, "rows": rows}
    (RESULTS / "fresh.json").write_text(json.dumps(whole, indent=1) + "\n")
    parts = [
        f"{ALL_SOURCES} {zeus.SOURCE}",
        f"Fitted on: {machine}",
        table(rows),
        EXPLAINED,
        ratio_table(rows),
    ]
    text = "\n\n".join(parts)
    print(text)
    write_section("published.md", "fresh", text)


if __name__ == "__main__":
    main()
