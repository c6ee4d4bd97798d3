"""Card: what is to be known of a profile before its joules stand beside another's.

Whose joules they are, who metered them and how, in which runtime, from how many rows, how old they
are, and how well the rows agree. What a file does not say is not said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ampere.core import units
from ampere.core.fingerprint import UNKNOWN
from ampere.core.training import Training, stated_training
from ampere.core.types import Json
from ampere.errors import AmpereError
from ampere.estimators.base import usable
from ampere.estimators.survey import is_survey
from ampere.meters.base import Provenance
from ampere.profiles.leave_one_out import Validation, validate
from ampere.profiles.library import Entry

CHEAP_ROWS = 200  # whose fit takes seconds at most, so that a whole folder can be asked
MOST_TRAININGS = 3  # in a line
ANY_MODEL = "any model"  # what a survey was made for
SWITCHES = (  # settings that are worth a word where they are not as usual
    ("compile", "True", "compiled"),
    ("tf32", "True", "TF32"),
    ("onednn", "False", "without oneDNN"),
)


@dataclass(frozen=True)
class Card:
    """A profile of a library in a few words."""

    entry: Entry

    @property
    def name(self) -> str:
        """By which it is known in its library."""
        return self.entry.name

    @property
    def device(self) -> str:
        """The hardware, without what runs on it."""
        fingerprint = self.entry.profile.header.fingerprint
        identity = fingerprint.identity
        parts = [
            fingerprint.conditions.get("host", ""),
            identity.get("processor", ""),
            f"{identity['cores']} cores" if "cores" in identity else "",
            accelerator if (accelerator := identity.get("accelerator", "cpu")) != "cpu" else "",
        ]
        own = identity.get("device") or ", ".join(filter(None, parts)) or UNKNOWN
        others = len(self.entry.profile.devices) - 1
        return f"{own}, mixed with {units.plural(others, 'other device')}" if others else own

    @property
    def joules(self) -> str:
        """Where its joules come from: `measured (counter)`, `modelled`, `simulated`..."""
        provenance = self.entry.profile.provenance
        measured = self.metered == "measured"
        return f"measured ({provenance.value})" if measured else self.metered

    @property
    def metered(self) -> str:
        """How its joules may be called: `measured`, `modelled`, `simulated` or `recorded`."""
        return self.entry.profile.provenance.metered

    @property
    def simulated(self) -> bool:
        """Whether nothing ran at all."""
        return self.entry.profile.provenance is Provenance.SIMULATED

    @property
    def meter(self) -> str:
        """The name of its meter."""
        return str(self.entry.profile.header.meter.get("name", UNKNOWN))

    @property
    def framework(self) -> tuple[str, ...]:
        """Framework, threads and whatever else was switched; empty if nothing is known of it."""
        identity = self.entry.profile.header.fingerprint.identity
        threads = identity.get("threads", "")
        parts = [
            identity.get("framework", ""),
            "1 thread" if threads == "1" else f"{threads} threads" if threads else "",
            *(word for name, value, word in SWITCHES if identity.get(name) == value),
        ]
        return tuple(filter(None, parts))

    @property
    def runtime(self) -> str:
        """What ran there, and how networks were trained, in a line."""
        unknown = "nothing ran, it is simulated" if self.simulated else "runtime unknown"
        trainings = [training_text(training) for training in self.trainings[:MOST_TRAININGS]]
        if len(self.trainings) > MOST_TRAININGS:
            trainings.append("and others")
        return "; ".join([", ".join(self.framework) or unknown, *trainings])

    @cached_property
    def trainings(self) -> tuple[Training, ...]:
        """How its networks were trained, the most frequent first; empty if no row says."""
        rows = usable(self.entry.profile.measurements)
        stated = [
            replace(training, loss="auto")  # only last layers have one
            for row in rows
            if (training := stated_training(row.layers)) is not None
        ]
        return tuple(sorted(dict.fromkeys(stated), key=stated.count, reverse=True))

    @property
    def rows(self) -> int:
        """How many rows there are to learn from."""
        return len(usable(self.entry.profile.measurements))

    @property
    def made_for(self) -> str:
        """What it was made for, as the file says; a survey for whatever is asked about."""
        profile = self.entry.profile
        return ANY_MODEL if is_survey(profile.measurements) else str(profile.header.model or "")

    @property
    def begun(self) -> str:
        """The day on which it was begun; whoever wrote the file may have written any text."""
        return self.entry.profile.header.created[:10]

    def own_error(self, most_rows: int | None = None) -> Validation | str:
        """What its rows say of each other, leave one out; or why that is not known.

        Args:
            most_rows: Of a profile that is fitted for it.
        """
        if most_rows is not None and self.rows > most_rows:
            return "not asked for: many rows"
        try:
            return validate(self.entry.profile.fit) or "too few rows"
        except AmpereError as error:
            return f"cannot be fitted: {error}"

    def to_json(self, most_rows: int | None = None) -> dict[str, Json]:
        """Plain data, as `ampere devices list --json` prints it."""
        profile, error = self.entry.profile, self.own_error(most_rows)
        return {
            "name": self.name,
            "file": str(self.entry.path),
            "device": self.device,
            "fingerprint": profile.header.fingerprint.id,
            "provenance": profile.provenance.value,
            "metered": profile.provenance.metered,
            "meter": self.meter,
            "runtime": list(self.framework),
            "trainings": [training.to_json() for training in self.trainings],
            "rows": self.rows,
            "failed": sum(row.failed is not None for row in profile.measurements),
            "made_for": self.made_for or None,
            "created": profile.header.created,
            "leave_one_out": None if isinstance(error, str) else _validation_row(error),
        }


def training_text(training: Training) -> str:
    """Batch, optimiser and precision in a few words."""
    return f"batches of {training.batch_size}, {training.optimizer}, {training.precision}"


def short_error(error: Validation | str) -> str:
    """The own error in a table's cell."""
    return error.partition(":")[0] if isinstance(error, str) else f"{_central(error):.1f} %"


def long_error(error: Validation | str) -> str:
    """The own error with what it rests on."""
    if isinstance(error, str):
        return error
    average = "mean" if error.of == "network" else "median"
    return (
        f"{_central(error):.1f} % ({average} of {units.plural(len(error), error.of)}, leave one"
        f" out; {error.inside} lie inside their 90 % interval); no test on fresh models, which"
        " `ampere evaluate` is"
    )


def grouped_names(
    cards: Sequence[Card], tell: Callable[[Card], str]
) -> list[tuple[str, tuple[str, ...]]]:
    """What is told of profiles, each text once, with the names of those that it is told of."""
    texts = dict.fromkeys(map(tell, cards))
    return [(text, tuple(card.name for card in cards if tell(card) == text)) for text in texts]


def _central(error: Validation) -> float:
    """Layers of which subtraction leaves next to nothing would decide over a mean."""
    return error.mape if error.of == "network" else error.median


def _validation_row(error: Validation) -> dict[str, Json]:
    return {
        "of": error.of,
        "count": len(error),
        "mean_percent": error.mape,
        "median_percent": error.median,
        "inside": error.inside,
    }
