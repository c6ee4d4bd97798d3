"""Where and when a figure was made: the line that stands above every table."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from ampere.devices.fingerprint import local_fingerprint

DOCS = Path(__file__).parent.parent / "docs" / "results.md"
RESULTS = Path(__file__).parent / "results"


def machine_line(settings: dict[str, str]) -> str:
    identity = local_fingerprint(settings).identity
    date = datetime.now(timezone.utc).date().isoformat()
    parts = [identity["processor"], f"{identity['cores']} cores", identity["memory"]]
    parts += [f"{key} {value}" for key, value in settings.items()]
    return f"{', '.join(parts)}; {date}."


def write_section(name: str, text: str) -> None:
    """Put a table between its markers in docs/results.md, leaving the words around it alone."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = DOCS.read_text()
    if begin not in page:
        page = f"{page.rstrip()}\n\n{begin}\n{end}\n"
    head, _, rest = page.partition(begin)
    _, _, tail = rest.partition(end)
    DOCS.write_text(f"{head}{begin}\n{text.strip()}\n{end}{tail}")
