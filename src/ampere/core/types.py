"""Types that many rooms share."""

from __future__ import annotations

from typing import Any

# What `json.loads` returns: numbers, texts, booleans, None, and lists and dicts of them.
Json = Any
