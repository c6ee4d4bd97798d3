"""TOML, which people write by hand: parsed as data, or refused in a line."""

from __future__ import annotations

import sys
from typing import Any

from ampere.errors import DataError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


MOST_DOTS = 200  # of a line: keys of very many parts take most parsers quadratic time


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text; anything else is a `DataError` that names the line."""
    if any(line.count(".") > MOST_DOTS for line in text.split("\n")):
        raise DataError(f"not TOML that anybody writes (a line has more than {MOST_DOTS} dots)")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise DataError("not TOML (it is nested too deeply)") from None
    except ValueError as error:  # of which the parser's own is one
        why = "a number has thousands of digits" if "digits" in str(error) else str(error)
        raise DataError(f"not TOML ({why})") from None
