"""Any sizes, terms, calls, structures and layers, for properties that hold for all of them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.sizes import Size, SizePower
from ampere.core.program.structure import Call, Port, Structure
from ampere.core.program.terms import DType, InputDevice, MemoryFormat, ValueRef
from ampere.core.program.widths import Widths

names = st.sampled_from(["in", "out", "width"])
numbers = st.integers(1, 10**4)
sizes = st.builds(Size, names, numbers, numbers)
shapes = st.lists(numbers | sizes, max_size=4).map(tuple)
values = st.builds(ValueRef, st.integers(0, 9), st.lists(st.integers(0, 2), max_size=2).map(tuple))
plain = st.none() | st.booleans() | numbers | st.floats(-1e6, 1e6) | st.text(max_size=5)
leaf_terms = st.one_of(
    plain,
    sizes,
    values,
    st.builds(SizePower, sizes, st.sampled_from([-0.5, 0.5])),
    st.builds(DType, st.sampled_from(["float32", "int64"])),
    st.just(MemoryFormat("channels_last")),
    st.just(InputDevice()),
    st.just(...),
    st.sampled_from([float("inf"), float("-inf")]),
)
terms = st.recursive(
    leaf_terms,
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.lists(parts, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=6), parts, max_size=2),
        st.builds(slice, parts, parts, parts),
    ),
    max_leaves=6,
)
named_terms = st.dictionaries(st.text(max_size=6), terms, max_size=3)
parts = st.lists(st.sampled_from(["weight", "bias"]), unique=True, max_size=2).map(tuple)
calls = st.builds(
    Call,
    op=st.sampled_from(["Conv2d", "torch.flatten", "parameter"]),
    arguments=named_terms,
    inputs=st.lists(terms, max_size=3).map(tuple),
    options=named_terms,
    frozen=st.booleans(),
    frozen_parts=parts,
    shared_parts=parts,
    again=st.none() | st.integers(1, 9),
    detached=st.booleans(),
)
ports = st.builds(
    Port,
    shape=shapes,
    dtype=st.sampled_from(["float32", "int64"]),
    below=st.none() | numbers,
    grad=st.booleans(),
    whole=st.booleans(),
)
several_ports = st.lists(ports, min_size=1, max_size=3).map(tuple)
structures = st.builds(
    Structure,
    inputs=several_ports,
    outputs=several_ports,
    calls=st.lists(calls, max_size=3).map(tuple),
    result=terms,
    multiples=st.dictionaries(names, numbers, max_size=2),
)
widths = st.dictionaries(names, numbers, max_size=3).map(Widths)
kinds = st.builds(
    LayerKind,
    name=st.text(max_size=5),
    role=st.sampled_from(Role),
    operation=st.text(max_size=5),
    attributes=st.dictionaries(st.text(max_size=5), plain, max_size=2),
    structure=st.none() | structures,
)
layers = st.builds(Layer, name=st.text(max_size=5), kind=kinds, widths=widths)


def through_json(row: Any) -> Any:
    """As it arrives elsewhere: through strict JSON."""
    return json.loads(json.dumps(row, allow_nan=False))
