"""MAPE of the paper's method on 30 unseen models of each zoo family, every baseline beside it.

    python benchmarks/accuracy.py                      # all families, about an hour on 2 cores
    python benchmarks/accuracy.py lenet5 har --models 10

A family that is already in benchmarks/results is not run again unless --again is given; --refit
fits and estimates anew from the measurements that were kept there. The table goes to
docs/results.md. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from statistics import fmean
from typing import Any

from machine import RESULTS, machine_line, write_section

import ampere
from ampere import zoo
from ampere.evaluating import Evaluation, ModelResult
from ampere.measuring import Event

METHODS = ("paper", "flops", "flops_affine", "neuralpower", "extrapolation", "repeat")


def show(event: Event) -> None:
    sys.stderr.write(f"\r{event.done:4}/{event.total:<4} {event.seconds_left:5.0f} s  ")
    sys.stderr.write(f"{event.doing:100.100}")
    sys.stderr.flush()


def run(family: str, threads: int, models: int, max_points: int) -> dict[str, Any]:
    path = RESULTS / f"{family}.ampere"
    start = time.monotonic()
    with ampere.LocalDevice(ampere.Settings(threads=threads)) as device:
        ampere.profile(
            f"zoo:{family}",
            path=path,
            device=device,
            strategy=ampere.Strategy("paper", max_points=max_points),
            watch=show,
        )
        spent = time.monotonic() - start
        found = ampere.evaluate(
            f"zoo:{family}", path=path, device=device, models=models, watch=show
        )
        identity = dict(device.fingerprint.identity)
    row: dict[str, Any] = found.to_json() | {"wall_s": spent}
    row["machine"] = machine_line(
        {"threads": identity["threads"], "framework": identity["framework"]}
    )
    sys.stderr.write("\n")
    return row


def refit(family: str, row: dict[str, Any]) -> dict[str, Any]:
    """The same measurements, metered models and machine; estimates by the present code."""
    profile = ampere.Profile.load(RESULTS / f"{family}.ampere")
    results = []
    for model in row["models"]:
        answer = profile.estimate(model["model"])
        first, second = model["metered_j"]
        results.append(
            ModelResult(
                model["model"],
                model["energy_j_per_step"],
                model["time_s_per_step"],
                first,
                second,
                model["estimates_j"] | {"paper": answer.energy_j},
                answer.energy_j_interval,
                model["flops"],
            )
        )
    found = Evaluation(
        tuple(results),
        tuple(row["failed"]),
        row["measurements"],
        row["profiling_s"],
        row["device"],
        ampere.Provenance(row["provenance"]),
        row["seconds"],
    )
    return row | found.to_json()


def table(rows: dict[str, dict[str, Any]]) -> str:
    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.1f}"

    def signed(values: list[float | None]) -> str:
        return " / ".join("–" if v is None else f"{v:+.0f}" for v in values)

    machines = {row["machine"] for row in rows.values()}
    text = ["Machine: " + " ".join(sorted(machines)), ""]
    text += [
        "MAPE in percent over unseen random models; `repeat` is the floor: the error of metering",
        "the same model a second time.",
        "",
        "| family | "
        + " | ".join(METHODS)
        + " | coverage of 90 % interval | measurements | seconds |",
        "|---" * (len(METHODS) + 4) + "|",
    ]
    for family, row in rows.items():
        cells = [number(row["mape"].get(method)) for method in METHODS]
        rest = [f"{row['coverage_90']:.0%}", str(row["measurements"]), f"{row['profiling_s']:.0f}"]
        text.append(f"| {family} | " + " | ".join(cells + rest) + " |")
    text += [
        "",
        "Bias in percent (above 0: overestimated) of the small / middle / large third:",
        "",
    ]
    text += ["| family | " + " | ".join(METHODS[:-1]) + " |", "|---" * len(METHODS) + "|"]
    for family, row in rows.items():
        cells = [signed(row["bias_by_size"].get(method, [])) for method in METHODS[:-1]]
        text.append(f"| {family} | " + " | ".join(cells) + " |")
    text += ["", "Bias of `paper` in percent by depth (number of models):", ""]
    for family, row in rows.items():
        depths: dict[int, list[float]] = {}
        for model in row["models"]:
            found = re.search(r"(?:layers|depth)=(\d+)", model["model"])
            if found:
                error = model["estimates_j"]["paper"] / model["energy_j_per_step"] - 1
                depths.setdefault(int(found[1]), []).append(100 * error)
        if depths:
            cells = [f"{d}: {fmean(e):+.0f} ({len(e)})" for d, e in sorted(depths.items())]
            text.append(f"- {family}: {', '.join(cells)}")
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=list(zoo.names()))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", type=int, default=30)
    parser.add_argument("--max-points", type=int, default=14)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--refit", action="store_true")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    rows = {}
    for family in options.families:
        kept = RESULTS / f"{family}.json"
        if options.again:  # a journal that is there would be resumed, not measured again
            kept.unlink(missing_ok=True)
            (RESULTS / f"{family}.ampere").unlink(missing_ok=True)
        if not kept.exists():
            row = run(family, options.threads, options.models, options.max_points)
            kept.write_text(json.dumps(row, indent=1) + "\n")
        elif options.refit:
            row = refit(family, json.loads(kept.read_text()))
            kept.write_text(json.dumps(row, indent=1) + "\n")
        rows[family] = json.loads(kept.read_text())
    text = table(rows)
    print(text)
    write_section("accuracy", text)


if __name__ == "__main__":
    main()
