"""Tables that ids are looked up in, one by one or a bag of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ampere.core.graph.channels import Dims, new, pin
from ampere.core.program.trees import Path
from ampere.pytorch.modules.base import (
    NO_PRODUCTS,
    PLAIN_NAMING,
    ModuleRecord,
    Place,
    Pruning,
    Sizing,
)

if TYPE_CHECKING:
    from ampere.pytorch.graph.recorder import TracedCall
    from ampere.pytorch.pruning.coupling import Follower, Labels


def _sizes(
    call: TracedCall, inputs: list[Dims], shape: tuple[int, ...], sizes: dict[str, Any]
) -> Dims:
    (ids,) = inputs
    out = new(shape[-1])
    sizes.update(embedding_dim=out)
    return (*ids, out)


def _weights(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    table: Any = call.module
    made = follower.made(call, "embedding_dim", table.embedding_dim)
    follower.weight(call, "weight", 1, made)
    rank = len(follower.dims_of(call))
    return {(): {} if made is None else {rank - 1: made}}


def _bag_sizes(
    call: TracedCall, inputs: list[Dims], shape: tuple[int, ...], sizes: dict[str, Any]
) -> Dims:
    _, *others = inputs
    for dims in others:
        pin(dims)  # where bags begin, or a weight for each id: as many as there are ids
    out = new(shape[-1])
    sizes.update(embedding_dim=out)
    return (shape[0], out)


RECORDS = (
    ModuleRecord(
        names=("Embedding",),
        functions=(),  # a table that a user's module holds joins the layer that it is read in
        place=Place.CORE,
        parameters=True,
        whole=False,
        keeps_places=False,
        naming=PLAIN_NAMING,
        sizing=Sizing(
            rule=_sizes,
            entering=None,  # ids have no channels
            makes=None,
            ids_below="num_embeddings",
            weight_sides=("num_embeddings", "embedding_dim"),
            literals={},
        ),
        shortcut=None,
        pruning=Pruning(rule=_weights, after_cut=None, batch_statistics=False),
        physics=NO_PRODUCTS,
    ),
    ModuleRecord(
        names=("EmbeddingBag",),
        functions=(),
        place=Place.CORE,
        parameters=True,
        whole=False,
        keeps_places=False,
        naming=PLAIN_NAMING,
        sizing=Sizing(
            rule=_bag_sizes,
            entering=None,
            makes=None,
            ids_below="num_embeddings",
            weight_sides=("num_embeddings", "embedding_dim"),
            literals={},
        ),
        shortcut=None,
        pruning=Pruning(rule=_weights, after_cut=None, batch_statistics=False),
        physics=NO_PRODUCTS,
    ),
)
