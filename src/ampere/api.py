"""The verbs of ampere on whole models: what the command line and `import ampere` offer.

    profile(model)   learn what this device's layers cost      -> Profile
    measure(model)   meter a model itself                      -> Measurement
    evaluate(model)  compare estimates with metered models     -> Evaluation
    check()          is this machine quiet, is energy additive -> Check
    after_steps()    sharpen a profile by a few steps          -> Profile
    ask(profile)     what to measure elsewhere                 -> networks
    tell(profile)    add measurements from elsewhere           -> Profile
    align(profile)   joules out of a lab meter's log           -> Profile
    calibrate(meter) fit the model of the meter `cpu`          -> Calibration

Each runs on this machine unless it is given another device: `open_device("ssh:pi@raspberrypi")`.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ampere import tables
from ampere.aligning import align as align_rows
from ampere.checking import Check
from ampere.checking import check as check_device
from ampere.devices.device import Device
from ampere.devices.fingerprint import Fingerprint, refuse_to_mix
from ampere.devices.local import LocalDevice
from ampere.errors import DataError, FingerprintError, JournalError, MeasurementFailed, MeterError
from ampere.evaluating import Evaluation
from ampere.evaluating import evaluate as evaluate_device
from ampere.families import Network, original
from ampere.isolating import Isolator
from ampere.journal import Header, Journal, read_journal
from ampere.layers import Layer
from ampere.measurements import Measurement, utc_now
from ampere.measuring import Effort, Watch, unwatched
from ampere.measuring import calibrate as calibrate_device
from ampere.measuring import measure as measure_workloads
from ampere.meters import Meter, Provenance
from ampere.meters.calibration import Calibration, Load, fit_watts, run_loads, store
from ampere.meters.log import PULSE
from ampere.meters.traces import read_trace
from ampere.probing import make_prober
from ampere.profiles import NOISY, Profile, Training
from ampere.profiling import Profiler, open_journal, reference_of, resume, run_profiler
from ampere.replaying import RecordedDevice
from ampere.strategies import Strategy
from ampere.variants import Variant
from ampere.workloads import ModelSpec, Workload

if TYPE_CHECKING:
    from torch import nn

    from ampere.frameworks.torch import Input, Loss

    Model: TypeAlias = "nn.Module | str"


@contextmanager
def _device_or_local(device: Device | None) -> Iterator[Device]:
    """The given device, which stays open, or this machine, which is closed afterwards."""
    if device is not None:
        yield device
        return
    with LocalDevice() as local:
        yield local


def profile(
    model: Model,
    input: Input | None = None,
    *,
    path: str | Path,
    device: Device | None = None,
    batch_size: int | None = None,
    optimizer: str | None = None,
    loss: Loss | None = None,
    strategy: Strategy | None = None,
    candidates: Sequence[Model] = (),
    effort: Effort | None = None,
    time_limit_s: float = float("inf"),
    energy_limit_j: float = float("inf"),
    any_device: bool = False,
    watch: Watch = unwatched,
) -> Profile:
    """Profile a model's family on a device; the file at `path` grows as it goes.

    What is measured is chosen so that members of the family are estimated well, or `candidates`,
    if these are what will be asked about. A profile that is already there goes on where it stopped,
    with its own batch size, optimiser and loss unless others are given; a new one takes 10, sgd and
    what fits the model's outputs.
    """
    strategy = strategy or Strategy()
    known = Profile.load(path).training_settings() if Path(path).exists() else Training()
    training = known.but(batch_size, optimizer, loss)
    itself, asked_about = _read(model, input, training, candidates)
    with _device_or_local(device) as device:
        if not device.provenance.immediate:
            # The paper's surrogate: joules come too late to guide, seconds do not.
            strategy = replace(strategy, guide="time")
        journal, notes = open_journal(
            path, device, model=itself.name, any_device=any_device, effort=effort
        )
        with journal:
            recorded = _recorded(device, itself)
            if recorded and strategy.method == "paper":
                raise DataError("a recorded device has no variants to choose: use method additive")
            profiler = _make_profiler(itself, strategy, asked_about, effort, recorded)
            resume(profiler, journal.measurements)
            run_profiler(
                profiler,
                device,
                journal,
                effort=effort,
                time_limit_s=time_limit_s,
                energy_limit_j=energy_limit_j,
                watch=watch,
            )
            measurements = tuple(journal.measurements)
    if profiler.cut_short:
        notes.append("a limit ended it early: the same command goes on and refines it")
    return Profile(measurements, journal.header, strategy.method, strategy.kernel, tuple(notes))


def measure(
    model: Model,
    input: Input | None = None,
    *,
    device: Device | None = None,
    batch_size: int = 10,
    optimizer: str = "sgd",
    loss: Loss = "auto",
    effort: Effort | None = None,
) -> Measurement:
    """Meter the training step of a model itself."""
    itself, _ = _read(model, input, Training(batch_size, optimizer, _present(loss)))
    with _device_or_local(device) as device:
        nominal = calibrate_device(device, effort)
        work = [(itself.workload, itself.layers)]
        (measurement,) = measure_workloads(device, work, nominal, effort)
    if measurement.failed is not None:
        raise MeasurementFailed(f"the model could not be metered: {measurement.failed}")
    if measurement.spread > NOISY:
        warnings.warn(
            f"bursts spread by {measurement.spread:.0%}: the machine is busy, do not trust this;"
            " see `ampere check`",
            stacklevel=2,
        )
    return measurement


def after_steps(
    profile: Profile,
    model: Model,
    input: Input | None = None,
    *,
    steps: int = 20,
    device: Device | None = None,
    batch_size: int | None = None,
    optimizer: str | None = None,
    loss: Loss | None = None,
    any_device: bool = False,
) -> Profile:
    """The profile, sharpened by a few steps of the very model that will be asked about.

    The device must be the profile's own, since the steps are metered on the profile's scale.
    """
    if steps < 2:
        raise DataError(f"{steps} step tells nothing of its own spread: use 2 or more")
    if profile.method == "paper":
        raise DataError("the paper's method cannot learn from whole models: use method additive")
    training = profile.training_settings().but(batch_size, optimizer, loss)
    itself, _ = _read(model, input, training)
    rounds = min(steps, 5)
    few = Effort(warmup_s=0.0, min_rounds=rounds, max_rounds=rounds, steps=-(-steps // rounds))
    with _device_or_local(device) as device:
        if not any_device:
            refuse_to_mix(device.fingerprint, profile.header.fingerprint)
        nominal = reference_of(profile.header, device)
        (row,) = measure_workloads(device, [(itself.workload, itself.layers)], nominal, few)
    if row.failed is not None:
        raise MeasurementFailed(f"the model could not be metered: {row.failed}")
    told = profile.tell(row)
    if any(rejection.row is row for rejection in told.rejected):
        # The profile knows nothing like it: the steps themselves are all there is to go by.
        reason = told.rejected[-1].reason
        warnings.warn(f"the profile does not fit this model, so only its steps count: {reason}",
                      stacklevel=2)  # fmt: skip
        return replace(profile, measurements=(row,))
    return told


def evaluate(
    model: str,
    input: Input | None = None,
    *,
    path: str | Path,
    device: Device | None = None,
    models: int = 30,
    seed: int = 0,
    steps: int = 10,
    batch_size: int | None = None,
    optimizer: str | None = None,
    loss: Loss | None = None,
    effort: Effort | None = None,
    any_device: bool = False,
    watch: Watch = unwatched,
) -> Evaluation:
    """Meter unseen members of a model's family and compare every method with them."""
    training = Profile.load(path).training_settings().but(batch_size, optimizer, loss)
    loss = _present(training.loss)
    spec = ModelSpec(model, _text(input), training.batch_size, training.optimizer, loss)
    with _device_or_local(device) as device:
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
                any_device=any_device,
                effort=effort,
                watch=watch,
            )


def check(
    *, device: Device | None = None, effort: Effort | None = None, watch: Watch = unwatched
) -> Check:
    """Is this machine quiet enough to measure, and is energy additive on it?"""
    from ampere.frameworks.torch import check_layers

    ends, stacked, other = check_layers()
    with _device_or_local(device) as device:
        return check_device(device, ends, stacked, other, effort=effort, watch=watch)


def ask(
    path: str | Path,
    n: int = 8,
    model: str | None = None,
    input: Input | None = None,
    *,
    batch_size: int | None = None,
    optimizer: str | None = None,
    loss: Loss | None = None,
    strategy: Strategy | None = None,
    max_measurements: int | None = None,
    device: str = "told",
    provenance: Provenance = Provenance.EXTERNAL,
) -> list[Network]:
    """What to measure next for a profile, by whoever can; `tell` takes the answers.

    The first time it needs a model, and the file is made, with what was asked for in its header;
    from then on the profile knows. None are left when enough is known, or at the strategy's limit,
    which `max_measurements` raises for this call. Asking twice without telling gives the same
    networks.
    """
    if n < 1:
        raise DataError(f"{n} networks are nothing to ask for: use 1 or more")
    if not Path(path).exists():
        if model is None:
            raise DataError(f"{path} is not there yet: which model shall it be for?")
        training = Training().but(batch_size, optimizer, loss)
        training = replace(training, loss=_present(training.loss))
        asks = {
            "input": _text(input),
            "training": vars(training),
            "strategy": vars(strategy or Strategy()),
        }
        header = Header(
            Fingerprint({"device": device}), {"name": "told"}, provenance, model=model, asks=asks
        )
        _read(model, input, training)  # before there is a file: can it be read at all?
    elif any(each is not None for each in (model, input, batch_size, optimizer, loss, strategy)):
        raise DataError(f"{path} knows its model and how to go on: ask without them")
    else:
        header, _ = read_journal(path)
    with Journal.open(path, header) as journal:
        asks_of, model = journal.header.asks, journal.header.model
        if asks_of is None or model is None:
            raise DataError(f"{path} was not begun by `ampere ask`: it cannot be asked")
        try:
            given, how = asks_of["input"], Training(**asks_of["training"])
            strategy = Strategy(**asks_of["strategy"])
            if max_measurements is not None:
                strategy = replace(strategy, max_measurements=max_measurements)
        except (KeyError, TypeError) as error:
            raise JournalError(f"{path} line 1: `asks` is damaged ({error!r})") from None
        profiler = _make_profiler(_read(model, given, how)[0], strategy)
        resume(profiler, journal.measurements)
    while not profiler.should_stop:
        if networks := profiler.ask(n):
            return [_as_network(network) for network in networks]
        profiler.end_phase()
    return []


def align(
    path: str | Path,
    log: str | Path,
    output: str | Path,
    *,
    format: str = "auto",
    offset_s: float = 0.0,
    pulse_at: float | None = None,
) -> Profile:
    """A new profile with the joules of a lab meter's log, recorded while the old one was made.

    Args:
        path: The profile as it was made, with seconds and other joules.
        log: The log, as CSV.
        output: Where the new profile goes.
        format: Which meter wrote it; `auto` looks at its header.
        offset_s: Seconds that are added to the log's clock.
        pulse_at: When a pulse of load began (`ampere pulse`), in place of an offset.
    """
    header, rows = read_journal(path)
    if header.provenance in (Provenance.SIMULATED, Provenance.RECORDED):
        raise DataError(f"{path} is {header.provenance.value}: no log was recorded beside it")
    if pulse_at is not None and offset_s:
        raise DataError("give either a pulse or an offset: both set the clock")
    trace = read_trace(str(log), format)
    if pulse_at is not None:
        offset_s = pulse_at - trace.find_pulse(PULSE)
    found = align_rows(rows, trace, offset_s)
    if len(found) < len(rows):
        left = tables.plural(len(rows) - len(found), "row")
        warnings.warn(f"{left} left out: failed, or without the times of its bursts", stacklevel=2)
    identity = {**header.fingerprint.identity, "meter": "log"}
    told = replace(
        header,
        fingerprint=replace(header.fingerprint, identity=identity),
        meter={"name": "log", "settings": {"path": str(log)}},
        provenance=Provenance.EXTERNAL,
        reference_energy_j=None,
        idle_w=None,
    )
    profile = Profile(tuple(found), told)
    profile.save(output)
    return profile


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
    found = fit_watts(loads, against, utc_now())
    store(found)
    return found


def tell(
    path: str | Path, measurements: Sequence[Measurement], *, any_device: bool = False
) -> Profile:
    """Add measurements that were made elsewhere to a profile; it is created if it is not there.

    Rows that name another device than the profile are refused, as are rows of other provenance;
    rows that are in the profile already, seconds and all to the last digit, are left out.
    """
    if not measurements:
        raise DataError("there is no row to tell")
    first = measurements[0]
    identity = {"device": first.device or "told"}
    header = Header(Fingerprint(identity), {"name": "told"}, first.provenance)
    with Journal.open(path, header) as journal:
        if not any_device:
            _refuse_strangers(journal, measurements)
        for row in _without_known(measurements, journal.measurements):
            journal.append(row)
        method = (journal.header.asks or {}).get("strategy", {}).get("method", "additive")
        return Profile(tuple(journal.measurements), journal.header, method)


def _read(
    model: Model, input: Input | None, training: Training, candidates: Sequence[Model] = ()
) -> tuple[Network, list[tuple[Layer, ...]]]:
    """A model that can be measured, and the layers of those that will be asked about."""
    from ampere.frameworks.torch import read

    training = replace(training, loss=_present(training.loss))
    layers = read(model, input, **vars(training))
    itself = original(model, layers, _text(input), training)
    return itself, [read(candidate, input, **vars(training)) for candidate in candidates]


def _make_profiler(
    itself: Network,
    strategy: Strategy,
    asked_about: Sequence[Sequence[Layer]] = (),
    effort: Effort | None = None,
    recorded: Sequence[Network] = (),
) -> Profiler:
    from ampere.frameworks.torch import plan_variants

    if strategy.method == "paper":
        return Isolator(plan_variants(itself.layers), strategy)
    return make_prober(itself, strategy, asked_about, effort, recorded)


def _recorded(device: Device, itself: Network) -> list[Network]:
    """The networks of a model's kinds that a recorded device has; none if any can be measured."""
    if not isinstance(device, RecordedDevice):
        return []
    kinds = {layer.kind.name for layer in itself.layers}
    found = [
        Network(f"recorded {i}", Workload(row.layers), row.layers)
        for i, row in enumerate(device.networks, 1)
        if any(layer.kind.name in kinds for layer in row.layers)
    ]
    if not found:
        raise DataError(f"no network with a layer of {itself.name} was recorded")
    return found


def _as_network(asked: Variant | Network) -> Network:
    """A network with the features of its layers, for whoever measures it."""
    from ampere.frameworks.torch.counting import with_features

    layers = tuple(with_features(layer) for layer in asked.layers)
    return Network(str(asked), Workload(layers), layers)


def _present(loss: Loss) -> str:
    """The name of a loss that is really there: better known now than after minutes of metering."""
    from ampere.frameworks.torch import find_loss, loss_name

    name = loss_name(loss)
    find_loss(name)
    return name


def _text(input: Input | None) -> str | None:
    """An input as it stands in a `ModelSpec`."""
    from ampere.frameworks.torch import as_inputs

    return None if input is None else str(as_inputs(input))


def _without_known(
    rows: Sequence[Measurement], known: Sequence[Measurement]
) -> Sequence[Measurement]:
    """Rows that were not told before; without seconds nobody knows, and they are new."""
    there = {json.dumps(row.to_json(), sort_keys=True) for row in known}
    new = []
    for row in rows:
        text = json.dumps(row.to_json(), sort_keys=True)
        if text not in there or not (math.isfinite(row.time_s_per_step) or row.failed):
            new.append(row)
        there.add(text)
    if len(new) < len(rows):
        again = tables.plural(len(rows) - len(new), "row")
        warnings.warn(f"{again} left out: in the profile already", stacklevel=3)
    return new


def _refuse_strangers(journal: Journal, measurements: Sequence[Measurement]) -> None:
    ours = journal.header.fingerprint
    known = {ours.id, ours.identity.get("device", ours.id), ""}
    known |= {row.device for row in journal.measurements}
    for i, row in enumerate(measurements, start=1):
        if row.device not in known:
            names = ", ".join(sorted(filter(None, known)))
            raise FingerprintError(
                f"row {i} is of device {row.device}, the profile of {names};"
                " --any-device mixes them all the same"
            )
        if row.provenance is not journal.header.provenance:
            raise FingerprintError(
                f"row {i} has {row.provenance.value} joules, the profile"
                f" {journal.header.provenance.value} ones; --any-device mixes them all the same"
            )


__all__ = [
    "after_steps",
    "align",
    "ask",
    "calibrate",
    "check",
    "evaluate",
    "measure",
    "profile",
    "tell",
]
