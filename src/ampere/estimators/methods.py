"""Methods that a profile may be fitted by: the additive one, and the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ampere.estimators.additive import AdditiveFit, fit_additive
from ampere.estimators.paper import PaperFit, fit_paper
from ampere.records.measurement import Measurement

METHODS = ("additive", "paper")

ProfileFit: TypeAlias = AdditiveFit | PaperFit


def fit_rows(measurements: Sequence[Measurement], method: str, kernel: str) -> ProfileFit:
    """Fit measurements by a method of `METHODS`; only the paper's has a kernel to choose."""
    if method == "paper":
        return fit_paper(measurements, kernel)
    return fit_additive(measurements)
