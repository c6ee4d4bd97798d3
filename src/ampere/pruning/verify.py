"""Verification: narrower models under the meter, before anything is trained.

A share of the full model is as uncertain as both estimates are. So the best candidates are metered
beside the whole model, and what they took is told to the profile, which then knows better what
others of about these widths take: the search is repeated, for wider ones where all were inside, and
for narrower ones where none was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ampere.core.choices import resize
from ampere.core.fingerprint import refuse_to_mix
from ampere.core.layers import Layer
from ampere.core.units import plural
from ampere.core.workloads import Workload
from ampere.devices.base import Device
from ampere.errors import DataError, DeviceError, MeasurementFailed
from ampere.frameworks.models import with_features
from ampere.profiles.profile import Profile
from ampere.pruning.search import Candidates
from ampere.records.measurement import Measurement, succeeded
from ampere.sittings.effort import Effort
from ampere.sittings.measure import measure
from ampere.sittings.reference import Reference

ROUNDS = 3
BESIDE = 3  # candidates that are metered together, at least
NEAR = 0.98  # of what is allowed: nothing is gained by looking on
VERIFYING = Effort(min_rounds=20, max_rounds=40, target=0.01)


@dataclass(frozen=True)
class Verification:
    """Meter candidates beside the whole model; those over the budget are dropped.

    They are looked for again with what was metered, unless one is just inside.

    Args:
        device: Where to meter; this machine unless given.
        any_device: Meter on another device than the profile's all the same.
        effort: How carefully to meter.
    """

    device: Device | None = None
    any_device: bool = False
    effort: Effort = VERIFYING

    def refuse_others(self, device: Device, profile: Profile) -> None:
        """Raise unless a device is the profile's own, or any will do."""
        if not self.any_device:
            refuse_to_mix(device.fingerprint, profile.header.fingerprint)


@dataclass(frozen=True)
class Round:
    """What candidates took, and the whole model beside them."""

    candidates: Candidates
    whole: Measurement
    rows: Sequence[Measurement]
    shares: Sequence[float]  # what each took of what is allowed


@dataclass(frozen=True)
class Verified:
    """Candidates inside the budget by the meter, or the nearest one where none is; and all rows."""

    candidates: Candidates  # those that keep most come first
    rounds: Sequence[Round]
    held: bool  # whether they are inside
    cut_short: str = ""  # why it was not looked on

    @property
    def dropped(self) -> int:
        """How many took too much before the last round."""
        return sum(share > 1 for each in self.rounds[:-1] for share in each.shares)

    def rows_of(self, widths: Mapping[str, int]) -> tuple[Measurement, Measurement]:
        """What the whole model and this candidate took, side by side."""
        return next(
            (each.whole, row)
            for each in self.rounds
            for metered, row in zip(each.candidates, each.rows, strict=True)
            if metered == widths
        )


class Learner(Protocol):
    """Who looks for candidates, and knows more with what was metered."""

    def learned(self: L, rounds: Sequence[Round]) -> L:
        """The same with these rows."""

    def find(self) -> Candidates:
        """The best candidates inside the budget."""

    def at_most(self, widths: Mapping[str, int]) -> float:
        """What a candidate takes with the asked confidence, as a share of what is allowed."""

    def score(self, widths: Mapping[str, int]) -> float:
        """How much of the model a candidate keeps."""


L = TypeVar("L", bound=Learner)


@dataclass(frozen=True)
class Verifier:
    """Who meters candidates beside the whole model, all burst by burst in turn.

    `allowed` is a share of what the whole model takes, or joules of a step.
    """

    device: Device
    nominal: Reference
    layers: Sequence[Layer]
    effort: Effort
    allowed: float
    is_share: bool
    watch: Callable[[str], None]

    def check(self, candidates: Candidates) -> Verified:
        """Those that the meter has inside, in their order."""
        metered = self.meter(candidates)
        inside = [
            widths for widths, share in zip(candidates, metered.shares, strict=True) if share <= 1
        ]
        return Verified(inside or [_nearest([metered])], [metered], bool(inside))

    def improve(self, candidates: Candidates, learner: L) -> tuple[Verified, L]:
        """Those that are inside, after looking on with what was metered; and who knows it.

        A meter errs, too, and of several candidates the one that it flatters would be taken. So
        what counts is inside by all that is known, and not by its own reading alone.
        """
        rounds, cut_short = [self.meter(candidates)], ""
        while True:
            learner = learner.learned(rounds)
            inside = [
                widths
                for each in rounds
                for widths, share in zip(each.candidates, each.shares, strict=True)
                if share <= 1 and learner.at_most(widths) <= 1
            ]
            inside.sort(key=learner.score, reverse=True)
            if len(rounds) == ROUNDS:
                break
            try:
                found = learner.find()
            except DataError:  # even the smallest takes more: what there is stays, and is told so
                break
            new = [each for each in found if not any(each in past.candidates for past in rounds)]
            if not new or (inside and learner.at_most(inside[0]) >= NEAR):
                break
            try:
                rounds.append(self.meter(new))
            except (MeasurementFailed, DeviceError) as error:
                if not inside:
                    raise
                cut_short = str(error)
                break
        return Verified(inside or [_nearest(rounds)], rounds, bool(inside), cut_short), learner

    def meter(self, candidates: Candidates) -> Round:
        """What candidates take, and the whole model beside them."""
        self.watch(f"metering {plural(len(candidates), 'candidate')} beside the whole model")
        networks = [tuple(self.layers)] + [
            tuple(map(with_features, resize(self.layers, widths))) for widths in candidates
        ]
        work = [(Workload(layers), layers) for layers in networks]
        whole, *rows = succeeded(measure(self.device, work, self.nominal, self.effort), "the model")
        most_j = self.allowed * (whole.energy_j if self.is_share else 1.0)
        return Round(candidates, whole, rows, [row.energy_j / most_j for row in rows])


def _nearest(rounds: Sequence[Round]) -> Mapping[str, int]:
    """The candidate that takes least of what is allowed."""
    pairs = [pair for each in rounds for pair in zip(each.shares, each.candidates, strict=True)]
    return min(pairs, key=lambda pair: pair[0])[1]
