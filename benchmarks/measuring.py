"""What disturbances, drift and thrift do to measurements, with this code and with that before it.

    python benchmarks/measuring.py                        # all parts, 45 to 55 minutes on 2 cores
    python benchmarks/measuring.py --parts matrix,speed
    python benchmarks/measuring.py --tables               # anew, from what was kept
    python benchmarks/measuring.py --quick                # does it run? a few minutes

The code before is a git worktree in build/before, removed at the end; its commands run in processes
of their own, in turn with those of this code and never beside them.

    matrix    20 minutes  `ampere measure` beside other work, against what it says undisturbed
    repeats    6 minutes  how sittings agree, raw and corrected, as it is and with a drift on top
    speed      6 minutes  seconds of `ampere measure` and of `ampere profile`
    accuracy  20 minutes  estimates from profiles of both, against members metered by plain bursts

Tables go to docs/paper/measuring.md, what they are made of to benchmarks/results; with --quick only
the latter, to build. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from machine import RESULTS, machine_line, write_section
from measured.accuracy import ACCURACY, meter
from measured.codes import BEFORE, ROOT, Code, worktree
from measured.disturbances import PROGRAMS, disturb
from measured.matrix import MATRIX
from measured.part import QUICK, Part, Scale, say
from measured.repeats import REPEATS
from measured.speed import SPEED

import ampere
from ampere.core.types import Json
from ampere.errors import AmpereError
from ampere.records.measurement import utc_now

PAGE = "measuring.md"
PARTS: Mapping[str, Part] = {
    "matrix": MATRIX,
    "repeats": REPEATS,
    "speed": SPEED,
    "accuracy": ACCURACY,
}


def kept_as(part: str, quick: bool) -> Path:
    return (ROOT / "build" if quick else RESULTS) / f"measuring_{part}.json"


def show(part: str, quick: bool) -> None:
    """Print the table of what was kept, and put it on its page."""
    path = kept_as(part, quick)
    if not path.exists():
        say(f"{part}: nothing is kept")
        return
    data = json.loads(path.read_text(encoding="utf-8"))
    text = "\n".join([f"Machine: {data['machine']}", "", *PARTS[part].table(data)])
    print(f"{text}\n", flush=True)
    if not quick:
        write_section(PAGE, part, text)


def run_parts(parts: Sequence[str], before: str, quick: bool) -> list[str]:
    """One part after the other, kept as it comes; returns those that were broken off."""
    broken = []
    if not Path(ampere.__file__).is_relative_to(ROOT):
        raise SystemExit(f"{ampere.__file__} is not of {ROOT}: set PYTHONPATH")
    framework = {"framework": f"torch {version('torch')}"}
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        codes = {"new": Code("new", ROOT, home)}
        if any(PARTS[part].needs_before for part in parts):
            codes["old"] = Code("old", stack.enter_context(worktree(before)), home)
        for code in codes.values():
            code.verify()
        for part in parts:
            about = {"machine": machine_line(framework), "date": utc_now(), "before": before}
            path = kept_as(part, quick)
            path.parent.mkdir(exist_ok=True)

            def keep(data: Mapping[str, Json], path: Path = path, about: Any = about) -> None:
                path.write_text(json.dumps({**about, **data}, indent=1) + "\n", encoding="utf-8")

            say(f"{part} begins")
            try:
                PARTS[part].run(QUICK if quick else Scale(), codes, keep)
            except AmpereError as error:
                say(f"{part} was broken off: {error}")
                broken.append(part)
            else:
                show(part, quick)
    return broken


def leave(number: int, frame: object) -> None:
    """End as after Ctrl-C, so that whatever was started ends, too."""
    raise SystemExit(128 + number)


def main() -> None:
    """Run the parts that are wanted, or only make their tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--before", default=BEFORE, metavar="REV")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--disturb", choices=PROGRAMS, help=argparse.SUPPRESS)
    parser.add_argument("--meter", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.disturb:
        disturb(options.disturb)
        return
    if options.meter:
        print(json.dumps(meter(options.meter, (QUICK if options.quick else Scale()).members)))
        return
    parts = options.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    if options.tables:
        for part in parts:
            show(part, options.quick)
        return
    if broken := run_parts(parts, options.before, options.quick):
        raise SystemExit(f"broken off: {', '.join(broken)}")
    say("done")


if __name__ == "__main__":
    main()
