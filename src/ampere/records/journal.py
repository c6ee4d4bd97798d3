"""Journal: the file of a profile, one line for its device and one for every measurement.

Append-only JSON lines. A line counts once its newline is on the disk, so a crash or a power cut
loses at most the line that was being written; a torn last line is tolerated, nothing else is.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import MOST_BYTES, PACKED, read_whole, write_through, write_whole
from ampere.core.boundary.trust import ForeignText, as_data, foreign, model_of_file
from ampere.core.fingerprint import Fingerprint
from ampere.core.inputs import Inputs, parse_inputs
from ampere.core.lock import Holder, lock_file, lock_holder
from ampere.core.types import Json
from ampere.errors import DataError, JournalError, ModelError
from ampere.meters.base import Provenance
from ampere.records.history import present_header, row_reader
from ampere.records.measurement import (
    LEAST_J,
    LEAST_S,
    MOST_J,
    MOST_S,
    Measurement,
    read_provenance,
    utc_now,
)
from ampere.records.rows import FORMAT, is_header

MOST_W = 1e9
MOST_NUMBERS = 2**26  # of a sample that a file alone asks for: 256 MiB


class JournalWarning(UserWarning):
    """The torn last line of a journal was left out."""


@dataclass(frozen=True)
class Header:
    """What holds for a whole journal: the device, its meter, and what it was like at the start.

    `reference_time_s` and `reference_energy_j` are those of one step of the reference workload;
    `model` is what the profile was made for, `input` what it was told to be fed,
    `asks` how `ampere ask` goes on with it, `note` is the user's own text. A file's `meter` and
    `model` are text that nobody opens or loads.
    """

    fingerprint: Fingerprint
    meter: Mapping[str, Json]
    provenance: Provenance
    created: str = field(default_factory=utc_now)
    reference_time_s: float | None = None
    reference_energy_j: float | None = None
    idle_w: float | None = None
    model: str | ForeignText | None = None
    note: str | None = None
    asks: Mapping[str, Json] | None = None
    input: Inputs | None = None

    def to_json(self) -> dict[str, Json]:
        """The first line of a journal."""
        reference = {"time_s": self.reference_time_s, "energy_j": self.reference_energy_j}
        reference = {key: value for key, value in reference.items() if _is_finite(value)}
        return {
            "ampere_journal": FORMAT,
            "created": self.created,
            "device": self.fingerprint.to_json(),
            "idle_w": self.idle_w if _is_finite(self.idle_w) else None,
            "meter": as_data(self.meter),
            "model": None if self.model is None else str(self.model),
            "note": self.note,
            **({"asks": dict(self.asks)} if self.asks else {}),
            **({"input": str(self.input)} if self.input else {}),
            "provenance": self.provenance.value,
            "reference": reference or None,
        }

    @classmethod
    def from_json(cls, row: Json) -> Header:
        """Read back what `to_json` wrote, of this format or an older one."""
        if not is_header(row):
            raise DataError("not a journal of ampere: its first line is not a header")
        fields = Fields(row)
        reference, meter = fields.inner("reference", {}), fields.inner("meter")
        model, input = fields.text("model", None), fields.text("input", None)
        return cls(
            fingerprint=Fingerprint.from_json(fields.inner("device").row, "device"),
            meter={name: foreign(meter.plain(name)) for name in meter.names(most=100)},
            provenance=read_provenance(row.get("provenance")),
            created=fields.text("created"),
            reference_time_s=reference.number("time_s", None, above=LEAST_S, most=MOST_S),
            reference_energy_j=reference.number("energy_j", None, above=LEAST_J, most=MOST_J),
            idle_w=fields.number("idle_w", None, least=0.0, most=MOST_W),
            model=None if model is None else model_of_file(model),
            note=fields.text("note", None),
            asks=fields.inner("asks").row if fields.plain("asks") else None,
            input=None if input is None else input_of_file(input),
        )


# History of the format:
#   1  the first. A header, then one measurement a line; see docs/journal.md. What older
#      versions of ampere said otherwise in it: records/history.py.
def read_journal(path: str | os.PathLike[str]) -> tuple[Header, list[Measurement]]:
    """Read a journal, also while another process appends to it, or one that gzip has packed.

    A torn last line is left out with a `JournalWarning`; any other damage is a `JournalError`.
    """
    return parse_journal(path, journal_bytes(path))


def journal_bytes(path: str | os.PathLike[str]) -> bytes:
    """All that a journal holds, unpacked."""
    try:
        return read_whole(path)
    except OSError as error:
        raise _unusable(Path(path), "read", error) from None
    except DataError as error:
        raise JournalError(f"{os.fspath(path)}: {error}") from None


def parse_journal(path: str | os.PathLike[str], data: bytes) -> tuple[Header, list[Measurement]]:
    """What the bytes of a journal say; `path` is for messages."""
    header, measurements, end = _parse(Path(path), data)
    if end < len(data):
        _warn_of_torn_line(Path(path))
    return header, measurements


def devices_of(header: Header, measurements: Sequence[Measurement]) -> tuple[str, ...]:
    """Whose rows these are, the header's own device first; rows that name none are its."""
    own = header.fingerprint.identity.get("device", header.fingerprint.id)
    others = {row.device for row in measurements} - {"", own, header.fingerprint.id}
    return own, *sorted(others)


def provenance_of(header: Header, measurements: Sequence[Measurement]) -> Provenance:
    """Where joules come from; one row that was not measured makes all of them so."""
    every = [header.provenance, *(row.provenance for row in measurements)]
    return next((each for each in every if each.metered != "measured"), header.provenance)


class Journal(Holder):
    """A journal open for appending; no other process can open it until this one closes or dies."""

    def __init__(
        self,
        path: Path,
        header: Header,
        *,
        file: FileIO,
        measurements: list[Measurement],
        end: int,
    ) -> None:
        self.path = path
        self.header = header
        self._file = file
        self._measurements = measurements
        self._end = end

    @classmethod
    def open(cls, path: str | os.PathLike[str], header: Header) -> Journal:
        """Open the journal at `path`, or create it with this header.

        An existing journal keeps its own header: compare `journal.header.fingerprint` with yours
        (`refuse_to_mix`) before you append.
        """
        path = Path(path).absolute()  # appending finds it again after a change of directory
        if not path.exists():
            with contextlib.suppress(FileExistsError):  # somebody else was faster
                create_journal(path, header)
        try:
            file = FileIO(path, "r+")
        except OSError as error:
            raise _unusable(path, "opened for writing", error) from None
        try:
            lock_file(file)
            _refuse_if_replaced(path, file)
            file.seek(0)
            if os.fstat(file.fileno()).st_size > MOST_BYTES:
                raise JournalError(f"{path} is larger than {MOST_BYTES} bytes: begin another one")
            data = file.readall()
            if data.startswith(PACKED):
                raise JournalError(f"{path} is packed: gunzip it before something is added")
            own_header, measurements, end = _parse(path, data)
            if end < len(data):
                _warn_of_torn_line(path)
                file.truncate(end)
        except BlockingIOError:
            pid = lock_holder(file)
            file.close()
            who = "another process" if pid is None else f"another process (pid {pid})"
            raise JournalError(f"{path} is in use by {who}: wait for it or end it") from None
        except OSError as error:
            file.close()
            raise _unusable(path, "opened for writing", error) from None
        except BaseException:
            file.close()
            raise
        return cls(path, own_header, file=file, measurements=measurements, end=end)

    @property
    def measurements(self) -> list[Measurement]:
        """All measurements so far, oldest first."""
        return list(self._measurements)

    def append(self, *measurements: Measurement) -> None:
        """Add measurements; when this returns, they survive a crash and a power cut.

        All of them are checked before the first is written, and where the disk is full none is.
        """
        if self._file.closed:
            raise JournalError(f"{self.path} is closed: open it again to append")
        lines = b"".join(_line(measurement.to_json()) for measurement in measurements)
        try:
            _refuse_if_replaced(self.path, self._file)
            if os.fstat(self._file.fileno()).st_size != self._end:
                raise JournalError(f"{self.path} was changed by another program: open it again")
            try:
                self._file.seek(self._end)
                write_through(self._file, lines)
                self._end += len(lines)
            except BaseException:
                # Half a line with another one after it would be damage in the middle of the file.
                with contextlib.suppress(OSError):
                    self._file.truncate(self._end)
                raise
        except OSError as error:
            raise _unusable(self.path, "written", error) from None
        self._measurements.extend(measurements)

    def close(self) -> None:
        """Let go of the file; closing twice is harmless."""
        self._file.close()


def create_journal(
    path: str | os.PathLike[str], header: Header, measurements: Iterable[Measurement] = ()
) -> None:
    """Make a journal with these rows in one go: whoever sees it sees all of it.

    Raises:
        FileExistsError: There is a file of that name.
    """
    rows = [header.to_json(), *(measurement.to_json() for measurement in measurements)]
    Header.from_json(present_header(rows[0]))  # before anything is written: can it be read?
    try:
        write_whole(path, b"".join(map(_line, rows)), new=True)
    except FileExistsError:
        raise
    except OSError as error:
        raise _unusable(Path(path), "opened for writing", error) from None


def _parse(path: Path, data: bytes) -> tuple[Header, list[Measurement], int]:
    """Header, measurements, and how many bytes they take; what follows is a torn line."""
    if not data:
        raise JournalError(f"{path} is empty: delete it or restore it from a copy")
    *lines, rest = data.split(b"\n")
    try:
        if not lines:
            raise DataError("not a journal of ampere, or cut off in its first line")
        first = parse_json(lines[0])
        header = Header.from_json(present_header(first))
    except DataError as error:
        raise JournalError(f"{path} line 1: {error}; nothing was read") from None
    measurements: list[Measurement] = []
    present = row_reader(first)
    end = len(lines[0]) + 1
    for number, line in enumerate(lines[1:], 2):
        try:
            row = parse_json(line)
        except DataError as error:
            if number == len(lines) and not rest:
                break
            raise _damaged(path, number, error) from None
        try:
            measurements.append(Measurement.from_json(present(row)))
        except DataError as error:
            raise _damaged(path, number, error) from None
        end += len(line) + 1
    return header, measurements, end


def _line(row: Mapping[str, Json]) -> bytes:
    try:
        text = json.dumps(row, sort_keys=True, allow_nan=False, separators=(",", ":"))
        return text.encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise DataError(f"cannot be written as JSON ({error}): {row!r:.80}") from None


def _refuse_if_replaced(path: Path, file: FileIO) -> None:
    """A lock is on a file, not on its name: lines written to a file that lost its name are lost."""
    try:
        same = os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        same = False
    if not same:
        raise JournalError(f"{path} was replaced or deleted while it was in use: open it again")


def input_of_file(text: str) -> Inputs:
    """What a model is fed, as a file says it: a sample of modest size.

    Raises:
        DataError: It is no input, or larger than anything that a file alone may ask for.
    """
    try:
        found = parse_inputs(text)
    except ModelError as error:
        raise DataError(f"input: {error}") from None
    if not is_modest(found):
        raise DataError(f"input {text[:60]!r} is of more than {MOST_NUMBERS} numbers")
    return found


def is_modest(inputs: Inputs) -> bool:
    """Whether a sample is small enough for a file to ask for it."""
    return sum(math.prod(spec.shape) for spec in inputs) <= MOST_NUMBERS


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _damaged(path: Path, number: int, error: DataError) -> JournalError:
    return JournalError(
        f"{path} line {number} is damaged: {error};"
        " restore the file from a copy, or delete that line"
    )


def _unusable(path: Path, verb: str, error: OSError) -> JournalError:
    if isinstance(error, FileNotFoundError):
        if not path.absolute().parent.is_dir():
            return JournalError(f"{path.parent} is no directory: make it first")
        return JournalError(f"{path} does not exist: check the path")
    if isinstance(error, IsADirectoryError):
        return JournalError(f"{path} is a directory: name a file in it")
    return JournalError(f"{path} cannot be {verb}: {error.strerror or error}")


def _warn_of_torn_line(path: Path) -> None:
    text = f"{path}: the last line is torn (writing was interrupted) and is left out"
    warnings.warn(text, JournalWarning, stacklevel=3)
