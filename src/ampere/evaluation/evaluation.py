"""Evaluation: errors of every method on the same unseen models, beside the floor of repeating."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ampere.core import units
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.meters.base import Provenance


@dataclass(frozen=True)
class ModelResult:
    """One unseen model: what was metered, twice, and what every method estimated before.

    `interval_j` is the 90 % interval of the first method; None where that does not cover the model.
    """

    model: str
    energy_j: float
    time_s: float
    first_j: float
    second_j: float
    estimates_j: Mapping[str, float]
    interval_j: tuple[float, float] | None
    flops: float

    def error(self, method: str) -> float | None:
        """The signed relative error of a method."""
        if method == "repeat":
            return self.first_j / self.second_j - 1
        estimate_j = self.estimates_j.get(method)
        return None if estimate_j is None else estimate_j / self.energy_j - 1

    @property
    def inside(self) -> bool:
        """Whether the metered joules lie inside the interval."""
        if self.interval_j is None:
            return False
        low, high = self.interval_j
        return low <= self.energy_j <= high

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return {
            "model": self.model,
            "energy_j_per_step": self.energy_j,
            "time_s_per_step": self.time_s,
            "metered_j": [self.first_j, self.second_j],
            "estimates_j": dict(self.estimates_j),
            "interval_j": None if self.interval_j is None else list(self.interval_j),
            "flops": self.flops,
        }


@dataclass(frozen=True)
class Evaluation:
    """Errors of every method on the same unseen models, beside the floor of repeating."""

    results: tuple[ModelResult, ...]
    failed: tuple[str, ...]
    measurements: int
    profiling_s: float
    device: str
    provenance: Provenance
    seconds: float
    left_out: tuple[str, ...] = ()  # methods that the runtime does not allow, with the reason

    @property
    def methods(self) -> list[str]:
        """Every method that estimated something, the floor last."""
        estimating = {method: None for result in self.results for method in result.estimates_j}
        return [*estimating, "repeat"]

    def mape(self, method: str) -> float | None:
        """Mean absolute percentage error."""
        errors = self._errors(method)
        return 100 * statistics.fmean(map(abs, errors)) if errors else None

    def bias(self, method: str) -> float | None:
        """Mean signed percentage error: above 0 means overestimated."""
        errors = self._errors(method)
        return 100 * statistics.fmean(errors) if errors else None

    def bias_by_size(self, method: str) -> list[float | None]:
        """The bias of the smallest, the middle and the largest third of the models."""
        ordered = sorted(self.results, key=lambda result: result.energy_j)
        thirds = [ordered[len(ordered) * i // 3 : len(ordered) * (i + 1) // 3] for i in range(3)]
        return [
            100 * statistics.fmean(errors) if (errors := _errors_of(method, third)) else None
            for third in thirds
        ]

    @property
    def coverage_90(self) -> float:
        """The share of models whose metered joules lie inside the 90 % interval."""
        return statistics.fmean(result.inside for result in self.results)

    def to_json(self) -> dict[str, Json]:
        """Plain data, as `ampere evaluate --json` has it: MAPE in percent, coverage as a share."""
        return {
            "mape": {method: self.mape(method) for method in self.methods},
            "bias": {method: self.bias(method) for method in self.methods},
            "bias_by_size": {method: self.bias_by_size(method) for method in self.methods},
            "coverage_90": self.coverage_90,
            "measurements": self.measurements,
            "profiling_s": self.profiling_s,
            "seconds": self.seconds,
            "device": self.device,
            "provenance": self.provenance.value,
            "failed": list(self.failed),
            **({"left_out": list(self.left_out)} if self.left_out else {}),
            "models": [result.to_json() for result in self.results],
        }

    def __repr__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().html()

    def _page(self) -> Page:
        rows = [
            (
                "repeat (the floor)" if method == "repeat" else method,
                *_percents(".1f", self.mape(method)),
                *_percents("+.1f", self.bias(method), *self.bias_by_size(method)),
                units.number(len(self._errors(method))),
            )
            for method in self.methods
        ]
        inside = units.percent(self.coverage_90)
        facts = [
            ("bias", "above 0 is overestimated; small, middle, large: by thirds of metered joules"),
            ("interval", f"the 90 % interval of {self.methods[0]} holds {inside} of the models"),
            (
                "cost",
                f"{units.plural(self.measurements, 'measurement')} in the profile,"
                f" {units.seconds(self.profiling_s)} of measuring;"
                f" {units.seconds(self.seconds)} for this evaluation",
            ),
            ("device", self.device),
            ("energy", f"joules are {self.provenance.origin}"),
            *(("failed", text) for text in self.failed),
            *(("left out", text) for text in self.left_out),
        ]
        return Page(
            f"Estimates of {units.plural(len(self.results), 'unseen model')} against metered ones",
            headers=("method", "MAPE %", "bias %", "small", "middle", "large", "models"),
            rows=rows,
            align="<>>>>>>",
            facts=facts,
            bars={"MAPE %": self._bars()},
        )

    def _bars(self) -> list[float | None]:
        """Errors as shares of the largest."""
        errors = [self.mape(method) for method in self.methods]
        largest = max((each for each in errors if each is not None), default=0.0)
        return [each / largest if each is not None and largest else None for each in errors]

    def by_model(self, *others: str) -> Page:
        """A line per model: its estimate with the interval, its metered joules, other methods."""
        first = self.methods[0]
        rows = [
            (
                result.model,
                *_joules(result.estimates_j.get(first)),
                " – ".join(map(units.joules, result.interval_j)) if result.interval_j else "-",
                units.joules(result.energy_j),
                *_errors_in_percent(result, first),
                *(
                    cell
                    for other in others
                    for cell in (
                        *_joules(result.estimates_j.get(other)),
                        *_errors_in_percent(result, other),
                    )
                ),
            )
            for result in self.results
        ]
        headers = ["model", "estimate", "90 % interval"]
        headers += [f"metered ({self.provenance.metered})", "error"]
        headers += [head for other in others for head in (f"by {other}", "error")]
        return Page(
            f"{units.plural(len(self.results), 'unseen model')}, joules of a training step",
            headers=headers,
            rows=rows,
            align="<" + ">" * (len(headers) - 1),
            facts=[("energy", f"joules are {self.provenance.origin}")],
        )

    def _errors(self, method: str) -> list[float]:
        return _errors_of(method, self.results)


def _joules(energy_j: float | None) -> list[str]:
    return ["-" if energy_j is None else units.joules(energy_j)]


def _errors_in_percent(result: ModelResult, method: str) -> list[str]:
    error = result.error(method)
    return ["-" if error is None else f"{100 * error:+.1f} %"]


def _percents(form: str, *values: float | None) -> list[str]:
    return ["-" if value is None else format(value, form) for value in values]


def _errors_of(method: str, results: Sequence[ModelResult]) -> list[float]:
    return [error for each in results if (error := each.error(method)) is not None]
