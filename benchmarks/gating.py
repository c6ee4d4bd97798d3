"""Gates: does a forecast hold while a job runs, and does the run end inside its budget?

    python benchmarks/gating.py               # a quarter of an hour; leave the machine alone
    python benchmarks/gating.py --tables      # of what is kept
    python benchmarks/gating.py --quick       # a few jobs, to see that it runs

Jobs are random members of five families, trained for real on this machine (modelled joules), and
the same on simulated phones and boards with batteries and heat. Epochs have data loading in every
step and, drawn at random, validation and a checkpoint at their ends. Every job is run to its end
once, and what the meter showed after each step is kept; gates with budgets of 60 to 140 % of that
total are then led through the same readings, once told of the validation (`ampere.Job`), and once
not. Some jobs are run once more under a live gate.

Beside the gate: carbontracker's way (the mean of the epochs so far × epochs), and the estimate made
before the run. The table goes to docs/paper/gating.md, what was measured to benchmarks/results.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from machine import RESULTS, machine_line, write_section

import ampere
from ampere.acquisition.families import Network
from ampere.core.workloads import Settings
from ampere.devices.base import Device
from ampere.devices.simulated import SimulatedDevice
from ampere.gates.forecast import Forecaster, Prior
from ampere.gates.gate import Gate
from ampere.gates.interludes import Validation
from ampere.gates.outlook import prior_of
from ampere.gates.terms import Terms
from ampere.meters.base import Meter, Provenance, Reading, Resolution
from ampere.meters.drivers.cpu import CpuMeter
from ampere.sittings.effort import Effort

FAMILIES = ("lenet5", "cnn5", "har", "lstm", "transformer")
DEVICES = ("xavier", "tx2", "oppo", "server")
SHARES = (0.01, 0.05, 0.2, 0.5)
JOBS, LIVE, SIMULATED = 20, 4, 2  # of a family; of these live; of a family on each device
JOB_S = (3.0, 6.0)
KEPT = RESULTS / "gating.json.gz"
BARS = "at most 2 % over, by a window; median unused at most 5 %; at most 5 % stopped without need"


@dataclass(frozen=True)
class Trace:
    """What a meter and a clock showed after each step of a job that ran to its end."""

    where: str
    family: str
    model: str
    times_s: list[float]
    totals_j: list[float]
    true_j: list[float]  # the same as totals, but for sensors that show late
    epoch_steps: int
    validates: bool
    estimate_j: float
    estimate_std_j: float
    estimate_s: float
    resolution: tuple[float, float]
    validation: dict[str, Any] | None = None  # as it was told

    def prior(self, told: bool = True) -> Prior:
        """What was estimated of a step, with validation or without."""
        validation = Validation(**self.validation) if told and self.validation else None
        return Prior(self.estimate_j, self.estimate_std_j, self.estimate_s, validation=validation)

    @property
    def steps(self) -> int:
        """Of the whole job."""
        return len(self.times_s) - 1


class TraceMeter(Meter):
    """Shows what was read after the step at which the replay stands."""

    name = "trace"
    provenance = Provenance.RECORDED
    summary = "a job that ran before"

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.at = 0
        self.resolution = Resolution(*trace.resolution)

    def read(self) -> Reading:
        """The joules at this step."""
        trace = self._trace
        return Reading(trace.totals_j[self.at], trace.times_s[self.at], self.provenance)


def make_profile(family: str, path: Path, device: Device, quick: bool) -> ampere.Profile:
    effort = Effort(accept_busy=True)  # other virtual machines: doubt, and no reason to wait
    strategy = ampere.Strategy(max_measurements=4 if quick else 12)
    model = f"zoo:{family}"
    return ampere.profile(model, path=path, device=device, strategy=strategy, effort=effort)


# ---------------------------------------------------------------------- training for real


class Job:
    """A member of a family, its data, and an epoch's habits."""

    def __init__(self, member: Network, rng: random.Random, seconds: float, step_s: float) -> None:
        import torch

        from ampere.pytorch.runtime.trainer import make_trainer

        self.trainer = make_trainer(member.workload, Settings(threads=1))
        self.steps = max(60, int(seconds / step_s))
        epochs = rng.choice((1, 2, 4, 8))
        self.epoch_steps = max(10, self.steps // epochs)
        self.steps = epochs * self.epoch_steps
        self.validates = rng.random() < 0.7
        self.validation_steps = int(self.epoch_steps * rng.uniform(0.05, 0.3))
        self.loading = rng.choice((0, 2_000, 20_000))  # numbers that are drawn for a batch
        self.saves = rng.random() < 0.5
        self.validated = self.validation_steps if self.validates else 0
        self._torch = torch
        self._model: Any = self.trainer.model if hasattr(self.trainer, "model") else None

    def step(self) -> None:
        """Load a batch and train on it."""
        if self.loading:
            self._torch.randn(self.loading).mul_(2.0).sum()
        self.trainer.step()

    def end_of_epoch(self) -> None:
        """Whatever this job does between epochs."""
        if self.validates:
            with self._torch.no_grad():
                for _ in range(self.validation_steps):
                    self.trainer.forward()
        if self.saves and self._model is not None:
            with tempfile.TemporaryFile() as file:
                self._torch.save(self._model.state_dict(), file)


def told(
    profile: ampere.Profile, member: Network, epochs: int, steps: int, validated: int
) -> dict[str, Any] | None:
    """What a user who says how the job validates lets the gate know."""
    if not validated:
        return None
    samples = validated * profile.training.batch_size
    job = ampere.Job(steps=steps, validations=epochs, validation_samples=samples)
    validation = prior_of(profile.estimate(member.layers, job=job)).validation
    return None if validation is None else asdict(validation)


def run_to_the_end(job: Job) -> tuple[list[float], list[float]]:
    meter = CpuMeter()
    readings = [meter.read()]
    for step in range(1, job.steps + 1):
        job.step()
        if step % job.epoch_steps == 0:
            job.end_of_epoch()
        readings.append(meter.read())
    start = readings[0]
    return (
        [reading.time_s - start.time_s for reading in readings],
        [reading.energy_j - start.energy_j for reading in readings],
    )


def real_jobs(
    args: argparse.Namespace,
) -> Iterator[tuple[Trace, Callable[[float], dict[str, Any]]]]:
    """Each job run to its end, and a way to run it once more under a live gate."""
    import torch

    torch.set_num_threads(1)
    for family in FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "family.ampere"
            device = ampere.LocalDevice(Settings(threads=1))
            profile = make_profile(family, path, device, args.quick)
            device.close()
        for number, member in enumerate(ampere.sample(f"zoo:{family}", args.jobs, seed=7)):
            rng = random.Random(f"{family} {number}")
            estimate = profile.estimate(member.layers)
            seconds = rng.uniform(*JOB_S) * (0.3 if args.quick else 1.0)
            job = Job(member, rng, seconds, estimate.time_s or 0.01)
            for _ in range(5):
                job.step()
            times_s, totals_j = run_to_the_end(job)
            trace = Trace(
                *("this machine", family, str(member), times_s, totals_j, totals_j),
                *(job.epoch_steps, job.validates),
                *(estimate.energy_j, estimate.energy_j_std, estimate.time_s or 0.0),
                (0.0, 0.0),
                told(profile, member, job.steps // job.epoch_steps, job.steps, job.validated),
            )
            sys.stderr.write(f"\r{family} {number + 1}/{args.jobs} {trace.steps} steps   ")
            yield trace, lambda share, job=job, trace=trace: run_live(job, trace, share)  # type: ignore[misc]


def run_live(job: Job, trace: Trace, share: float) -> dict[str, Any]:
    """The same job under a gate that may really stop it."""
    budget_j = share * trace.totals_j[-1]
    outside = CpuMeter()
    gate = Gate(
        Terms(budget_j=budget_j, steps=job.steps, on_refusal="warn"),
        CpuMeter,
        prior=trace.prior(),
        watch=lambda text: None,
    )
    before = outside.read()
    with gate:
        for _ in range(job.steps // job.epoch_steps):
            for _ in gate.steps(range(job.epoch_steps)):
                job.step()
            if gate.should_stop:
                break
            job.end_of_epoch()
    spent_j = outside.read().energy_j - before.energy_j
    return {"share": share, "stopped": gate.should_stop, "spent": spent_j / budget_j}


# ---------------------------------------------------------------------- simulated devices


def simulated_jobs(args: argparse.Namespace) -> Iterator[Trace]:
    for name in DEVICES:
        for family in FAMILIES:
            device: Device = SimulatedDevice(name, seed=3)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "family.ampere"
                strategy = ampere.Strategy(max_points=12)
                profile = ampere.profile(
                    f"zoo:{family}", path=path, device=device, strategy=strategy
                )
            for number, member in enumerate(ampere.sample(f"zoo:{family}", args.simulated, seed=9)):
                rng = random.Random(f"{name} {family} {number}")
                yield simulated_job(name, family, member, profile, rng)
            sys.stderr.write(f"\r{name} {family}   ")


def simulated_job(
    name: str, family: str, member: Network, profile: ampere.Profile, rng: random.Random
) -> Trace:
    """An hour on a device that gets warm: bursts stand for steps."""
    estimate = profile.estimate(member.layers)
    device = SimulatedDevice(name, seed=rng.randrange(1000))
    handle = device.load(member.workload).handle
    together = max(1, int(1.0 / (estimate.time_s or 1.0)))  # steps of a second count as one
    steps, epochs = 2400, rng.choice((1, 2, 4, 8))
    validates = rng.random() < 0.7
    pause_s = rng.uniform(0.05, 0.3) * steps / epochs
    times_s, shown_j, true_j = [0.0], [device._sensor.read(0.0).energy_j], [0.0]
    for step in range(1, steps + 1):
        with suppress(Exception):  # a gauge that does not move in a burst says so
            device.burst(handle, together)
        if validates and step % (steps // epochs) == 0:
            with suppress(Exception):
                device.burst(handle, max(1, int(together * pause_s / 3)))
        times_s.append(device.clock_s)
        shown_j.append(device._sensor.read(device.clock_s).energy_j)
        true_j.append(device._energy_j)
    resolution = device.resolution
    return Trace(
        *(f"simulated {name}", family, str(member), times_s, shown_j, true_j),
        *(steps // epochs, validates),
        *(together * estimate.energy_j, together * estimate.energy_j_std, 1.0),
        (resolution.energy_j, resolution.period_s),
        told(profile, member, epochs, steps, round(pause_s) if validates else 0),
    )


# ---------------------------------------------------------------------- gates over traces


def replay(
    trace: Trace, share: float | None, told: bool = True
) -> tuple[Gate, dict[float, Any], int]:
    """A gate led through a trace; without a budget it tells its forecasts."""
    meter = TraceMeter(trace)
    budget_j = None if share is None else share * trace.true_j[-1]
    gate = Gate(
        Terms(budget_j=budget_j, steps=trace.steps, on_refusal="warn"),
        lambda: meter,
        prior=trace.prior(told),
        watch=lambda text: None,
        clock=lambda: trace.times_s[meter.at],
    )
    forecasts: dict[float, Any] = {}
    with gate:
        gate._ledger.epoch_steps = trace.epoch_steps  # as `gate.steps` learns it
        while meter.at < trace.steps and not gate.should_stop:
            meter.at += 1
            gate.step()
            for point in SHARES:
                if share is None and point not in forecasts and meter.at >= point * trace.steps:
                    gate._watch(0.0)  # a look, and whatever is known at this moment
                    gate._tell()
                    forecasts[point] = gate.status
    return gate, forecasts, meter.at


def by_epochs(trace: Trace, point: float) -> float | None:
    """The mean of the epochs that are over × epochs, as carbontracker does after the first one."""
    over = int(point * trace.steps) // trace.epoch_steps
    epochs = trace.steps / trace.epoch_steps
    return None if not over else trace.totals_j[over * trace.epoch_steps] / over * epochs


def judge(trace: Trace) -> dict[str, Any]:
    """Errors of forecasts, and what became of budgets."""
    truth_j = trace.true_j[-1]
    _, statuses, _ = replay(trace, None)
    rows: dict[str, Any] = {"where": trace.where, "family": trace.family, "forecasts": {}}
    estimate_j = trace.steps * trace.estimate_j
    rows["estimate"] = estimate_j / truth_j - 1
    before = Forecaster(trace.prior()).rest(trace.steps, 0)
    rows["before"] = [
        before.energy_j / truth_j - 1,
        before.quantile(0.05) <= truth_j <= before.quantile(0.95),
    ]
    for point, status in statuses.items():
        low, high = status.forecast_j_interval
        told_j, epochs_j = status.forecast_j, by_epochs(trace, point)
        rows["forecasts"][str(point)] = {
            "error": told_j / truth_j - 1,
            "inside": low <= truth_j <= high,
            "half": (high - low) / 2 / truth_j,
            "epochs": None if epochs_j is None else epochs_j / truth_j - 1,
        }
    rng = random.Random(f"{trace.where} {trace.model} {trace.steps}")
    window_j = max(b - a for a, b in zip(trace.true_j, trace.true_j[1:], strict=False))
    rows["budgets"], rows["untold"] = [], []
    for _ in range(3):
        share = rng.uniform(0.6, 1.4)
        for name, told in (("budgets", True), ("untold", False)):
            gate, _, at = replay(trace, share, told)
            rows[name].append(
                {
                    "share": share,
                    "stopped": gate.should_stop,
                    "spent": trace.true_j[at] / (share * truth_j),
                    "shown": (trace.totals_j[at] - trace.totals_j[0]) / (share * truth_j),
                    "window": window_j / (share * truth_j),
                }
            )
    return rows


def own_time() -> float:
    """Seconds of a gate's own calls, for a step of 5 ms that is nothing but waiting."""
    gate = Gate(Terms(budget_j=1e9, steps=10**6), CpuMeter, watch=lambda text: None)
    gate.start()
    spent_s, steps = 0.0, 2000
    for _ in range(steps):
        time.sleep(0.005)
        before_s = time.perf_counter()
        gate.step()
        spent_s += time.perf_counter() - before_s
    gate.finish()
    return spent_s / steps


# ---------------------------------------------------------------------- tables


def percent(values: Sequence[float]) -> str:
    return f"{100 * fmean(abs(value) for value in values):.1f}" if values else ""


def forecast_table(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "| after | mean error % | inside 90 % | half interval % | mean epoch × epochs, % (jobs) |",
        "|---|---|---|---|---|",
    ]
    before = [row["before"] for row in rows]
    inside = fmean(row[1] for row in before)
    lines.append(
        f"| before the run | {percent([row[0] for row in before])} | {100 * inside:.0f} | | |"
    )
    for point in map(str, SHARES):
        told = [row["forecasts"][point] for row in rows if point in row["forecasts"]]
        epochs = [each["epochs"] for each in told if each["epochs"] is not None]
        lines.append(
            f"| {100 * float(point):g} % | {percent([each['error'] for each in told])}"
            f" | {100 * fmean(each['inside'] for each in told):.0f}"
            f" | {percent([each['half'] for each in told])}"
            f" | {percent(epochs)} ({len(epochs)} of {len(told)}) |"
        )
    return lines


def budget_line(name: str, budgets: Sequence[dict[str, Any]]) -> str:
    over = [each for each in budgets if each["spent"] > 1]
    shown = [each for each in budgets if each.get("shown", each["spent"]) > 1]
    stopped = [each for each in budgets if each["stopped"]]
    enough = [each for each in budgets if each["share"] >= 1]
    needless = [each for each in enough if each["stopped"]]
    unused = median(1 - each["spent"] for each in stopped) if stopped else 0.0
    most = max((each["spent"] - 1 for each in over), default=0.0)
    windows = max((each.get("window", 0.0) for each in over), default=0.0)
    return (
        f"| {name} | {len(budgets)} | {len(shown)} | {len(over)} | {100 * most:.2f}"
        f" | {100 * windows:.2f} | {len(stopped)} | {100 * unused:.1f}"
        f" | {len(needless)} of {len(enough)} |"
    )


def tables(kept: dict[str, Any]) -> str:
    rows, live = kept["rows"], kept["live"]
    here = [row for row in rows if row["where"] == "this machine"]
    far = [row for row in rows if row["where"] != "this machine"]
    lines = [f"Machine: {kept['machine']} Wanted: {kept['bars']}.", ""]
    for title, some in (
        ("Trained on this machine, modelled joules", here),
        ("Simulated devices, an hour each, with heat and their sensors", far),
    ):
        if some:
            lines += [f"{title}: {len(some)} jobs.", "", *forecast_table(some), ""]
    lines += [
        "| budgets of 60 to 140 % | runs | over by the gate's meter | over in truth | by at most, %"
        " | largest window there, % | stopped | unused of these, median % | stopped without need |",
        "|---|---|---|---|---|---|---|---|---|",
        budget_line("this machine, replayed", [each for row in here for each in row["budgets"]]),
    ]
    if live:
        lines.append(budget_line("this machine, live", live))
    if far:
        lines.append(budget_line("simulated", [each for row in far for each in row["budgets"]]))
    for name, some in (("this machine, replayed", here), ("simulated", far)):
        untold = [each for row in some for each in row["untold"]]
        if untold:
            lines.append(budget_line(f"{name}, validation not told", untold))
    own_s = kept["own_s"]
    lines += [
        "",
        f"A gate's own calls: {1e6 * own_s:.0f} µs a step, {100 * own_s / 0.005:.2f} % of 5 ms.",
    ]
    return "\n".join(lines)


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Six digits of a long list are enough to lead gates through it again."""
    return {
        name: [float(f"{each:.6g}") for each in value] if isinstance(value, list) else value
        for name, value in row.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", action="store_true", help="of what is kept")
    parser.add_argument("--judge", action="store_true", help="lead gates through what is kept anew")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    args.jobs, args.simulated = (2, 1) if args.quick else (JOBS, SIMULATED)
    if args.tables or args.judge:
        kept = json.loads(gzip.decompress(KEPT.read_bytes()))
        traces = [Trace(**row) for row in kept["traces"]]
    else:
        kept = {"bars": BARS, "live": [], "machine": machine_line({"threads": "1"})}
        kept["own_s"] = own_time()
        traces = []
        for number, (trace, live) in enumerate(real_jobs(args)):
            traces.append(trace)
            if number % args.jobs < LIVE:
                share = random.Random(number).uniform(0.6, 1.4)
                kept["live"].append(live(share))
        traces += simulated_jobs(args)
    if not args.tables:
        kept["rows"] = [judge(trace) for trace in traces]
        kept["traces"] = [rounded(asdict(trace)) for trace in traces]
        if not args.quick:
            text = json.dumps(kept, separators=(",", ":"))
            KEPT.write_bytes(gzip.compress(text.encode(), mtime=0))
    text = tables(kept)
    print(text)
    if not args.quick:
        write_section("gating.md", "gating", text)


if __name__ == "__main__":
    main()
