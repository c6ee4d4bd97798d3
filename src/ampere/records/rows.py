"""Rows: lines of JSON that ampere or any other tool wrote, one measurement each."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import read_text
from ampere.core.layers import Layer
from ampere.core.types import Json
from ampere.errors import DataError, FaultyReading
from ampere.records.measurement import Measurement

FORMAT = 1  # of rows and of the journal that holds them; its history stands in journal.py


def read_rows(path: str | os.PathLike[str]) -> list[Measurement]:
    """Read rows that any tool wrote, one JSON object a line; `-` is standard input.

    A journal is welcome too: its header line is skipped. Rows with numbers that cannot be true are
    left out with a warning; what is no row at all is an error.
    """
    name, text = read_text(path)
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


def read_layer_file(path: str | os.PathLike[str]) -> tuple[Layer, ...]:
    """Read the layers of one network, for estimating without a model; `-` is standard input.

    One JSON document, such as `ampere layers --json` prints, or one object a line; each object is a
    layer, or the only one has `layers`.
    """
    name, text = read_text(path)
    try:
        document = parse_json(text)
        rows = document if isinstance(document, list) else [document]
        places = [f"{name}: layers[{i}]" for i in range(len(rows))]
    except DataError:
        lines = [(i, line) for i, line in enumerate(text.split("\n"), 1) if line.strip()]
        places = [f"{name} line {i}:" for i, _ in lines]
        rows = [_parse_at(place, line) for place, (_, line) in zip(places, lines, strict=True)]
    if any(isinstance(row, Mapping) and "layers" in row for row in rows):
        if len(rows) > 1:
            raise DataError(f"{name} has several networks: estimate them one by one")
        listed = Fields(rows[0], f"{name}:").items("layers", least=1)
        places, rows = [place for place, _ in listed], [row for _, row in listed]
    if not rows:
        raise DataError(f"{name} has no layer to estimate: give one JSON object a line")
    return tuple(Layer.from_json(row, where=place) for place, row in zip(places, rows, strict=True))


def _parse_at(place: str, line: str) -> Json:
    try:
        return parse_json(line)
    except DataError as error:
        raise DataError(f"{place} {error}") from None


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
