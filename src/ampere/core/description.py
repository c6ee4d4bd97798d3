"""Descriptions: a network written out in plain numbers, for whoever builds and runs it elsewhere.

    {"optimizer": "sgd", "loss": "auto",
     "inputs": [{"shape": [10, 3, 32, 32], "dtype": "float32", "grad": false}],
     "calls": [{"op": "Conv2d", "arguments": {"in_channels": 3, ...}, "inputs": [{"value": 0}]},
               {"op": "torch.flatten", "inputs": [{"value": 1}], "options": {"start_dim": 1}}, ...],
     "result": {"value": 7}}

One list of calls for the whole network, no width left open. Values are numbered: the inputs first,
then what each call makes; `{"value": [5, 0]}` is the first part of value 5. Without a loss (null)
the backward pass starts from random gradients of the result; so it does for what is `unread`, if
there is any. `again` is the value of the call whose module runs once more; what is `frozen` gets no
gradient, `shared_parts` are updated by another call, and a `detached` call records no gradient.
Calls have torch's names, or those of the `dialect` that is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ampere.core.layers import Layer, Role, Source, sources_of, structure_of
from ampere.core.program.sizes import shape_at
from ampere.core.program.structure import TORCH, Call, Port
from ampere.core.program.terms import Term, ValueRef, number_at, term_to_json
from ampere.core.program.trees import map_leaves
from ampere.core.training import training_of
from ampere.core.types import Json


def describe(layers: Sequence[Layer]) -> dict[str, Json]:
    """Everything that it takes to train this network, without ampere."""
    reads = sources_of(layers)
    inputs = _inputs(layers, reads)
    made = {(-1, number): ValueRef(k) for k, number in enumerate(inputs)}
    calls: list[Call] = []
    result: Term = None
    for i, layer in enumerate(layers):
        result = _append(calls, layer, [made[source] for source in reads[i]], len(inputs))
        for n, output in enumerate(result if isinstance(result, tuple) else [result]):
            if isinstance(output, ValueRef):
                made[i, n] = output
    read = {source for sources in reads for source in sources}
    unread = [made[i, n] for i, n in made if i < len(layers) - 1 and (i, n) not in read]
    settings = training_of(layers).to_json()
    del settings["batch_size"]  # stands in the shapes of the inputs
    ends = layers[-1].kind.role is Role.LAST
    dialect = structure_of(layers[0].kind).dialect
    return {
        **({} if dialect == TORCH else {"dialect": dialect}),
        **settings,
        "loss": settings["loss"] if ends else None,
        "inputs": list(inputs.values()),
        "calls": [call.to_json() for call in calls],
        "result": term_to_json(result),
        **({"unread": [term_to_json(value) for value in unread]} if unread else {}),
    }


def _inputs(layers: Sequence[Layer], reads: Sequence[Sequence[Source]]) -> dict[int, Json]:
    """What the network is fed, by number; a gradient flows back where it would in a larger one."""
    fed: dict[int, Json] = {}
    for layer, sources in zip(layers, reads, strict=True):
        for (source, number), port in zip(sources, structure_of(layer.kind).inputs, strict=True):
            if source < 0:
                fed.setdefault(number, _input(port, layer))
    return dict(sorted(fed.items()))


def _input(port: Port, layer: Layer) -> dict[str, Json]:
    shape = shape_at(port.shape, layer.widths)
    batch = int(layer.kind.attributes["batch"])
    row: dict[str, Json] = {
        "shape": list(shape if port.whole else (batch, *shape)),
        "dtype": port.dtype,
        "grad": port.grad,
    }
    return row if port.below is None else {**row, "below": port.below}


def _append(calls: list[Call], layer: Layer, sources: Sequence[ValueRef], inputs: int) -> Term:
    """Add a layer's calls to those of the network; returns what the layer delivers."""
    before = inputs + len(calls) - 1  # a layer's calls count from 1

    def in_network(leaf: Term) -> Any:
        """Sizes as numbers, values as the network counts them."""
        if not isinstance(leaf, ValueRef):
            return number_at(leaf, layer.widths)
        if leaf.number:
            return leaf.moved(before)
        source, path = sources[0], leaf.path
        if len(sources) > 1:
            source, path = sources[int(path[0])], path[1:]
        return ValueRef(source.number, (*source.path, *path))

    structure = structure_of(layer.kind)
    calls += [
        replace(
            call,
            arguments=map_leaves(in_network, call.arguments),
            inputs=map_leaves(in_network, call.inputs),
            options=map_leaves(in_network, call.options),
            again=before + call.again if call.again else None,
        )
        for call in structure.calls
    ]
    result: Term = map_leaves(in_network, structure.result)
    return result
