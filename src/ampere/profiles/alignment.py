"""Alignment: the joules of a lab meter's log for a profile that was made beside it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from ampere.core import units
from ampere.errors import DataError
from ampere.meters.base import Provenance
from ampere.meters.drivers.log import PULSE
from ampere.meters.trace_files import read_trace
from ampere.profiles.profile import Profile
from ampere.records.alignment import align as align_rows
from ampere.records.journal import read_journal


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
    aligned = align_rows(rows, trace, offset_s)
    if len(aligned) < len(rows):
        left = units.plural(len(rows) - len(aligned), "row")
        warnings.warn(f"{left} left out: failed, or without the times of its bursts", stacklevel=2)
    identity = {**header.fingerprint.identity, "meter": "log"}
    own = replace(header.fingerprint, identity=identity)
    aligned = [
        replace(row, device=own.id) if row.device == header.fingerprint.id else row
        for row in aligned
    ]
    external = replace(
        header,
        fingerprint=own,
        meter={"name": "log", "settings": {"path": str(log)}},
        provenance=Provenance.EXTERNAL,
        reference_energy_j=None,
        idle_w=None,
    )
    profile = Profile(tuple(aligned), external)
    profile.save(output)
    return profile
