"""Start-up, estimating twice, reading, fitting: times as medians, and ratios.

python benchmarks/speed.py     # minutes, on a quiet machine; the table goes to docs/paper/speed.md
"""

from __future__ import annotations

import gzip
import inspect
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from machine import RESULTS, machine_line, write_section

from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.estimators.fitting import fit_additive
from ampere.estimators.paper import fit_paper
from ampere.estimators.processes import sum_process
from ampere.estimators.solution import rebuild, solution_of
from ampere.profiles.estimate import estimate
from ampere.profiles.fit_cache import FitCache
from ampere.profiles.profile import Profile
from ampere.records.journal import read_journal
from ampere.records.measurement import Measurement
from ampere.zoo.families import family_names

if TYPE_CHECKING:
    from torch import nn

PROFILE = "additive_lenet5_first.ampere.gz"  # of 40 networks
SURVEYS = ("any_model_2_survey.ampere.gz", "any_model_1_survey.ampere.gz")  # ten minutes, twenty


def median_s(action: Callable[[], object], repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def interleaved_s(commands: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each command; in turn, so that drift hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            start = time.perf_counter()
            command()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def process(*arguments: str) -> Callable[[], object]:
    command = [sys.executable, *arguments]
    return lambda: subprocess.run(command, check=True, capture_output=True)


def start_up() -> list[str]:
    medians = interleaved_s(
        {
            "python -c pass": process("-c", "pass"),
            "import ampere": process("-c", "import ampere"),
            "ampere --help": process("-m", "ampere", "--help"),
            "import torch": process("-c", "import torch"),
        },
        repeats=9,
    )
    bare = medians["python -c pass"]
    return [
        f"| start-up: `{name}` | {1e3 * seconds:.0f} ms"
        f" | {seconds / bare:.1f} × a bare interpreter |"
        for name, seconds in medians.items()
    ]


def estimate_twice(repeats: int = 7) -> list[str]:
    """The same question twice, as a user asks it: the second time its fit is kept."""
    with tempfile.TemporaryDirectory() as folder:
        path, layers = Path(folder) / "lenet5.ampere", Path(folder) / "layers.json"
        journal = gzip.decompress((RESULTS / PROFILE).read_bytes())
        path.write_bytes(journal)
        networks = journal.count(b"\n") - 1
        row = json.loads(journal.splitlines()[1])
        layers.write_text(json.dumps({"layers": row["layers"]}))
        ask = ("-m", "ampere", "estimate", "--profile", str(path), "--json")

        def first(*arguments: str) -> Callable[[], object]:
            def run() -> None:
                FitCache.of(journal).path.unlink(missing_ok=True)
                process(*ask, *arguments)()

            return run

        questions: Sequence[tuple[str, tuple[str, ...]]] = (
            ("zoo:lenet5", ("zoo:lenet5",)),
            ("--layers FILE", ("--layers", str(layers))),
        )
        lines = []
        for name, arguments in questions:
            medians = interleaved_s(
                {"first": first(*arguments), "second": process(*ask, *arguments)}, repeats
            )
            once, twice = medians["first"], medians["second"]
            lines.append(
                f"| `ampere estimate {name}`, {networks} networks: first call, second call"
                f" | {once:.2f} s, {twice:.2f} s | {once / twice:.1f} × as fast |"
            )
        return lines


def threads(repeats: int = 5) -> list[str]:
    """What one thread for linear algebra brings to a fit."""
    _, rows = read_journal(RESULTS / PROFILE)

    def all_threads() -> None:
        with (
            mock.patch.object(sum_process, "fit", inspect.unwrap(sum_process.fit)),
            mock.patch.object(sum_process, "condition", inspect.unwrap(sum_process.condition)),
        ):
            fit_additive(rows)

    fit_additive(rows)  # loads scipy
    medians = interleaved_s({"one": lambda: fit_additive(rows), "all": all_threads}, repeats)
    return [
        f"| additive fit of {len(rows)} networks: one thread, all threads"
        f" | {medians['one']:.2f} s, {medians['all']:.2f} s"
        f" | {medians['all'] / medians['one']:.1f} × as fast in one |"
    ]


def synthetic_rows(layers: tuple[Layer, ...]) -> list[Measurement]:
    """Measurements with a known cost: what they say does not matter here, how many does."""
    from ampere.acquisition.isolator import Isolator
    from ampere.acquisition.strategy import Strategy
    from ampere.frameworks.models import plan_variants

    profiler = Isolator(plan_variants(layers), Strategy(max_points=14, tolerance=1e-9))
    rows: list[Measurement] = []
    while not profiler.should_stop:
        for variant in profiler.ask(8):
            joules = sum(1e-3 + 1e-5 * sum(layer.widths.values()) for layer in variant.layers)
            row = Measurement(variant.layers, joules, joules, spread=0.02, repeats=10)
            rows.append(row)
            profiler.tell(row)
    return rows


def resnet50() -> nn.Module:
    """ResNet-50, of the zoo's blocks."""
    from torch import nn

    from ampere.zoo.resnet import Bottleneck

    blocks, inputs = [], 64
    for width, many in ((256, 3), (512, 4), (1024, 6), (2048, 3)):
        for number in range(many):
            blocks.append(Bottleneck(inputs, width, 2 if width > 256 and not number else 1))
            inputs = width
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)]
    return nn.Sequential(*stem, nn.MaxPool2d(3, 2, 1), *blocks, *head)


def written_now(profile: Profile) -> bytes:
    """Its file as it is written today: older ones say the same at greater length."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "survey.ampere"
        profile.save(path)
        return path.read_bytes()


def surveys(repeats: int = 50) -> list[str]:
    """Kept surveys: their files, what loading, fitting and rebuilding take, and an estimate."""
    from ampere.pytorch.models import read

    layers, lines = read(resnet50(), "3x224x224", Training(8)), []
    for name in SURVEYS:
        journal = written_now(Profile.parse(name, gzip.decompress((RESULTS / name).read_bytes())))
        loading = median_s(partial(Profile.parse, name, journal), 3)
        profile = Profile.parse(name, journal)
        rows = profile.measurements
        start = time.perf_counter()
        kept = json.loads(json.dumps(solution_of(profile.fit, rows)))
        fitting = time.perf_counter() - start
        again = median_s(partial(rebuild, kept, rows, "additive", "matern52"), 3)
        asking = median_s(partial(profile.estimate, layers), repeats)
        what = f"survey of {len(rows)} networks, {len(journal) / 1e6:.2f} MB"
        lines += [
            f"| {what}: load, fit, rebuild a fit that was kept"
            f" | {loading:.2f} s, {fitting:.1f} s, {again:.2f} s"
            f" | rebuilt {fitting / again:.0f} × as fast |",
            f"| {what}: estimate of a ResNet-50 ({len(layers)} layers) once it is read"
            f" | {1e3 * asking:.0f} ms | |",
        ]
    return lines


def main() -> None:
    parts = (start_up, estimate_twice, threads, surveys)
    lines = ["| what | time | |", "|---|---|---|", *(line for part in parts for line in part())]
    from ampere.pytorch.models import read

    for name in family_names():
        read(f"zoo:{name}")  # caches of torch itself
        layers = read(f"zoo:{name}")
        reading = median_s(partial(read, f"zoo:{name}"), 3)
        rows = synthetic_rows(layers)
        fit = fit_paper(rows)
        fitting = median_s(partial(fit_paper, rows), 3)
        estimating = median_s(partial(estimate, layers, fit), 50)
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
