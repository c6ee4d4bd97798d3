"""Search under a budget of joules: what is found where no training job may take more than some?

    python benchmarks/search_budget.py             # about 25 minutes; --look: nothing is kept
    python benchmarks/search_budget.py --way even  # this one anew, beside the others that are kept
    python benchmarks/search_budget.py --tables    # the page from what is kept

Needs Optuna (`make test-integrations` has it). The search: depth, widths, batch size and optimiser
of a CNN on scikit-learn's digits at 16×16, a job of 8 epochs, at most LIMIT_J joules each. Four
ways, each with Optuna's TPE, the same seeds, and the same joules to spend in all:

    plain     every trial is run; its metered joules tell the sampler what exceeds the limit
    flops     those are refused whose FLOPs, at the profile's median joules per FLOP, exceed it
    joules    those are refused that ampere does not expect inside with 90 %
    even      those are refused that it expects outside: even odds, for whoever only wants to find

Refusing costs joules too, and is counted; so is profiling, in a line of its own. A trial counts if
its own joules, metered while it trained, are inside. One thread, freed memory is kept; the meter is
the model of the processor (`cpu`): joules are modelled from CPU time, not measured.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import optuna
import torch
from machine import RESULTS, machine_line, write_section
from torch import nn

import ampere
from ampere.datasets.digits import open_digits
from ampere.datasets.samples import Dataset, Samples
from ampere.integrations.optuna import EnergyBudget
from ampere.meters.registry import open_meter
from ampere.pytorch.models import read

KEPT = RESULTS / "search_budget.json"
SHAPE, EPOCHS = (1, 16, 16), 8
WIDEST, DEEPEST = 96, 4
BATCHES, OPTIMIZERS = (16, 32, 64), ("momentum", "adam")
PROFILED = (16, 64)  # batch sizes; between them it is estimated
LIMIT_J, TOTAL_J, LOOK_J, SEEDS, NETWORKS = 8.0, 400.0, 60.0, 3, 8
MOST_TRIALS = 1000  # where nearly all are refused
WAYS = {
    "plain": "nothing (plain)",
    "flops": "flops",
    "joules": "joules",
    "even": "joules, even odds",
}
CONFIDENCES = {"joules": 0.9, "even": 0.5}
SHARES = (0.25, 0.5, 1.0)  # of all joules, at which accuracies are told


@dataclass(frozen=True)
class Run:
    """One trial: what the search had spent after it, and what came of it."""

    spent_j: float
    training_j: float  # 0 if it was refused
    expected_j: float
    accuracy: float | None

    @property
    def inside(self) -> bool:
        """Whether it ran, and kept its limit."""
        return self.accuracy is not None and self.training_j <= LIMIT_J


@dataclass(frozen=True)
class Search:
    """All trials of one way and seed."""

    way: str
    seed: int
    profiling_j: float
    runs: tuple[Run, ...]

    def best(self, spent_j: float) -> float:
        """The best accuracy inside the limit that was reached with so many joules."""
        known = [run.accuracy for run in self.runs if run.inside and run.spent_j <= spent_j]
        return max((each for each in known if each is not None), default=0.0)


class Digits(nn.Sequential):
    """Convolutions, of which the first two halve the map, and a linear layer."""

    def __init__(self, widths: Sequence[int]) -> None:
        parts: list[nn.Module] = []
        for number, (entering, leaving) in enumerate(zip((1, *widths), widths, strict=False)):
            parts += [nn.Conv2d(entering, leaving, 3, padding=1), nn.ReLU()]
            parts += [nn.MaxPool2d(2)] if number < 2 else []
        parts += [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * widths[-1], 10)]
        super().__init__(*parts)


def tensors(samples: Samples) -> tuple[torch.Tensor, torch.Tensor]:
    """All of them at once: loading is in no figure of ampere."""
    ((images, labels),) = samples.in_order(len(samples))
    return torch.from_numpy(images), torch.from_numpy(labels)


def profile_space(folder: Path, seed: int, look: bool) -> ampere.Profile:
    """Networks of all depths, at two batch sizes and with both optimisers; a look may be busy."""
    path = folder / "digits.ampere"
    depths = [Digits([WIDEST] * depth) for depth in range(1, DEEPEST + 1)]
    settings = ampere.Settings(threads=1)
    with ampere.LocalDevice(settings, meter="cpu") as device:
        for batch_size in PROFILED:
            for optimizer in OPTIMIZERS:
                done = len(ampere.Profile.load(path).measurements) if path.exists() else 0
                profile = ampere.profile(
                    depths[-1],
                    SHAPE,
                    path=path,
                    device=device,
                    training=ampere.Training(batch_size, optimizer),
                    candidates=depths,
                    effort=ampere.Effort(accept_busy=look),
                    strategy=ampere.Strategy(
                        max_measurements=done + NETWORKS, seed=seed, tolerance=0.001
                    ),
                )
    return profile


def train(model: nn.Module, data: Dataset, batch_size: int, optimizer: str, seed: int) -> float:
    """Train it; returns the joules that took, modelled from CPU time."""
    images, labels = tensors(data.train)
    updates: torch.optim.Optimizer = (
        torch.optim.Adam(model.parameters(), 1e-3)
        if optimizer == "adam"
        else torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9)
    )
    shuffled = torch.Generator().manual_seed(seed)
    meter = open_meter("cpu")
    begin = meter.read().energy_j
    for _ in range(EPOCHS):
        order = torch.randperm(len(images), generator=shuffled)
        for at in order[: len(order) // batch_size * batch_size].view(-1, batch_size):
            updates.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(model(images[at]), labels[at]))
            updates.step()
    return meter.read().energy_j - begin


class Objective:
    """A trial of the search, and what all trials so far have taken."""

    def __init__(self, way: str, profile: ampere.Profile, data: Dataset, seed: int) -> None:
        self.way, self.profile, self.data, self.seed = way, profile, data, seed
        confidence = CONFIDENCES.get(way, 0.9)
        self.budget = EnergyBudget(profile, energy=LIMIT_J, confidence=confidence)
        rows = [row for row in profile.measurements if row.failed is None]
        flops = [sum((x.features.flops or 0.0) * x.count for x in row.layers) for row in rows]
        prices = [row.energy_j / each for row, each in zip(rows, flops, strict=True)]
        self.joules_per_flop = statistics.median(prices)
        self.runs: list[Run] = []
        self.meter = open_meter("cpu")
        self.begin_j = self.meter.read().energy_j

    def __call__(self, trial: optuna.Trial) -> float:
        """The accuracy on validation samples."""
        depth = trial.suggest_int("depth", 1, DEEPEST)
        widths = [trial.suggest_int(f"width{i}", 4, WIDEST, log=True) for i in range(depth)]
        batch_size = trial.suggest_categorical("batch_size", BATCHES)
        optimizer = trial.suggest_categorical("optimizer", OPTIMIZERS)
        torch.manual_seed(self.seed)
        model = Digits(widths)
        training = ampere.Training(batch_size, optimizer)
        steps = EPOCHS * (len(self.data.train) // batch_size)
        expected_j, refusal = self._expect(trial, model, training, steps)
        if refusal is not None:
            self._note(0.0, expected_j, None)
            raise optuna.TrialPruned(refusal)
        training_j = train(model, self.data, batch_size, optimizer, self.seed)
        if self.way == "plain":  # the others are told before; it learns from its meter
            trial.set_constraint("joules", training_j / LIMIT_J - 1)
        accuracy = self._accuracy(model)
        self._note(training_j, expected_j, accuracy)
        return accuracy

    def _expect(
        self, trial: Any, model: nn.Module, training: ampere.Training, steps: int
    ) -> tuple[float, str | None]:
        """What is expected of a trial, and why it is refused, if it is."""
        if self.way in CONFIDENCES:
            verdict = self.budget.judge(trial, model, SHAPE, steps=steps, training=training)
            return verdict.estimate.energy_j, verdict.refusal
        if self.way == "plain":
            return 0.0, None
        layers = read(model, SHAPE, training)
        counted = sum((layer.features.flops or 0.0) * layer.count for layer in layers)
        expected_j = steps * counted * self.joules_per_flop
        trial.set_constraint("flops", expected_j / LIMIT_J - 1)  # it learns as the others do
        return expected_j, "too many FLOPs" if expected_j > LIMIT_J else None

    def _accuracy(self, model: nn.Module) -> float:
        images, labels = tensors(self.data.validation)
        with torch.no_grad():
            return float((model(images).argmax(1) == labels).float().mean())

    def _note(self, training_j: float, expected_j: float, accuracy: float | None) -> None:
        spent_j = self.meter.read().energy_j - self.begin_j
        self.runs.append(Run(spent_j, training_j, expected_j, accuracy))


def search(way: str, profile: ampere.Profile, seed: int, total_j: float) -> Search:
    objective = Objective(way, profile, open_digits(SHAPE, seed), seed)

    def stop(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        spent_j = objective.runs[-1].spent_j
        sys.stderr.write(f"\r{way} {seed}: {len(objective.runs)} trials, {spent_j:.0f} J   ")
        if spent_j >= total_j:
            study.stop()

    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=8)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, n_trials=MOST_TRIALS, callbacks=[stop])
    sys.stderr.write("\n")
    return Search(way, seed, profile.profiling_j, tuple(objective.runs))


def spread(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{statistics.fmean(values):.1%} ({low:.1%} to {high:.1%})"


def lines(searches: Sequence[Search], total_j: float) -> Iterator[str]:
    """The tables, in Markdown."""
    seeds = len({each.seed for each in searches})
    yield (
        "Joules are modelled from CPU time (meter `cpu`), not measured."
        f" A job may take {LIMIT_J:g} J, a search {total_j:g} J; {seeds} seeds."
    )
    yield ""
    shares = " | ".join(f"best after {share * total_j:.0f} J" for share in SHARES)
    yield f"| refused by | run | refused | run and over the limit | joules of these | {shares} |"
    yield "|---" * (5 + len(SHARES)) + "|"
    for way, name in WAYS.items():
        own = [each for each in searches if each.way == way]
        if not own:
            continue
        runs = [run for each in own for run in each.runs]
        ran = [run for run in runs if run.accuracy is not None]
        over = [run for run in ran if not run.inside]
        wasted = sum(run.training_j for run in over) / sum(each.runs[-1].spent_j for each in own)
        cells = [spread([each.best(share * total_j) for each in own]) for share in SHARES]
        yield (
            f"| {name} | {len(ran)}"
            f" | {len(runs) - len(ran)} | {len(over)} | {wasted:.0%} | {' | '.join(cells)} |"
        )
    own = [each for each in searches if each.way == "joules"]
    left = spread([each.best(total_j - each.profiling_j) for each in own])
    cost = statistics.fmean(each.profiling_j for each in own)
    yield ""
    yield (
        f"Profiling took {cost:.0f} J on average, once for all searches on a device. Charged to one"
        f" search, so much less is left, and `joules` reaches {left}. Best is on validation"
        " samples, of trials whose own joules were inside the limit."
    )
    guided = [each for each in searches if each.way in CONFIDENCES]
    estimated = [run for each in guided for run in each.runs if run.accuracy is not None]
    if estimated:
        errors = [run.training_j / run.expected_j - 1 for run in estimated]
        typical = statistics.fmean(map(abs, errors))
        yield ""
        yield (
            f"Trials that estimates let run were {typical:.1%} off these on average, with a bias of"
            f" {statistics.fmean(errors):+.1%}."
        )


def kept_searches() -> list[Search]:
    """What was searched before."""
    rows = json.loads(KEPT.read_text())["searches"]
    return [Search(**{**row, "runs": tuple(Run(**run) for run in row["runs"])}) for row in rows]


def search_all(ways: Sequence[str], look: bool) -> list[Search]:
    """Each seed with a profile of its own."""
    torch.set_num_threads(1)
    ampere.keep_memory()  # as networks do that are measured: jobs then take what is estimated
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    searches = []
    for seed in range(1 if look else SEEDS):
        with tempfile.TemporaryDirectory() as folder:
            profile = profile_space(Path(folder), seed, look)
        searches += [search(way, profile, seed, LOOK_J if look else TOTAL_J) for way in ways]
    return searches


def main() -> None:
    """Search in all ways, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--look", action="store_true", help="one seed, few joules, nothing kept")
    parser.add_argument("--way", choices=WAYS, help="this one anew; the others as they are kept")
    parser.add_argument("--tables", action="store_true", help="the page from what is kept")
    arguments = parser.parse_args()
    total_j = LOOK_J if arguments.look else TOTAL_J
    searches, machine = [], machine_line({"threads": "1", "meter": "cpu (modelled)"})
    if arguments.tables or arguments.way:
        searches = [each for each in kept_searches() if each.way != arguments.way]
    if arguments.tables:
        machine = json.loads(KEPT.read_text())["machine"]
    else:
        searches += search_all([arguments.way] if arguments.way else list(WAYS), arguments.look)
    text = "\n".join([f"Machine: {machine}", "", *lines(searches, total_j)])
    print(text)
    if not arguments.look:
        kept = {"machine": machine, "searches": [asdict(each) for each in searches]}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
        write_section("search.md", "search_budget", text)


if __name__ == "__main__":
    main()
