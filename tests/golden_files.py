"""What was agreed on, in tests/golden; `UPDATE_GOLDEN=1` writes it anew: read the difference."""

from __future__ import annotations

import os
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def agreed(name: str, content: str) -> str:
    """The text of a golden file, which is the content itself when files are written anew."""
    path = GOLDEN / name
    if "UPDATE_GOLDEN" in os.environ:
        path.write_text(content, encoding="utf-8")
    return path.read_text(encoding="utf-8")
