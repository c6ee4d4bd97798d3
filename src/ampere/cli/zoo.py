"""`ampere zoo`: the models that come with ampere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ampere.cli.command import Command
from ampere.cli.options import AsJson
from ampere.cli.shell import json_text
from ampere.core.page import Page
from ampere.core.types import Json

if TYPE_CHECKING:
    from ampere.zoo.families import Family


def zoo(as_json: AsJson = False) -> str:
    """List the models that come with ampere.

    What goes into each, and the arguments of its original: others make other members of the family.
    """
    from ampere.zoo.families import family_names, find_family

    families = [find_family(name) for name in family_names()]
    if as_json:
        return json_text({"families": [_row(family) for family in families]})
    page = Page(
        title="Models of the zoo",
        headers=("model", "input", ""),
        rows=[
            (family.describe(_arguments(family)), str(family.input), family.title)
            for family in families
        ],
    )
    return page.text()


def _arguments(family: Family) -> dict[str, Json]:
    """Those of the original, without what is left to the others."""
    return {name: value for name, value in family.defaults.items() if value is not None}


def _row(family: Family) -> dict[str, Json]:
    return {
        "model": family.describe({}),
        "title": family.title,
        "input": str(family.input),
        "arguments": dict(family.defaults),
    }


ZOO = Command(zoo, "ampere zoo")
