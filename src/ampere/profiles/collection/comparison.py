"""Comparison: one model over all devices of a library, side by side.

All are asked for the same layers in the same training, so that joules can be compared; where
profiles differ in runtime, meter or origin of joules, that is said beside them. A device whose
profile does not cover every layer has no total: it is named with the reason, not ranked.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ampere.core import units
from ampere.core.boundary.example_inputs import Input
from ampere.core.layers import Layer
from ampere.core.page import Page, Range
from ampere.core.training import Training, stated_training
from ampere.core.types import Json
from ampere.errors import AmpereError, NotCovered
from ampere.estimators.encoding.encoder import STEP
from ampere.frameworks.models import read
from ampere.frameworks.readers import Model
from ampere.profiles.cautions import UNSETTLED
from ampere.profiles.collection.cards import Card, grouped_names, training_text
from ampere.profiles.estimate import Estimate
from ampere.profiles.library import Library, twins

MOST_NAMES = 5  # of layers in a reason
LAYERS = "these layers"


@dataclass(frozen=True)
class Standing:
    """What a model costs on one device of a library."""

    card: Card
    estimate: Estimate
    layers: tuple[Layer, ...]

    @property
    def borrowed(self) -> int:
        """How many of its layers are of kinds that this device never ran."""
        return sum(line.borrowed for line in self.estimate.lines if line.layer != STEP)

    @property
    def extrapolated(self) -> int:
        """How many others lie beyond what was profiled of their kinds."""
        return sum(line.extrapolated and not line.borrowed for line in self.estimate.lines)

    @property
    def mark(self) -> str:
        """In a word, why to believe it less than others; empty if there is no reason."""
        return "borrowed" if self.borrowed else "extrapolated" if self.extrapolated else ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """The same in a few words, and how the device was profiled if that was otherwise."""
        every = units.plural(len(self.layers), "layer")
        texts = [
            f"{word}: {count} of {every}"
            for word, count in (("borrowed", self.borrowed), ("extrapolated", self.extrapolated))
            if count
        ]
        asked, known = stated_training(self.layers), self.card.trainings
        if asked is not None and known and replace(asked, loss="auto") not in known:
            texts.append(f"profiled with {training_text(known[0])}")
        return tuple(texts)

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        own = self.card.entry.profile
        return {
            "name": self.card.name,
            "device": self.card.device,
            "provenance": own.provenance.value,
            "metered": own.provenance.metered,
            "meter": self.card.meter,
            "runtime": list(self.card.framework),
            "energy_j": self.estimate.energy_j,
            "energy_j_interval": list(self.estimate.energy_j_interval),
            "time_s": self.estimate.time_s,
            "time_s_interval": list(self.estimate.time_s_interval or (None, None)),
            "remarks": list(self.remarks),
            "warnings": list(self.estimate.warnings),
        }


@dataclass(frozen=True)
class LeftOut:
    """A device that the model could not be asked of, and why."""

    name: str
    device: str
    reason: str
    readable: bool = True

    def to_json(self) -> dict[str, Json]:
        """Plain data."""
        return {"name": self.name, "device": self.device, "reason": self.reason}


@dataclass(frozen=True)
class Comparison:
    """Devices in the order of their joules, and those that have no answer."""

    model: str
    training: Training | None
    steps: int
    standings: tuple[Standing, ...]
    left_out: tuple[LeftOut, ...] = ()
    presumed: bool = False  # nobody said how it is trained

    @property
    def notes(self) -> tuple[str, ...]:
        """What differs between devices besides the devices."""
        return tuple(_differences([standing.card for standing in self.standings]))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is to be known of single profiles, each text once; lines are not shown here."""
        whose: defaultdict[str, list[str]] = defaultdict(list)
        for standing in self.standings:
            for text in standing.estimate.warnings:
                if not text.startswith(UNSETTLED):
                    whose[text].append(standing.card.name)
        return tuple(f"{', '.join(names)}: {text}" for text, names in whose.items())

    @property
    def setting(self) -> str:
        """How the model is trained, and whether that was only presumed."""
        if self.training is None:
            return "as the layers say"
        return training_text(self.training) + "; as most profiles were" * self.presumed

    def to_json(self) -> dict[str, Json]:
        """Plain data, as `ampere devices compare --json` prints it."""
        return {
            "model": self.model,
            "training": None if self.training is None else self.training.to_json(),
            "steps": self.steps,
            "devices": [standing.to_json() for standing in self.standings],
            "left_out": [each.to_json() for each in self.left_out],
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().html()

    def _page(self) -> Page:
        headers, rows, align = self.table()
        return Page(
            f"{units.plural(self.steps, 'training step')} of {self.model} by"
            f" {units.plural(len(self.standings), 'profile')}, estimated",
            headers=headers,
            rows=rows,
            align=align,
            ranges=[_range(standing) for standing in self.standings],
            facts=[
                ("training", self.setting),
                *(("left out", f"{each.name}: {each.reason}") for each in self.left_out),
                *(("note", text) for text in self.notes),
                *(("warning", text) for text in self.warnings),
            ],
        )

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]], str]:
        """Headers, rows and sides of the devices side by side."""
        estimates = [standing.estimate for standing in self.standings]
        unit, joules = units.same_unit([each.energy_j for each in estimates], "J")
        times = [math.nan if each.time_s is None else each.time_s for each in estimates]
        time_unit, seconds = units.same_time(times)
        headers = (
            *("name", "device", "joules", f"energy ({unit})", "90 % interval"),
            *(f"time ({time_unit})", "90 % interval", "remark"),
        )
        rows: list[tuple[str, ...]] = [
            (
                *(standing.card.name, standing.card.device, standing.card.joules),
                *(energy, _limits(standing.estimate.energy_j_interval, units.joules)),
                *(time, _limits(standing.estimate.time_s_interval, units.seconds)),
                "; ".join(standing.remarks),
            )
            for standing, energy, time in zip(self.standings, joules, seconds, strict=True)
        ]
        return headers, rows, "<<<>>>><"


def _range(standing: Standing) -> Range:
    estimate, limits = standing.estimate, standing.estimate.energy_j_interval
    text = _limits(limits, units.joules)
    return Range(standing.card.name, limits[0], estimate.energy_j, limits[1], text)


def common_training(library: Library) -> Training:
    """How most of its profiles were trained."""
    every = [entry.profile.training for entry in library.entries]
    return max(every, key=every.count, default=Training())


def compare_devices(
    library: Library,
    model: Model | Sequence[Layer],
    input: Input | None = None,
    *,
    training: Training | None = None,
    steps: int = 1,
    name: str | None = None,
) -> Comparison:
    """Estimates of one model for all devices of a library, those with least joules first.

    Args:
        library: The profiles.
        model: As for `Profile.estimate`; it is read once.
        input: What it is fed.
        training: The same for all; by default that of most profiles.
        steps: Of the job.
        name: What the model is called; by default what it calls itself.

    Raises:
        NotCovered: No profile covers the model.
        ModelError: The model cannot be read.
    """
    layers = _read(model, input, training or common_training(library))
    standings: list[Standing] = []
    left_out = [
        LeftOut(file.name, units.UNKNOWN, f"its file cannot be used: {file.reason}", readable=False)
        for file in library.unusable
    ]
    for entry in library.entries:
        card = Card(entry)
        try:
            standings.append(Standing(card, _estimate(card, layers, steps), layers))
        except AmpereError as error:
            left_out.append(LeftOut(card.name, card.device, str(error)))
    if not standings:
        raise NotCovered(_nobody(library, left_out))
    standings.sort(key=lambda standing: standing.estimate.energy_j)
    return Comparison(
        model=_name(model) if name is None else name,
        training=stated_training(layers),
        steps=steps,
        standings=tuple(standings),
        left_out=tuple(left_out),
        presumed=training is None and _name(model) != LAYERS,
    )


def _name(model: Model | Sequence[Layer]) -> str:
    if isinstance(model, str):
        return model
    return LAYERS if isinstance(model, Sequence) else type(model).__name__


def _read(
    model: Model | Sequence[Layer], input: Input | None, training: Training
) -> tuple[Layer, ...]:
    if isinstance(model, Sequence) and not isinstance(model, str):
        return tuple(model)
    return read(model, input, training)


def _estimate(card: Card, layers: Sequence[Layer], steps: int) -> Estimate:
    """What one device says; a sum that lacks layers would look cheap, so there is none."""
    try:
        found = card.entry.profile.estimate(layers, steps=steps)
    except NotCovered:
        raise NotCovered(f"covers no layer of it; it was {_made(card)}") from None
    if missing := found.uncovered:
        names = list(dict.fromkeys(layer.name for layer in missing))
        more = ", ..." if names[MOST_NAMES:] else ""
        raise NotCovered(
            f"does not cover {len(missing)} of {units.plural(len(layers), 'layer')}"
            f" ({', '.join(names[:MOST_NAMES])}{more}); it was {_made(card)}"
        )
    return found


def _made(card: Card) -> str:
    """What a profile was made for, as far as it says."""
    trained = f" with {training_text(card.trainings[0])}" if card.trainings else ""
    return f"made for {card.made_for or 'other layers'}{trained}"


def _differences(cards: Sequence[Card]) -> Iterator[str]:
    """What differs between profiles besides the devices."""
    origins = grouped_names(cards, _origin)
    if len(origins) > 1:
        yield f"joules are not of one kind: {_listed(origins)}; what is in them may differ, too"
    ran = [card for card in cards if not card.simulated]
    runtimes = grouped_names(ran, lambda card: ", ".join(card.framework) or units.UNKNOWN)
    if len(runtimes) > 1:
        yield f"runtimes differ: {_listed(runtimes)}"
    yield from twins(card.entry for card in cards)


def _origin(card: Card) -> str:
    return card.joules if card.simulated else f"{card.joules} by the meter {card.meter}"


def _listed(groups: Sequence[tuple[str, tuple[str, ...]]]) -> str:
    return "; ".join(f"{text} ({', '.join(names)})" for text, names in groups)


def _nobody(library: Library, left_out: Sequence[LeftOut]) -> str:
    """Why there is nothing to compare, by the example of the first profile that could be read."""
    own = [each for each in left_out if each.readable]
    first, others = own[0], len(own) - 1
    more = f"; neither do {units.plural(others, 'other')}" if others else ""
    return (
        f"no profile of {library.path} covers the model: {first.name} {first.reason}{more};"
        " profile it on a device first, with `ampere profile`"
    )


def _limits(limits: tuple[float, float] | None, in_words: Callable[[float], str]) -> str:
    """Each in a unit of its own: one that is borrowed may reach over decades."""
    return units.UNKNOWN if limits is None else " to ".join(map(in_words, limits))
