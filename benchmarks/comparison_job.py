"""One small training job, under one tracker, in a process of its own.

    python benchmarks/comparison_job.py --way codecarbon --folder DIR --epoch-steps 200

`benchmarks/comparison.py` starts it, and reads what the tracker printed. The job is the same for
all: a CNN on images by chance, one thread, the same seeds. What the tracker takes is timed apart:
to import and start it, its calls among the steps, to end it.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

EPOCHS, BATCH, BATCHES, WARM_UP = 6, 32, 16, 20
IMAGE = (3, 32, 32)
LEARNING_RATE = 0.01
COUNTRY = "FRA"  # CodeCarbon's offline tracker wants one; joules do not depend on it
LOOK_S = 1  # as often as carbontracker and a gate look by default; CodeCarbon's default is 15


def build(first: int = 16, second: int = 32, third: int = 64) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, first, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(second * 64, third),
        nn.ReLU(),
        nn.Linear(third, 10),
    )


class Way:
    """Nobody watches. Others say what they do at the start, among the steps, and at the end."""

    def __init__(self, folder: Path, steps: int) -> None:
        self.folder = folder
        self.steps = steps

    def start(self, model: nn.Module) -> None:
        """Import it and begin."""

    def epoch_start(self) -> None:
        """An epoch begins."""

    def step(self) -> None:
        """A step was made."""

    def epoch_end(self) -> None:
        """An epoch ended."""

    def stop(self) -> dict[str, Any]:
        """End; what it said that is not printed."""
        return {}


class CodeCarbon(Way):
    """Its offline tracker, as its documentation shows it; it looks at the machine as a whole."""

    def start(self, model: nn.Module) -> None:
        from codecarbon import OfflineEmissionsTracker

        self._tracker = OfflineEmissionsTracker(
            country_iso_code=COUNTRY, measure_power_secs=LOOK_S, output_dir=str(self.folder)
        )
        self._tracker.start()

    def stop(self) -> dict[str, Any]:
        self._tracker.stop()
        said = self._tracker.final_emissions_data
        joules = 3.6e6 * said.energy_consumed
        parts = {"cpu_j": 3.6e6 * said.cpu_energy, "ram_j": 3.6e6 * said.ram_energy}
        return {"after_j": joules, "after_s": said.duration, **parts, "cpu": said.cpu_model}


class Carbontracker(Way):
    """It is told of epochs; what it says, it prints."""

    def start(self, model: nn.Module) -> None:
        from carbontracker.tracker import CarbonTracker

        self._tracker = CarbonTracker(
            epochs=EPOCHS, monitor_epochs=EPOCHS, update_interval=LOOK_S, interpretable=False
        )

    def epoch_start(self) -> None:
        self._tracker.epoch_start()

    def epoch_end(self) -> None:
        self._tracker.epoch_end()

    def stop(self) -> dict[str, Any]:
        self._tracker.stop()  # says nothing more if all epochs were seen
        return {}


class Ampere(Way):
    """An estimate from a profile, a gate with a budget of half as much again, its meter's total."""

    def start(self, model: nn.Module) -> None:
        import ampere

        profile = ampere.Profile.load(self.folder / "job.ampere")
        estimate = profile.estimate(model, IMAGE, steps=self.steps)
        self._said: dict[str, Any] = {
            "before_j": estimate.energy_j,
            "before_j_interval": estimate.energy_j_interval,
            "before_s": estimate.time_s,
            "before_s_interval": estimate.time_s_interval,
            "during": [],
        }
        self._gate = ampere.gate(
            model, IMAGE, profile=profile, steps=self.steps, budget="150%", on_refusal="warn"
        )
        self._gate.start()
        self._seen: object = None

    def step(self) -> None:
        self._gate.step()
        status = self._gate.status
        if status is not self._seen and status is not None:
            self._seen = status
            self._said["during"].append(
                {
                    "step": status.step,
                    "spent_j": status.spent_j,
                    "forecast_j": status.forecast_j,
                    "forecast_j_interval": status.forecast_j_interval,
                    "verdict": status.verdict.value,
                }
            )

    def stop(self) -> dict[str, Any]:
        self._gate.finish()
        status = self._gate.status
        return {
            **self._said,
            "after_j": self._gate.spent_j,
            "after_s": status.elapsed_s if status else None,
            "provenance": status.provenance.value if status else None,
            "stopped": self._gate.should_stop,
        }


class AmpereKept(Ampere):
    """The same, in a process that keeps freed memory, as networks do that are measured."""

    def start(self, model: nn.Module) -> None:
        import ampere

        ampere.keep_memory()
        super().start(model)


WAYS = {
    "plain": Way,
    "codecarbon": CodeCarbon,
    "carbontracker": Carbontracker,
    "ampere": Ampere,
    "ampere_kept": AmpereKept,
}


class Job:
    """The network, its data and its optimiser, from fixed seeds."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = build()
        self._optimizer = torch.optim.SGD(self.model.parameters(), lr=LEARNING_RATE)
        self._batches = [
            (torch.randn(BATCH, *IMAGE), torch.randint(10, (BATCH,))) for _ in range(BATCHES)
        ]
        for step in range(WARM_UP):
            self.step(step)

    def step(self, number: int) -> float:
        """Train on one batch."""
        images, labels = self._batches[number % BATCHES]
        self._optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        return loss.item()


def page_faults() -> int:
    """So far, without those that read a disk: memory that was given back, and is asked for."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def run(way: Way, job: Job, epoch_steps: int) -> dict[str, Any]:
    """Train under a tracker, and time all of it."""
    begun_s = time.perf_counter()
    way.start(job.model)
    started_s, started_cpu_s, faults = time.perf_counter(), time.process_time(), page_faults()
    calls_s, loss = 0.0, 0.0
    for epoch in range(EPOCHS):
        before_s = time.perf_counter()
        way.epoch_start()
        calls_s += time.perf_counter() - before_s
        for step in range(epoch_steps):
            loss = job.step(epoch * epoch_steps + step)
            way.step()
        before_s = time.perf_counter()
        way.epoch_end()
        calls_s += time.perf_counter() - before_s
    ended_s, ended_cpu_s = time.perf_counter(), time.process_time()
    faults = page_faults() - faults
    said = way.stop()
    return {
        **said,
        "start_s": started_s - begun_s,
        "train_s": ended_s - started_s,
        "train_cpu_s": ended_cpu_s - started_cpu_s,
        "faults": faults,
        "epoch_calls_s": calls_s,
        "stop_s": time.perf_counter() - ended_s,
        "loss": loss,
    }


def main() -> None:
    """Run the job once; what was said and timed goes into a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", choices=list(WAYS), required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--epoch-steps", type=int, required=True)
    options = parser.parse_args()
    way = WAYS[options.way](options.folder, EPOCHS * options.epoch_steps)
    said = run(way, Job(), options.epoch_steps)
    (options.folder / "said.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main()
