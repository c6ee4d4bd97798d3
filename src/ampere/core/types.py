"""Types that many rooms share."""

from __future__ import annotations

from typing import Any

# What `json.loads` returns: numbers, texts, booleans, None, and lists and dicts of them. Only what
# reads and writes files and messages meets it, and checks it there: a union of these types would
# ask for two thousand casts.
Json = Any
