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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ampere.core.layers import Json, Layer, Port, Role, number_at, shape_at, structure_of
from ampere.core.training import training_of

Source = tuple[int, int]  # the number of a layer, −1 for the network's inputs, and of its output
Place = list[Json]  # the number of a value, and the way to a part of it


def describe(layers: Sequence[Layer]) -> dict[str, Json]:
    """Everything that it takes to train this network, without ampere."""
    reads = [_reads(i, layer) for i, layer in enumerate(layers)]
    inputs = _inputs(layers, reads)
    made: dict[Source, Place] = {(-1, number): [k] for k, number in enumerate(inputs)}
    calls: list[Json] = []
    result: Json = None
    for i, layer in enumerate(layers):
        result = _append(calls, layer, [made[source] for source in reads[i]], len(inputs))
        for n, output in enumerate(result if isinstance(result, list) else [result]):
            if isinstance(output, Mapping) and "value" in output:
                made[i, n] = _place(output["value"])
    read = {source for each in reads for source in each}
    unread = [_value(made[i, n]) for i, n in made if i < len(layers) - 1 and (i, n) not in read]
    settings = training_of(layers).to_json()
    del settings["batch_size"]  # stands in the shapes of the inputs
    ends = layers[-1].kind.role is Role.LAST
    return {
        **settings,
        "loss": settings["loss"] if ends else None,
        "inputs": list(inputs.values()),
        "calls": calls,
        "result": result,
        **({"unread": unread} if unread else {}),
    }


def _reads(i: int, layer: Layer) -> tuple[Source, ...]:
    """Where a layer's inputs come from; unless it says so, from the layer before."""
    if layer.reads:
        return layer.reads
    if i:
        return ((i - 1, 0),)
    return tuple((-1, n) for n in range(len(structure_of(layer.kind).inputs)))


def _inputs(layers: Sequence[Layer], reads: Sequence[Sequence[Source]]) -> dict[int, Json]:
    """What the network is fed, by number; a gradient flows back where it would in a larger one."""
    found: dict[int, Json] = {}
    for layer, sources in zip(layers, reads, strict=True):
        for (source, number), port in zip(sources, structure_of(layer.kind).inputs, strict=True):
            if source < 0:
                found.setdefault(number, _input(port, layer))
    return dict(sorted(found.items()))


def _input(port: Port, layer: Layer) -> dict[str, Json]:
    shape = shape_at(port.shape, layer.widths)
    batch = int(layer.kind.attributes["batch"])
    row: dict[str, Json] = {
        "shape": list(shape if port.whole else (batch, *shape)),
        "dtype": port.dtype,
        "grad": port.grad,
    }
    return row if port.below is None else {**row, "below": port.below}


def _append(calls: list[Json], layer: Layer, sources: Sequence[Place], inputs: int) -> Json:
    """Add a layer's calls to those of the network; returns what the layer delivers."""
    before = inputs + len(calls) - 1  # a layer's calls count from 1

    def place(where: Json) -> Json:
        k, *path = _place(where)
        if k:
            return _value([before + k, *path])
        if len(sources) == 1:
            return _value([*sources[0], *path])
        return _value([*sources[path[0]], *path[1:]])

    structure = structure_of(layer.kind)
    for call in structure.calls:
        row = call.to_json()
        row["inputs"] = _filled(row["inputs"], layer.widths, place)
        for part in {"arguments", "options"} & set(row):
            row[part] = _each(row[part], layer.widths, place)
        if call.again:
            row["again"] = before + call.again
        calls.append(row)
    return _filled(structure.result, layer.widths, place)


def _filled(tree: Json, widths: Mapping[str, int], place: Callable[[Json], Json]) -> Json:
    """Sizes as numbers, values as the network counts them; the rest is the framework's to read."""
    if isinstance(tree, Mapping):
        if (number := number_at(tree, widths)) is not None:
            return number
        if "value" in tree:
            return place(tree["value"])
        if "dict" in tree:
            return {"dict": _each(tree["dict"], widths, place)}
        return _each(tree, widths, place)
    if isinstance(tree, (list, tuple)):
        return [_filled(part, widths, place) for part in tree]
    return tree


def _each(
    named: Mapping[str, Json], widths: Mapping[str, int], place: Callable[[Json], Json]
) -> dict[str, Json]:
    """Parts by name; the names themselves mean nothing (`nn.Upsample` has one named size)."""
    return {name: _filled(part, widths, place) for name, part in named.items()}


def _place(where: Json) -> Place:
    return where if isinstance(where, list) else [where]


def _value(place: Place) -> Json:
    return {"value": place if len(place) > 1 else place[0]}
