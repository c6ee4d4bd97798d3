"""Profile: what a device taught us. Its file is the journal; fits are made anew from it."""

from __future__ import annotations

import math
import os
import statistics
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy.typing as npt

from ampere.core import units
from ampere.core.arrays import Array
from ampere.core.fingerprint import Fingerprint
from ampere.core.groups import grouped
from ampere.core.layers import Layer, Role
from ampere.core.page import Page
from ampere.core.training import Training, stated_training
from ampere.core.variants import MOST_LAYERS
from ampere.errors import DataError
from ampere.estimators.additive import AdditiveFit, fit_additive
from ampere.estimators.base import Rejection, typical_error, usable
from ampere.estimators.paper import PaperFit, fit_paper
from ampere.meters.base import Provenance
from ampere.profiles.estimate import Estimate, estimate
from ampere.profiles.family_tables import FamilyTables
from ampere.records.journal import Header, Journal, read_journal
from ampere.records.measurement import Measurement

if TYPE_CHECKING:
    from torch import nn

    from ampere.pytorch.models import Input

METHODS = ("additive", "paper")
PAYOFF_STEPS = 20  # steps of a model that would tell its cost about as well
OLD_DAYS = 180
NOISY = 0.25  # relative spread of bursts above which figures are not to be trusted


@dataclass(frozen=True)
class Profile:
    """Measurements of one device, and the processes fitted to them. Plain data, no framework."""

    measurements: tuple[Measurement, ...]
    header: Header
    method: str = "additive"
    kernel: str = "matern52"
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise DataError(f"unknown method {self.method!r}: use one of {', '.join(METHODS)}")

    @classmethod
    def load(cls, path: str | os.PathLike[str], method: str = "additive") -> Profile:
        """Read a profile; loading one never executes code."""
        header, measurements = read_journal(path)
        _warn_if_old(header, path)
        return cls(tuple(measurements), header, method)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the profile to a new file."""
        if Path(path).exists():
            raise DataError(f"{path} exists: choose another name, or remove it first")
        with Journal.open(path, self.header) as journal:
            for measurement in self.measurements:
                journal.append(measurement)

    @cached_property
    def fit(self) -> AdditiveFit | PaperFit:
        """The fitted processes, made when first asked for."""
        if self.method == "paper":
            return fit_paper(self.measurements, self.kernel)
        return fit_additive(self.measurements)

    @property
    def rejected(self) -> tuple[Rejection, ...]:
        """Rows that the fit leaves out because all others contradict them."""
        if not usable(self.measurements) or not isinstance(self.fit, AdditiveFit):
            return ()
        return self.fit.rejected

    def tell(self, measurement: Measurement) -> Profile:
        """The profile with one more measurement: all layers in it are known better.

        Any network will do: a variant, a member of the family, a job, a few steps of a model. The
        file is left as it is (`ampere.tell` writes). A fit that was made is updated, not repeated.
        """
        told = replace(self, measurements=(*self.measurements, measurement))
        fit = self.__dict__.get("fit")
        if isinstance(fit, AdditiveFit):
            with suppress(DataError):  # new kinds of layers, or a surprise: the fit is made anew
                told.__dict__["fit"] = fit.tell(measurement)
        return told

    def tabulate(
        self,
        model: nn.Module | str | Sequence[Layer] | None = None,
        input: Input | None = None,
        *,
        training: Training | None = None,
        round_to: int = 1,
    ) -> FamilyTables:
        """Tables of what a model costs at any widths up to its own, for search over millions.

        The model is the one that the profile was made for, unless another one is given. Only sizes
        that are multiples of `round_to` are in them, where the model's own are.
        """
        from ampere.pytorch.graph.counter import with_features

        if not isinstance(self.fit, AdditiveFit):
            raise DataError("only the additive method makes tables: load it with method='additive'")
        if model is None:
            if self.header.model is None or ":" not in self.header.model:
                raise DataError("which model? the profile does not say how to build it again")
            model = self.header.model
        layers = self._layers(model, input, training)
        return FamilyTables(layers, self.fit, with_features, round_to)

    def estimate_many(self, widths: npt.ArrayLike) -> Array:
        """Joules per step of candidates of the model that the profile was made for.

        Rows of widths, in the order of `tabulate().names`; for other models keep `tabulate(model)`.
        """
        return self._tables.estimate_many(widths)

    def energy_gradient(self, widths: npt.ArrayLike) -> Array:
        """Joules per channel of each width of each of these candidates."""
        return self._tables.energy_gradient(widths)

    @cached_property
    def _tables(self) -> FamilyTables:
        return self.tabulate()

    @property
    def provenance(self) -> Provenance:
        """Where its joules come from; one row that was not measured makes all of it so."""
        found = [self.header.provenance, *(row.provenance for row in self.measurements)]
        return next((p for p in found if p.metered != "measured"), self.header.provenance)

    @property
    def device(self) -> str:
        """Whose profile it is, in a few words."""
        return describe_device(self.header.fingerprint)

    def estimate(
        self,
        model: nn.Module | str | Sequence[Layer],
        input: Input | None = None,
        *,
        training: Training | None = None,
        steps: int = 1,
        battery_wh: float | None = None,
    ) -> Estimate:
        """Joules and seconds of training a model, or plain layers, on this profile's device.

        It is trained as the profile was unless `training` is given.
        """
        if battery_wh is not None and not battery_wh > 0:
            raise DataError(f"a battery of {battery_wh} Wh holds nothing: use a number above 0")
        return estimate(
            self._layers(model, input, training),
            self.fit,
            steps=steps,
            battery_wh=battery_wh,
            device=self.device,
            provenance=self.provenance,
        )

    def _layers(
        self,
        model: nn.Module | str | Sequence[Layer],
        input: Input | None,
        training: Training | None,
    ) -> tuple[Layer, ...]:
        if isinstance(model, Sequence) and not isinstance(model, str):
            return tuple(map(self._counted, model))
        from ampere.pytorch.models import read

        return read(model, input, training or self.training)

    def _counted(self, layer: Layer) -> Layer:
        """The layer with its features, if the fit needs them and they can be counted."""
        fit = self.fit
        if not isinstance(fit, AdditiveFit) or fit.encoder.covers(layer):
            return layer
        if layer.kind.structure is None:
            return layer
        from ampere.pytorch.graph.counter import with_features

        return with_features(layer)

    @property
    def training(self) -> Training:
        """How most of the profile was trained; only what ends in a last layer has a loss."""
        ended = [m for m in self.measurements if m.layers[-1].kind.role is Role.LAST]
        stated = [
            training
            for m in ended or self.measurements
            if (training := stated_training(m.layers)) is not None
        ]
        return max(stated, key=stated.count, default=Training())

    @property
    def profiling_s(self) -> float:
        """Seconds spent on measuring, single stages for baselines left out."""
        return sum(m.cost_s for m in self.measurements if m.stage == "step")

    @property
    def profiling_j(self) -> float:
        """Joules of the bursts that were metered, warming up left out."""
        return math.fsum(m.metered_j for m in self.measurements if m.stage == "step")

    @property
    def pace(self) -> float | None:
        """How long steps took while profiling, as a multiple of when the profile was begun.

        Every figure is divided by the drift of its moment, so all are for the device as it was at
        the beginning; if that was an unusual moment, this is far from 1.
        """
        drift = [factor for m in self.measurements for factor in m.bursts.get("drift", [])]
        return statistics.median(drift) if drift else None

    def __repr__(self) -> str:
        return self._page().text()

    def _repr_html_(self) -> str:
        return self._page().html()

    def _page(self) -> Page:
        good = usable(self.measurements)
        failed = sum(m.failed is not None for m in self.measurements)
        layers = [layer for m in good for layer in m.layers]
        kinds = grouped(layers, lambda layer: layer.kind.name)
        rows = [
            (
                kind[0].kind.role.value,
                kind[0].kind.operation,
                " ".join(
                    f"{name}={min(layer.widths[name] for layer in kind)}"
                    f"..{max(layer.widths[name] for layer in kind)}"
                    for name in kind[0].widths
                ),
                units.number(len({layer.widths for layer in kind})),
                kind[0].kind.name,
            )
            for kind in kinds
        ]
        alone = sum(m.stage != "step" for m in self.measurements)
        facts = [
            ("energy", f"joules are {self.provenance.origin}"),
            ("measuring", self._price()),
            ("method", f"paper, kernel {self.kernel}" if self.method == "paper" else self.method),
        ]
        if error := typical_error(good):
            facts.append(("repeats", f"agree to {units.percent(error)} within a measurement"))
        if self.header.model:
            facts.append(("made for", self.header.model))
        if failed:
            facts.append(("failed", units.plural(failed, "measurement")))
        if alone:
            facts.append(("baselines", f"{units.plural(alone, 'measurement')} of single stages"))
        return Page(
            f"Profile of {self.device}: {units.plural(len(good), 'measurement')}"
            f" of {units.plural(len(kinds), 'kind')} of layers",
            headers=("role", "operation", "widths", "points", "kind"),
            rows=rows,
            align="<<<><",
            facts=[*facts, *(("warning", text) for text in self.warnings)],
        )

    @property
    def pays_off_after(self) -> int | None:
        """After how many models the profile has taken less time than some steps of each would."""
        good = usable(self.measurements)
        whole = [m for m in good if len(m.layers) > MOST_LAYERS] or good
        times = [m.time_s for m in whole if m.time_s_per_step is not None]
        if not times or not self.profiling_s:
            return None
        return math.ceil(self.profiling_s / (PAYOFF_STEPS * statistics.median(times)))

    def _price(self) -> str:
        """What measuring took, and how many models it saves running a few steps of."""
        text = f"took {units.seconds(self.profiling_s)}"
        if self.profiling_j:
            text += f" and {units.joules(self.profiling_j)}"
        if (models := self.pays_off_after) is not None:
            text += f"; pays off after {units.plural(models, 'model')} whose {PAYOFF_STEPS} steps"
            text += " need not be run"
        return text

    @property
    def warnings(self) -> tuple[str, ...]:
        """All that a reader should know before believing it."""
        good = usable(self.measurements)
        texts = []
        spread = statistics.median(m.spread for m in good) if good else 0.0
        if spread > NOISY:
            texts.append(
                f"bursts spread by {units.percent(spread)}: the machine was busy; see"
                " `ampere check`, and profile again when it is quiet"
            )
        pace = self.pace
        if pace is not None and abs(pace - 1) > 0.1:
            texts.append(
                f"steps took {pace:.2f} × what they took when the profile was begun; all its"
                " figures are for the pace of the beginning"
            )
        return (*texts, *self.notes, *self.doubts)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why to be careful: faults of its meter, rows left out, rough or not additive."""
        fit = self.fit if usable(self.measurements) else None
        fitted = fit.notes if isinstance(fit, AdditiveFit) else ()
        return (*_faults(self.measurements), *fitted)


def fit(
    measurements: Iterable[Measurement],
    method: str = "additive",
    kernel: str = "matern52",
    device: str = "unknown",
) -> Profile:
    """A profile from plain measurements, wherever they come from: no framework, no device."""
    rows = tuple(measurements)
    if not usable(rows):
        raise DataError("there is no measurement to fit: every row failed, or there are none")
    devices = {row.device for row in rows}
    provenances = {row.provenance for row in rows}
    if len(devices) > 1 or len(provenances) > 1:
        raise DataError(
            "rows of several devices or provenances do not mix:"
            f" {', '.join(sorted(devices))}; {', '.join(sorted(p.value for p in provenances))}"
        )
    name = next(iter(devices)) or device
    header = Header(Fingerprint({"device": name}), {"name": "unknown"}, next(iter(provenances)))
    return Profile(rows, header, method, kernel)


def _warn_if_old(header: Header, path: str | os.PathLike[str]) -> None:
    """Devices, drivers and frameworks change: whether an old profile holds must be looked at."""
    with suppress(ValueError, TypeError):  # whoever wrote it may have written any text
        days = (datetime.now(timezone.utc) - datetime.fromisoformat(header.created)).days
        if days > OLD_DAYS:
            text = f"{path} is {days} days old: `ampere evaluate` tells whether it still holds"
            warnings.warn(text, stacklevel=3)


def _faults(measurements: Sequence[Measurement]) -> list[str]:
    faults = sum(int(m.bursts.get("faults", 0)) for m in measurements)
    if not faults:
        return []
    times = units.plural(faults, "reading")
    return [f"{times} of the meter could not be true and had to be taken again: look at the meter"]


def describe_device(fingerprint: Fingerprint) -> str:
    """A device in a few words: what a reader needs to know whose joules these are."""
    identity = fingerprint.identity
    if "device" in identity:
        return identity["device"]
    parts = [
        fingerprint.conditions.get("host", ""),
        identity.get("processor", ""),
        f"{identity.get('cores', '?')} cores",
        _threads(identity.get("threads", "?")),
        identity.get("accelerator", ""),
        identity.get("framework", ""),
    ]
    return ", ".join(part for part in parts if part)


def _threads(count: str) -> str:
    return "1 thread" if count == "1" else f"{count} threads"
