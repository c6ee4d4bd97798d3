"""Start-up, reading, fitting and estimating times, as medians and as ratios to a bare interpreter.

python benchmarks/speed.py          # a minute; the table goes to docs/paper/speed.md
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from machine import machine_line, write_section

from ampere.core.layers import Layer
from ampere.estimators.paper import fit_paper
from ampere.profiles.estimate import estimate
from ampere.records.measurement import Measurement
from ampere.zoo.families import family_names


def median_s(action: Callable[[], object], repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def start_up() -> list[str]:
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import ampere": [sys.executable, "-c", "import ampere"],
        "ampere --help": [sys.executable, "-m", "ampere", "--help"],
        "import torch": [sys.executable, "-c", "import torch"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(9):  # interleaved, so that drift hits all alike
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            times[name].append(time.perf_counter() - start)
    bare = statistics.median(times["python -c pass"])
    return [
        f"| start-up: `{name}` | {1e3 * statistics.median(t):.0f} ms"
        f" | {statistics.median(t) / bare:.1f} × a bare interpreter |"
        for name, t in times.items()
    ]


def synthetic_rows(layers: tuple[Layer, ...]) -> list[Measurement]:
    """Measurements with a known cost: what they say does not matter here, how many does."""
    from ampere.acquisition.isolator import Isolator
    from ampere.acquisition.strategy import Strategy
    from ampere.pytorch.models import plan_variants

    profiler = Isolator(plan_variants(layers), Strategy(max_points=14, tolerance=1e-9))
    rows: list[Measurement] = []
    while not profiler.should_stop:
        for variant in profiler.ask(8):
            joules = sum(1e-3 + 1e-5 * sum(layer.widths.values()) for layer in variant.layers)
            row = Measurement(variant.layers, joules, joules, spread=0.02, repeats=10)
            rows.append(row)
            profiler.tell(row)
    return rows


def main() -> None:
    lines = ["| what | time | |", "|---|---|---|", *start_up()]
    from ampere.pytorch.models import read

    for name in family_names():
        read(f"zoo:{name}")  # caches of torch itself
        layers = read(f"zoo:{name}")
        reading = median_s(lambda name=name: read(f"zoo:{name}"), 3)  # type: ignore[misc]
        rows = synthetic_rows(layers)
        fit = fit_paper(rows)
        fitting = median_s(lambda rows=rows: fit_paper(rows), 3)  # type: ignore[misc]
        estimating = median_s(lambda layers=layers, fit=fit: estimate(layers, fit), 50)  # type: ignore[misc]
        lines.append(
            f"| {name}: read {len(layers)} layers, fit {len(rows)} measurements, estimate"
            f" | {1e3 * reading:.0f} ms, {fitting:.2f} s, {1e3 * estimating:.2f} ms"
            f" | reading takes {reading / estimating:.0f} × an estimate |"
        )
    text = f"Machine: {machine_line({})} Medians; the machine is shared.\n\n" + "\n".join(lines)
    print(text)
    write_section("speed.md", "speed", text)


if __name__ == "__main__":
    main()
