"""Experiments: every figure and table of the paper, one small module each.

An experiment measures into notebooks, and makes plain data; from these alone come its figures, its
table, and the sentence that says what was found and whether the paper's claim holds here.
"""

from __future__ import annotations

from collections.abc import Iterable

from ampere.errors import DataError
from ampere_paper.experiments.efficiency import EFFICIENCY
from ampere_paper.experiments.experiment import Experiment
from ampere_paper.experiments.fig2 import FIG2
from ampere_paper.experiments.fig4 import FIG4
from ampere_paper.experiments.fig5 import FIG5
from ampere_paper.experiments.fig6 import FIG6
from ampere_paper.experiments.fig7 import FIG7
from ampere_paper.experiments.fig8 import FIG8, FIG9
from ampere_paper.experiments.fig10 import FIG10
from ampere_paper.experiments.fig11_12 import FIG11_12
from ampere_paper.experiments.fig13 import FIG13
from ampere_paper.experiments.kernels import KERNELS_COMPARED
from ampere_paper.experiments.recorded import RECORDED
from ampere_paper.experiments.samples import SAMPLES
from ampere_paper.experiments.table1 import TABLE1

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        FIG2, FIG4, FIG5, FIG6, FIG7, FIG8, FIG9, FIG10, FIG11_12, EFFICIENCY, TABLE1, FIG13,
        KERNELS_COMPARED, SAMPLES, RECORDED,
    )
}  # fmt: skip


def choose(names: Iterable[str] = ()) -> list[Experiment]:
    """These experiments, in the paper's order; all if none is named.

    Raises:
        DataError: There is no such experiment.
    """
    wanted = set(names)
    if unknown := sorted(wanted - set(EXPERIMENTS)):
        known = ", ".join(EXPERIMENTS)
        raise DataError(f"there is no experiment {unknown[0]!r}: use {known}")
    return [each for name, each in EXPERIMENTS.items() if not wanted or name in wanted]
