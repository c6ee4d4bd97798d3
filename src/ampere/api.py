"""The verbs of ampere on whole models: what the command line and `import ampere` offer.

    profile(model)   learn what this device's layers cost      -> Profile
    measure(model)   meter a model itself                      -> Measurement
    evaluate(model)  compare estimates with metered models     -> Evaluation
    check()          is this machine quiet, is energy additive -> Check
    after_steps()    sharpen a profile by a few steps          -> Profile
    tell(profile)    add measurements from elsewhere           -> Profile

Each runs on this machine unless it is given another device.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ampere.checking import Check
from ampere.checking import check as check_device
from ampere.devices.device import Device, ModelSpec
from ampere.devices.fingerprint import Fingerprint, refuse_to_mix
from ampere.devices.local import LocalDevice
from ampere.errors import DataError, FingerprintError, MeasurementFailed
from ampere.evaluating import Evaluation
from ampere.evaluating import evaluate as evaluate_device
from ampere.families import original
from ampere.isolating import Isolator
from ampere.journal import Header, Journal
from ampere.measurements import Measurement
from ampere.measuring import Effort, Watch, calibrate, unwatched
from ampere.measuring import measure as measure_workloads
from ampere.probing import make_prober
from ampere.profiles import NOISY, Profile, Training
from ampere.profiling import Profiler, open_journal, reference_of, resume, run_profiler
from ampere.strategies import Strategy

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
    from ampere.frameworks.torch import plan_variants, read

    strategy = strategy or Strategy()
    known = Profile.load(path).training_settings() if Path(path).exists() else Training()
    training = known.but(batch_size, optimizer, loss)
    training = replace(training, loss=_present(training.loss))
    layers = read(model, input, **vars(training))
    itself = original(model, layers, _text(input), training)
    asked_about = [read(candidate, input, **vars(training)) for candidate in candidates]
    with _device_or_local(device) as device:
        if not device.provenance.immediate:
            # The paper's surrogate: joules come too late to guide, seconds do not.
            strategy = replace(strategy, guide="time")
        journal, notes = open_journal(
            path, device, model=itself.name, any_device=any_device, effort=effort
        )
        with journal:
            profiler: Profiler
            if strategy.method == "paper":
                profiler = Isolator(plan_variants(layers), strategy)
            else:
                profiler = make_prober(itself, strategy, asked_about, effort)
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
    from ampere.frameworks.torch import read

    training = Training(batch_size, optimizer, _present(loss))
    layers = read(model, input, **vars(training))
    workload = original(model, layers, _text(input), training).workload
    with _device_or_local(device) as device:
        nominal = calibrate(device, effort)
        (measurement,) = measure_workloads(device, [(workload, layers)], nominal, effort)
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
    from ampere.frameworks.torch import read

    if steps < 2:
        raise DataError(f"{steps} step tells nothing of its own spread: use 2 or more")
    if profile.method == "paper":
        raise DataError("the paper's method cannot learn from whole models: use method additive")
    training = profile.training_settings().but(batch_size, optimizer, loss)
    training = replace(training, loss=_present(training.loss))
    layers = read(model, input, **vars(training))
    workload = original(model, layers, _text(input), training).workload
    rounds = min(steps, 5)
    few = Effort(warmup_s=0.0, min_rounds=rounds, max_rounds=rounds, steps=-(-steps // rounds))
    with _device_or_local(device) as device:
        if not any_device:
            refuse_to_mix(device.fingerprint, profile.header.fingerprint)
        nominal = reference_of(profile.header, device)
        (row,) = measure_workloads(device, [(workload, layers)], nominal, few)
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


def tell(
    path: str | Path, measurements: Sequence[Measurement], *, any_device: bool = False
) -> Profile:
    """Add measurements that were made elsewhere to a profile; it is created if it is not there.

    Rows that name another device than the profile are refused, as are rows of other provenance.
    """
    if not measurements:
        raise DataError("there is no row to tell")
    first = measurements[0]
    identity = {"device": first.device or "told"}
    header = Header(Fingerprint(identity), {"name": "told"}, first.provenance)
    with Journal.open(path, header) as journal:
        if not any_device:
            _refuse_strangers(journal, measurements)
        for row in measurements:
            journal.append(row)
        return Profile(tuple(journal.measurements), journal.header)


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


__all__ = ["after_steps", "check", "evaluate", "measure", "profile", "tell"]
