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

import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ampere.checking import Check
from ampere.checking import check as check_device
from ampere.devices.device import Device, ModelSpec, Workload
from ampere.devices.fingerprint import Fingerprint, refuse_to_mix
from ampere.devices.local import LocalDevice
from ampere.errors import DataError, FingerprintError, MeasurementFailed
from ampere.evaluating import Evaluation
from ampere.evaluating import evaluate as evaluate_device
from ampere.families import Member, members, resampled
from ampere.journal import Header, Journal
from ampere.layers import Layer
from ampere.measurements import Measurement
from ampere.measuring import Effort, Watch, calibrate, unwatched
from ampere.measuring import measure as measure_workloads
from ampere.probing import Probe, Prober
from ampere.profiles import NOISY, Profile, Training
from ampere.profiling import (
    Asker,
    Profiler,
    Strategy,
    open_journal,
    reference_of,
    resume,
    run_profiler,
)
from ampere.resizing import smallest
from ampere.variants import Variant, sample

if TYPE_CHECKING:
    from torch import nn

    from ampere.frameworks.torch import Input, Loss

    Model: TypeAlias = "nn.Module | str"

POOL = 32  # members of a family that may be measured, and as many whose interval matters
VARIANTS = 3  # of each kind that may be measured


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
    asked_about = [read(candidate, input, **vars(training)) for candidate in candidates]
    name = model if isinstance(model, str) else type(model).__name__
    with _device_or_local(device) as device:
        if not device.provenance.immediate:
            # The paper's surrogate: joules come too late to guide, seconds do not.
            strategy = replace(strategy, guide="time")
        journal, notes = open_journal(
            path, device, model=name, any_device=any_device, effort=effort
        )
        with journal:
            asker: Asker
            if strategy.method == "paper":
                asker = Profiler(plan_variants(layers), strategy)
            else:
                asker = make_prober(
                    model, layers, strategy, _text(input), training, asked_about, effort
                )
            resume(asker, journal.measurements)
            run_profiler(
                asker,
                device,
                journal,
                effort=effort,
                time_limit_s=time_limit_s,
                energy_limit_j=energy_limit_j,
                watch=watch,
            )
            measurements = tuple(journal.measurements)
    if asker.cut_short:
        notes.append("a limit ended it early: the same command goes on and refines it")
    return Profile(measurements, journal.header, strategy.method, strategy.kernel, tuple(notes))


def make_prober(
    model: Model,
    layers: tuple[Layer, ...],
    strategy: Strategy,
    input: str | None = None,
    training: Training | None = None,
    asked_about: Sequence[Sequence[Layer]] = (),
    effort: Effort | None = None,
) -> Prober:
    """Who asks for members of a model's family, the ends of its widths first, and for variants."""
    from ampere.frameworks.torch import plan_variants
    from ampere.frameworks.torch.counting import with_features

    rng = random.Random(f"probes {strategy.seed}")  # not the stream that evaluations draw from
    if isinstance(model, str):
        spec = ModelSpec(model, input, **vars(training or Training()))
        original = Member(model, Workload(model=spec), layers)
        family = members(spec, rng)
    else:
        name = type(model).__name__
        original = Member(name, Workload(layers), layers)
        family = resampled(name, layers, rng)
    drawn = list(islice(family, 2 * POOL))
    probed, others = drawn[::2], drawn[1::2]  # what is measured, and what is asked about
    small = tuple(with_features(layer) for layer in smallest(layers))
    ends = [original, Member(f"smallest {original.name}", Workload(small), small)]
    variants = [
        tuple(with_features(layer) for layer in sample(isolation, rng).layers)
        for isolation in plan_variants(layers).isolations
        for _ in range(VARIANTS)
    ]
    probes = [
        *(Probe(m.name, m.workload, m.layers) for m in (*ends, *probed)),
        *(
            Probe(f"candidate {i}", Workload(tuple(c)), tuple(c))
            for i, c in enumerate(asked_about, 1)
        ),
        *(Probe(str(Variant(v)), Workload(v), v) for v in variants),
    ]
    return Prober(
        probes,
        asked_about or [member.layers for member in others] or [layers],
        strategy.tolerance,
        strategy.max_measurements,
        strategy.guide,
        effort or Effort(),
    )


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
    """Meter the training step of a model itself.

    A model given by name is built by its own code; a module is built again from its layers.
    """
    from ampere.frameworks.torch import read

    loss = _present(loss)
    layers = read(model, input, batch_size=batch_size, optimizer=optimizer, loss=loss)
    if isinstance(model, str):
        workload = Workload(model=ModelSpec(model, _text(input), batch_size, optimizer, loss))
    else:
        workload = Workload(layers)
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
    workload = Workload(layers)
    if isinstance(model, str):
        workload = Workload(model=ModelSpec(model, _text(input), **vars(training)))
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
