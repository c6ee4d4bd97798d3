"""The one sentence about ampere: how far estimates of a hundred random 5-layer CNNs are off.

    python benchmarks/published.py                     # about 10 minutes, 1 thread
    python benchmarks/published.py --models 3 --device simulated:xavier

The family `zoo:cnn5` is profiled by the additive method and by the paper's, on one scale; then
random members that neither has seen are metered twice, interleaved, and compared with both, with
FLOPs (calibrated on the networks that the additive method learned from), and with metering again:
the floor. Profiles and every metered model are kept in benchmarks/results, the table goes to
docs/paper/accuracy.md; a trial of fewer models or on another device keeps and writes nothing. Leave
the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from machine import RESULTS, machine_line, pack, show, write_section

import ampere
from ampere.acquisition.loop import open_journal
from ampere.core.layers import network_identity
from ampere.devices.base import Device
from ampere.estimators.base import Fit
from ampere.estimators.baselines.flops import fit_flops
from ampere.estimators.paper import fit_paper
from ampere.evaluation.evaluate import compare
from ampere.evaluation.evaluation import Evaluation
from ampere.records.journal import Journal

MODEL = "zoo:cnn5"
MODELS = 100
SEED = 1000  # that members are drawn by; profilers draw theirs by another
STRATEGIES = {
    "additive": ampere.Strategy(max_measurements=40, tolerance=1e-6),
    "paper": ampere.Strategy("paper", max_points=14),
}
TITLES = {
    "additive": "ampere, additive",
    "paper": "ampere, the paper's method",
    "flops": "FLOPs",
    "repeat": "metered again: the floor",
}


def journals(folder: Path) -> dict[str, Path]:
    return {method: folder / f"published_{method}.ampere" for method in STRATEGIES}


def profile(method: str, paths: dict[str, Path], device: Device) -> ampere.Profile:
    """A profile by a method; all of them have the scale of the first."""
    first, path = next(iter(paths.values())), paths[method]
    if path != first:
        Journal.open(path, ampere.Profile.load(first).header).close()
    strategy = STRATEGIES[method]
    return ampere.profile(MODEL, path=path, device=device, strategy=strategy, watch=show)


def evaluate(folder: Path, device: Device, models: int) -> tuple[Evaluation, dict[str, int]]:
    """Profile by both methods, then compare both with unseen members; and what each measured."""
    paths = journals(folder)
    profiles = {method: profile(method, paths, device) for method in paths}
    additive, paper = profiles["additive"], profiles["paper"]
    seen = {network_identity(row.layers) for row in additive.measurements}
    drawn = ampere.sample(MODEL, models + len(seen), seed=SEED)
    unseen = [each for each in drawn if network_identity(each.layers) not in seen][:models]
    others: list[Fit] = [fit_paper(paper.measurements), fit_flops(additive.measurements)]
    journal, _ = open_journal(paths["additive"], device)
    with journal:
        evaluation = compare(unseen, additive, others, journal, device, watch=show)
    return evaluation, {method: len(each.measurements) for method, each in profiles.items()}


def lines(kept: dict[str, Any]) -> list[str]:
    """The table, in Markdown."""
    text = [
        f"Machine: {kept['machine']} Joules are {kept['provenance']}. {len(kept['models'])} random"
        " 5-layer CNNs that no profile has seen, each metered twice.",
        "",
        "| method | networks measured | MAPE % | bias % | inside the 90 % interval |",
        "|---|---|---|---|---|",
    ]
    for method, title in TITLES.items():
        measured = kept["measured"].get(method, "")
        inside = f"{kept['coverage_90']:.0%}" if method == "additive" else ""
        error, bias = kept["mape"][method], kept["bias"][method]
        text.append(f"| {title} | {measured} | {error:.1f} | {bias:+.1f} | {inside} |")
    return [*text, *(f"\nWithout {reason}" for reason in kept["failed"])]


def main() -> None:
    """Profile, meter, compare; keep and write it if it is the whole."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--device", default="local", help="as ampere takes it")
    options = parser.parse_args()
    local, whole = options.device == "local", options.models >= MODELS
    settings = ampere.Settings(threads=1) if local else None
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(ampere.open_device(options.device, settings)) as device,
    ):
        evaluation, measured = evaluate(Path(folder), device, options.models)
        identity = device.fingerprint.identity
        told = {key: identity[key] for key in ("threads", "framework") if key in identity}
        kept = {
            **evaluation.to_json(),
            "measured": measured,
            "machine": machine_line(told if local else {"device": options.device}),
        }
        text = "\n".join(lines(kept))
        print(f"\n{text}")
        if local and whole:
            for path in journals(Path(folder)).values():
                pack(Path(shutil.copy(path, RESULTS)))
            (RESULTS / "published.json").write_text(json.dumps(kept, indent=1) + "\n")
            write_section("accuracy.md", "published", text)


if __name__ == "__main__":
    main()
