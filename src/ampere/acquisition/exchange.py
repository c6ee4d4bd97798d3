"""Asking and telling by file, for devices that ampere cannot reach.

    ask(profile)     what to measure next      -> networks, described completely
    tell(profile)    what it took              -> Profile

Choices depend on the rows alone, so whoever asks and tells gets the profile that the loop on a
device would have made of the same readings.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ampere.acquisition.families import (
    Network,
    input_text,
    present_loss,
    read_network,
    remembered,
)
from ampere.acquisition.loop import make_profiler, resume
from ampere.acquisition.strategy import Strategy
from ampere.core import units
from ampere.core.boundary.fields import Fields
from ampere.core.boundary.trust import refuse_code
from ampere.core.fingerprint import RUNTIME, Fingerprint, runtime_of
from ampere.core.program.structure import TORCH
from ampere.core.training import Training
from ampere.core.types import Json
from ampere.core.variants import Variant
from ampere.core.workloads import Workload
from ampere.errors import DataError, FingerprintError, JournalError
from ampere.frameworks.models import with_features
from ampere.frameworks.runtimes import runtime_entry
from ampere.meters.base import Provenance
from ampere.profiles.profile import Profile
from ampere.records.journal import Header, Journal, create_journal, read_journal
from ampere.records.measurement import Measurement

if TYPE_CHECKING:
    from ampere.core.boundary.example_inputs import Input


def ask(
    path: str | Path,
    n: int = 8,
    model: str | None = None,
    input: Input | None = None,
    *,
    training: Training | None = None,
    strategy: Strategy | None = None,
    max_measurements: int | None = None,
    device: str = "told",
    provenance: Provenance = Provenance.EXTERNAL,
    runtime: str = TORCH,
) -> list[Network]:
    """What to measure next for a profile, by whoever can; `tell` takes the answers.

    The first time it needs a model, and the file is made, with what was asked for in its header;
    from then on the profile knows, but for what is code: a file must not choose what runs here, so
    a model or a loss of the user's own is said again. None are left when enough is known, or at the
    strategy's limit, which `max_measurements` raises for this call. Asking twice without telling
    gives the same networks. `runtime` is who will train them there.
    """
    if n < 1:
        raise DataError(f"{n} networks are nothing to ask for: use 1 or more")
    if not Path(path).exists():
        asks = _begin(path, model, input, training or Training(), strategy or Strategy())
        told = {"name": "told"}
        whose = _told_by(device, runtime)
        fed = remembered(input)
        header = Header(whose, told, provenance, model=model, asks=asks, input=fed)
    elif input is not None or strategy is not None:
        raise DataError(f"{path} knows its model and how to go on: ask without input and strategy")
    else:
        header, _ = read_journal(path)
    with Journal.open(path, header) as journal:
        network = _asked_network(path, journal.header, model, training)
        strategy = _asks(path, journal.header).strategy
        if max_measurements is not None:
            strategy = replace(strategy, max_measurements=max_measurements)
        profiler = make_profiler(network, strategy)
        resume(profiler, journal.measurements)
    while not profiler.should_stop:
        if networks := profiler.ask(n):
            return [_as_network(network) for network in networks]
        profiler.end_phase()
    return []


def asked_training(path: str | Path) -> Training:
    """How the models of a profile that `ask` has begun are trained."""
    header, _ = read_journal(path)
    return _asks(path, header).training


def _begin(
    path: str | Path, model: str | None, input: Input | None, training: Training, strategy: Strategy
) -> dict[str, Json]:
    """All that it takes to go on with a new profile."""
    if model is None:
        raise DataError(f"{path} is not there yet: which model shall it be for?")
    training = replace(training, loss=present_loss(training.loss))
    read_network(model, input, training)  # before there is a file: can it be read at all?
    return {
        "input": input_text(input),
        "training": training.to_json(),
        "strategy": _strategy_to_json(strategy),
    }


def _asked_network(
    path: str | Path, header: Header, model: str | None, training: Training | None
) -> Network:
    """The model that a profile is for, by the user's words where these are code."""
    asks, stated = _asks(path, header), header.model
    if model not in (None, str(stated)):
        raise DataError(f"{path} knows its model and how to go on: ask for {stated}")
    if model is None:
        refuse_code(stated, "model", f"`ampere ask {stated} --profile {path}`")
    if training is not None and training.to_json() != asks.training.to_json():
        raise DataError(f"{path} knows its model and how to go on: ask with its own training")
    return read_network(str(stated), asks.input, training or asks.training)


@dataclass(frozen=True)
class Asks:
    """How a profile that `ask` has begun goes on, as its header says it."""

    input: str | None
    training: Training
    strategy: Strategy

    @classmethod
    def from_json(cls, row: Json) -> Asks:
        """Read what `_begin` wrote: a loss that is code stays text."""
        fields = Fields(row, "asks")
        return cls(
            input=fields.text("input", None),
            training=Training.of_file(fields.inner("training")),
            strategy=Strategy.of_file(fields.inner("strategy")),
        )


def _asks(path: str | Path, header: Header) -> Asks:
    if header.asks is None or header.model is None:
        raise DataError(f"{path} was not begun by `ampere ask`: it cannot be asked")
    try:
        return Asks.from_json(header.asks)
    except DataError as error:
        raise JournalError(f"{path} line 1: {error}") from None


def _told_by(device: str, runtime: str) -> Fingerprint:
    """What is known of a device that others measure: its name, and who trains there."""
    runtime_entry(runtime)  # there is one of this name
    own = {} if runtime == TORCH else {RUNTIME: runtime}
    return Fingerprint({"device": device, **own})


def tell(
    path: str | Path,
    measurements: Sequence[Measurement],
    *,
    any_device: bool = False,
    runtime: str | None = None,
) -> Profile:
    """Add measurements that were made elsewhere to a profile; it is created if it is not there.

    Rows that name another device than the profile are refused, as are rows of other provenance or
    of another `runtime`, if it is said who trained; rows that are in the profile already, seconds
    and all to the last digit, are left out.
    """
    return add_rows(path, measurements, any_device=any_device, runtime=runtime)[0]


def add_rows(
    path: str | Path,
    measurements: Sequence[Measurement],
    *,
    any_device: bool = False,
    runtime: str | None = None,
) -> tuple[Profile, int]:
    """What `tell` does, and how many rows were added: others may be telling the same profile."""
    if not measurements:
        raise DataError("there is no row to tell")
    first = measurements[0]
    whose = _told_by(first.device or "told", runtime or TORCH)
    header = Header(whose, {"name": "told"}, first.provenance)
    if not Path(path).exists():
        if not any_device:
            _refuse_strangers(header, (), measurements)
        with suppress(FileExistsError):  # somebody else was faster: then it is theirs
            rows = tuple(_without_repeats(measurements, ()))
            create_journal(path, header, rows)
            return Profile(rows, header), len(rows)
    with Journal.open(path, header) as journal:
        if not any_device:
            _refuse_strangers(journal.header, journal.measurements, measurements)
            _refuse_another_runtime(journal.header, runtime)
        new = _without_repeats(measurements, journal.measurements)
        own = journal.header
        method = "additive" if own.asks is None else _asks(path, own).strategy.method
        journal.append(*new)
        return Profile(tuple(journal.measurements), own, method), len(new)


def _as_network(asked: Variant | Network) -> Network:
    """A network with the features of its layers, for whoever measures it."""
    layers = tuple(with_features(layer) for layer in asked.layers)
    return Network(str(asked), Workload(layers), layers)


def _strategy_to_json(strategy: Strategy) -> dict[str, Any]:
    """Plain data, with the tolerance in force: a later default would be another strategy."""
    return asdict(replace(strategy, tolerance=strategy.effective_tolerance))


def _without_repeats(
    rows: Sequence[Measurement], earlier: Sequence[Measurement]
) -> Sequence[Measurement]:
    """Rows that were not told before.

    Without seconds nobody knows, and they are new, unless they say of which moment and sitting.
    """
    texts = {json.dumps(row.to_json(), sort_keys=True) for row in earlier}
    new = []
    for row in rows:
        text = json.dumps(row.to_json(), sort_keys=True)
        known = row.time_s_per_step is not None or row.failed is not None
        if text not in texts or not (known or (row.when and row.sitting)):
            new.append(row)
        texts.add(text)
    if len(new) < len(rows):
        again = units.plural(len(rows) - len(new), "row")
        warnings.warn(f"{again} left out: in the profile already", stacklevel=3)
    return new


def _refuse_another_runtime(header: Header, runtime: str | None) -> None:
    own = runtime_of(header.fingerprint)
    if runtime not in (None, own):
        raise FingerprintError(
            f"the rows are of the runtime {runtime}, the profile of {own};"
            " --any-device mixes them all the same"
        )


def _refuse_strangers(
    header: Header, earlier: Sequence[Measurement], measurements: Sequence[Measurement]
) -> None:
    ours = header.fingerprint
    names = {ours.id, ours.identity.get("device", ours.id), ""}
    names |= {row.device for row in earlier}
    for i, row in enumerate(measurements, start=1):
        if row.device not in names:
            ours_by_name = ", ".join(sorted(filter(None, names)))
            raise FingerprintError(
                f"row {i} is of device {row.device}, the profile of {ours_by_name};"
                " --any-device mixes them all the same"
            )
        if row.provenance is not header.provenance:
            raise FingerprintError(
                f"row {i} has {row.provenance.value} joules, the profile"
                f" {header.provenance.value} ones: begin one by ampere ask --provenance"
                f" {row.provenance.value}; --any-device mixes them all the same"
            )
