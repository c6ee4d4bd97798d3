"""Experiments: every figure and table of the paper, one small module each.

An experiment measures into notebooks, and makes plain data; from these alone come its figures, its
table, and the sentence that says what was found and whether the paper's claim holds here.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampere.errors import DataError
from ampere_paper.experiments.efficiency import Efficiency
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.fig2 import Fig2
from ampere_paper.experiments.fig4 import Fig4
from ampere_paper.experiments.fig5 import Fig5
from ampere_paper.experiments.fig6 import Fig6
from ampere_paper.experiments.fig7 import Fig7
from ampere_paper.experiments.fig8 import Fig8
from ampere_paper.experiments.fig9 import Fig9
from ampere_paper.experiments.fig10 import Fig10
from ampere_paper.experiments.fig11_12 import Fig11And12
from ampere_paper.experiments.fig13 import Fig13
from ampere_paper.experiments.kernels import Kernels
from ampere_paper.experiments.recorded import RecordedEnergies
from ampere_paper.experiments.samples import Samples
from ampere_paper.experiments.table1 import Table1

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Fig2(), Fig4(), Fig5(), Fig6(), Fig7(), Fig8(), Fig9(), Fig10(), Fig11And12(), Efficiency(),
        Table1(), Fig13(), Kernels(), Samples(), RecordedEnergies(),
    )
}  # fmt: skip


def choose(names: Iterable[str] = ()) -> list[Experiment]:
    """These experiments, in the paper's order; all if none is named.

    Raises:
        DataError: There is no such experiment.
    """
    wanted = set(names)
    if unknown := sorted(wanted - set(EXPERIMENTS)):
        valid = ", ".join(EXPERIMENTS)
        raise DataError(f"there is no experiment {unknown[0]!r}: use {valid}")
    return [each for name, each in EXPERIMENTS.items() if not wanted or name in wanted]
