"""Figure 13: a 5-layer CNN cut to half of its energy, by joules and by FLOPs.

On every device both cuts are metered beside the full model. On this machine all three are trained
as well, on scikit-learn's digits: the paper's CelebA must be downloaded by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from ampere.core.groups import grouped
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.core.workloads import ModelSpec
from ampere.errors import DataError, NotCovered
from ampere.pruning.prune import prune
from ampere.pruning.search import GUIDES, Search
from ampere.pruning.verify import VERIFYING
from ampere.records.measurement import succeeded
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.words import cell, holds, span, table_of, where
from ampere_paper.figures import canvas
from ampere_paper.figures.style import INK
from ampere_paper.figures.training import LABELS, LOOKS, study_figure
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.notebooks import network
from ampere_paper.lab.plans import Sizes
from ampere_paper.lab.trials import Trial, trial_of
from ampere_paper.study.case_study import study
from ampere_paper.study.race import Schedule
from ampere_paper.study.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL = "zoo:cnn5"
BUDGET = "50%"
LIMIT = 0.5
TURNS = 40
LEARNING_RATE = 0.05  # with batches of 10 and plain gradient descent


class Fig13(Experiment):
    """Pruning to half of the energy."""

    name = "fig13"
    title = "Pruning to half of the energy"
    claim = (
        "Guided by ampere, pruning keeps to the budget of 50 % (49.2 %) without losing"
        " accuracy; guided by FLOPs it does not (section 4.3, Fig. 13)."
    )
    figures = ("fig13", "fig13_training")
    families = ("cnn5",)

    def measure(self, lab: Laboratory) -> Json:
        if lab.refit:
            raise NotCovered("another fit makes other cuts, which must be metered and trained")
        trials = [
            trial_of(lab, bench, "cnn5")
            for bench in lab.benches
            if lab.sizes(bench).cuts and "cnn5" in lab.sizes(bench).families
        ]
        if not trials:
            raise NotCovered("none of these devices has prunings in its plan")
        cuts = [
            _cut(lab, trial, seed)
            for trial in trials
            for seed in range(lab.sizes(trial.bench).cuts)
        ]
        return {"cuts": cuts, **_train(lab, trials)}

    def draw(self, data: Json) -> Mapping[str, Figure]:
        benches = grouped(data["cuts"], lambda row: row["bench"])
        figure, (axes,) = canvas.grid(1, height_in=2.2)
        figure.set_figwidth(max(3.5, 1.5 + 0.7 * len(benches)))
        places = np.arange(len(benches))
        for i, guide in enumerate(GUIDES):
            shares = [_shares(rows, guide) for rows in benches]
            at = places + (i - 0.5) * 0.36
            heights = [fmean(each) if each else 0.0 for each in shares]
            axes.bar(at, heights, 0.34, color=LOOKS[guide]["color"], label=LABELS[guide])
            for x, each in zip(at, shares, strict=True):
                text, top = (f"{fmean(each):.1f}", max(each)) if each else ("none", 0.0)
                axes.plot([x] * len(each), each, ".", color=INK, markersize=3, zorder=5)
                axes.annotate(
                    text,
                    (x, top),
                    xytext=(0, 3),
                    ha="center",
                    fontsize=6,
                    textcoords="offset points",
                    zorder=4,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4},
                )
        axes.axhline(100 * LIMIT, color=INK, linestyle=(0, (1, 1.5)), linewidth=1, label="budget")
        axes.set_xticks(places, [rows[0]["title"] for rows in benches])
        axes.set_xlim(-0.6, max(len(benches), 2) - 0.4)
        axes.tick_params("x", length=0)
        axes.grid(False, axis="x")
        axes.set_ylabel("energy of a step\n(% of the full CNN's)")
        largest = max(100 * LIMIT, *(max(_shares(data["cuts"], g), default=0.0) for g in GUIDES))
        axes.set_ylim(0, 1.12 * largest)
        text = f"5-layer CNNs cut to {BUDGET}; dots are single cuts."
        if any(row["refused"] for row in data["cuts"]):
            text += " None: even the smallest CNN takes more."
        drawn = {"fig13": canvas.finish(figure, data["cuts"], text, legend=3)}
        if data["study"]:
            drawn["fig13_training"] = study_figure(Study.from_json(data["study"]))
        return drawn

    def table(self, data: Json) -> Page:
        rows = [
            (
                *where(row),
                LABELS[guide],
                str(row["seed"]),
                cell(_percent(row["estimated"].get(guide))),
                cell(_percent(row["metered"].get(guide))),
                _verdict(row, guide),
                ", ".join(map(str, row["widths"].get(guide, {}).values())),
            )
            for row in data["cuts"]
            for guide in GUIDES
        ]
        headers = (
            "device",
            "joules",
            "guide",
            "seed",
            "estimated %",
            "metered %",
            "inside",
            "channels",
        )
        return table_of(f"5-layer CNNs cut to {BUDGET} of their energy", headers, rows)

    def sentence(self, data: Json) -> str:
        rows = [row for row in data["cuts"] if not row["refused"]]
        refused = sorted({row["title"] for row in data["cuts"] if row["refused"]})
        energy, flops = (_shares(rows, guide) for guide in GUIDES)
        text = ""
        if rows:
            inside = sum(share <= 100 * LIMIT for share in energy)
            only = [e <= 100 * LIMIT < f for e, f in zip(energy, flops, strict=True)]
            text = (
                f"Cut to {BUDGET} by joules, the CNN takes {span(energy)} of its energy, and is"
                f" inside in {inside} of {len(rows)} cuts; by FLOPs it takes {span(flops)}. That"
                f" the energy-guided one alone stays inside: {holds(only, 'cut')}."
            )
        if refused:
            names = ", ".join(refused)
            text += f" On {names} even the smallest CNN takes more than the budget, and is refused."
        if data["study"]:
            study = Study.from_json(data["study"])
            trained = ", ".join(
                f"{LABELS[each.name]} {100 * study.share(each):.1f} % of the energy at"
                f" {100 * each.test_accuracy:.1f} % accuracy"
                for each in study.contenders
            )
            text += f" Trained for {study.iterations} iterations on {study.data}: {trained}."
        if data["untrained"]:
            text += f" Nothing was trained: {data['untrained']}."
        return text.strip()

    def networks(self, sizes: Sizes) -> int:
        return 20 * sizes.cuts + sizes.iterations // 25


def _cut(lab: Laboratory, trial: Trial, seed: int) -> dict[str, Json]:
    """Both guides, metered in interleaved bursts beside the full model.

    A device on which even the smallest CNN takes more than half refuses the energy-guided one.
    """
    from ampere.frameworks.models import layers_of
    from ampere.pytorch.pruning.tuner import seeded

    profile, cut, refused = trial.profile, {}, {}
    for guide in GUIDES:
        try:
            with seeded(seed):
                cut[guide] = prune(
                    MODEL,
                    profile=profile,
                    budget=BUDGET,
                    search=Search(guide=guide, round_to=lab.sizes(trial.bench).round_to),
                    seed=seed,
                )
        except DataError as error:
            refused[guide] = str(error)
    networks = [
        network("full", layers_of(ModelSpec(MODEL))),
        *(network(guide, each.slim.layers) for guide, each in cut.items()),
    ]
    with lab.notebook(trial.bench, f"cut{seed}") as book:
        rows = succeeded([row for (row,) in book.measure(networks, effort=VERIFYING)], "a network")
    full_j, *cut_j = (row.energy_j for row in rows)
    return {
        **trial.place,
        "seed": seed,
        "full_j": full_j,
        "estimated": {
            guide: each.after.energy_j / each.before.energy_j for guide, each in cut.items()
        },
        "metered": {guide: own / full_j for guide, own in zip(cut, cut_j, strict=True)},
        "widths": {guide: dict(each.widths) for guide, each in cut.items()},
        "refused": refused,
    }


def _train(lab: Laboratory, trials: Sequence[Trial]) -> dict[str, Json]:
    """The full model and both cuts, trained side by side under the meter of this machine."""
    for trial in trials:
        iterations = lab.sizes(trial.bench).iterations
        if not iterations:
            continue
        try:
            trained = study(
                MODEL,
                "digits",
                profile=trial.profile,
                budget=BUDGET,
                schedule=Schedule(
                    iterations, every=max(5, iterations // TURNS), learning_rate=LEARNING_RATE
                ),
                watch=lab.watch,
            )
        except DataError as error:  # a short profile cannot be sure of any cut
            return {"study": None, "untrained": str(error)}
        return {"study": trained.to_json(), "untrained": None}
    return {"study": None, "untrained": None}


def _shares(rows: Sequence[Json], guide: str) -> list[float]:
    """Metered joules in percent of the full model's, where there is such a cut."""
    return [100 * row["metered"][guide] for row in rows if guide in row["metered"]]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _verdict(row: Json, guide: str) -> str:
    if guide not in row["metered"]:
        return "not possible"
    return "yes" if row["metered"][guide] <= LIMIT else "no"
