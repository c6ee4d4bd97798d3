"""Known repeats: what the last check of a device found, kept in the user's cache.

    ~/.cache/ampere/repeats.json     {"<fingerprint>": {"within": ..., "between": ..., ...}, ...}

`ampere measure` takes seconds and sees one moment; how its numbers repeat minutes later is what
`ampere check` took the time to find out. The file may be deleted at any time; one that is damaged
is passed over, and written anew by the next check.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import read_whole, write_whole
from ampere.core.fingerprint import Fingerprint
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.records.repeats import Repeats

MOST_DEVICES = 100  # the one that was checked first goes first
MOST_BYTES = 10**6


def keep_repeats(fingerprint: Fingerprint, repeats: Repeats) -> None:
    """Remember what a check of this device found; where that cannot be written, it is not."""
    kept = {key: value for key, value in _read().items() if key != fingerprint.id}
    kept[fingerprint.id] = asdict(repeats)
    with suppress(OSError):
        path = _path()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        newest = dict(list(kept.items())[-MOST_DEVICES:])
        write_whole(path, json.dumps(newest, indent=1) + "\n", own=True)


def known_repeats(fingerprint: Fingerprint) -> Repeats | None:
    """What the last check of this device found, if there was one."""
    kept = _read().get(fingerprint.id)
    with suppress(DataError):
        row = Fields(kept)
        return Repeats(
            within=row.number("within", least=0.0, most=100.0),
            between=row.number("between", least=0.0, most=100.0),
            degrees=row.whole("degrees", least=1, most=10**6),
            apart_s=row.number("apart_s", least=0.0),
            when=row.text("when", most=100),
        )
    return None


def _read() -> dict[str, Json]:
    try:
        kept = parse_json(read_whole(_path(), MOST_BYTES))
    except (OSError, DataError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _path() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "ampere" / "repeats.json"
