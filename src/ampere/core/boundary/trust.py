"""Trust: text out of a file or from a device is data, and never becomes what runs.

A profile may come from a stranger. What it says may be shown, compared and reasoned with; only what
the user has typed, on the command line or in a Python call, is loaded as a model, as a loss or as a
meter. The one exception names ampere's own code: models of the zoo, and ampere's own losses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ampere.core.types import Json
from ampere.errors import DataError

ZOO = "zoo:"  # models of ampere's own, built by its own code
MOST = 1024  # of any size of a model that a file alone may ask for


@dataclass(frozen=True)
class ForeignText:
    """Text of a file or a device that names code. It is no `str`: whoever loads code refuses it."""

    text: str

    def __str__(self) -> str:
        return self.text


def foreign(tree: Json) -> Json:
    """The same tree, its texts as what they are: somebody else's."""
    if isinstance(tree, Mapping):
        return {name: foreign(part) for name, part in tree.items()}
    if isinstance(tree, list):
        return [foreign(part) for part in tree]
    return ForeignText(tree) if isinstance(tree, str) else tree


def as_data(tree: Json) -> Json:
    """The same tree with plain texts, to be written into a file again."""
    if isinstance(tree, Mapping):
        return {name: as_data(part) for name, part in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [as_data(part) for part in tree]
    return tree.text if isinstance(tree, ForeignText) else tree


def model_of_file(name: str) -> str | ForeignText:
    """A model as a file says it: one of the zoo, of modest size, or text that nobody may load."""
    sizes = re.findall(r"\d+", name)
    modest = len(name) <= 500 and len(sizes) <= 32 and all(int(each) <= MOST for each in sizes)
    return name if name.startswith(ZOO) and modest else ForeignText(name)


def refuse_code(name: object, what: str, repeat: str) -> None:
    """Refuse to load what only a file or a device has named.

    Args:
        name: What is to be loaded.
        what: What it is: a model, a loss, a meter.
        repeat: How the user says it himself.
    """
    if isinstance(name, ForeignText):
        raise DataError(
            f"the profile names the {what} {name}, which is code (or a model without measure),"
            f" and a file must not choose what runs here: say it yourself with {repeat}"
        )
