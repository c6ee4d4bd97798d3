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


def shortened(text: str, most: int) -> str:
    """A text of at most so many letters: what is too much is left out of its middle."""
    if len(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"
