"""Study: a model and two that were cut to a budget, how each learned and what it took.

Plain data, so that tables and figures can be made anew from a file.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np

from ampere.core import units
from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import read_whole, write_whole
from ampere.core.page import Page
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.meters.base import Provenance
from ampere.records.measurement import read_provenance, utc_now

FORMAT = 1
MOST_BYTES = 2**24  # of a file; one of two thousand steps has 20 kB


@dataclass(frozen=True)
class Curve:
    """How training went, turn by turn; joules and seconds are those of all its steps so far."""

    name: str
    steps: tuple[int, ...]
    loss: tuple[float, ...]  # the mean of a turn's training steps
    accuracy: tuple[float, ...]  # on validation samples, after the turn
    energy_j: tuple[float, ...]
    time_s: tuple[float, ...]

    def __post_init__(self) -> None:
        columns = (self.steps, self.loss, self.accuracy, self.energy_j, self.time_s)
        lengths = set(map(len, columns))
        if len(lengths) != 1 or lengths == {0}:
            raise DataError(f"the curve {self.name} needs the same turns, 1 or more, of everything")
        for column in (self.steps, self.energy_j):
            if any(later <= sooner for sooner, later in itertools.pairwise((0, *column))):
                raise DataError(f"the curve {self.name} needs steps and joules that grow from 0 on")

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return {
            "name": self.name,
            "steps": list(self.steps),
            "loss": list(self.loss),
            "accuracy": list(self.accuracy),
            "energy_j": list(self.energy_j),
            "time_s": list(self.time_s),
        }

    @classmethod
    def read(cls, row: Fields) -> Curve:
        """Read back what `to_json` wrote."""
        return cls(
            name=row.text("name"),
            steps=tuple(_whole(step, row.place("steps")) for step in _column(row, "steps")),
            loss=_column(row, "loss"),
            accuracy=_column(row, "accuracy"),
            energy_j=_column(row, "energy_j"),
            time_s=_column(row, "time_s"),
        )


@dataclass(frozen=True)
class Contender:
    """One model of a study: what it is, what a step was estimated to cost, and how it did."""

    curve: Curve
    parameters: int
    flops: float  # of a step
    widths: Mapping[str, int]
    estimate_j: float  # of a step
    estimate_j_std: float
    test_loss: float
    test_accuracy: float

    @property
    def name(self) -> str:
        """`full`, or the guide that it was cut by."""
        return self.curve.name

    @property
    def energy_j(self) -> float:
        """Metered joules of the whole job."""
        return self.curve.energy_j[-1]

    @property
    def energy_j_per_step(self) -> float:
        """Metered joules of a step, on average."""
        return self.energy_j / self.curve.steps[-1]

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return {**asdict(self), "curve": self.curve.to_json(), "widths": dict(self.widths)}

    @classmethod
    def read(cls, row: Fields) -> Contender:
        """Read back what `to_json` wrote."""
        return cls(
            curve=Curve.read(row.inner("curve")),
            parameters=row.whole("parameters"),
            flops=row.number("flops", least=0.0),
            widths=row.wholes("widths"),
            estimate_j=row.number("estimate_j"),
            estimate_j_std=row.number("estimate_j_std"),
            test_loss=row.number("test_loss"),
            test_accuracy=row.number("test_accuracy"),
        )


def _column(row: Fields, name: str) -> tuple[float, ...]:
    """A number for every turn."""
    values = row.numbers(name)
    if None in values:
        raise DataError(f"{row.place(name)} has a null in it: it must be numbers alone")
    return tuple(float(value) for value in values if value is not None)


def _whole(value: float, place: str) -> int:
    if not value.is_integer():
        raise DataError(f"{place} must be whole numbers, not {value}")
    return int(value)


@dataclass(frozen=True)
class Study:
    """The full model and those cut to a budget, the same job each: who stays inside, who learns."""

    model: str
    data: str
    budget: str
    limit_j: float  # of the whole job, on the scale of this study's meter
    contenders: tuple[Contender, ...]  # full, energy, flops
    batch_size: int
    optimizer: str
    learning_rate: float
    strategy: str
    confidence: float
    seed: int
    provenance: Provenance
    device: str
    when: str = field(default_factory=utc_now)
    warnings: tuple[str, ...] = ()

    @property
    def curves(self) -> tuple[Curve, ...]:
        """How training went, of each."""
        return tuple(each.curve for each in self.contenders)

    @property
    def iterations(self) -> int:
        """How many steps each was trained for."""
        return self.contenders[0].curve.steps[-1]

    def share(self, contender: Contender) -> float:
        """Its metered joules as a share of the full model's."""
        return contender.energy_j / self.contenders[0].energy_j

    def share_std(self, contender: Contender) -> float | None:
        """The standard error of its share, by how it differs from turn to turn (jackknife).

        None after a single turn, which does not tell.
        """
        full, own = (
            np.diff((0.0, *each.curve.energy_j)) for each in (self.contenders[0], contender)
        )
        if len(own) < 2:
            return None
        shares = (own.sum() - own) / (full.sum() - full)
        return math.sqrt((len(shares) - 1) * float(shares.var()))

    def inside(self, contender: Contender) -> bool:
        """Whether its metered joules keep to the budget."""
        return contender.energy_j <= self.limit_j

    def to_json(self) -> dict[str, Json]:
        """Plain data; a figure can be drawn anew from it."""
        return {
            "ampere_study": FORMAT,
            **asdict(self),
            "contenders": [each.to_json() for each in self.contenders],
            "provenance": self.provenance.value,
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_json(cls, row: Json) -> Study:
        """Read back what `to_json` wrote.

        Raises:
            DataError: It is something else, or damaged.
        """
        if not isinstance(row, Mapping) or row.get("ampere_study") != FORMAT:
            raise DataError(f"not a study of ampere in format {FORMAT}: write it by to_json")
        fields = Fields(row)
        return cls(
            model=fields.text("model"),
            data=fields.text("data"),
            budget=fields.text("budget"),
            limit_j=fields.number("limit_j"),
            contenders=tuple(
                Contender.read(Fields(each, place))
                for place, each in fields.items("contenders", least=1, most=100)
            ),
            batch_size=fields.whole("batch_size", least=1),
            optimizer=fields.text("optimizer"),
            learning_rate=fields.number("learning_rate"),
            strategy=fields.text("strategy"),
            confidence=fields.number("confidence"),
            seed=fields.whole("seed"),
            provenance=read_provenance(fields.text("provenance", most=100)),
            device=fields.text("device"),
            when=fields.text("when"),
            warnings=tuple(
                Fields({place: text}).text(place) for place, text in fields.items("warnings")
            ),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, which `load` reads back."""
        text = json.dumps(self.to_json(), allow_nan=False) + "\n"
        try:
            write_whole(path, text)
        except OSError as error:
            raise DataError(f"cannot write {path}: {error.strerror or error}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Study:
        """Read back what `save` wrote."""
        try:
            return cls.from_json(parse_json(read_whole(path, MOST_BYTES)))
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from None
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    def __repr__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().html()

    def _page(self) -> Page:
        models = self.contenders
        a_step, steps_j = units.same_unit(
            [*(each.estimate_j for each in models), *(each.energy_j_per_step for each in models)],
            "J",
        )
        job, jobs_j = units.same_unit([each.energy_j for each in models], "J")
        rows = [
            (
                each.name,
                units.number(each.parameters),
                units.percent(each.flops / models[0].flops if models[0].flops else None),
                estimated,
                metered,
                total,
                units.percent(self.share(each)),
                units.percent(self.share_std(each)),
                "inside" if self.inside(each) else "OVER",
                f"{each.curve.loss[-1]:.3f}",
                units.percent(each.test_accuracy),
            )
            for each, estimated, metered, total in zip(
                models, steps_j[: len(models)], steps_j[len(models) :], jobs_j, strict=True
            )
        ]
        word = self.provenance.metered
        headers = (
            "model", "parameters", "FLOPs", f"estimate ({a_step})", f"{word} ({a_step})",
            f"job ({job})", "share", "± std", "budget", "loss", "accuracy",
        )  # fmt: skip
        return Page(
            self._title(),
            headers=headers,
            rows=rows,
            align="<>>>>>>><>>",
            facts=self._facts(),
        )

    def _title(self) -> str:
        return (
            f"{self.model} and two cut to {self.budget}, trained on {self.data}:"
            f" {units.plural(self.iterations, 'iteration')} each"
        )

    def _facts(self) -> list[tuple[str, str]]:
        origin = self.provenance.origin
        how = f"{self.optimizer} at a rate of {self.learning_rate:g}"
        facts = [
            ("budget", f"{self.budget}: {units.joules(self.limit_j)} for the job"),
            ("energy", f"joules are {origin}; loading and judging are not in them"),
            ("training", f"batches of {self.batch_size}, {how}, seed {self.seed}"),
            ("search", f"strategy {self.strategy}, confidence {units.percent(self.confidence)}"),
            ("judged by", "loss of the last turn in training, accuracy on test samples"),
            ("device", self.device),
        ]
        return [*facts, *(("warning", text) for text in self.warnings)]
