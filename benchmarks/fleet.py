"""Fleets: what plans by joules are worth, and whether batteries hold as surely as is said.

    python benchmarks/fleet.py --data DIR        # all of it; without published data, no zeus
    python benchmarks/fleet.py --parts planning
    python benchmarks/fleet.py --tables          # of what is kept

Each part is a module `fleet_<part>.py` with `run(options) -> rows` and `page(rows) -> text`. Rows
go to benchmarks/results/fleet.json, tables to docs/paper/fleet.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from machine import RESULTS, machine_line, write_section

from ampere.errors import AmpereError

PARTS = ("planning", "calibration", "zeus")
KEPT = RESULTS / "fleet.json"


def kept() -> dict[str, Any]:
    """What was found before, by part."""
    return dict(json.loads(KEPT.read_text())) if KEPT.exists() else {}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="all that there are data for")
    parser.add_argument("--data", type=Path, metavar="DIR", help="published measurements (zeus)")
    parser.add_argument("--quick", action="store_true", help="little of all, and nothing is kept")
    parser.add_argument("--tables", action="store_true", help="only write the page")
    options = parser.parse_args(arguments)
    known = PARTS if options.data or options.tables else PARTS[:2]
    for part in options.parts or known:
        module = importlib.import_module(f"fleet_{part}")
        found = kept().get(part)
        if not options.tables:
            try:
                rows = module.run(options)
            except AmpereError as error:
                parser.error(str(error))
            found = {"machine": machine_line({}), "rows": rows}
            if not options.quick:
                KEPT.write_text(json.dumps(kept() | {part: found}, indent=1) + "\n")
        if found is None:
            parser.error(f"nothing is kept of {part}: run it first")
        text = f"{module.page(found['rows'])}\n\nMade on: {found['machine']}"
        print(text)
        if not options.quick:
            write_section("fleet.md", f"fleet {part}", text)


if __name__ == "__main__":
    main()
