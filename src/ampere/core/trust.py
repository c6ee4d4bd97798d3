"""Trust: text out of a file or from a device is data, and never becomes what runs.

A profile may come from a stranger. What it says may be shown, compared and reasoned with; only what
the user has typed, on the command line or in a Python call, is loaded as a model or as a loss.
"""

from __future__ import annotations

from dataclasses import dataclass

from ampere.errors import DataError

ZOO = "zoo:"  # models of ampere's own, built by its own code


@dataclass(frozen=True)
class FileText:
    """Text of a file that names code. It is no `str`, so that whoever loads code refuses it."""

    text: str

    def __str__(self) -> str:
        return self.text


def refuse_code(name: object, what: str, repeat: str) -> None:
    """Refuse to load what only a file has named.

    Args:
        name: What is to be loaded.
        what: What it is: a model, a loss.
        repeat: How the user says it himself.
    """
    if isinstance(name, FileText):
        raise DataError(
            f"the profile names the {what} {name}, which is code, and a file must not choose what"
            f" runs here: say it yourself with {repeat}"
        )
