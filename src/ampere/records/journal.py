"""Journal: the file of a profile, one line for its device and one for every measurement.

Append-only JSON lines. A line counts once its newline is on the disk, so a crash or a power cut
loses at most the line that was being written; a torn last line is tolerated, nothing else is.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import os
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from types import TracebackType

from ampere.core.fields import parse_json
from ampere.core.fingerprint import Fingerprint
from ampere.core.lock import lock_file, lock_holder
from ampere.core.types import Json
from ampere.errors import DataError, JournalError
from ampere.meters.base import Provenance
from ampere.records.history import present_header, present_row, used_amp
from ampere.records.measurement import Measurement, read_provenance, utc_now
from ampere.records.rows import FORMAT, is_header

PACKED = b"\x1f\x8b"  # how gzip begins


class JournalWarning(UserWarning):
    """The torn last line of a journal was left out."""


@dataclass(frozen=True)
class Header:
    """What holds for a whole journal: the device, its meter, and what it was like at the start.

    `reference_time_s` and `reference_energy_j` are those of one step of the reference workload;
    `model` is what the profile was made for, `asks` how `ampere ask` goes on with it, `note` is the
    user's own text.
    """

    fingerprint: Fingerprint
    meter: Mapping[str, Json]
    provenance: Provenance
    created: str = field(default_factory=utc_now)
    reference_time_s: float | None = None
    reference_energy_j: float | None = None
    idle_w: float | None = None
    model: str | None = None
    note: str | None = None
    asks: Mapping[str, Json] | None = None

    def to_json(self) -> dict[str, Json]:
        """The first line of a journal."""
        reference = {"time_s": self.reference_time_s, "energy_j": self.reference_energy_j}
        reference = {key: value for key, value in reference.items() if _is_finite(value)}
        return {
            "ampere_journal": FORMAT,
            "created": self.created,
            "device": self.fingerprint.to_json(),
            "idle_w": self.idle_w if _is_finite(self.idle_w) else None,
            "meter": dict(self.meter),
            "model": self.model,
            "note": self.note,
            **({"asks": dict(self.asks)} if self.asks else {}),
            "provenance": self.provenance.value,
            "reference": reference or None,
        }

    @classmethod
    def from_json(cls, row: Json) -> Header:
        """Read back what `to_json` wrote, of this format or an older one."""
        if not is_header(row):
            raise DataError("not a journal of ampere: its first line is not a header")
        try:
            reference = row.get("reference") or {}
            return cls(
                fingerprint=Fingerprint.from_json(row["device"]),
                meter=dict(row["meter"]),
                provenance=read_provenance(row["provenance"]),
                created=str(row["created"]),
                reference_time_s=_float(reference.get("time_s")),
                reference_energy_j=_float(reference.get("energy_j")),
                idle_w=_float(row.get("idle_w")),
                model=_optional_text(row.get("model")),
                note=_optional_text(row.get("note")),
                asks=dict(row["asks"]) if row.get("asks") else None,
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DataError(f"the header is damaged ({error!r})") from None


# History of the format:
#   1  the first. A header, then one measurement a line; see docs/journal.md. What older
#      versions of ampere said otherwise in it: records/history.py.
def read_journal(path: str | os.PathLike[str]) -> tuple[Header, list[Measurement]]:
    """Read a journal, also while another process appends to it, or one that gzip has packed.

    A torn last line is left out with a `JournalWarning`; any other damage is a `JournalError`.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
        if data.startswith(PACKED):
            data = gzip.decompress(data)
    except OSError as error:
        raise _unusable(path, "read", error) from None
    except (EOFError, zlib.error) as error:
        raise JournalError(f"{path} cannot be unpacked: {error}") from None
    header, measurements, end = _parse(path, data)
    if end < len(data):
        _warn_of_torn_line(path)
    return header, measurements


class Journal:
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
        try:
            if not path.exists():
                _create(Path(os.path.realpath(path)), header)
            file = FileIO(path, "r+")
        except OSError as error:
            raise _unusable(path, "opened for writing", error) from None
        try:
            lock_file(file)
            _refuse_if_replaced(path, file)
            file.seek(0)
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

    def append(self, measurement: Measurement) -> None:
        """Add a measurement; when this returns, it survives a crash and a power cut."""
        if self._file.closed:
            raise JournalError(f"{self.path} is closed: open it again to append")
        line = _line(measurement.to_json())
        try:
            _refuse_if_replaced(self.path, self._file)
            if os.fstat(self._file.fileno()).st_size != self._end:
                raise JournalError(f"{self.path} was changed by another program: open it again")
            try:
                self._file.seek(self._end)
                _write(self._file, line)
                self._end += len(line)
            except BaseException:
                # Half a line with another one after it would be damage in the middle of the file.
                with contextlib.suppress(OSError):
                    self._file.truncate(self._end)
                raise
        except OSError as error:
            raise _unusable(self.path, "written", error) from None
        self._measurements.append(measurement)

    def close(self) -> None:
        """Let go of the file; closing twice is harmless."""
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


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
    amp = used_amp(first)
    end = len(lines[0]) + 1
    for number, line in enumerate(lines[1:], 2):
        try:
            row = parse_json(line)
        except DataError as error:
            if number == len(lines) and not rest:
                break
            raise _damaged(path, number, error) from None
        try:
            measurements.append(Measurement.from_json(present_row(row) if amp else row))
        except DataError as error:
            raise _damaged(path, number, error) from None
        end += len(line) + 1
    return header, measurements, end


def _create(path: Path, header: Header) -> None:
    """Make the file with its header in one go: whoever sees it sees a whole header."""
    line = _line(header.to_json())
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with FileIO(temporary, "w") as file:
            _write(file, line)
        try:
            os.link(temporary, path)  # unlike a rename, never replaces another process's journal
        except FileExistsError:
            return
        except OSError:  # a file system without hard links
            if path.exists():
                return
            os.rename(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # Windows and some network disks cannot sync a directory
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _line(row: Mapping[str, Json]) -> bytes:
    try:
        return json.dumps(row, sort_keys=True, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise DataError(f"cannot be written as JSON ({error}): {row!r:.80}") from None


def _write(file: FileIO, line: bytes) -> None:
    while line:
        line = line[file.write(line) :]
    os.fsync(file.fileno())


def _refuse_if_replaced(path: Path, file: FileIO) -> None:
    """A lock is on a file, not on its name: lines written to a file that lost its name are lost."""
    try:
        same = os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        same = False
    if not same:
        raise JournalError(f"{path} was replaced or deleted while it was in use: open it again")


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _float(value: Json) -> float | None:
    if value is not None and not math.isfinite(value):
        raise ValueError(value)
    return None if value is None else float(value)


def _optional_text(value: Json) -> str | None:
    return None if value is None else str(value)


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
