"""Rows: lines of JSON that ampere or any other tool wrote, one measurement each."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

from ampere.core.fields import parse_json
from ampere.core.types import Json
from ampere.errors import DataError, FaultyReading
from ampere.records.measurement import Measurement

FORMAT = 1  # of rows and of the journal that holds them; its history stands in journal.py


def read_rows(path: str | os.PathLike[str]) -> list[Measurement]:
    """Read rows that any tool wrote, one JSON object a line; `-` is standard input.

    A journal is welcome too: its header line is skipped. Rows with numbers that cannot be true are
    left out with a warning; what is no row at all is an error.
    """
    piped = os.fspath(path) == "-"
    name = "standard input" if piped else os.fspath(path)
    try:
        text = sys.stdin.read() if piped else Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{name} is not UTF-8 text: write one JSON object a line") from None
    measurements = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
            if not is_header(row):
                measurements.append(Measurement.from_json(row))
            elif number > 1:
                raise DataError("a second header: files of rows are joined without their headers")
        except FaultyReading as error:  # meters wrap around and fall silent: not the user's fault
            warnings.warn(f"{name} line {number} is left out: {error}", stacklevel=2)
        except DataError as error:
            raise DataError(f"{name} line {number}: {error}") from None
    return measurements


def is_header(row: Json) -> bool:
    """Whether this is the first line of a journal; one of a newer format is refused."""
    if not isinstance(row, Mapping) or "ampere_journal" not in row:
        return False
    version = row["ampere_journal"]
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise DataError(f"ampere_journal must be the version of the format, not {version!r:.80}")
    if version > FORMAT:
        raise DataError(
            f"written by a newer ampere (format {version}, this one reads {FORMAT}): upgrade ampere"
        )
    return True
