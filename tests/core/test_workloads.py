"""Workloads: what is sent to another process is there as it was sent."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.core.workloads import ModelSpec, Workload, workload_identity
from structures import layers, through_json


@given(st.lists(layers, max_size=3).map(tuple), st.none() | st.builds(ModelSpec, st.text()))
def test_workloads_are_read_back_with_their_structures(
    network: tuple[Layer, ...], model: ModelSpec | None
) -> None:
    workload = Workload(network, model, "forward")
    back = Workload.from_json(through_json(workload.to_json()))
    assert back == workload
    for mine, theirs in zip(network, back.layers, strict=True):
        assert (mine.kind.structure, mine.kind.role) == (theirs.kind.structure, theirs.kind.role)
        assert mine.kind.attributes == theirs.kind.attributes


def test_all_of_a_layer_is_sent() -> None:
    kind = LayerKind("a", Role.HIDDEN, "conv")
    layer = Layer("a1", kind, Widths(), Features(2.0), count=3, reads=((0, 1), (-1, 0)))
    (back,) = Workload.from_json(through_json(Workload((layer,)).to_json())).layers
    assert back == layer
    assert back.reads == layer.reads


def test_workloads_differ_by_stage_order_and_count() -> None:
    one, two = (Layer(n, LayerKind(n, Role.HIDDEN, "conv"), Widths({"in": 3})) for n in "ab")
    renamed = replace(one, name="other", features=Features(1.0))
    identity = workload_identity("step", [one, two])
    assert workload_identity("step", [renamed, two]) == identity
    assert workload_identity("forward", [one, two]) != identity
    assert workload_identity("step", [two, one]) != identity
    assert workload_identity("step", [one, replace(two, count=2)]) != identity
