"""Recipe: how a public model is made, and what it is fed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from torch import nn

from ampere.core.inputs import Inputs

LONGEST_NAME = 100  # of any model: to compare longer ones takes longer than anybody waits


@dataclass(frozen=True)
class Recipe:
    """What makes a public model, with weights by chance; its input, if it says so itself."""

    make: Callable[[], nn.Module]
    input: Inputs | None


def alike(name: str, names: Iterable[str], otherwise: str) -> str:
    """What may have been meant by a wrong name, as the end of a sentence."""
    by_letters = {"".join(filter(str.isalnum, each.lower())): each for each in names}
    wanted = "".join(filter(str.isalnum, name[:LONGEST_NAME].lower()))
    close = [by_letters[each] for each in get_close_matches(wanted, by_letters, 5, 0.6)]
    return f"did you mean {', '.join(close)}?" if close else otherwise
