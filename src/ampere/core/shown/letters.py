"""Letters of others: names come from their models and files, and must do a reader no harm."""

from __future__ import annotations

import html


def printable(text: str) -> str:
    """Names come from models and files of others: they must not steer the reader's terminal."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def escaped(text: str) -> str:
    """The same for a page: nothing in it can be taken for HTML."""
    return html.escape(printable(text))
