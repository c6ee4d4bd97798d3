"""Any model from one survey: public architectures that no profile has ever seen.

    python benchmarks/any_model.py --draw       # once: which architectures, into any_models.json
    python benchmarks/any_model.py --threads 1  # survey, zoo profiles, metering: forty minutes
    python benchmarks/any_model.py --tables     # of what is kept

Needs timm and transformers (`make test-integrations` makes such an environment). The architectures
were drawn by a fixed seed, and committed, before any of them was metered; modules of timm and types
of transformers that the method was developed with are not among them, and their families are left
out of the catalogue that guides the survey. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from catalogue import LANGUAGE, MOST_PARAMETERS, Tagger, spare_the_machine
from machine import RESULTS, machine_line, pack, show, write_section
from scipy.optimize import least_squares
from torch import Tensor, nn

import ampere
from ampere.acquisition.families import Network, read_network
from ampere.acquisition.loop import reference_of
from ampere.core.arrays import Array
from ampere.core.training import Training
from ampere.errors import AmpereError
from ampere.estimators.base import Fit, usable
from ampere.estimators.baselines.roofline import fit_roofline
from ampere.estimators.intervals import interval
from ampere.estimators.survey import fit_survey
from ampere.pytorch.models import read
from ampere.records.journal import Journal, read_journal
from ampere.records.measurement import Measurement
from ampere.sittings.effort import Effort
from ampere.sittings.measure import measure

LIST = Path(__file__).parent / "any_models.json"
MODULES, TYPES = 12, 4  # of timm and of transformers
# What the method was developed with, and what was metered of a first draw (0.12) and a second.
SEEN = ("resnet", "mobilenetv3", "vision_transformer", "convnext", "efficientnet", "densenet",
        "mlp_mixer", "vgg", "regnet", "byobnet", "swin_transformer", "metaformer", "cpubone",
        "cspnet", "dla", "edgenext", "efficientvim", "hrnet", "inception_v3", "inception_v4",
        "lowformer", "selecsls", "senet", "shvit", "visformer",
        "pit", "efficientvit_msra", "starnet", "csatv2", "ghostnet", "efficientformer", "gcvit",
        "hgnet", "resnetv2", "dpn", "hardcorenas", "inception_resnet_v2", "xception",
        "swiftformer", "fasternet")  # fmt: skip
SEEN_TYPES = ("bert", "gpt2", "llama", "bloom", "electra", "opt", "xlm-roberta", "mpnet", "t5")
LEAST_FLOPS, MOST_FLOPS, MOST_LANGUAGE = 3e8, 4e10, 1e11
SIDES, BATCHES = (64, 96, 128, 160, 192, 224), (1, 2, 4, 8, 16)
MINUTES = (2, 5, 10, 20)
PARTS = ("survey", "metered", "steps", "again", "zoo")
ZOO = ("lenet5", "cnn5", "har", "lstm", "transformer", "resnet")
MEDIAN, MEAN, FACTOR, COVERAGE = 0.10, 0.14, 1.5, (0.85, 0.95)  # what is wanted
# Ten steps, as a user takes them.
FEW = Effort(warmup_s=0.0, min_rounds=2, max_rounds=2, steps=5, accept_busy=True)


class Speech(nn.Module):
    """Sounds to letters: convolutions along time, a recurrent layer both ways, a letter a step."""

    def __init__(self, bands: int, width: int, hidden: int, letters: int) -> None:
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(bands, width, 5, 2, 2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 5, 1, 2), nn.BatchNorm1d(width), nn.ReLU(),
        )  # fmt: skip
        self.inner = nn.LSTM(width, hidden, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, letters)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of each step."""
        out, _ = self.inner(self.front(x).transpose(1, 2))
        scores: Tensor = self.head(out)
        return scores


def recurrent_speech() -> Speech:
    """A recogniser of speech."""
    return Speech(40, 160, 224, 29)


def recurrent_writer() -> Tagger:
    """A language model of two LSTM layers."""
    return Tagger("LSTM", 4000, 256, 352, 2, every=True)


RECURRENT = {
    "recurrent_speech": ("40x96", "40x160"),
    "recurrent_writer": ("40:int64<4000", "80:int64<4000"),
}


# --- Which ----------------------------------------------------------------------------------------


def settings(
    model: str,
    family: str,
    inputs: Sequence[str | None],
    rng: random.Random,
    most: float = MOST_FLOPS,
) -> list[dict[str, Any]]:
    """A model at sizes of batch, another for each input, none of them too large; all or none."""
    found: list[dict[str, Any]] = []
    for shape in inputs:
        for batch in rng.sample(BATCHES, len(BATCHES)):
            if any(row["batch"] == batch for row in found):
                continue
            try:
                layers = read(model, shape, Training(batch))
            except (AmpereError, RuntimeError, ValueError, AssertionError) as error:
                print(f"  not {model} {shape}: {str(error)[:90]}", file=sys.stderr)
                return []
            flops = sum(layer.features.flops or 0.0 for layer in layers)
            if sum(layer.params or 0 for layer in layers) > MOST_PARAMETERS:
                return []
            if LEAST_FLOPS <= flops <= most:
                optimizer = rng.choice(("sgd", "momentum", "adam", "adamw"))
                row = {"model": model, "family": family, "input": shape, "batch": batch}
                found.append({**row, "optimizer": optimizer})
                break
    return found if len(found) == len(inputs) else []


def of_timm(rng: random.Random, many: int) -> Iterator[dict[str, Any]]:
    """Models of so many modules of timm; what cannot be read or is too large is passed over."""
    from ampere.pytorch.public.timm_models import TIMM

    timm = TIMM.load("this benchmark")
    registry = import_module("timm.models._registry")
    modules = sorted({registry._model_to_module[name] for name in timm.list_models()} - set(SEEN))
    rng.shuffle(modules)
    for module in modules:
        names = sorted(n for n in timm.list_models() if registry._model_to_module[n] == module)
        name = rng.choice(names)
        config = timm.get_pretrained_cfg(name, allow_unregistered=True)
        fixed = config is None or config.fixed_input_size or "vit" in module
        sides = [None, None] if fixed else [f"3x{s}x{s}" for s in rng.sample(SIDES, 2)]
        rows = settings(f"timm:{name}", f"timm {module}", sides, rng)
        yield from rows
        many -= bool(rows)
        if not many:
            return


def of_transformers(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Models of so many types; the smallest of most take more FLOPs than vision's."""
    types = [kind for kind in LANGUAGE if kind not in SEEN_TYPES]
    rng.shuffle(types)
    left = TYPES
    for kind in types:
        names = [f"hf:{kind}(sequence={length})" for length in rng.sample((16, 32, 64), 2)]
        found = [settings(name, f"hf {kind}", [None], rng, MOST_LANGUAGE) for name in names]
        rows = [row for some in found for row in some]
        if len(rows) == 2:
            yield from rows
            left -= 1
        if not left:
            return


def drawn() -> Iterator[dict[str, Any]]:
    """Architectures by fixed seeds."""
    yield from of_timm(random.Random("any model, third draw"), MODULES)
    yield from of_transformers(random.Random("any model, third draw, transformers"))
    here = Path(__file__).relative_to(Path(__file__).parent.parent)
    rng = random.Random("any model, third draw, recurrent")
    for name, inputs in RECURRENT.items():
        yield from settings(f"{here}:{name}", name, inputs, rng)


def architectures() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(LIST.read_text())
    return rows


def network(row: dict[str, Any]) -> Network:
    return read_network(row["model"], row["input"], Training(row["batch"], row["optimizer"]))


# --- Measuring ------------------------------------------------------------------------------------


def kept(threads: int, what: str) -> Path:
    return RESULTS / f"any_model_{threads}_{what}.ampere"


def run(threads: int, minutes: float, parts: Collection[str]) -> None:
    """The survey, all architectures once, ten steps of each, once more, and profiles of the zoo.

    What other virtual machines take meanwhile cannot be ended: it is accepted, as doubt.
    """
    rows = architectures()
    asked = [network(row) for row in rows]
    effort = Effort(accept_busy=True)
    with ampere.LocalDevice(ampere.Settings(threads=threads)) as device:
        if "survey" in parts:
            begun = time.time()
            kept(threads, "survey").unlink(missing_ok=True)
            ampere.survey(
                kept(threads, "survey"),
                device=device,
                time_limit_s=60 * minutes,
                tolerance=1e-6,
                without={row["family"] for row in rows},
                effort=effort,
                watch=show,
            )
            pack(kept(threads, "survey"))
            sys.stderr.write(f"\nsurvey: {(time.time() - begun) / 60:.1f} min\n")
        header, surveyed = read_journal(packed(threads, "survey"))
        nominal = reference_of(header, device)
        known = list(surveyed)
        for part in ("metered", "steps", "again"):
            if part not in parts:
                continue
            kept(threads, part).unlink(missing_ok=True)
            with Journal.open(kept(threads, part), header) as journal:
                for each in asked:
                    work, keep = [(each.workload, each.layers)], journal.append
                    few = FEW if part == "steps" else effort
                    known += measure(device, work, nominal, few, known=known, keep=keep)
                    sys.stderr.write(f"\r{part}: {each.name:60.60}")
            pack(kept(threads, part))
        for name in ZOO if "zoo" in parts else ():
            strategy = ampere.Strategy(max_measurements=12, tolerance=1e-6)
            path = kept(threads, f"zoo_{name}")
            path.unlink(missing_ok=True)
            ampere.profile(f"zoo:{name}", path=path, device=device, strategy=strategy, watch=show)
            pack(path)
    text = machine_line({"threads": str(threads)})
    (RESULTS / f"any_model_{threads}.machine").write_text(text + "\n")


def packed(threads: int, what: str) -> Path:
    path = kept(threads, what)
    return path.with_name(f"{path.name}.gz")


# --- Scores ---------------------------------------------------------------------------------------


def first_minutes(rows: Sequence[Measurement], minutes: float) -> list[Measurement]:
    """What a survey had measured after so many minutes: by its clock, set-up included."""
    begun = min(row.timestamp - row.cost_s for row in rows)
    return [row for row in rows if row.timestamp - begun <= 60 * minutes]


def judged(fit: Fit, asked: Sequence[Measurement]) -> dict[str, Any]:
    """Errors of a fit, and how many lie inside their intervals."""
    errors, inside, halves = [], [], []
    for row in asked:
        total = fit.predict(row.layers).total
        errors.append(total.energy_j / row.energy_j - 1)
        low, high = interval(total.energy_j, total.energy_j_std)
        inside.append(low <= row.energy_j <= high)
        halves.append((high - low) / 2 / total.energy_j)
    return summary(errors) | {"inside": fmean(inside), "half": median(halves), "errors": errors}


def summary(errors: Sequence[float]) -> dict[str, Any]:
    absolute = [abs(error) for error in errors]
    factors = [math.exp(abs(math.log(max(1 + error, 1e-9)))) for error in errors]
    return {"median": median(absolute), "mean": fmean(absolute), "worst": max(factors)}


def flops_errors(known: Sequence[Measurement], asked: Sequence[Measurement]) -> list[float]:
    """Of a constant and joules per FLOP, fitted to the logarithms of all totals.

    Of networks that differ so much in joules per FLOP, least squares of relative errors would take
    the lowest line: twice too low is a smaller error than twice too high.
    """
    flops, joules = (np.array(list(map(each, known))) for each in (flops_of, energy_of))
    ratio = np.log(joules / flops)

    def misses(at: Array) -> Array:
        off: Array = np.log(np.exp(at[0]) + np.exp(at[1]) * flops) - np.log(joules)
        return off

    start = [math.log(joules.min()), float(np.median(ratio))]
    constant, slope = np.exp(least_squares(misses, start).x)
    return [float((constant + slope * flops_of(row)) / row.energy_j - 1) for row in asked]


def flops_of(row: Measurement) -> float:
    return math.fsum(layer.count * (layer.features.flops or 0.0) for layer in row.layers)


def energy_of(row: Measurement) -> float:
    return row.energy_j


def mean_of_both(threads: int) -> tuple[list[Measurement], float | None]:
    """Each architecture by its meterings, and how far two are apart."""
    first = read_journal(packed(threads, "metered"))[1]
    if not packed(threads, "again").exists():
        return list(usable(first)), None
    pairs = zip(first, read_journal(packed(threads, "again"))[1], strict=True)
    good = [(a, b) for a, b in pairs if a.failed is None and b.failed is None]
    joined = [replace(a, energy_j_per_step=math.sqrt(a.energy_j * b.energy_j)) for a, b in good]
    return joined, fmean(abs(a.energy_j / b.energy_j - 1) for a, b in good)


def score(threads: int) -> dict[str, Any]:
    header, surveyed = read_journal(packed(threads, "survey"))
    asked, floor = mean_of_both(threads)
    found: dict[str, Any] = {"floor": floor, "asked": len(asked), "when": header.created}
    rows = usable(surveyed)
    for minutes in MINUTES:
        some = first_minutes(rows, minutes)
        if minutes > MINUTES[0] and len(some) == found.get("last"):
            continue
        found["last"] = len(some)
        found[f"survey, {minutes} min"] = judged(fit_survey(some), asked) | {"rows": len(some)}
    ten = first_minutes(rows, 10)
    families = [packed(threads, f"zoo_{name}") for name in ZOO]
    if all(path.exists() for path in families):
        zoo = [row for path in families for row in read_journal(path)[1]]
        found["sum of zoo profiles"] = judged(ampere.fit(zoo).fit, asked)
    found["FLOPs, affine"] = summary(flops_errors(ten, asked))
    found["roofline"] = judged(fit_roofline(ten), asked)
    if packed(threads, "steps").exists():
        steps = {row.layers: row for row in read_journal(packed(threads, "steps"))[1]}
        found["ten metered steps"] = summary(
            [steps[row.layers].energy_j / row.energy_j - 1 for row in asked if row.layers in steps]
        )
    found["networks"] = [{"metered_j": row.energy_j, "seconds": row.time_s} for row in asked]
    return found


def table(found: dict[int, dict[str, Any]]) -> str:
    lines: list[str] = []
    for threads, scores in found.items():
        lines += [
            f"Machine: {(RESULTS / f'any_model_{threads}.machine').read_text().strip()} Joules are"
            " modelled from CPU time.",
            "",
            f"**{threads} thread{'s' * (threads > 1)}** ({scores['asked']} settings of public"
            f" architectures; {_apart(scores['floor'])}):",
            "",
            "| | networks | median % | mean % | largest factor | inside 90 % | half interval |",
            "|---" * 7 + "|",
        ]
        for name, row in scores.items():
            if isinstance(row, dict):
                inside = f"{row['inside']:.0%}" if "inside" in row else ""
                half = f"{row['half']:.0%}" if "half" in row else ""
                lines.append(
                    f"| {name} | {row.get('rows', '')} | {100 * row['median']:.1f} |"
                    f" {100 * row['mean']:.1f} | {row['worst']:.2f} | {inside} | {half} |"
                )
        lines.append("")
    return "\n".join(lines)


def _apart(floor: float | None) -> str:
    if floor is None:
        return "each metered once"
    return f"metering one twice, {100 * floor:.1f} % apart on average"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", action="store_true", help="which architectures")
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=20.0, help="of the survey")
    parser.add_argument("--parts", default=",".join(PARTS), help="what is measured")
    options = parser.parse_args()
    if options.draw:
        spare_the_machine()
        LIST.write_text(json.dumps(list(drawn()), indent=1) + "\n")
        return
    if not options.tables:
        run(options.threads, options.minutes, options.parts.split(","))
    found = {n: score(n) for n in (1, 2) if packed(n, "metered").exists()}
    (RESULTS / "any_model.json").write_text(json.dumps(found, indent=1) + "\n")
    write_section("accuracy.md", "any model", table(found))


if __name__ == "__main__":
    main()
