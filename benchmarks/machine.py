"""Where and when a figure was made, and where what was measured for it is kept."""

from __future__ import annotations

import gzip
import sys
from datetime import datetime, timezone
from pathlib import Path

from ampere.acquisition.progress import Event
from ampere.core.fingerprint import local_fingerprint

DOCS = Path(__file__).parent.parent / "docs" / "paper"
RESULTS = Path(__file__).parent / "results"


def machine_line(settings: dict[str, str]) -> str:
    identity = local_fingerprint(settings).identity
    date = datetime.now(timezone.utc).date().isoformat()
    parts = [identity["processor"], f"{identity['cores']} cores", identity["memory"]]
    parts += [f"{key} {value}" for key, value in settings.items()]
    return f"{', '.join(parts)}; {date}."


def show(event: Event) -> None:
    """Progress on one line."""
    sys.stderr.write(f"\r{event.done:4}/{event.total:<4} {event.seconds_left:5.0f} s  ")
    sys.stderr.write(f"{event.doing:100.100}")
    sys.stderr.flush()


def pack(path: Path) -> Path:
    """A journal as it is kept: by gzip, the same journal always to the same file."""
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
    return packed


def write_section(page: str, name: str, text: str) -> None:
    """Put a table between its markers on a page of docs/paper, and leave the words around it."""
    path = DOCS / page
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    words = path.read_text(encoding="utf-8")
    if begin not in words:
        words = f"{words.rstrip()}\n\n{begin}\n{end}\n"
    head, _, rest = words.partition(begin)
    _, _, tail = rest.partition(end)
    path.write_text(f"{head}{begin}\n{text.strip()}\n{end}{tail}", encoding="utf-8")
