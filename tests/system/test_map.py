"""The map of the house is true: docs/architecture.md against the folders and the contracts."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ampere"
MAP = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
LEAST, MOST = 3, 16  # modules of a room


def rooms() -> set[str]:
    return {path.parent.name for path in SOURCE.glob("*/__init__.py")}


def packages() -> list[Path]:
    return sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)


def drawn() -> set[str]:
    """What stands at the left of the picture; beside the library stands the paper."""
    picture = re.search(r"```\n(.*?)```", MAP, re.DOTALL)
    assert picture is not None
    names = re.findall(r"^ {5}(\w.*?) {3,}", picture[1], re.MULTILINE)
    return {name for line in names for name in line.split("  ·  ")} - {"paper/"}


def test_the_picture_names_every_room_and_nothing_else() -> None:
    assert drawn() == rooms() | {"_api", "errors"}


def test_the_table_names_every_room_and_nothing_else() -> None:
    table = MAP.split("| room |")[1].split("\n\n")[0]
    names = {name for cell in re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
             for name in re.findall(r"`(\w+)`", cell)}  # fmt: skip
    assert names == rooms()


def test_the_contract_is_drawn_in_the_same_order() -> None:
    contract = configparser.ConfigParser()
    contract.read(ROOT / ".importlinter")
    layers = contract["importlinter:contract:rooms"]["layers"].split("\n")
    ordered = [re.findall(r"ampere\.(\w+)", layer) for layer in layers]
    names = [name for layer in ordered for name in layer]
    places = [re.search(rf"^ {{5}}.*\b{name}\b", MAP, re.MULTILINE) for name in names]
    assert all(places)
    starts = [place.start() for place in places if place]
    assert starts == sorted(starts)


def test_torch_is_forbidden_to_all_other_rooms() -> None:
    contract = configparser.ConfigParser()
    contract.read(ROOT / ".importlinter")
    named = contract["importlinter:contract:torch"]["source_modules"].split()
    assert {name.removeprefix("ampere.") for name in named} == (rooms() | {"_api", "errors"}) - {
        "integrations",
        "pytorch",
        "zoo",
    }


@pytest.mark.parametrize(
    "package", packages(), ids=lambda path: path.relative_to(SOURCE).as_posix()
)
def test_a_room_is_neither_a_hall_nor_a_cupboard(package: Path) -> None:
    modules = [path for path in package.glob("*.py") if path.name != "__init__.py"]
    inner = [path for path in package.iterdir() if (path / "__init__.py").exists()]
    assert len(modules) + len(inner) >= LEAST
    assert len(modules) <= MOST or package.name in ("cli", "drivers")  # a file a command, a meter


def test_every_function_that_the_map_names_is_there() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    text = MAP.split("## One estimate")[1].split("## What stays")[0]
    quoted = {name.removesuffix(".py") for name in re.findall(r"`([\w.]+)`", text)}
    names = {name.rpartition(".")[2] for name in quoted}
    files = {path.stem for path in SOURCE.rglob("*.py")} | {path.name for path in SOURCE.rglob("*")}
    defined = set(re.findall(r"^\s*(?:def|class) (\w+)|^(\w+)(?:: .+)? = ", source, re.MULTILINE))
    flat = {part for pair in defined for part in pair if part}
    others = {"commands", "sinks", "rung"}  # entry points, an attribute
    others |= {"MeterContract", "RuntimeContract"}  # of tests
    assert names - flat - files - others == set()
