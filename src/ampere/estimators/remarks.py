"""Remarks: what is odd about the FLOPs that rows state, which a fit takes without a word."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ampere.core.layers import Layer, LayerIdentity
from ampere.estimators.encoding import Encoder
from ampere.records.measurement import Measurement

SAME = 0.01  # relative difference that is a matter of counting


def told_of_flops(
    layers: Sequence[Layer], rows: Sequence[Measurement], encoder: Encoder
) -> Iterator[str]:
    """Operations whose FLOPs are of no use, and kinds of which different layers count as one."""
    known = [layer for layer in layers if layer.features.flops is not None]
    for name in sorted({encoder.operation(layer) for layer in known} - encoder.counted):
        own = [layer for layer in layers if encoder.operation(layer) == name]
        bare = sum(layer.features.flops is None for layer in own)
        yield (
            f"FLOPs of {bare} of {len(own)} layers of {name} are unknown, so those of the others"
            " tell nothing: state them, or leave these rows out"
        )
    first: dict[LayerIdentity, float] = {}
    odd: dict[str, None] = {}
    for layer in (layer for row in rows for layer in row.layers):
        flops = layer.features.flops
        if flops is not None and not math.isclose(
            first.setdefault(layer.identity, flops), flops, rel_tol=SAME
        ):
            odd[layer.kind.name] = None
    if odd:
        yield (
            f"layers of {', '.join(odd)} have the same widths and attributes and different FLOPs,"
            " and count as one: what they differ in must be an attribute"
        )
