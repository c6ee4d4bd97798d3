"""Figure 8: the error of every method, by family and device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ampere.core.page import Page
from ampere.core.types import Json
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.scores import draw_bars, means, score_table, scores
from ampere_paper.experiments.words import cell, holds, span
from ampere_paper.figures import canvas
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.plans import FOUR

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ABOUT_TEN = 12.0  # percent that may be called about 10


class Fig8(Experiment):
    """End-to-end error of four families on every device."""

    name = "fig8"
    title = "End-to-end error of four families on every device"
    claim = "MAPE falls from about 40 % by FLOPs to about 10 % (section 4.1, Fig. 8)."
    figures = ("fig8",)
    families = FOUR

    def measure(self, lab: Laboratory) -> Json:
        return scores(lab, self.families)

    def draw(self, data: Json) -> Mapping[str, Figure]:
        families = canvas.families_of(data)
        figure, panels = canvas.grid(len(families), columns=1, height_in=1.45)
        figure.set_figwidth(7.2)
        for family, axes in zip(families, panels, strict=True):
            draw_bars(axes, [row for row in data if row["family"] == family])
            axes.set_title(canvas.FAMILIES[family], loc="left")
        figure.align_ylabels()
        text = "Mean absolute percentage error over unseen random members of each family."
        return {"fig8": canvas.finish(figure, data, text, legend=6)}

    def table(self, data: Json) -> Page:
        return score_table("MAPE in percent", data)

    def sentence(self, data: Json) -> str:
        mean = means(data)
        paper, flops = ([row["mape"][method] for row in data] for method in ("paper", "flops"))
        both = [p <= ABOUT_TEN and p < f / 2 for p, f in zip(paper, flops, strict=True)]
        additive = [row["mape"]["additive"] for row in data]
        return (
            f"Mean over {len(data)} pairs of family and device: FLOPs {mean['flops']:.1f} %, the"
            f" paper's method {mean['paper']:.1f} % ({span(paper)}), additive"
            f" {mean['additive']:.1f} % ({span(additive)}), NeuralPower"
            f" {cell(mean.get('neuralpower'))} %, metering again {mean['repeat']:.1f} %. That the"
            f" paper's method gets to about 10 % (at most {ABOUT_TEN:g} %) and under half of the"
            f" error of FLOPs: {holds(both, 'pair')}."
        )
