"""Figure 9: the error of every method on Transformers, by device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ampere.core.page import Page
from ampere.core.types import Json
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.scores import draw_bars, means, score_table, scores
from ampere_paper.experiments.words import beats_flops, cell, mean_errors
from ampere_paper.figures import canvas
from ampere_paper.lab.laboratory import Laboratory

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Fig9(Experiment):
    """Transformers."""

    name = "fig9"
    title = "Transformers"
    claim = "ampere consistently outperforms FLOPs on Transformers (section 4.1, Fig. 9)."
    figures = ("fig9",)
    families = ("transformer",)

    def measure(self, lab: Laboratory) -> Json:
        return scores(lab, self.families)

    def draw(self, data: Json) -> Mapping[str, Figure]:
        figure, (axes,) = canvas.grid(1, height_in=2.0)
        figure.set_figwidth(max(4.6, 0.8 * len(data)))
        draw_bars(axes, data)
        text = "Mean absolute percentage error over unseen random Transformers."
        return {"fig9": canvas.finish(figure, data, text, legend=3)}

    def table(self, data: Json) -> Page:
        return score_table("MAPE in percent", data)

    def sentence(self, data: Json) -> str:
        neuralpower = cell(means(data).get("neuralpower"))
        return f"{mean_errors(data)}, NeuralPower {neuralpower} %; {beats_flops(data)}."
