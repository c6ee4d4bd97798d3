"""The paper's evaluation, as docs/paper keeps it.

    ampere reproduce -o build/paper --recorded DIR      # an hour and a quarter
    python benchmarks/paper.py build/paper

Copies what a full run has found: data, tables, figures as SVG, and journals packed by gzip. Whoever
has docs/paper redraws every figure with `ampere reproduce -o docs/paper`, without measuring, and
fits everything anew with `--refit`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from machine import DOCS, pack

from ampere_paper.experiments import EXPERIMENTS

COPIED = (
    "plan.json", "index.md", "recorded.md", "data/*.json", "tables/*.md", "figures/*.svg",
    "journals/*.ampere",
)  # fmt: skip
FOLDERS = ("data", "tables", "figures", "journals")  # of the run alone; pages by topic stay


def main() -> None:
    """Copy and pack."""
    run = Path(sys.argv[1])
    missing = [name for name in EXPERIMENTS if not (run / "data" / f"{name}.json").exists()]
    if missing:
        sys.exit(f"{run} lacks {', '.join(missing)}: finish it with `ampere reproduce --recorded`")
    for name in FOLDERS:
        shutil.rmtree(DOCS / name, ignore_errors=True)
    for path in sorted(path for pattern in COPIED for path in run.glob(pattern)):
        target = DOCS / path.relative_to(run)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    size = sum(pack(path).stat().st_size for path in DOCS.glob("journals/*.ampere"))
    print(f"{DOCS}: journals of {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
