"""Stages of a step: how well calls tell what validation takes, and what accumulating saves.

    python benchmarks/stages.py            # all models, some minutes
    python benchmarks/stages.py --tables   # of what is kept

A validation (forward pass and loss, without gradients, in evaluation mode), and four accumulated
batches with one update, are run in turns with whole steps, in CPU-seconds of one thread: medians of
nine rounds. Beside them stands what `profiles/jobs/stage_shares.py` counts from the layers' calls.
The table goes to docs/paper/stages.md.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, machine_line, write_section

from ampere.core.training import Training
from ampere.core.workloads import ModelSpec, Settings, Workload
from ampere.devices.memory import keep_memory
from ampere.profiles.jobs.stage_shares import stage_shares
from ampere.pytorch.models import read
from ampere.pytorch.runtime.trainer import Trainer, make_trainer
from ampere.zoo.families import family_names, find_family

OWN = Path(__file__).with_name("models.py")
BATCHES, ROUNDS, ROUND_S = 4, 9, 0.02
KEPT = RESULTS / "stages.json"


def settings_of_models() -> list[tuple[str, Training]]:
    """Six families with three members each, and five own models, some of them mostly frozen."""
    rng = random.Random(5)
    chosen = []
    for name in family_names():
        family = find_family(name)
        for member in (f"zoo:{name}", *(family.describe(family.sample(rng)) for _ in range(3))):
            optimizer = rng.choice(["sgd", "momentum", "adam", "adamw"])
            chosen.append((member, Training(rng.choice([8, 16, 32, 64]), optimizer)))
    for name in ("vit_tiny", "gpt", "mobilenet", "unet"):
        chosen += [(f"{OWN}:{name}", Training(8, each)) for each in ("sgd", "adamw")]
    tuned = ('vit_tiny(tune="lora")', 'vit_tiny(tune="head")', 'mobilenet(tune="head")')
    return chosen + [(f"{OWN}:{name}", Training(8, "adamw")) for name in tuned]


def runs_of(trainer: Trainer) -> dict[str, Callable[[], object]]:
    """What is run in turns."""

    def validate() -> None:
        trainer.model.eval()
        with torch.no_grad():
            trainer.forward()
        trainer.model.train()

    def accumulate() -> None:
        assert trainer.optimizer is not None
        trainer.optimizer.zero_grad(set_to_none=True)
        for _ in range(BATCHES):
            trainer.backward(trainer.forward())
        trainer.optimizer.step()

    return {"step": trainer.step, "validation": validate, "accumulated": accumulate}


def cpu_s(run: Callable[[], object], times: int) -> float:
    start_s = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - start_s) / times


def meter(model: str, training: Training) -> dict[str, Any]:
    shares = stage_shares(read(model, None, training))
    workload = Workload(model=ModelSpec(model, None, training))
    runs = runs_of(make_trainer(workload, Settings(threads=1)))
    times = {}
    for name, run in runs.items():
        cpu_s(run, 2)
        times[name] = max(1, round(ROUND_S / cpu_s(run, 2)))
    rounds = [{name: cpu_s(run, times[name]) for name, run in runs.items()} for _ in range(ROUNDS)]
    median = {name: statistics.median(each[name] for each in rounds) for name in runs}
    return {
        "model": model.replace(str(OWN.parent.parent) + "/", ""),
        "training": training.to_json(),
        "validation": median["validation"] / median["step"],
        "validation_counted": shares.forward,
        "accumulated": median["accumulated"] / median["step"],
        "accumulated_counted": BATCHES - (BATCHES - 1) * shares.update,
    }


def scores(
    rows: list[dict[str, Any]], name: str, said: Callable[[Any], float]
) -> tuple[float, ...]:
    """Mean and root mean square of the logarithm of what was run over what was said."""
    off = [math.log(row[name] / said(row)) for row in rows]
    return statistics.fmean(off), math.sqrt(statistics.fmean(each**2 for each in off))


def table(rows: list[dict[str, Any]]) -> str:
    def line(what: str, name: str, said: Callable[[Any], float]) -> str:
        mean, square = scores(rows, name, said)
        low, high = min(row[name] for row in rows), max(row[name] for row in rows)
        told = f"{100 * mean:+.0f} | {100 * square:.0f}"
        return f"| {what} | {low:.2f} to {high:.2f} | {told} |"

    return "\n".join(
        [
            f"{len(rows)} models; deviations are of logarithms, in %.",
            "",
            "| of a step | metered | mean | root mean square |",
            "|---|---|---|---|",
            line("validation, counted", "validation", lambda row: row["validation_counted"]),
            line("validation, a third", "validation", lambda row: 1 / 3),
            line("4 batches, 1 update, counted", "accumulated", lambda r: r["accumulated_counted"]),
            line("4 batches as 4 steps", "accumulated", lambda row: BATCHES),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", action="store_true", help="run nothing")
    if not parser.parse_args().tables:
        torch.set_num_threads(1)
        keep_memory()
        rows = []
        for model, training in settings_of_models():
            rows.append(meter(model, training))
            sys.stderr.write(f"{json.dumps(rows[-1])}\n")
        machine = machine_line({"threads": "1"})
        KEPT.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    kept = json.loads(KEPT.read_text())
    text = f"Machine: {kept['machine']}\n\n{table(kept['rows'])}"
    print(text)
    write_section("stages.md", "stages", text)


if __name__ == "__main__":
    main()
