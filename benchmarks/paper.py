"""The paper's evaluation, as docs/results.md and docs/paper keep it.

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

from machine import DOCS, pack, write_section

from ampere_paper.experiments import EXPERIMENTS

PAPER = DOCS.parent / "paper"
COPIED = (
    "plan.json", "index.md", "recorded.md", "data/*.json", "tables/*.md", "figures/*.svg",
    "journals/*.ampere",
)  # fmt: skip
LINKS = {
    "recorded.md, recorded.html": "paper/recorded.md",
    "journals/": "paper/journals",
    "data/": "paper/data",
}


def main() -> None:
    """Copy, pack, and put the page between its markers."""
    run = Path(sys.argv[1])
    missing = [name for name in EXPERIMENTS if not (run / "data" / f"{name}.json").exists()]
    if missing:
        sys.exit(f"{run} lacks {', '.join(missing)}: finish it with `ampere reproduce --recorded`")
    shutil.rmtree(PAPER, ignore_errors=True)
    for path in sorted(path for pattern in COPIED for path in run.glob(pattern)):
        target = PAPER / path.relative_to(run)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    size = sum(pack(path).stat().st_size for path in PAPER.glob("journals/*.ampere"))
    _, _, page = (run / "index.md").read_text(encoding="utf-8").partition("\n")
    page = page.replace("\n## ", "\n### ").replace("](figures/", "](paper/figures/")
    for name, place in LINKS.items():
        page = page.replace(name, f"[{place}]({place})", 1)
    write_section("paper", page)
    print(f"{PAPER}: journals of {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
