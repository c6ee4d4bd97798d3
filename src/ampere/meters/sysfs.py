"""Files of sysfs, where Linux shows what its sensors and counters say."""

from __future__ import annotations

import re
from pathlib import Path

from ampere.errors import MeterError, MeterFault


def read_number(path: Path, grant: Path | None = None) -> int:
    """The whole number in a file of sysfs; `grant` names the files that permission is needed for.

    Raises:
        MeterFault: It cannot be read at this moment.
        MeterError: It is absent, forbidden, or holds something else.
    """
    text = read_text(path, grant)
    if not re.fullmatch(r"-?[0-9]{1,20}", text):
        raise MeterError(f"{path} holds {text[:40]!r}, not a number; choose another meter")
    return int(text)


def read_text(path: Path, grant: Path | None = None) -> str:
    """The text in a file of sysfs; errors as in `read_number`."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except PermissionError:
        raise MeterError(
            f"no permission to read {path}; run `sudo chmod o+r {grant or path}`, or ampere as root"
        ) from None
    except FileNotFoundError:
        raise MeterError(f"{path} does not exist; choose another meter") from None
    except OSError as error:  # the bus to the chip was busy, or the channel is switched off
        raise MeterFault(f"{path} cannot be read now ({error.strerror})") from error
    return " ".join(text.split())  # names end up in messages of one line
