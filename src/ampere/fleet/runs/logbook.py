"""Logbook: the file of a running fleet, a line for everything that happens to it.

    FOLDER/logbook.jsonl      events, each of them on the disk before anybody acts on it
    FOLDER/checkpoints/       JOB-STEPS.safetensors: there before the line that tells of it

JSON lines with sorted keys. A line counts once its newline is on the disk, so that a crash loses at
most the line that was being written: a torn last line is cut off, any other damage is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from io import FileIO
from pathlib import Path

from ampere.core.boundary.fields import parse_json
from ampere.core.boundary.files import MOST_BYTES, read_whole, write_through, write_whole
from ampere.core.lock import Holder, lock_file, lock_holder
from ampere.errors import DataError, JournalError
from ampere.fleet.runs.book import Book
from ampere.fleet.runs.events import Event, Opened, event_json, read_event

FILE = "logbook.jsonl"
CHECKPOINTS = "checkpoints"
MOST_CHECKPOINT = 2 * 2**30


class Logbook(Holder):
    """A logbook open for writing; no other process can open it until this one closes or dies.

    Args:
        folder: Where it lies; it is made if it is not there.
        opened: What it is about; one that is there already must be about the same.
    """

    def __init__(self, folder: str | os.PathLike[str], opened: Opened) -> None:
        self.folder = Path(folder).absolute()
        path = self.folder / FILE
        try:
            (self.folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
            if not path.exists():
                with contextlib.suppress(FileExistsError):  # somebody else was faster
                    write_whole(path, _line(opened), new=True)
            self._file = FileIO(path, "r+")
        except OSError as error:
            raise _unusable(path, error) from None
        try:
            self._lock(path)
            if os.fstat(self._file.fileno()).st_size > MOST_BYTES:
                raise JournalError(f"{path} is larger than {MOST_BYTES} bytes: begin another one")
            data = self._file.readall()
            self.book, self._end = _parse(path, data)
            if self._end < len(data):
                self._file.truncate(self._end)
            _refuse_another(path, self.book.opened, opened)
        except BaseException:
            self._file.close()
            raise

    def _lock(self, path: Path) -> None:
        try:
            lock_file(self._file)
        except BlockingIOError:
            pid = lock_holder(self._file)
            who = "another process" if pid is None else f"another process (pid {pid})"
            raise JournalError(f"{path} is kept by {who}: wait for it or end it") from None
        self._file.seek(0)

    def append(self, event: Event) -> None:
        """Take an event into the book, and return when it is on the disk.

        Raises:
            DataError: It contradicts the book; nothing is written.
            JournalError: It cannot be written.
        """
        line = _line(event)
        self.book.add(event)
        try:
            self._file.seek(self._end)
            write_through(self._file, line)
            self._end += len(line)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
            raise _unusable(self.folder / FILE, error) from None

    def keep(self, job: str, steps: int, data: bytes) -> str:
        """Put a checkpoint on the disk; returns its digest, for the event that tells of it."""
        digest = hashlib.sha256(data).hexdigest()
        try:
            write_whole(self._place(job, steps), data, own=True)
        except OSError as error:
            raise _unusable(self._place(job, steps), error) from None
        return digest

    def fetch(self, job: str) -> bytes | None:
        """The checkpoint that a job goes on from; None at its beginning.

        Raises:
            JournalError: It is not the one that the book tells of.
        """
        line = self.book.jobs[job]
        if line.checkpoint is None:
            return None
        path = self._place(job, line.done)
        try:
            data = read_whole(path, MOST_CHECKPOINT, own=True)
        except (OSError, DataError) as error:
            raise JournalError(f"{path}: the checkpoint of job {job} is gone: {error}") from None
        if hashlib.sha256(data).hexdigest() != line.checkpoint:
            raise JournalError(
                f"{path} is not the checkpoint of job {job} that the logbook tells of: restore it"
                " from a copy"
            )
        return data

    def sweep(self, job: str, keep: int) -> None:
        """Delete the checkpoints of a job but this one."""
        kept = self._place(job, keep)
        for path in kept.parent.glob(f"{_short(job)}-*.safetensors"):
            if path != kept:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _place(self, job: str, steps: int) -> Path:
        return self.folder / CHECKPOINTS / f"{_short(job)}-{steps}.safetensors"

    def close(self) -> None:
        """Let go of the file; closing twice is harmless."""
        self._file.close()


def begun_at(folder: str | os.PathLike[str]) -> str | None:
    """The moment at which the run of a folder began; None if there is none yet.

    Raises:
        JournalError: Its logbook is damaged.
    """
    return read_logbook(folder).opened.begins if (Path(folder) / FILE).exists() else None


def read_logbook(folder: str | os.PathLike[str]) -> Book:
    """The book of a folder, also while somebody keeps it.

    Raises:
        JournalError: There is none, or it is damaged.
    """
    path = Path(folder) / FILE if Path(folder).is_dir() else Path(folder)
    try:
        data = read_whole(path)
    except (OSError, DataError) as error:
        raise _unusable(path, error) from None
    return _parse(path, data)[0]


def _parse(path: Path, data: bytes) -> tuple[Book, int]:
    """The book, and how many bytes its lines take; what follows is a torn line."""
    *lines, _ = data.split(b"\n")
    book, end = None, 0
    for number, line in enumerate(lines, 1):
        try:
            row = parse_json(line)
        except DataError as error:
            if number == len(lines) > 1:  # a power cut may leave anything in a last line
                break
            raise _damaged(path, number, error) from None
        try:
            book = _added(book, read_event(row))
        except DataError as error:
            raise _damaged(path, number, error) from None
        end += len(line) + 1
    if book is None:
        raise JournalError(f"{path} is empty: delete it, or restore it from a copy")
    return book, end


def _added(book: Book | None, event: Event) -> Book:
    if book is not None:
        book.add(event)
        return book
    return Book.of([event])


def _damaged(path: Path, number: int, error: DataError) -> JournalError:
    return JournalError(f"{path} line {number} is damaged: {error}; restore the file from a copy")


def _refuse_another(path: Path, ours: Opened, asked: Opened) -> None:
    """A logbook goes on with the jobs that it was opened for, on those of its members left."""
    compared: Sequence[tuple[str, Callable[[Opened], dict[str, object]]]] = (
        ("job", lambda opened: {order.job: order for order in opened.orders}),
        ("member", lambda opened: {each.member: each.device for each in opened.accounts}),
    )
    for what, listed in compared:
        old, new = listed(ours), listed(asked)
        for name in old:
            if name in new and old[name] != new[name]:
                raise JournalError(
                    f"{path} is of another run: {what} {name} differs; name another folder, or"
                    " give it the files that it was begun with"
                )
        added = [name for name in new if name not in old]
        if added:
            raise JournalError(
                f"{path} does not know the {what} {added[0]}: run what is new in a new folder"
            )
    left = {order.job for order in asked.orders}
    for order in ours.orders:
        if order.job not in left:
            raise JournalError(
                f"{path} has the job {order.job}, which is left out: give it all of its jobs"
            )


def _line(event: Event) -> bytes:
    return json.dumps(event_json(event), sort_keys=True, allow_nan=False).encode() + b"\n"


def _short(job: str) -> str:
    """A name for files: a job may be called anything."""
    return hashlib.sha256(job.encode()).hexdigest()[:16]


def _unusable(path: Path, error: Exception) -> JournalError:
    if isinstance(error, FileNotFoundError):
        return JournalError(f"{path} does not exist: `ampere fleet run` makes it")
    reason = getattr(error, "strerror", None) or error
    return JournalError(f"{path} cannot be used: {reason}")
