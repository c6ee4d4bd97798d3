"""How well ampere reads the architectures of timm: what fails and why, what is exact, how fine.

    python benchmarks/reading.py                       # all names; the rows go to results/
    python benchmarks/reading.py --sample 100          # every so many names, evenly spaced
    python benchmarks/reading.py --only 'vit_*' --limit 5

One name of `timm.list_models()` is one architecture: variants that differ in depth or width are
counted each, weights of the same architecture are not. Every name is built on the meta device at
its default input size, read, then built again and counted whole, forward and backward, with torch's
own counter: the sums over the layers must agree with that. Each in a process of its own, so that
nothing that one architecture does reaches the next, be it a crash or a warm cache. --resume goes on
after an interruption; use it with the same code only.

timm needs torchvision, whose operators do not load into every build of torch; neither is needed
for ampere itself, so they belong in an environment of their own:

    pip install 'torch>=2.8,<2.14' numpy scipy typer rich
    pip install --no-deps timm==1.0.30 torchvision==0.28.0
    pip install huggingface_hub safetensors pyyaml pillow
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import json
import math
import multiprocessing
import os
import re
import resource
import signal
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any

from machine import RESULTS, machine_line, write_section

BATCH_SIZE = 2
Row = dict[str, Any]
Tell = Callable[[Row], None]


def load_timm() -> Any:
    """Import timm, also where the operators of torchvision do not fit this build of torch."""
    import torch

    if importlib.util.find_spec("timm") is None:
        raise SystemExit("timm is not installed: the top of benchmarks/reading.py says how")
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in ("nms", "qnms"):
            signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", signature)
        importlib.import_module("torchvision")
    return importlib.import_module("timm")


def examine(name: str, timm: Any, tell: Tell) -> None:
    """Tell what comes out stage by stage: who is stopped halfway has told the stages before."""
    import torch

    from ampere.core.training import Training
    from ampere.pytorch.models import read

    tell({"stage": "build"})
    with torch.device("meta"):
        model = timm.create_model(name, pretrained=False)
    shape = tuple(model.pretrained_cfg["input_size"])
    tell({"built": True, "input": shape, "stage": "read"})
    try:
        gc.collect()  # what was built before is no part of the reading
        start = time.process_time()
        layers = read(model, shape, Training(BATCH_SIZE))
        seconds = time.process_time() - start
    except Exception as error:
        tell({"errors": {"read": one_line(error)}})
    else:
        flops = [layer.features.flops or 0.0 for layer in layers for _ in range(layer.count)]
        tell(
            {
                "read": True,
                "seconds": round(seconds, 3),
                "layers": len(flops),
                "kinds": len({layer.kind.name for layer in layers}),
                "kinds_with_widths": len({layer.kind.name for layer in layers if layer.widths}),
                "largest": round(max(flops) / sum(flops), 4) if sum(flops) else None,
                "params_read": sum((layer.params or 0) * layer.count for layer in layers),
                "flops_read": sum(flops),
            }
        )
    tell({"stage": "count"})
    with torch.device("meta"):
        model = timm.create_model(name, pretrained=False)  # reading may have left traces
    tell(count(model, shape))


def count(model: Any, shape: Sequence[int]) -> Row:
    """Parameters and the FLOPs of a training step of the whole model."""
    import torch
    from torch.utils._pytree import tree_leaves

    from ampere.pytorch.graph.flops import flop_counter

    x = torch.empty((BATCH_SIZE, *shape), device="meta")
    with flop_counter() as counter:
        outputs = [out for out in tree_leaves(model.train()(x)) if isinstance(out, torch.Tensor)]
        losses = [out.sum() for out in outputs if out.is_floating_point() and out.requires_grad]
        torch.autograd.backward(losses)  # as their sum would
    parameters = list(model.parameters())
    unused = sum(p.numel() for p in parameters if p.requires_grad and p.grad is None)
    return {
        "params": sum(p.numel() for p in parameters),
        "params_without_gradient": unused,
        "flops": float(counter.get_total_flops()),
    }


def one_line(error: BaseException) -> str:
    text = str(error).strip() or "no message"
    return f"{type(error).__name__}: {text.splitlines()[0]:.240}"


@dataclass
class Attempt:
    """One architecture in a process of its own."""

    row: Row
    process: Any
    answers: connection.Connection
    deadline: float

    @classmethod
    def start(cls, name: str, timm: Any, options: argparse.Namespace) -> Attempt:
        """Begin, with the time and memory that the options allow."""
        # A fork has timm and torch imported already, which would cost seconds each time.
        context = multiprocessing.get_context("fork")
        answers, tells = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(name, timm, tells, options), daemon=True)
        process.start()
        tells.close()  # our copy: the pipe must end when the child does
        row: Row = {"model": name, "built": False, "read": False, "errors": {}}
        return cls(row, process, answers, time.monotonic() + options.seconds)

    def listen(self, limit_s: float) -> bool:
        """Take in what was told; whether this was the last of it."""
        over = time.monotonic() > self.deadline
        try:
            while not over and self.answers.poll():
                message = self.answers.recv()
                self.row["errors"] |= message.pop("errors", {})
                self.row |= message
            if not over:
                return False
            self.process.kill()
            self.fail(f"longer than {limit_s:g} s")
            self.process.join()
        except EOFError:
            self.process.join()
            if self.row.get("stage") != "done":
                self.fail(f"the process ended early: {ending(self.process.exitcode)}")
        self.answers.close()
        self.finish()
        return True

    def fail(self, text: str) -> None:
        """Blame the stage that was under way, unless it has told its error."""
        self.row["errors"].setdefault(self.row.get("stage", "build"), text)

    def finish(self) -> None:
        """Compare the layers with the whole, where both are known."""
        row = self.row
        row.pop("stage", None)
        if row["read"] and "flops" in row:
            row["params_exact"] = row["params_read"] == row["params"]
            row["flops_exact"] = math.isclose(row["flops_read"], row["flops"], rel_tol=1e-9)


def ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def work(name: str, timm: Any, tells: connection.Connection, options: argparse.Namespace) -> None:
    """The child's side: whatever goes wrong is told, not raised."""
    warnings.simplefilter("ignore")
    memory, seconds = int(options.memory * 2**30), math.ceil(options.seconds) + 1
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))  # also if the parent is killed
    stage = "build"

    def tell(message: Row) -> None:
        nonlocal stage
        stage = message.get("stage", stage)
        tells.send(message)

    try:
        examine(name, timm, tell)
    except Exception as error:
        tells.send({"errors": {stage: one_line(error)}})
    tells.send({"stage": "done"})


def examine_all(names: Sequence[str], timm: Any, options: argparse.Namespace) -> Iterator[Row]:
    """Rows as they are done, at most `--jobs` at a time."""
    waiting, running = list(reversed(names)), list[Attempt]()
    try:
        while waiting or running:
            while waiting and len(running) < options.jobs:
                running.append(Attempt.start(waiting.pop(), timm, options))
            soonest = min(attempt.deadline for attempt in running) - time.monotonic()
            connection.wait([attempt.answers for attempt in running], max(0.0, soonest) + 0.01)
            done = [attempt for attempt in running if attempt.listen(options.seconds)]
            running = [attempt for attempt in running if attempt not in done]
            yield from (attempt.row for attempt in done)
    finally:
        for attempt in running:
            attempt.process.kill()


def warm_up() -> None:
    """What torch and ampere import at the first reading is start-up, not reading."""
    import torch
    from torch import nn

    from ampere.core.training import Training
    from ampere.pytorch.models import read

    torch.set_num_threads(1)  # threads do not survive a fork
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
    read(model, (3, 4, 4), Training(BATCH_SIZE))


def cause(error: str) -> str:
    """An error without its numbers, so that the same thing at other sizes is the same cause."""
    return re.sub(r"N(?:(?:, |x|\.)N)+", "N", re.sub(r"\d+", "N", error))


def summarise(rows: Sequence[Row]) -> Row:
    def causes(stage: str) -> list[Row]:
        models_by_cause: dict[str, list[str]] = {}
        for row in rows:
            if stage in row["errors"]:
                models_by_cause.setdefault(cause(row["errors"][stage]), []).append(row["model"])
        ordered = sorted(models_by_cause.items(), key=lambda item: (-len(item[1]), item[0]))
        return [{"cause": text, "count": len(m), "models": m[:5]} for text, m in ordered]

    read = [row for row in rows if row["read"]]
    whole = [row for row in rows if "flops" in row]
    counted = [row for row in whole if row["read"]]
    shares = [row for row in read if row["largest"] is not None]
    seconds = sorted(row["seconds"] for row in read)
    coarse = {row["model"]: row["largest"] for row in shares if row["largest"] > 0.5}
    return {
        "names": len(rows),
        "counted": len(whole),
        "distinct": len({(*row["input"], row["params"], row["flops"]) for row in whole}),
        "built": sum(row["built"] for row in rows),
        "read": len(read),
        "exact": sum(row["params_exact"] and row["flops_exact"] for row in counted),
        "params_exact": sum(row["params_exact"] for row in counted),
        "flops_exact": sum(row["flops_exact"] for row in counted),
        "not_counted": len(read) - len(counted),
        "largest_at_most_half": len(shares) - len(coarse),
        "seconds_median": statistics.median(seconds) if seconds else None,
        "seconds_95": seconds[math.ceil(0.95 * len(seconds)) - 1] if seconds else None,
        "seconds_max": seconds[-1] if seconds else None,
        "layers_median": statistics.median(row["layers"] for row in read) if read else None,
        "kinds_median": statistics.median(row["kinds"] for row in read) if read else None,
        "kinds": sum(row["kinds"] for row in read),
        "kinds_with_widths": sum(row["kinds_with_widths"] for row in read),
        "failures": {stage: causes(stage) for stage in ("build", "read", "count")},
        "not_exact": [
            row["model"] for row in counted if not (row["params_exact"] and row["flops_exact"])
        ],
        "coarse": dict(sorted(coarse.items(), key=lambda item: -item[1])),
    }


def text_of(summary: Row, rows: Sequence[Row]) -> str:
    built, read = summary["built"], summary["read"]
    lines = [
        f"{summary['names']} names, {built} built; {summary['counted']} can be counted whole,"
        f" {summary['distinct']} of these distinct in input, parameters and FLOPs",
        f"read   {of(read, built)} of the built",
        f"exact  {of(summary['exact'], built)} of the built (parameters"
        f" {summary['params_exact']}, FLOPs {summary['flops_exact']}; not countable"
        f" whole {summary['not_counted']})",
    ]
    if read:
        lines += [
            f"fine   {of(summary['largest_at_most_half'], read)} of the read: no layer holds over"
            " half of the FLOPs",
            f"median {summary['layers_median']:g} layers of {summary['kinds_median']:g} kinds;"
            f" {of(summary['kinds_with_widths'], summary['kinds'])} of all kinds have widths",
            f"reading takes {summary['seconds_median']:.2f} s (median),"
            f" {summary['seconds_95']:.2f} s (95th percentile), {summary['seconds_max']:.2f} s"
            " (longest) of processor time",
        ]
    for stage, causes in summary["failures"].items():
        if causes:
            lines += ["", f"{stage}: {sum(each['count'] for each in causes)} failed"]
        for each in causes:
            lines.append(f"{each['count']:5}  {each['cause']}")
            lines.append(f"       {', '.join(each['models'])}")
    if summary["not_exact"]:
        lines += ["", "read, but not exact (what was read over what there is):"]
    by_model = {row["model"]: row for row in rows}
    for name in summary["not_exact"]:
        row = by_model[name]
        lines.append(
            f"       {name}: parameters {row['params_read']} / {row['params']}"
            f" ({row['params_without_gradient']} without gradient),"
            f" FLOPs {row['flops_read']:g} / {row['flops']:g}"
        )
    if summary["coarse"]:
        lines += ["", "one layer holds over half of the FLOPs:"]
        lines += [f"       {name}: {share:.0%}" for name, share in summary["coarse"].items()]
    return "\n".join(lines)


def of(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else f"{part} of 0"


def select(timm: Any, options: argparse.Namespace) -> list[str]:
    names: list[str] = timm.list_models(options.only or "", pretrained=False)
    names = names[: options.limit]
    if options.sample and options.sample < len(names):
        names = [names[i * len(names) // options.sample] for i in range(options.sample)]
    return names


def write(path: Path, summary: Row, rows: Sequence[Row]) -> None:
    """One line a row: over a thousand of them, spread out, would be unreadable."""
    head = json.dumps(summary, indent=1)[:-2]
    body = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    path.write_text(f'{head},\n "rows": [\n{body}\n ]\n}}\n')


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="PATTERN", help="names like 'vit_*'")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N names")
    parser.add_argument("--sample", type=int, metavar="N", help="N names, evenly spaced")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time")
    parser.add_argument("--seconds", type=float, default=120.0, help="limit for one architecture")
    parser.add_argument("--memory", type=float, default=8.0, help="limit in GiB for one process")
    parser.add_argument("--resume", action="store_true", help="keep the rows that are there")
    parser.add_argument("--out", type=Path, help="where the results go")
    options = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # autograd's threads for a GPU forbid forking
    timm = load_timm()
    import torch

    names = select(timm, options)
    whole = not (options.only or options.limit or options.sample)
    folder = RESULTS if whole else Path(tempfile.gettempdir())  # a part never replaces the whole
    path: Path = options.out or folder / "reading.json"
    journal = path.with_suffix(".jsonl")
    done: dict[str, Row] = {}
    if options.resume and journal.exists():
        lines = journal.read_text().splitlines(keepends=True)
        kept = [json.loads(line) for line in lines if line.endswith("\n")]  # the last may be cut
        done = {row["model"]: row for row in kept if row["model"] in names}
    warm_up()
    with journal.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in done.values())
        for row in examine_all([n for n in names if n not in done], timm, options):
            done[row["model"]] = row
            file.write(json.dumps(row) + "\n")
            file.flush()
            sys.stderr.write(f"\r{len(done):5}/{len(names):<5} {row['model']:60.60}")
    sys.stderr.write("\n")
    rows = [done[name] for name in names]
    versions = {"torch": torch.__version__, "timm": timm.__version__}
    summary = {"machine": machine_line(versions), "batch_size": BATCH_SIZE, **summarise(rows)}
    write(path, summary, rows)
    journal.unlink()
    text = f"Machine: {summary['machine']}\n\n```\n{text_of(summary, rows)}\n```"
    print(f"{text}\n\n{path}")
    if path == RESULTS / "reading.json":
        write_section("reading.md", "reading", text)


if __name__ == "__main__":
    main()
