"""The file of a pruned model may be anybody's: it is a network, or one line says why not."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import ampere
from ampere.errors import DataError, ModelError
from ampere.pytorch.pruning.files import rebuild_model

CANARY = "canary"


@pytest.fixture(scope="module")
def widths() -> Any:
    """A file as `ampere prune` writes it: modules, functions, sizes that follow a width."""
    layers = ampere.read_layers("zoo:lenet5(channels=[2, 3], hidden=[8, 6])")
    return {"layers": [layer.to_json(with_structure=True) for layer in layers]}


def refusal(content: Any) -> str:
    path = Path("widths.json")
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises((DataError, ModelError)) as caught:
        rebuild_model(path)
    assert str(caught.value).startswith("widths.json")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
    return str(caught.value)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    assert not Path(CANARY).exists()


def test_a_proper_file_is_built(widths: Any) -> None:
    Path("widths.json").write_text(json.dumps(widths))
    assert isinstance(rebuild_model("widths.json"), nn.Module)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 10**5, "not JSON"),
        (b'{"layers": NaN}', "not JSON"),
        (b"\x1f\x8b" + bytes(99), "cannot be unpacked"),
        ([], "must be an object, not []"),
        ({}, "layers is missing: it must be a list"),
        ({"layers": 5}, "layers must be a list"),
        ({"layers": []}, "layers must be a list of 1"),
        ({"layers": [5]}, "damaged"),
        ({"layers": [{}]}, "damaged"),
        ({"layers": [{"kind": "a"}]}, "damaged"),
    ],
)
def test_what_is_no_network_is_one_line(content: Any, said: str) -> None:
    assert said in refusal(content)


def calls(row: Any) -> Any:
    return row["layers"][0]["structure"]["calls"]


HARM: dict[str, Callable[[Any], Any]] = {
    "a function that is not on the list": lambda row: calls(row)[0].update(op="torch.os.system"),
    "a function that loads": lambda row: calls(row)[0].update(op="torch.load"),
    "no module": lambda row: calls(row)[0].update(op="__init__"),
    "a module that is none": lambda row: calls(row)[0].update(op="functional"),
    "a number for a name": lambda row: calls(row)[0].update(op=5),
    "arguments nobody has": lambda row: calls(row)[0].update(arguments={"nope": 1}),
    "arguments of another type": lambda row: calls(row)[0].update(arguments=5),
    "a text for a size": lambda row: calls(row)[0]["arguments"].update(out_channels=CANARY),
    "channels without end": lambda row: calls(row)[0]["arguments"].update(out_channels=10**9,
                                                                         kernel_size=[999, 999]),
    "channels beyond any": lambda row: calls(row)[0]["arguments"].update(out_channels=10**18),
    "digits without end": lambda row: calls(row)[0]["arguments"].update(out_channels=10**400),
    "below zero": lambda row: calls(row)[0]["arguments"].update(out_channels=-1),
    "widths without end": lambda row: row["layers"][0].update(widths={"out": 10**14}),
    "widths of another name": lambda row: row["layers"][0].update(widths={"nope": 1}),
    "half a width": lambda row: row["layers"][0].update(widths={"out": 2.5}),
    "a call of itself": lambda row: calls(row)[0].update(again=1),
    "a call that is not there": lambda row: calls(row)[0].update(again=99),
    "a value that is not there": lambda row: calls(row)[1].update(op="torch.nope"),
    "no structure": lambda row: row["layers"][0].update(structure=None),
    "another structure": lambda row: row["layers"][0].update(structure=[1]),
    "reads of nothing": lambda row: row["layers"][0].update(reads=[["a", "b"]]),
    "a type that is none": lambda row: row["layers"][0]["attributes"].update(dtype="load"),
}  # fmt: skip


@pytest.mark.parametrize("harm", HARM)
def test_what_a_file_must_not_say(widths: Any, harm: str) -> None:
    row = copy.deepcopy(widths)
    HARM[harm](row)
    refusal(row)


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in plain data: what holds it, and its name there."""
    for name in tree if isinstance(tree, dict) else range(len(tree)):
        yield tree, name
        if isinstance(tree[name], dict | list):
            yield from places(tree[name])


ODD = (
    None,
    True,
    -1,
    0,
    2.5,
    10**9,
    "",
    CANARY,
    "../x",
    [],
    {},
    [[]],
    {"value": 99},
    {"size": "a"},
)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_stands_anywhere(widths: Any, seed: int) -> None:
    rng = random.Random(seed)
    path = Path("widths.json")
    for _ in range(60):
        row = copy.deepcopy(widths)
        for _ in range(rng.randint(1, 2)):
            held, name = rng.choice(list(places(row)))
            held[name] = rng.choice(ODD)
        path.write_text(json.dumps(row))
        try:
            built = rebuild_model(path)
        except (DataError, ModelError) as error:
            assert str(error).startswith(("widths.json", "cannot read widths.json"))
            assert "\n" not in str(error)
        else:
            assert isinstance(built, nn.Module)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such files")
def test_files_that_are_none() -> None:
    for path, said in (
        ("absent", "No such file"),
        (".", "directory"),
        ("/dev/zero", "larger than"),
    ):
        with pytest.raises(DataError, match=said):
            rebuild_model(path)
