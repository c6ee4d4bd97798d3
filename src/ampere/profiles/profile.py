"""Profile: what a device taught us. Its file is the journal; fits are made from it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy.typing as npt

from ampere.core import units
from ampere.core.arrays import Array
from ampere.core.boundary.example_inputs import Input
from ampere.core.boundary.trust import refuse_code
from ampere.core.fingerprint import Fingerprint, crowding, describe_device, runtime_of
from ampere.core.inputs import Inputs
from ampere.core.layers import Layer, Role
from ampere.core.training import Training, stated_training
from ampere.errors import DataError
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.base import Rejection, usable
from ampere.estimators.drift import usual_drift
from ampere.estimators.lending.lenders import Lenders
from ampere.estimators.methods import METHODS, ProfileFit, fit_rows
from ampere.estimators.paper import PaperFit
from ampere.estimators.survey import SurveyFit, is_survey
from ampere.frameworks.models import is_translation, read, with_features
from ampere.frameworks.readers import Model
from ampere.meters.base import Provenance
from ampere.profiles.doubts import (
    age,
    meter_faults,
    mixtures,
    pace_of,
    restlessness,
)
from ampere.profiles.estimate import Estimate, estimate
from ampere.profiles.fit_cache import FitCache, Fits
from ampere.profiles.jobs.job import Job
from ampere.profiles.jobs.whole_job import whole_job
from ampere.profiles.summary import pays_off_after, summarise
from ampere.profiles.tables.family_tables import FamilyTables
from ampere.records.journal import (
    Header,
    create_journal,
    devices_of,
    journal_bytes,
    parse_journal,
    provenance_of,
)
from ampere.records.measurement import Measurement, refuse_untrue


@dataclass(frozen=True)
class Profile:
    """Measurements of one device, and the processes fitted to them. Plain data, no framework."""

    measurements: tuple[Measurement, ...]
    header: Header
    method: str = "additive"
    kernel: str = "matern52"
    notes: tuple[str, ...] = field(default=(), compare=False)
    lenders: Lenders | None = field(default=None, compare=False, repr=False)
    _fits: Fits = field(default_factory=Fits, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise DataError(f"unknown method {self.method!r}: use one of {', '.join(METHODS)}")

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], method: str = "additive", *, keep_fit: bool = False
    ) -> Profile:
        """Read a profile; loading one never executes code.

        With `keep_fit`, what fitting it finds is kept in the user's cache, and used the next time.
        """
        return cls.parse(path, journal_bytes(path), method, keep_fit=keep_fit)

    @classmethod
    def parse(
        cls,
        path: str | os.PathLike[str],
        data: bytes,
        method: str = "additive",
        *,
        keep_fit: bool = False,
    ) -> Profile:
        """The profile that these bytes of a journal are; `path` is for messages."""
        header, measurements = parse_journal(path, data)
        profile = cls(tuple(measurements), header, method)
        profile._fits.cache = FitCache.of(data) if keep_fit else None
        return profile

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the profile to a new file."""
        if Path(path).exists():
            raise DataError(f"{path} exists: choose another name, or remove it first")
        create_journal(path, self.header, self.measurements)

    @property
    def fit(self) -> ProfileFit:
        """The fitted processes, made when first asked for."""
        fits = self._fits
        if fits.made is None:
            make = fit_rows if fits.cache is None else fits.cache.fit
            drift = usual_drift(self.header.fingerprint)
            fits.made = make(self.measurements, self.method, self.kernel, drift, self.lenders)
        return fits.made

    def borrowing(self, lenders: Lenders | None) -> Profile:
        """The profile, with other devices to learn from; its rows and its file stay as they are."""
        profile = replace(self, lenders=lenders)
        profile._fits.cache = self._fits.cache
        return profile

    @property
    def rejected(self) -> tuple[Rejection, ...]:
        """Rows that the fit leaves out because all others contradict them."""
        if not usable(self.measurements) or isinstance(self.fit, PaperFit):
            return ()
        return self.fit.rejected

    def tell(self, measurement: Measurement) -> Profile:
        """The profile with one more measurement: all layers in it are known better.

        Any network will do: a variant, a member of the family, a job, a few steps of a model. The
        file is left as it is (`ampere.tell` writes). A fit that was made is updated, not repeated.
        """
        profile = replace(self, measurements=(*self.measurements, measurement))
        if isinstance(self._fits.made, (AdditiveFit, SurveyFit)):
            with suppress(DataError):  # new kinds of layers, or a surprise: the fit is made anew
                profile._fits.made = self._fits.made.tell(measurement)
        return profile

    def tabulate(
        self,
        model: Model | Sequence[Layer] | None = None,
        input: Input | None = None,
        *,
        training: Training | None = None,
        round_to: int = 1,
    ) -> FamilyTables:
        """Tables of what a model costs at any widths up to its own, for search over millions.

        The model is the one that the profile was made for, unless another one is given. Only sizes
        that are multiples of `round_to` are in them, where the model's own are.
        """
        self.require_tables()
        assert isinstance(self.fit, AdditiveFit)
        if self.fit.encoder.lenders is not None:
            raise DataError("what other devices lend has no tables: estimate candidates one by one")
        if model is None:
            model = self._own_model()
        layers = self._layers(model, input, training)
        return FamilyTables(layers, self.fit, with_features, round_to)

    def require_tables(self) -> None:
        """Raise if no tables can be made of its rows; before anything is fitted."""
        if self.method != "additive":
            raise DataError("only the additive method makes tables: load it with method='additive'")
        if is_survey(self.measurements):
            raise DataError("a survey makes no tables yet: use a profile of the model's family")

    def _own_model(self) -> str:
        """What the profile was made for, if it can be built again without code that it names."""
        model = self.header.model
        if model is None or ":" not in str(model):
            raise DataError("which model? the profile does not say how to build it again")
        refuse_code(model, "model", "tabulate(model)")
        return str(model)

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
        return provenance_of(self.header, self.measurements)

    @property
    def devices(self) -> tuple[str, ...]:
        """Whose rows it has, its own device first; more than one only if they were mixed."""
        return devices_of(self.header, self.measurements)

    @property
    def device(self) -> str:
        """Whose profile it is, in a few words."""
        own, others = describe_device(self.header.fingerprint), len(self.devices) - 1
        return f"{own}, mixed with {units.plural(others, 'other device')}" if others else own

    @property
    def runtime(self) -> str:
        """Who trained its networks on the device: torch, or another runtime."""
        return runtime_of(self.header.fingerprint)

    def estimate(
        self,
        model: Model | Sequence[Layer],
        input: Input | None = None,
        *,
        training: Training | None = None,
        steps: int | None = None,
        job: Job | None = None,
        battery_wh: float | None = None,
    ) -> Estimate:
        """Joules and seconds of training a model, or plain layers, on this profile's device.

        It is trained as the profile was unless `training` is given. Of a `job`, validation and data
        loading are in it, too, as far as the job has them; else it is of so many steps.
        """
        if job is not None and steps is not None:
            raise DataError("a job says itself how long it is: leave steps out")
        if battery_wh is not None and not battery_wh > 0:
            raise DataError(f"a battery of {battery_wh} Wh holds nothing: use a number above 0")
        training = training or self.training
        cache = self._fits.cache
        if cache is not None and isinstance(model, str) and input is None:
            layers = cache.layers(model, training, lambda: self._layers(model, None, training))
        else:
            layers = self._layers(model, input, training)
        answer = estimate(
            layers,
            self.fit,
            steps=1 if steps is None else steps,
            battery_wh=battery_wh,
            device=self.device,
            provenance=self.provenance,
            warnings=self.warnings,
        )
        translated = is_translation(layers, self.runtime, named=isinstance(model, str))
        answer = replace(answer, runtime=self.runtime, translated=translated)
        if job is None:
            return answer
        batch_size, idle_w = training.batch_size, self.header.idle_w
        return whole_job(answer, job, batch_size=batch_size, layers=layers, idle_w=idle_w)

    def input_for(self, model: Model) -> Inputs | None:
        """What a model is fed where nobody says so: what the profile's own was told to be fed.

        Only a model of the same name, whatever its arguments, is taken for one of its family.
        """
        asked = _family(model if isinstance(model, str) else type(model).__name__)
        own = _family(str(self.header.model or ""))
        shorter = ":" not in asked or ":" not in own  # a class, and the file that it stands in
        same = asked == own or (shorter and asked.split(":")[-1] == own.split(":")[-1])
        return self.header.input if same else None

    def _layers(
        self,
        model: Model | Sequence[Layer],
        input: Input | None,
        training: Training | None,
    ) -> tuple[Layer, ...]:
        if isinstance(model, Sequence) and not isinstance(model, str):
            return tuple(map(self._counted, model))
        fed = self.input_for(model) if input is None else input
        return read(model, fed, training or self.training)

    def _counted(self, layer: Layer) -> Layer:
        """The layer with its features, if the fit needs them and they can be counted."""
        fit = self.fit
        if isinstance(fit, PaperFit) or (
            isinstance(fit, AdditiveFit) and fit.encoder.covers(layer)
        ):
            return layer
        if isinstance(fit, SurveyFit) and layer.work:
            return layer
        if layer.kind.structure is None:
            return layer
        return with_features(layer)

    @property
    def training(self) -> Training:
        """How most of the profile was trained; only what ends in a last layer has a loss."""
        ended = [m for m in self.measurements if m.layers[-1].kind.role is Role.LAST]
        if is_survey(ended):  # of batches and optimisers it has all, of precisions one
            own = next(filter(None, (stated_training(m.layers) for m in ended)), Training())
            return Training(dtype=own.dtype, amp=own.amp)
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
        return pace_of(self.measurements)

    def __repr__(self) -> str:
        return summarise(self).text()

    def _repr_html_(self) -> str:
        return summarise(self).html()

    @property
    def pays_off_after(self) -> int | None:
        """After how many models the profile has taken less time than a short run of each would."""
        return pays_off_after(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """All that a reader should know before believing it."""
        return (
            *mixtures(self.header, self.measurements),
            *age(self.header),
            *crowding(self.header.fingerprint),
            *self._restlessness,
            *self.notes,
            *self.doubts,
        )

    @cached_property
    def _restlessness(self) -> tuple[str, ...]:
        """Every estimate says it, and it takes a look at all rows."""
        return tuple(restlessness(self.measurements))

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why to be careful: faults of its meter, rows left out, rough or not additive."""
        fit = self.fit if usable(self.measurements) else None
        fitted = () if fit is None or isinstance(fit, PaperFit) else fit.notes
        return (*meter_faults(self.measurements), *fitted)


def _family(model: str) -> str:
    """The name of a model without its arguments."""
    return model.partition("(")[0].strip()


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
    for number, row in enumerate(rows, 1):
        refuse_untrue(row, number)
    devices = {row.device for row in rows}
    provenances = {row.provenance for row in rows}
    if len(devices) > 1 or len(provenances) > 1:
        raise DataError(
            "rows of several devices or provenances do not mix:"
            f" {', '.join(sorted(devices))}; {', '.join(sorted(p.value for p in provenances))}"
        )
    name = next(iter(devices)) or device
    header = Header(Fingerprint({"device": name}), {"name": "unknown"}, next(iter(provenances)))
    return Profile(rows, header, method=method, kernel=kernel)
