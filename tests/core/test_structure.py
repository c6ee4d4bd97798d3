"""Structures: what is written is read back, and a digest tells them apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given

from ampere.core.program.sizes import Size
from ampere.core.program.structure import Call, Port, Structure
from ampere.core.program.terms import ValueRef
from structures import calls, structures, through_json


@given(calls)
def test_calls_are_read_back(call: Call) -> None:
    assert Call.from_json(through_json(call.to_json())) == call


@given(structures)
def test_structures_are_read_back(structure: Structure) -> None:
    back = Structure.from_json(through_json(structure.to_json()))
    assert back == structure
    assert back.digest == structure.digest


def test_names_of_arguments_and_options_are_no_tags() -> None:
    """`nn.Upsample` has an argument named `size`, `F.pad` an option named `value`."""
    call = Call("Upsample", {"size": (8, 8)}, (ValueRef(0),), {"value": 0.5})
    assert call.to_json() == {
        "op": "Upsample",
        "inputs": [{"value": 0}],
        "arguments": {"size": [8, 8]},
        "options": {"value": 0.5},
    }
    assert Call.from_json(call.to_json()) == call


def test_a_digest_tells_structures_apart_but_not_allowed_widths() -> None:
    entering, leaving = Port((Size("in"),)), Port((10,))
    structure = Structure((entering,), (leaving,), (Call("Linear"),), multiples={"in": 1})
    assert replace(structure, multiples={"in": 4}).digest == structure.digest
    changes: list[dict[str, Any]] = [
        {"inputs": (Port((Size("in", 2),)),)},
        {"inputs": (entering, entering)},
        {"inputs": (replace(entering, grad=False),)},
        {"inputs": (replace(entering, whole=True),)},
        {"outputs": (Port((9,)),)},
        {"calls": (Call("Linear", frozen=True),)},
        {"calls": (Call("Linear", shared_parts=("weight",)),)},
        {"result": ValueRef(1)},
    ]
    digests = {replace(structure, **change).digest for change in changes}
    assert len(digests | {structure.digest}) == len(changes) + 1
