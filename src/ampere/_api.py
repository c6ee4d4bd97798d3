"""The verbs of ampere on whole models: what the command line and `import ampere` offer.

    profile(model)   learn what this device's layers cost      -> Profile
    measure(model)   meter a model itself                      -> Measured
    measure_loader() meter a data loader, workers included     -> MeasuredLoader
    evaluate(model)  compare estimates with metered models     -> Evaluation
    sample(model)    members of a model's family               -> list[Network]
    check()          how this machine repeats, and adds up     -> Check
    after_steps()    sharpen a profile by a few steps          -> Profile
    align(profile)   joules out of a lab meter's log           -> Profile
    calibrate(meter) fit the model of the meter `cpu`          -> Calibration

Each runs on this machine unless it is given another device: `open_device("ssh:pi@raspberrypi")`.
"""

from __future__ import annotations

import itertools
import os
import random
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from ampere.acquisition.families import Network, input_text, members, present_loss, read_network
from ampere.acquisition.loop import (
    Comebacks,
    fed_for,
    make_profiler,
    open_journal,
    reference_of,
    refuse_untrainable,
    rest,
    resume,
    run_profiler,
)
from ampere.acquisition.progress import Watch, unwatched
from ampere.acquisition.strategy import Strategy
from ampere.core.boundary.example_inputs import Input
from ampere.core.fingerprint import refuse_to_mix
from ampere.core.program.structure import TORCH
from ampere.core.training import Training
from ampere.core.workloads import ModelSpec, Settings, Workload
from ampere.devices.base import Device
from ampere.devices.local import LocalDevice
from ampere.devices.recorded import RecordedDevice
from ampere.devices.registry import device_or_local, opening
from ampere.errors import DataError, MeasurementFailed, MeterError
from ampere.estimators.lending.lenders import Lenders
from ampere.evaluation.check import PAUSE_S, Check
from ampere.evaluation.check import check as check_device
from ampere.evaluation.evaluate import BASELINES
from ampere.evaluation.evaluate import evaluate as evaluate_device
from ampere.evaluation.evaluation import Evaluation
from ampere.evaluation.known_repeats import keep_repeats, known_repeats
from ampere.evaluation.measured import Measured
from ampere.evaluation.measured_loader import MeasuredLoader
from ampere.frameworks.models import framework_of
from ampere.frameworks.readers import Model
from ampere.meters.base import AUTO, Meter
from ampere.meters.calibration import Calibration, Load, fit_watts, run_loads, store
from ampere.meters.registry import choose_meter, meter_classes
from ampere.profiles.profile import Profile
from ampere.records.measurement import Measurement, utc_now
from ampere.sittings.effort import Effort
from ampere.sittings.limit import Limit
from ampere.sittings.loading import measure_loader as meter_loader
from ampere.sittings.measure import measure as measure_workloads
from ampere.sittings.reference import take_reference


def profile(
    model: Model,
    input: Input | None = None,
    *,
    path: str | Path,
    device: Device | None = None,
    training: Training | None = None,
    strategy: Strategy | None = None,
    candidates: Sequence[Model] = (),
    effort: Effort | None = None,
    time_limit_s: float = float("inf"),
    energy_limit_j: float = float("inf"),
    sittings: int = 1,
    pause_s: float = 180.0,
    any_device: bool = False,
    lenders: Lenders | None = None,
    watch: Watch = unwatched,
) -> Profile:
    """Profile a model's family on a device; the file at `path` grows as it goes.

    What is measured is chosen so that members of the family are estimated well, or `candidates`,
    if these are what will be asked about; with `Strategy(per_layer=True)` also so that single
    layers are. A profile that is already there goes on where it stopped, trained as it was unless
    `training` is given. At the end it comes back to two of its networks, `sittings` times, the
    first time at once and then after a pause of `pause_s` each. `lenders` are other devices that
    this one may be like: fewer measurements of its own will do.
    """
    strategy = strategy or Strategy()
    training, input = training or training_for(path), fed_for(path, model, input)
    limit = Limit(time_limit_s)
    with _opened(device, model) as device:
        with opening(device):
            itself = read_network(model, input, training)
            asked_about = [read_network(each, input, training).layers for each in candidates]
        refuse_untrainable(device, itself)
        if not device.provenance.immediate:
            # The paper's surrogate: joules come too late to guide, seconds do not.
            strategy = replace(strategy, guide="time")
        journal, notes = open_journal(
            path,
            device,
            model=itself.name,
            input=input,
            any_device=any_device,
            effort=effort,
            limit=limit,
        )
        with journal:
            recorded = _recorded(device, itself)
            if recorded and strategy.method == "paper":
                raise DataError("a recorded device has no variants to choose: use method additive")
            profiler = make_profiler(itself, strategy, asked_about, effort, recorded, lenders)
            resume(profiler, journal.measurements)
            run_profiler(
                profiler,
                device,
                journal,
                effort=effort,
                limit=limit,
                energy_limit_j=energy_limit_j,
                comebacks=Comebacks(0 if recorded else sittings, pause_s),
                watch=watch,
            )
            measurements = tuple(journal.measurements)
    if profiler.cut_short and not measurements:
        raise MeasurementFailed(
            f"the limit was over before a network was measured (it took {limit.spent_s:.0f} s to"
            f" start and to calibrate): the same command goes on from there, give it more"
        )
    if profiler.cut_short:
        notes.append("a limit ended it early: the same command goes on and refines it")
    learned = Profile(measurements, journal.header, strategy.method, strategy.kernel, tuple(notes))
    return learned.borrowing(lenders)


def training_for(path: str | Path) -> Training:
    """How a profile's models are trained; the usual settings if there is no profile yet."""
    return Profile.load(path).training if Path(path).exists() else Training()


def measure(
    model: Model,
    input: Input | None = None,
    *,
    device: Device | None = None,
    training: Training | None = None,
    effort: Effort | None = None,
    sittings: int = 1,
    pause_s: float = 180.0,
) -> Measured:
    """Meter the training step of a model itself, in one sitting or in several with pauses."""
    if sittings < 1:
        raise DataError(f"{sittings} sittings measure nothing: use 1 or more")
    with _opened(device, model) as device:
        with opening(device):
            itself = read_network(model, input, training or Training())
        refuse_untrainable(device, itself)  # before anybody waits for a quiet machine
        nominal = take_reference(device, effort)
        rows: list[Measurement] = []
        for sitting in range(sittings):
            if sitting:
                rest(device, pause_s)
            work = [(itself.workload, itself.layers)]
            rows += measure_workloads(device, work, nominal, effort, known=rows)
            if rows[-1].failed is not None:
                raise MeasurementFailed(f"the model could not be metered: {rows[-1].failed}")
        fingerprint = device.fingerprint
    return Measured.of(rows, fingerprint, itself.name, known_repeats(fingerprint))


def measure_loader(
    loader: str, *, device: Device | None = None, effort: Effort | None = None
) -> MeasuredLoader:
    """Meter the data loader that a text names, `path/file.py:make_loader`, on this machine.

    It is drawn from in a process of its own. Joules of the processes that it starts are in it: in
    the place of the meter `cpu`, which does not see them, the meter `tree` is read.
    """
    with nullcontext(device) if device is not None else loader_device() as device:
        if not isinstance(device, LocalDevice):
            raise DataError("a loader is the user's code and loads here: use a local device")
        if device.meter["name"] == "cpu":
            raise DataError("the meter cpu does not see a loader's workers: use the meter tree")
        bursts = meter_loader(device, loader, effort)
        return MeasuredLoader(loader, bursts, device.fingerprint, device.provenance, utc_now())


def loader_device(
    settings: Settings | None = None,
    meter: str = AUTO,
    meter_settings: Mapping[str, float | str] | None = None,
) -> LocalDevice:
    """This machine under a meter that sees what a data loader's workers take."""
    name = choose_meter(meter)
    if "cpu" not in meter_classes()[name].accelerators:
        raise MeterError(f"{name} has no joules of the processor, which loads data: use another")
    return LocalDevice(settings, "tree" if name == "cpu" else name, meter_settings)


def after_steps(
    profile: Profile,
    model: Model,
    input: Input | None = None,
    *,
    steps: int = 20,
    device: Device | None = None,
    training: Training | None = None,
    any_device: bool = False,
    accept_busy: bool = False,
) -> Profile:
    """The profile, sharpened by a few steps of the very model that will be asked about.

    The device must be the profile's own, since the steps are metered on the profile's scale.
    """
    if steps < 2:
        raise DataError(f"{steps} step tells nothing of its own spread: use 2 or more")
    if profile.method == "paper":
        raise DataError("the paper's method cannot learn from whole models: use method additive")
    fed = profile.input_for(model) if input is None else input
    itself = read_network(model, fed, training or profile.training)
    rounds = min(steps, 5)
    few = Effort(
        warmup_s=0.0,
        min_rounds=rounds,
        max_rounds=rounds,
        steps=-(-steps // rounds),
        accept_busy=accept_busy,
    )
    with _opened(device, model) as device:
        if not any_device:
            refuse_to_mix(device.fingerprint, profile.header.fingerprint)
        refuse_untrainable(device, itself)
        nominal = reference_of(profile.header, device, few)
        work, known = [(itself.workload, itself.layers)], profile.measurements
        (row,) = measure_workloads(device, work, nominal, few, known=known)
    if row.failed is not None:
        raise MeasurementFailed(f"the model could not be metered: {row.failed}")
    _ = profile.fit  # it is conditioned on the row, which a fit anew of very many might not draw
    sharpened = profile.tell(row)
    faults = [each for each in sharpened.rejected if each.row is row and not each.seconds_only]
    if faults:
        # The profile knows nothing like it: the steps themselves are all there is to go by.
        reason = faults[0].reason
        warnings.warn(f"the profile does not fit this model, so only its steps count: {reason}",
                      stacklevel=2)  # fmt: skip
        return replace(profile, measurements=(row,))
    return sharpened


def evaluate(
    model: str,
    input: Input | None = None,
    *,
    path: str | Path,
    device: Device | None = None,
    models: int = 30,
    seed: int = 0,
    steps: int = 10,
    baselines: Collection[str] = tuple(BASELINES),
    training: Training | None = None,
    effort: Effort | None = None,
    any_device: bool = False,
    watch: Watch = unwatched,
) -> Evaluation:
    """Meter unseen members of a model's family, and compare the profile and baselines with them.

    NeuralPower, one of the baselines, needs measurements of its own: leave it out to be quick.
    """
    usual = Profile.load(path).training  # also: is there a profile at all?
    training = training or usual
    training = replace(training, loss=present_loss(training.loss))
    spec = ModelSpec(model, input_text(fed_for(path, model, input)), training)
    with _opened(device, model) as device:
        journal, notes = open_journal(path, device, any_device=any_device)
        for note in notes:
            warnings.warn(note, stacklevel=2)
        with journal:
            return evaluate_device(
                spec,
                journal,
                device,
                models=models,
                seed=seed,
                steps=steps,
                baselines=baselines,
                any_device=any_device,
                effort=effort,
                watch=watch,
            )


def sample(
    model: str,
    n: int = 5,
    input: Input | None = None,
    *,
    training: Training | None = None,
    seed: int = 0,
) -> list[Network]:
    """Members of a model's family at random, as the paper draws them (section 4.1).

    `profile.estimate(member.layers)` says what one of them will take.
    """
    training = training or Training()
    training = replace(training, loss=present_loss(training.loss))
    spec = ModelSpec(model, input_text(input), training)
    return list(itertools.islice(members(spec, random.Random(seed)), n))


def check(
    *,
    device: Device | None = None,
    effort: Effort | None = None,
    pause_s: float = PAUSE_S,
    watch: Watch = unwatched,
) -> Check:
    """How well does this machine repeat, at once and after a pause, and is energy additive on it?

    What it finds is remembered, so that `measure` knows it.
    """
    from ampere.pytorch.models import check_layers

    ends, stacked, other = check_layers()
    with device_or_local(device) as device:
        found = check_device(
            device, ends, stacked, other, effort=effort, pause_s=pause_s, watch=watch
        )
        keep_repeats(device.fingerprint, found.repeats)
    return found


def calibrate(
    meter: Meter | None = None,
    watts: Mapping[int, float] | None = None,
    watch: Callable[[str], None] = lambda text: None,
) -> Calibration:
    """Fit the watts of the meter `cpu` to a better meter, or to what a user read off one.

    Args:
        meter: A meter that measures this machine.
        watts: Power by the number of busy cores, in place of a meter.
        watch: Called with what is being run.
    """
    if (meter is None) == (not watts):
        raise DataError("give either a better meter, or watts by the number of busy cores")
    if meter is not None:
        if meter.provenance.metered != "measured":
            raise MeterError(f"{meter.name} does not measure: its joules are no better")
        loads = run_loads(meter, os.cpu_count() or 1, watch)
        against = f"the meter {meter.name}"
    else:
        loads = [Load(1.0, float(busy), power_w) for busy, power_w in (watts or {}).items()]
        against = "watts that were typed in"
    calibration = fit_watts(loads, against, utc_now())
    store(calibration)
    return calibration


def _opened(device: Device | None, model: Model) -> AbstractContextManager[Device]:
    """The given device, or this machine with the runtime of the model's framework."""
    return device_or_local(device, TORCH if device is not None else framework_of(model))


def _recorded(device: Device, itself: Network) -> list[Network]:
    """The networks of a model's kinds that a recorded device has; none if any can be measured."""
    if not isinstance(device, RecordedDevice):
        return []
    kinds = {layer.kind.name for layer in itself.layers}
    networks = [
        Network(f"recorded {i}", Workload(row.layers), row.layers)
        for i, row in enumerate(device.networks, 1)
        if any(layer.kind.name in kinds for layer in row.layers)
    ]
    if not networks:
        raise DataError(f"no network with a layer of {itself.name} was recorded")
    return networks


__all__ = [
    "after_steps",
    "calibrate",
    "check",
    "evaluate",
    "loader_device",
    "measure",
    "measure_loader",
    "profile",
    "sample",
]
