"""Fields: a JSON object of somebody else's, read field by field and checked on the way.

Rows, layers, headers, settings and a worker's answers come from files and devices. Whatever they
say passes through here once: numbers are finite and within bounds, whole where they are whole,
texts and lists no longer than anybody needs. A refusal is one line that names the place:

    layers[2].count must be a whole number from 1 to 1000000, not 2.9

Null is the same as leaving a field out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from ampere.core.types import Json
from ampere.errors import DataError

LARGE = 1e30  # beyond it no quantity of a training step lies, whatever its unit
LONG_TEXT = 10_000  # characters; the kind of a large block is a long text
MANY = 10_000  # items of a list
DEEP = 6  # lists and objects inside each other, in what is kept as it is

D = TypeVar("D")


class _Required:
    """Stands for a field that must be there."""


REQUIRED = _Required()


def parse_json(text: str | bytes) -> Json:
    """Parse strict JSON (no NaN, no Infinity); anything else is a `DataError`."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a number")

    try:
        decoded = text if isinstance(text, str) else text.decode()
        return json.loads(decoded, parse_constant=refuse)
    except RecursionError:
        raise DataError("not JSON (it is nested too deeply)") from None
    except ValueError as error:
        why = "a number has thousands of digits" if "digits" in str(error) else str(error)
        raise DataError(f"not JSON ({why})") from None


def shown(value: Json) -> str:
    """A value as a refusal quotes it: a few words, whatever it is."""
    try:
        text = value.isoformat() if isinstance(value, (date, time)) else repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, a deep list
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


class Fields:
    """One JSON object, and where it stands.

    Args:
        row: What was parsed.
        where: How a refusal names it: empty for the outermost object.
    """

    __slots__ = ("_row", "_where")

    def __init__(self, row: Json, where: str = "") -> None:
        if not isinstance(row, Mapping):
            raise DataError(f"{where or 'it'} must be an object, not {shown(row)}")
        self._row = row
        self._where = where

    @property
    def row(self) -> Mapping[str, Json]:
        """The object as it is, for whoever reads it by rules of his own."""
        return self._row

    def __contains__(self, name: str) -> bool:
        return self._row.get(name) is not None

    def names(self, most: int = MANY) -> list[str]:
        """The names of all fields, those that are null among them."""
        if len(self._row) > most:
            raise DataError(f"{self._where or 'it'} has {len(self._row)} fields, more than {most}")
        for name in self._row:
            if not _is_writable(name, LONG_TEXT):
                _refuse_text(name, self.place(name), LONG_TEXT)
        return list(self._row)

    def only(self, known: Sequence[str]) -> None:
        """Refuse fields of any other name: one that is mistyped would be passed over in silence."""
        for name in self.names():
            if name not in known:
                near = get_close_matches(name[:80].lower(), known, n=1, cutoff=0.5)
                hint = f"is it {near[0]}?" if near else f"there are {', '.join(known)}"
                raise DataError(f"{self.place(name)} is not known: {hint}")

    def place(self, name: str) -> str:
        """How a refusal names a field."""
        return _place(self._where, name)

    def refuse(self, name: str, wanted: str, raising: type[DataError] = DataError) -> NoReturn:
        """Raise what says that a field is not as wanted."""
        value = self._row.get(name)
        if value is None:
            raise DataError(f"{self.place(name)} is missing: it must be {wanted}")
        raise raising(f"{self.place(name)} must be {wanted}, not {shown(value)}")

    def number(
        self,
        name: str,
        default: D | _Required = REQUIRED,
        *,
        least: float = -LARGE,
        above: float | None = None,
        most: float = LARGE,
        beyond: type[DataError] = DataError,
    ) -> float | D:
        """A finite number within bounds; one outside them raises `beyond`."""
        value = self._row.get(name)
        if value is None and not isinstance(default, _Required):
            return default
        number = as_float(value) if is_number(value) else math.nan
        low = number <= above if above is not None else number < least
        if low or not number <= most:  # NaN, too
            bounds = f"above {above:g} and at most" if above is not None else f"from {least:g} to"
            wanted = f"a number {bounds} {most:g}"
            self.refuse(name, wanted, beyond if is_number(value) else DataError)
        return number

    def whole(
        self,
        name: str,
        default: D | _Required = REQUIRED,
        *,
        least: int = 0,
        most: int = 10**15,
    ) -> int | D:
        """A whole number within bounds; 3.0 is one, 2.9 is none."""
        value: Any = self._row.get(name)
        if value is None and not isinstance(default, _Required):
            return default
        if not is_number(value) or not least <= as_float(value) <= most or value != int(value):
            self.refuse(name, f"a whole number from {least} to {most}")
        return int(value)

    def text(
        self, name: str, default: D | _Required = REQUIRED, *, most: int = LONG_TEXT
    ) -> str | D:
        """A text that can be written down, of at most so many characters."""
        value = self._row.get(name)
        if value is None and not isinstance(default, _Required):
            return default
        if not isinstance(value, str):
            self.refuse(name, "a text")
        if not _is_writable(value, most):
            _refuse_text(value, self.place(name), most)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        value = self._row.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(name, "true or false")
        return value

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        """One of a few words."""
        value = self._row.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or value not in choices:
            self.refuse(name, f"one of {', '.join(choices)}")
        return value

    def inner(self, name: str, default: Json = REQUIRED) -> Fields:
        """The object in a field."""
        value = self._row.get(name)
        if value is None and not isinstance(default, _Required):
            value = default
        if value is None:
            self.refuse(name, "an object")
        return Fields(value, self.place(name))

    def items(self, name: str, *, least: int = 0, most: int = MANY) -> list[tuple[str, Json]]:
        """What a list holds, each item with its place; a list that is not there is empty."""
        value = self._row.get(name)
        if value is None and not least:
            return []
        if not isinstance(value, list) or not least <= len(value) <= most:
            self.refuse(name, f"a list of {least} to {most} items")
        return [(f"{self.place(name)}[{i}]", item) for i, item in enumerate(value)]

    def numbers(
        self,
        name: str,
        *,
        least: float = -LARGE,
        above: float | None = None,
        most: float = LARGE,
    ) -> list[float | None]:
        """A list of finite numbers within bounds, null where one was lost."""
        self.items(name)
        listed = self._row.get(name) or []
        inner = Fields({f"{name}[{i}]": value for i, value in enumerate(listed)}, self._where)
        return [
            inner.number(each, None, least=least, above=above, most=most) for each in inner.names()
        ]

    def wholes(self, name: str, *, least: int = 1, most: int = 10**9) -> dict[str, int]:
        """An object of whole numbers; one that is not there is empty."""
        inner = self.inner(name, {})
        return {
            each: inner.whole(each, least=least, most=most)
            for each in inner.names()
            if each in inner
        }

    def texts(self, name: str, default: Json = REQUIRED, *, most: int = 200) -> dict[str, str]:
        """An object of texts; numbers in it are taken as they are written."""
        inner = self.inner(name, default)
        return {each: str(inner.plain(each)) for each in inner.names(most=most) if each in inner}

    def plain(
        self, name: str, default: Json = None, depth: int = DEEP, largest: float = LARGE
    ) -> Json:
        """Any JSON as it is, as long as its numbers are finite and its size is modest."""
        value = self._row.get(name)
        if isinstance(value, (list, tuple, Mapping)) or not _is_plain_leaf(value, largest):
            check_plain(value, self.place(name), depth, largest)
        return default if value is None else value


def check_plain(value: Json, place: str, depth: int = DEEP, largest: float = LARGE) -> None:
    """Refuse JSON that cannot be kept: numbers without an end, texts and lists without measure."""
    if _is_plain_leaf(value, largest):
        return
    if isinstance(value, str):
        _refuse_text(value, place, LONG_TEXT)
    elif is_number(value):
        within = f"-{largest:g} to {largest:g}".replace("+", "")
        raise DataError(f"{place} must be a number from {within}, not {shown(value)}")
    elif depth == 0 or not isinstance(value, (list, tuple, Mapping)) or len(value) > MANY:
        raise DataError(f"{place} is larger or deeper than anybody needs: {shown(value)}")
    else:
        for inner, item in _parts(value):
            if not _is_writable(inner, LONG_TEXT):
                _refuse_text(inner, place, LONG_TEXT)
            check_plain(item, _place(place, inner), depth - 1, largest)


def is_number(value: Json) -> bool:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def as_float(value: Any) -> float:
    """A number as a float; one with hundreds of digits is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _place(where: str, name: str) -> str:
    """A field inside another; a name that is no plain word is quoted, and has an end."""
    plain = name if name.isprintable() and len(name) <= 80 else shown(name)
    between = "" if not where else " " if where.endswith(":") else "."
    return f"{where}{between}{plain}"


def _parts(value: Json) -> Iterator[tuple[str, Json]]:
    if isinstance(value, Mapping):
        return ((str(name), item) for name, item in value.items())
    return ((str(i), item) for i, item in enumerate(value))


def _is_plain_leaf(value: Json, largest: float) -> bool:
    """Whether a value is no list and no object, and can be kept as it is."""
    if isinstance(value, str):
        return _is_writable(value, LONG_TEXT)
    if is_number(value):
        return abs(as_float(value)) <= largest
    return value is None or isinstance(value, bool)


def _is_writable(text: Json, most: int) -> bool:
    """Whether a text has an end and can be written: half a surrogate pair cannot."""
    if not isinstance(text, str) or len(text) > most:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_text(text: Json, place: str, most: int) -> NoReturn:
    if isinstance(text, str) and len(text) > most:
        raise DataError(f"{place} has {len(text)} characters, more than {most}")
    raise DataError(f"{place} is no text that can be written: {shown(text)}")
