"""Solutions: what a fit searched for, as plain data; with the same rows it makes the same fit.

Coefficients, hyper-parameters, the numbers of the rows left out and the point where the posterior
is densest are few, and finding them is what takes time. A fit is made of them and the rows without
searching, with the same operations in the same order, so it gives the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ampere.core.arrays import Array
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.base import Rejection
from ampere.estimators.encoding.places import STAIRS
from ampere.estimators.fitting import rebuild_additive
from ampere.estimators.lending.lenders import Lenders
from ampere.estimators.paper import KindHyper, PaperFit, fit_paper
from ampere.estimators.processes import gp, mode
from ampere.estimators.processes.covariance import Hyper
from ampere.estimators.processes.likelihood import SCALES
from ampere.estimators.processes.sum_process import SumProcess
from ampere.estimators.survey import SurveyFit, is_survey, rebuild_survey
from ampere.records.measurement import Measurement

MAY_BE_0 = ("fading", "beyond", "odd")
NUMBERS = (*SCALES, "size", "coefficient", *MAY_BE_0)


def solution_of(
    fit: AdditiveFit | SurveyFit | PaperFit, measurements: Sequence[Measurement]
) -> Json:
    """What was found when these measurements were fitted."""
    if isinstance(fit, PaperFit):
        kinds = {
            name: {
                "energy": _gp_to_json(process.energy.hyper),
                "time": None if process.time is None else _gp_to_json(process.time.hyper),
            }
            for name, process in fit.processes.items()
        }
        return {"kinds": kinds}
    numbers = {id(row): number for number, row in enumerate(measurements)}
    sums = fit.calls if isinstance(fit, SurveyFit) else fit
    return {
        "energy": _sums_to_json(sums.energy),
        "time": None if sums.time is None else _sums_to_json(sums.time),
        "rejected": [
            {
                "row": numbers[id(rejection.row)],
                "reason": rejection.reason,
                "seconds_only": rejection.seconds_only,
            }
            for rejection in fit.rejected
        ],
    }


def rebuild(
    solution: Json,
    measurements: Sequence[Measurement],
    method: str,
    kernel: str,
    lenders: Lenders | None = None,
) -> AdditiveFit | SurveyFit | PaperFit:
    """The fit that a solution of these measurements was taken from.

    Raises:
        DataError: It is no solution of these.
    """
    try:
        if method == "paper":
            kinds = {
                str(name): KindHyper(
                    energy=_gp_from_json(row["energy"]),
                    time=None if row["time"] is None else _gp_from_json(row["time"]),
                )
                for name, row in solution["kinds"].items()
            }
            return fit_paper(measurements, kernel, kinds)
        time = solution["time"]
        remake = rebuild_survey if is_survey(measurements) else rebuild_additive
        fit = remake(
            measurements,
            energy=_sums_from_json(solution["energy"]),
            time=None if time is None else _sums_from_json(time),
            rejected=[_rejection(row, measurements) for row in solution["rejected"]],
            lenders=lenders,
        )
    # Numbers of the wrong shape end in any of these.
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise DataError(f"no solution of these measurements ({error!r:.120})") from None
    _refuse_insane(fit.calls if isinstance(fit, SurveyFit) else fit)
    return fit


def _refuse_insane(fit: AdditiveFit) -> None:
    for process in (fit.energy, fit.time):
        if process is None:
            continue
        operations, features = len(fit.encoder.operations), process.layers.features.shape[1]
        if process.beta.shape != (operations + 1, features):
            raise DataError(f"coefficients of another shape: {process.beta.shape}")
        if len(process.hyper.lengths) != len(fit.encoder.coordinates):
            raise DataError(f"{len(process.hyper.lengths)} lengths of other coordinates")
        if not np.isfinite(process.alpha).all():
            raise DataError("its numbers are not finite")


def _sums_to_json(process: SumProcess) -> Json:
    solution, hyper = process.solution, process.hyper
    return {
        "hyper": {name: getattr(hyper, name) for name in NUMBERS} | {"lengths": [*hyper.lengths]},
        "beta": solution.beta.tolist(),
        "log_density": solution.log_density,
        "rounded": solution.rounded,
        "lent": solution.lent,
        "stretch": solution.stretch,
        "at": {name: values.tolist() for name, values in process.at._asdict().items()},
    }


def _sums_from_json(row: Mapping[str, Json]) -> mode.Solution:
    scales = {name: _number(row["hyper"][name], name in MAY_BE_0) for name in NUMBERS}
    lengths = tuple(map(_positive, row["hyper"]["lengths"]))
    beta = np.array(row["beta"], float)
    if beta.ndim != 2 or not np.isfinite(beta).all() or (beta < 0).any():
        raise DataError("coefficients are a table of numbers, none below 0")
    density = float(row["log_density"])
    rounded, lent = row["rounded"], row["lent"]
    if not isinstance(rounded, bool) or not isinstance(lent, bool):
        raise DataError(f"features are rounded or lent, or not: {rounded!r:.80}, {lent!r:.80}")
    hyper = Hyper(**scales, lengths=lengths)
    at, stretch = _point_from_json(row["at"], beta), _positive(row["stretch"])
    return mode.Solution(hyper, beta, density, rounded, lent, stretch, at)


def _point_from_json(row: Mapping[str, Json], beta: Array) -> mode.Point:
    """Its shapes are compared with those of the rows' layers where it is used (`Search`)."""
    tables = {"b": beta.shape[1], "gamma": STAIRS, "delta": beta.shape[1]}  # their columns
    values = {
        name: np.array(row[name], float).reshape(-1, tables[name])
        if name in tables
        else np.array(row[name], float)
        for name in mode.Point._fields
    }
    if not all(np.isfinite(each).all() for each in values.values()):
        raise DataError("a point has numbers that are not finite")
    return mode.Point(**values)


def _gp_to_json(hyper: gp.Hyperparameters) -> Json:
    return {
        "signal_var": hyper.signal_var,
        "lengths": [*hyper.lengths],
        "noise_var": hyper.noise_var,
    }


def _gp_from_json(row: Mapping[str, Json]) -> gp.Hyperparameters:
    return gp.Hyperparameters(
        signal_var=_positive(row["signal_var"]),
        lengths=tuple(map(_positive, row["lengths"])),
        noise_var=_positive(row["noise_var"]),
    )


def _rejection(row: Mapping[str, Json], measurements: Sequence[Measurement]) -> Rejection:
    number = row["row"]
    if not isinstance(number, int) or not 0 <= number < len(measurements):
        raise DataError(f"there is no row {number!r:.80}")
    return Rejection(measurements[number], str(row["reason"]), bool(row["seconds_only"]))


def _positive(value: Json) -> float:
    return _number(value, may_be_0=False)


def _number(value: Json, may_be_0: bool) -> float:
    if not isinstance(value, (int, float)) or not 0 <= value < math.inf or not (value or may_be_0):
        raise DataError(f"a hyper-parameter is a number above 0, not {value!r:.80}")
    return float(value)
