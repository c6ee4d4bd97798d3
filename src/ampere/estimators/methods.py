"""Methods that a profile may be fitted by: the additive one, and the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ampere.errors import DataError
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.base import usable
from ampere.estimators.drift import STEADY
from ampere.estimators.fitting import fit_additive
from ampere.estimators.lending.lenders import Lenders
from ampere.estimators.paper import PaperFit, fit_paper
from ampere.estimators.survey import SurveyFit, fit_survey, is_survey
from ampere.records.measurement import Measurement

METHODS = ("additive", "paper")
MOST_ROWS, MOST_LAYERS = 2000, 4000  # of a fit: time grows with the cube of both, ten seconds here

ProfileFit: TypeAlias = AdditiveFit | SurveyFit | PaperFit


def fit_rows(
    measurements: Sequence[Measurement],
    method: str,
    kernel: str,
    drift: float = STEADY,
    lenders: Lenders | None = None,
) -> ProfileFit:
    """Fit measurements by a method of `METHODS`; only the paper's has a kernel to choose.

    `drift` is what is usual of such a device; `lenders` are other devices to learn from.

    Raises:
        DataError: There are none, or so many that no fit of them would ever end.
    """
    if method == "additive":
        if is_survey(measurements):
            return fit_survey(measurements, drift, lenders)
        return fit_additive(measurements, drift, lenders)
    if lenders is not None:
        raise DataError("only the additive method learns from other devices: leave method paper")
    rows = usable(measurements)
    layers = {layer.identity for row in rows for layer in row.layers}
    if len(rows) > MOST_ROWS or len(layers) > MOST_LAYERS:
        raise DataError(
            f"{len(rows)} rows with {len(layers)} different layers are too many for a fit: choose"
            f" up to {MOST_ROWS} rows with {MOST_LAYERS} layers among them"
        )
    return fit_paper(measurements, kernel)
