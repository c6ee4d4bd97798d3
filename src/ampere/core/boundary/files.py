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
import shutil
import stat
import sys
import zlib
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from ampere.errors import DataError

MOST_BYTES = 256 * 2**20  # of any file that is read whole, unpacked; a journal's row has 5 kB
PACKED = b"\x1f\x8b"  # how gzip begins


def read_whole(path: str | os.PathLike[str], most: int = MOST_BYTES, *, own: bool = False) -> bytes:
    """The bytes of a file; one that gzip has packed is unpacked.

    Args:
        path: Where it is; a pipe is read to its end.
        most: Bytes that are read and unpacked at most.
        own: The name is of ampere's choice, in a folder that may be somebody else's: a pipe that
            has it is refused, since it would be waited for.

    Raises:
        OSError: It cannot be read.
        DataError: It is damaged, or larger than anybody needs.
    """
    if own and os.path.exists(path) and not os.path.isfile(path):
        raise DataError("it is no file")
    try:
        with FileIO(path) as file:
            data = _read(file, most)
    except ValueError:  # with a NUL in it
        raise DataError("no file can have such a name") from None
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


def below(folder: str | os.PathLike[str], name: str) -> Path:
    """Where a name that a file says leads to: into that file's folder, or deeper.

    Raises:
        DataError: It leads elsewhere.
    """
    path = Path(name)
    odd = not name.strip() or "\0" in name or "\\" in name
    if odd or path.is_absolute() or path.drive or ".." in path.parts:
        raise DataError(f"{name!r:.80} is no file beside this one, or in a folder beside it")
    return Path(folder) / path


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


def write_whole(
    path: str | os.PathLike[str], data: bytes | str, *, new: bool = False, own: bool = False
) -> None:
    """Write a file, whole or not at all.

    Args:
        path: Where it goes.
        data: Text is written as UTF-8.
        new: Never replace a file.
        own: As `writing_beside` takes it.

    Raises:
        OSError: It cannot be written; nothing has changed.
    """
    with writing_beside(path, new=new, own=own) as part:
        part.write_bytes(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def writing_beside(
    path: str | os.PathLike[str],
    *,
    new: bool = False,
    own: bool = False,
) -> Iterator[Path]:
    """A file to write to, which takes the place of `path` once it is written; else it is gone.

    Args:
        path: Where it goes. A link to a file stays a link, a pipe or a device is written to.
        new: Never replace a file.
        own: The name is of ampere's choice, in a folder that may be somebody else's: a link or a
            pipe that has it is replaced, since it would lead to where nobody asked to write.
    """
    target = Path(path).absolute() if own else Path(os.path.realpath(path))
    if target.exists() and new:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    if target.exists() and not target.is_file() and not own:
        yield target
        return
    part = target.with_name(part_name())
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    try:
        wanted = 0o666 if mode is None else mode | stat.S_IWUSR
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, wanted))
        yield part
        _sync(part)  # whoever wrote it need not have
        if mode is not None:
            part.chmod(mode)
        if new:
            _link(part, target)
        else:
            os.replace(part, target)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    sync_folder(target.parent)


@contextlib.contextmanager
def writing_folder(path: str | os.PathLike[str], last: str) -> Iterator[Path]:
    """A folder to write files to, which becomes `path` once all are written; else it is gone.

    One that is there, and empty, stays the folder that it is, since somebody may stand in it or
    have mounted it: then the files are moved into it, `last` as the last one.
    """
    target = Path(os.path.realpath(path))
    stays = target.exists()
    home = target if stays else target.parent
    home.mkdir(parents=True, exist_ok=True)
    draft = home / part_name()
    draft.mkdir()
    try:
        yield draft
        for each in draft.iterdir():
            _sync(each)
        sync_folder(draft)
        if stays:
            for each in sorted(draft.iterdir(), key=lambda each: each.name == last):
                os.replace(each, target / each.name)
        else:
            draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    sync_folder(home)


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether there is something of this name.

    Raises:
        OSError: Nothing can have it: it is too long, or in a folder that is closed.
    """
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def part_name() -> str:
    """A name that nobody else has, for what is being written."""
    return f".ampere-{secrets.token_hex(8)}.part"


def is_part(path: Path) -> bool:
    """Whether this was being written when a machine or a process came to its end."""
    return path.name.startswith(".ampere-") and path.name.endswith(".part")


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
