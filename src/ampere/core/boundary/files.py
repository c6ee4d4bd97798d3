"""Files: read up to a limit, and written whole or not at all.

    name                  what stands there, if anything
    .ampere-3f9c….part    what is being written beside it: on the disk first, then renamed

A full disk, a crash or a power cut leaves the old file, or none; never half of one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
import zlib
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from ampere.errors import DataError

MOST_BYTES = 256 * 2**20  # of any file that is read whole, unpacked; a journal's row has 5 kB
PACKED = b"\x1f\x8b"  # how gzip begins


def read_whole(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """The bytes of a file; one that gzip has packed is unpacked.

    Raises:
        OSError: It cannot be read.
        DataError: It is damaged, or larger than anybody needs.
    """
    with FileIO(path) as file:
        data = _read(file, most)
    if len(data) > most:
        raise DataError(f"it is larger than {most} bytes")
    return unpack(data, most) if data.startswith(PACKED) else data


def read_text(path: str | os.PathLike[str], most: int = MOST_BYTES) -> tuple[str, str]:
    """The name and the text of a file of lines; `-` is standard input.

    Raises:
        DataError: It cannot be read, is no text, or larger than anybody needs.
    """
    name = "standard input" if os.fspath(path) == "-" else os.fspath(path)
    try:
        if name == os.fspath(path):
            return name, read_whole(path, most).decode("utf-8-sig")
        if sys.stdin is None:
            raise DataError("it is closed")
        text = sys.stdin.read(most + 1)
        if len(text) > most:
            raise DataError(f"it is larger than {most} characters")
        return name, text.lstrip("\ufeff")
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{name} is not UTF-8 text: write one JSON object a line") from None
    except DataError as error:
        raise DataError(f"{name} cannot be read: {error}") from None


def unpack(data: bytes, most: int = MOST_BYTES) -> bytes:
    """What gzip has packed, all of its members; never more than the limit is unpacked."""
    parts: list[bytes] = []
    left = most
    while data.startswith(PACKED):
        unpacker = zlib.decompressobj(wbits=31)
        try:
            parts.append(unpacker.decompress(data, left + 1))
        except zlib.error as error:
            raise DataError(f"it cannot be unpacked: {error}") from None
        left -= len(parts[-1])
        if left < 0:
            raise DataError(f"it unpacks to more than {most} bytes")
        if not unpacker.eof:
            raise DataError("it cannot be unpacked: it is cut off")
        data = unpacker.unused_data
    return b"".join(parts)


def write_whole(path: str | os.PathLike[str], data: bytes | str, *, new: bool = False) -> None:
    """Write a file, whole or not at all; a link to it stays a link.

    Args:
        path: Where it goes.
        data: Text is written as UTF-8.
        new: Never replace a file.

    Raises:
        OSError: It cannot be written; nothing has changed.
    """
    with writing_beside(path, new=new) as part:
        part.write_bytes(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def writing_beside(path: str | os.PathLike[str], *, new: bool = False) -> Iterator[Path]:
    """A file to write to, which takes the place of `path` once it is written; else it is gone."""
    target = Path(os.path.realpath(path))
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        yield target  # a pipe or a device is nothing to replace
        return
    part = target.with_name(f".ampere-{secrets.token_hex(8)}.part")
    try:
        yield part
        _sync(part)  # whoever wrote it need not have
        if new:
            _link(part, target)
        else:
            if target.exists():
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            os.replace(part, target)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    sync_folder(target.parent)


def write_through(file: FileIO, data: bytes) -> None:
    """Write all of it to an open file, and return when it is on the disk."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Have a folder's names on the disk; Windows and some network disks cannot."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _read(file: FileIO, most: int) -> bytes:
    """All of a file, or one byte more than the limit."""
    parts: list[bytes] = []
    left = most + 1
    while left > 0 and (part := file.read(min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _link(part: Path, target: Path) -> None:
    """Give a file its name, unless there is one of that name."""
    try:
        os.link(part, target)  # unlike a rename, it never replaces anything
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        os.rename(part, target)


def _sync(part: Path) -> None:
    handle = os.open(part, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
