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
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ampere.acquisition.families import Network, input_text, present_loss, read_network
from ampere.acquisition.loop import make_profiler, resume
from ampere.acquisition.strategy import Strategy
from ampere.core import units
from ampere.core.fingerprint import Fingerprint
from ampere.core.training import Training
from ampere.core.variants import Variant
from ampere.core.workloads import Workload
from ampere.errors import DataError, FingerprintError, JournalError
from ampere.meters.base import Provenance
from ampere.profiles.profile import Profile
from ampere.records.journal import Header, Journal, read_journal
from ampere.records.measurement import Measurement

if TYPE_CHECKING:
    from ampere.pytorch.models import Input


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
        training = training or Training()
        training = replace(training, loss=present_loss(training.loss))
        asks = {
            "input": input_text(input),
            "training": training.to_json(),
            "strategy": _strategy_to_json(strategy or Strategy()),
        }
        header = Header(
            Fingerprint({"device": device}), {"name": "told"}, provenance, model=model, asks=asks
        )
        read_network(model, input, training)  # before there is a file: can it be read at all?
    elif any(each is not None for each in (model, input, training, strategy)):
        raise DataError(f"{path} knows its model and how to go on: ask without them")
    else:
        header, _ = read_journal(path)
    with Journal.open(path, header) as journal:
        asks_of, model = journal.header.asks, journal.header.model
        if asks_of is None or model is None:
            raise DataError(f"{path} was not begun by `ampere ask`: it cannot be asked")
        try:
            inputs, how = asks_of["input"], Training(**asks_of["training"])
            strategy = Strategy(**asks_of["strategy"])
            if max_measurements is not None:
                strategy = replace(strategy, max_measurements=max_measurements)
        except (KeyError, TypeError) as error:
            raise JournalError(f"{path} line 1: `asks` is damaged ({error!r})") from None
        profiler = make_profiler(read_network(model, inputs, how), strategy)
        resume(profiler, journal.measurements)
    while not profiler.should_stop:
        if networks := profiler.ask(n):
            return [_as_network(network) for network in networks]
        profiler.end_phase()
    return []


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
        for row in _without_repeats(measurements, journal.measurements):
            journal.append(row)
        method = (journal.header.asks or {}).get("strategy", {}).get("method", "additive")
        return Profile(tuple(journal.measurements), journal.header, method)


def _as_network(asked: Variant | Network) -> Network:
    """A network with the features of its layers, for whoever measures it."""
    from ampere.pytorch.graph.counter import with_features

    layers = tuple(with_features(layer) for layer in asked.layers)
    return Network(str(asked), Workload(layers), layers)


def _strategy_to_json(strategy: Strategy) -> dict[str, Any]:
    """Plain data, with the tolerance in force: a later default would be another strategy."""
    return asdict(replace(strategy, tolerance=strategy.effective_tolerance))


def _without_repeats(
    rows: Sequence[Measurement], earlier: Sequence[Measurement]
) -> Sequence[Measurement]:
    """Rows that were not told before; without seconds nobody knows, and they are new."""
    texts = {json.dumps(row.to_json(), sort_keys=True) for row in earlier}
    new = []
    for row in rows:
        text = json.dumps(row.to_json(), sort_keys=True)
        if text not in texts or (row.time_s_per_step is None and row.failed is None):
            new.append(row)
        texts.add(text)
    if len(new) < len(rows):
        again = units.plural(len(rows) - len(new), "row")
        warnings.warn(f"{again} left out: in the profile already", stacklevel=3)
    return new


def _refuse_strangers(journal: Journal, measurements: Sequence[Measurement]) -> None:
    ours = journal.header.fingerprint
    names = {ours.id, ours.identity.get("device", ours.id), ""}
    names |= {row.device for row in journal.measurements}
    for i, row in enumerate(measurements, start=1):
        if row.device not in names:
            ours_by_name = ", ".join(sorted(filter(None, names)))
            raise FingerprintError(
                f"row {i} is of device {row.device}, the profile of {ours_by_name};"
                " --any-device mixes them all the same"
            )
        if row.provenance is not journal.header.provenance:
            raise FingerprintError(
                f"row {i} has {row.provenance.value} joules, the profile"
                f" {journal.header.provenance.value} ones; --any-device mixes them all the same"
            )
