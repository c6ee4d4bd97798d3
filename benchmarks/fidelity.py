"""Does a network that is built again from a model's layers take as long as the model itself?

    python benchmarks/fidelity.py                      # about 7 minutes
    python benchmarks/fidelity.py unet gpt --rounds 60

For every model of tests/reference_models.py three networks train in one process and thread, on the
same data with the same loss and SGD: the original, the network that is rebuilt from its layers, and
a second instance of the original. They take turns in short bursts, in every order equally often.

calls   what a step of the original and of the rebuilt asks of torch, as a number of operations;
        weights that several layers share are copies when rebuilt, whose gradients are not added
ratio   median over the rounds of rebuilt / original, within the round: the machine's pace moves
        from round to round, for all three alike
error   twice the standard error of that median
again   the same ratio for the second instance, whose true value is 1
repeat  95 % of the models have |again − 1| at most this

A model passes if |ratio − 1| is at most `repeat`, or at most its own error where that is larger;
where that larger one is over 5 %, the machine was too noisy to tell, and nobody passes.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, machine_line, write_section
from torch.utils._python_dispatch import TorchDispatchMode

from ampere.core.inputs import parse_inputs
from ampere.core.layers import structure_of
from ampere.core.training import Training
from ampere.core.workloads import Settings
from ampere.pytorch.graph.model_reading import read_layers
from ampere.pytorch.runtime.builder import build
from ampere.pytorch.runtime.trainer import Trainer, apply_settings, synthetic_inputs

sys.path.append(str(Path(__file__).parent.parent / "tests"))
REFERENCES: dict[str, Any] = importlib.import_module("reference_models").REFERENCES

BATCH_SIZE = 10
NOISY = 0.05
ORDERS = list(itertools.permutations(range(3)))
Row = dict[str, Any]


def trainers(name: str, settings: Settings) -> tuple[list[Trainer], int]:
    """The original, the rebuilt and the original again; and the number of layers."""
    reference = REFERENCES[name]
    inputs = parse_inputs(reference.inputs)

    def original() -> Any:
        torch.manual_seed(0)
        return reference.build(reference.width)

    def data() -> Any:
        torch.manual_seed(1)  # a model that looks at values sees the same when read and trained
        return synthetic_inputs(inputs, BATCH_SIZE)

    torch.manual_seed(1)
    layers = read_layers(original(), inputs, Training(BATCH_SIZE))
    args, kwargs = data()
    in_place = any(call.works_in_place for call in structure_of(layers[0].kind).calls)
    rebuilt = Trainer(
        build(layers), ((*args, *kwargs.values()), {}), Training(), settings, copies=in_place
    )
    first, second = (Trainer(original(), data(), Training(), settings) for _ in range(2))
    return [first, rebuilt, second], len(layers)


class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that reach torch."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += func is not torch.ops.aten.detach.default  # copies nothing
        return func(*args, **(kwargs or {}))


def operations(trainer: Trainer) -> int:
    """How many operations a training step is."""
    trainer.step()
    counter = Counter()
    with counter:
        trainer.step()
    return counter.calls


def burst(trainer: Trainer, steps: int) -> float:
    """Seconds per step."""
    start = time.perf_counter()
    for _ in range(steps):
        trainer.step()
    return (time.perf_counter() - start) / steps


def take_turns(arms: Sequence[Trainer], rounds: int, burst_s: float) -> list[list[float]]:
    """Seconds per step of each, round by round."""
    for arm in arms:
        burst(arm, 3)
    steps = max(1, round(burst_s / min(burst(arms[0], 3) for _ in range(3))))
    for arm in arms:
        burst(arm, steps)
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection inside a burst would be charged to whoever it hits
    try:
        times: list[list[float]] = [[] for _ in arms]
        for turn in range(rounds):
            for i in ORDERS[turn % len(ORDERS)]:
                times[i].append(burst(arms[i], steps))
    finally:
        gc.enable()
        gc.unfreeze()
    return times


def compare(times: Sequence[float], original: Sequence[float]) -> tuple[float, float, float]:
    """The median of the rounds' ratios, their spread, and the standard error of the median."""
    ratios = [mine / theirs for mine, theirs in zip(times, original, strict=True)]
    median = statistics.median(ratios)
    spread = statistics.median(abs(ratio - median) for ratio in ratios) / 0.6745
    return median, spread, math.sqrt(math.pi / 2) * spread / math.sqrt(len(ratios))


def examine(name: str, settings: Settings, rounds: int, burst_s: float) -> Row:
    try:
        arms, layers = trainers(name, settings)
    except Exception as reason:  # whatever torch raises: the others shall be seen all the same
        return {"model": name, "failed": f"{type(reason).__name__}: {reason}"}
    calls = [operations(arm) for arm in arms[:2]]
    original, rebuilt, second = take_turns(arms, rounds, burst_s)
    ratio, spread, error = compare(rebuilt, original)
    again, _, again_error = compare(second, original)
    return {
        "model": name,
        "layers": layers,
        "operations": calls,
        "original_s": statistics.median(original),
        "rebuilt_s": statistics.median(rebuilt),
        "ratio": ratio,
        "spread": spread,
        "error": 2 * error,
        "again": again,
        "again_error": 2 * again_error,
    }


def judge(rows: Sequence[Row]) -> float:
    """Write each verdict down; returns the repeat error."""
    misses = sorted(abs(row["again"] - 1) for row in rows if "again" in row)
    repeat = misses[math.ceil(0.95 * len(misses)) - 1] if misses else math.nan
    for row in rows:
        if "failed" in row:
            row["verdict"] = "failed"
            continue
        limit = max(repeat, row["error"])
        row["verdict"] = "passes" if abs(row["ratio"] - 1) <= limit else "differs"
        if limit > NOISY:
            row["verdict"] = "noisy"
    return repeat


def table(rows: Sequence[Row], repeat: float, machine: str) -> str:
    timed = sorted((row for row in rows if "ratio" in row), key=lambda row: row["ratio"])
    text = [
        f"Machine: {machine}",
        "",
        "| model | layers | calls | original ms | rebuilt ms | ratio | error | spread | again |"
        " verdict |",
        "|---" * 10 + "|",
    ]
    for row in timed:
        cells = [row["model"], str(row["layers"]), " / ".join(map(str, row["operations"]))]
        cells += [f"{1e3 * row[key]:.2f}" for key in ("original_s", "rebuilt_s")]
        cells += [f"{row['ratio']:.3f}", f"± {row['error']:.3f}", f"{row['spread']:.3f}"]
        cells += [f"{row['again']:.3f}", row["verdict"]]
        text.append("| " + " | ".join(cells) + " |")
    passed = sum(row["verdict"] == "passes" for row in rows)
    text += ["", f"Repeat error {repeat:.1%}; {passed} of {len(rows)} models pass."]
    text += [f"- {row['model']} failed: {row['failed']}" for row in rows if "failed" in row]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=list(REFERENCES))
    parser.add_argument("--rounds", type=int, default=36, help="a multiple of the 6 orders")
    parser.add_argument("--burst", type=float, default=0.1, help="seconds of a burst")
    parser.add_argument("--out", type=Path, default=RESULTS / "fidelity.json")
    options = parser.parse_args()
    settings = Settings(threads=1)
    framework, threads = apply_settings(settings)
    rows: list[Row] = []
    for name in options.models:
        sys.stderr.write(f"\r{len(rows):3}/{len(options.models):<3} {name:60.60}")
        rows.append(examine(name, settings, options.rounds, options.burst))
    sys.stderr.write("\n")
    repeat = judge(rows)
    machine = machine_line({"threads": str(threads), "framework": framework})
    whole = {
        "machine": machine,
        "batch_size": BATCH_SIZE,
        "rounds": options.rounds,
        "burst_s": options.burst,
        "repeat_error": repeat,
        "models": rows,
    }
    options.out.write_text(json.dumps(whole, indent=1) + "\n")
    text = table(rows, repeat, machine)
    print(text)
    if options.out == RESULTS / "fidelity.json":
        write_section("reading.md", "fidelity", text)


if __name__ == "__main__":
    main()
