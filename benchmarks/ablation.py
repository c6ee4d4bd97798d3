"""Ablation: what each part of the additive method's model is worth, one left out at a time.

    python benchmarks/recorded.py --data DIR --ablation     # a quarter of an hour

Asked are the questions of benchmarks/recorded.py, with fewer networks of each split; and, since
nobody who published tells when something was measured, two of this machine as well: members of six
families from 24 networks (benchmarks/additive.py), and LSTMs with two threads from a profile of
another moment (benchmarks/two_threads.py), both from the rows that are kept.

The library knows nothing of this: parts are left out by putting other values in the place of its
constants while a fit is made, and a test sees to it that each is really gone.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from machine import RESULTS, machine_line, write_section

from ampere.core.layers import Layer, network_identity
from ampere.estimators import candidates, fitting
from ampere.estimators.base import usable
from ampere.estimators.drift import usual_drift
from ampere.estimators.encoding import encoder as encoding
from ampere.estimators.encoding.encoder import Encoder
from ampere.estimators.encoding.places import BYTES
from ampere.estimators.fitting import fit_additive
from ampere.estimators.processes import likelihood, sum_process
from ampere.estimators.processes.likelihood import Prior
from ampere.estimators.processes.linear_mean import Layers
from ampere.estimators.processes.sum_process import Assumed
from ampere.records.journal import read_journal
from ampere.records.measurement import Measurement
from ampere.zoo.families import family_names
from ampere_paper.published.answers import Method, by_layers
from ampere_paper.published.cases import Case, Split
from ampere_paper.published.scores import attempt

NOTHING = 1e-9  # a standard deviation of nothing
KNOWN, SEEDS, TIMES = 24, 2, 3  # rows of a family, probes of it; profiles with two threads
ASKED = 60  # networks of a split at most
SURE = 2.0  # standard errors over the splits, from which on a change is marked
AS_IS = "the whole model"
SHORT = (
    "EC-NAS 20",
    "EC-NAS 40",
    "MLPs, 4 depths",
    "MLPs, 3 depths",
    "Raptorlake conv",
    "Raptorlake linear",
    "sweeps",
    "MLPs, 3 and a deep one",
    "board",
    "GPUs",
)

BY_LAYERS = by_layers(fit_additive)

Row = dict[str, Any]
Patch = Callable[[], AbstractContextManager[Any]]


def pinned(*names: str) -> Patch:
    """Without deviations of some sorts."""
    none = {name: Prior(NOTHING, 1.0, NOTHING, NOTHING) for name in names}
    return partial(patch.object, likelihood, "PRIORS", {**likelihood.PRIORS, **none})


def encoded(change: Callable[[Encoder, Layers], Layers]) -> Patch:
    """With layers that look otherwise."""
    encode = Encoder.encode

    def changed(encoder: Encoder, layers: Sequence[Layer]) -> Layers:
        return change(encoder, encode(encoder, layers))

    return partial(patch.object, Encoder, "encode", changed)


def assumed(**values: float) -> Patch:
    """With something else assumed where rows do not tell."""
    return partial(patch.object, candidates, "Assumed", partial(Assumed, **values))  # type: ignore[arg-type]


def without_stairs(_: Encoder, layers: Layers) -> Layers:
    return replace(layers, stairs=np.zeros_like(layers.stairs))


def without_traits(_: Encoder, layers: Layers) -> Layers:
    return replace(layers, traits=np.zeros_like(layers.traits))


def without_bytes(encoder: Encoder, layers: Layers) -> Layers:
    others = np.array([name != BYTES for name in encoder.coordinates], float)
    return replace(layers, x=layers.x * others)


# What is left out, as docs/additive.md calls it.
PARTS: Mapping[str, Patch] = {
    AS_IS: nullcontext,
    "M52 of an operation": pinned("operation"),
    "M52 of a kind": pinned("kind"),
    "M12": pinned("short"),
    "roughness": pinned("rough"),
    "b: coefficients are uncertain": assumed(coefficient=NOTHING),
    "stairs": encoded(without_stairs),
    "depth": pinned("depth"),
    "drift": pinned("sitting", "slow"),
    "noise falls with size": partial(patch.object, likelihood, "MOST_FADING", 0.0),
    "traits": encoded(without_traits),
    "bytes as a coordinate": encoded(without_bytes),
    "tiles in the mean": partial(patch.object, candidates, "ENOUGH", math.inf),
    "step by step": partial(patch.object, encoding, "starts", lambda kind: 1.0),
    "doubt beyond what was measured": assumed(beyond=0.0),
    "Student's distribution": partial(patch.object, sum_process, "inflation", lambda rows: 1.0),
    "widening by rows left out": partial(patch.object, fitting, "stretch_of", lambda *_: 1.0),
}


@dataclass(frozen=True)
class Question:
    """What is asked several times over, and how the rows of its device are fitted."""

    name: str
    splits: Sequence[Split]
    method: Method = BY_LAYERS


def questions(cases: Sequence[Case]) -> list[Question]:
    """Those of published rows, and those of this machine."""
    published = [Question(name, case.splits) for name, case in zip(SHORT, cases, strict=True)]
    every = [*published, of_families(), of_two_threads()]
    return [replace(each, splits=[fewer(split) for split in each.splits]) for each in every]


def fewer(split: Split) -> Split:
    """As many of what is asked as can be waited for."""
    asked = random.Random(0).sample(list(split.asked), min(ASKED, len(split.asked)))
    return Split(split.known, asked)


def rows_of(name: str) -> list[Measurement]:
    return usable(read_journal(RESULTS / f"{name}.ampere.gz")[1])


def of_families() -> Question:
    """Networks that a prober asked for first; members that were metered twice."""
    splits = []
    for family in family_names():
        first, second = (rows_of(f"additive_{family}_{name}") for name in ("first", "second"))
        truth = [
            replace(a, energy_j_per_step=(a.energy_j + b.energy_j) / 2)
            for a, b in zip(first, second, strict=True)
        ]
        for seed in range(SEEDS):
            known = rows_of(f"additive_{family}_seed{seed}")[:KNOWN]
            seen = {network_identity(row.layers) for row in known}
            asked = [row for row in truth if network_identity(row.layers) not in seen]
            splits.append(Split(known, asked))
    return Question("six families", splits)


def of_two_threads() -> Question:
    """A profile of a moment, and members that were metered later."""
    numbers = range(1, TIMES + 1)
    header, _ = read_journal(RESULTS / "two_threads_1.ampere.gz")
    splits = [
        Split(rows_of(f"two_threads_{i}"), rows_of(f"two_threads_{i}_members")) for i in numbers
    ]
    fit = partial(fit_additive, drift=usual_drift(header.fingerprint))
    return Question("two threads", splits, by_layers(fit))


def examine(question: Question) -> Row:
    """Mean error and interval score of each split."""
    attempts = [attempt(split, question.method) for split in question.splits]
    return {
        "mape": [statistics.fmean(abs(o.error) for o in each.outcomes) for each in attempts],
        "score": [statistics.fmean(o.score for o in each.outcomes) for each in attempts],
        "inside": [statistics.fmean(o.inside for o in each.outcomes) for each in attempts],
    }


def run(asked: Sequence[Question], parts: Mapping[str, Patch]) -> dict[str, dict[str, Row]]:
    """All questions with each part left out, by part and question."""
    found = {}
    for part, leave_out in parts.items():
        begun_s = time.process_time()
        with leave_out():
            found[part] = {question.name: examine(question) for question in asked}
        sys.stderr.write(f"without {part}: {time.process_time() - begun_s:.0f} s\n")
    return found


def change(whole: Sequence[float], without: Sequence[float]) -> tuple[float, bool]:
    """How much larger the mean over splits is without, as a share; and whether that is sure."""
    usual = statistics.fmean(whole)
    apart = [(b - a) / usual for a, b in zip(whole, without, strict=True)]
    mean = statistics.fmean(apart)
    if len(apart) < 2:
        return mean, False
    return mean, abs(mean) > SURE * statistics.stdev(apart) / math.sqrt(len(apart))


def table(found: Mapping[str, Mapping[str, Row]], figure: str, scale: float, digits: int) -> str:
    """A figure of the whole model, and its changes in percent without each part."""
    whole, *others = found.items()
    names = list(whole[1])
    lines = [["left out", *names], ["---"] * (len(names) + 1)]
    values = (statistics.fmean(row[figure]) for row in whole[1].values())
    lines.append([f"nothing: {figure_of(figure)}", *(f"{scale * v:.{digits}f}" for v in values)])
    for part, rows in others:
        lines.append([part, *cells(whole[1], rows, figure)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figure_of(name: str) -> str:
    return {"mape": "MAPE in %", "score": "interval score"}[name]


def cells(whole: Mapping[str, Row], without: Mapping[str, Row], figure: str) -> Iterator[str]:
    for name, row in whole.items():
        share, sure = change(row[figure], without[name][figure])
        number = f"{100 * share:+.0f}"
        text = "·" if number in ("+0", "-0") else number
        yield f"**{text}**" if sure and text != "·" else text


def page(kept: Mapping[str, Any]) -> str:
    """Both tables, and what they are of."""
    found = kept["parts"]
    splits = "; ".join(f"{name} ({len(row['mape'])})" for name, row in found[AS_IS].items())
    return "\n\n".join(
        [
            f"Fitted on: {kept['machine']} Splits: {splits}. Of each at most {ASKED} networks are"
            " asked. Changes in percent of the figure of the whole model (+: worse without that"
            f" part); bold where they are more than {SURE:g} standard errors over the splits, ·"
            " where they round to 0.",
            "Mean error:",
            table(found, "mape", 100, 1),
            "Interval score:",
            table(found, "score", 1, 2),
        ]
    )


def main(cases: Sequence[Case], out: Path, docs: bool) -> None:
    """Run all; keep and print the tables, and put them on their page, if that is wanted."""
    kept = {"machine": machine_line({}), "parts": run(questions(cases), PARTS)}
    out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    text = page(kept)
    print(text)
    if docs:
        write_section("published.md", "ablation", text)
