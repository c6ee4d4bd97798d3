"""The loss of a program: which one is taken of each tensor that comes out, and its targets.

Shapes are known once an engine has run forward; it then asks for the parts, and needs these forms:

    cross_entropy   of rows of scores, one label a row      itself   a scalar that is a loss
    of_pixels       of channels of each pixel, 4 dimensions  sum      all numbers added
    mse             mean squared error against zeros         bce      with logits, against 0 and 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ampere.core.program.terms import ValueRef
from ampere.core.program.trees import leaves
from ampere.core.training import LOSSES
from ampere.errors import ModelError
from ampere.programs.gradients import Reach
from ampere.programs.program import Program


@dataclass(frozen=True)
class LossPart:
    """The loss of one tensor: its form, of which value, and what it is compared with."""

    form: str
    value: ValueRef
    target: Any = None


def parts_of_loss(
    program: Program,
    reach: Reach,
    shapes: Mapping[ValueRef, Sequence[int]],
    rng: np.random.Generator,
    channels_last: bool = False,
) -> tuple[LossPart, ...]:
    """What the loss of a program is the sum of; without a loss, there is none.

    Args:
        program: The program.
        reach: What its gradients reach.
        shapes: Of the values in `counted`.
        rng: Draws the targets.
        channels_last: Whether maps of scores have their classes there: then they are rows.

    Raises:
        ModelError: It is the user's own loss, or none can be taken of what comes out.
    """
    if not program.ends_in_loss:
        return ()
    name = str(program.training.loss)
    if name not in LOSSES:
        raise ModelError(
            f"the loss {name} is a function of torch: other runtimes train {', '.join(LOSSES)}"
        )
    own = _entry(program, reach, shapes)
    if name == "auto" and own is not None:
        return (LossPart("itself", own),)
    values = counted(program, reach)
    if not values:
        raise ModelError("the model returns nothing with a gradient to take a loss of")
    return tuple(_part(name, value, tuple(shapes[value]), rng, channels_last) for value in values)


def counted(program: Program, reach: Reach) -> tuple[ValueRef, ...]:
    """The values of the result that a loss is taken of."""
    if reach.ends or not program.ends_in_loss:
        return reach.ends
    return tuple(leaf for leaf in leaves(program.result) if isinstance(leaf, ValueRef))


def _entry(
    program: Program, reach: Reach, shapes: Mapping[ValueRef, Sequence[int]]
) -> ValueRef | None:
    """What a model itself calls its loss."""
    own = program.result.get("loss") if isinstance(program.result, Mapping) else None
    return own if own in reach.ends and not tuple(shapes[own]) else None


def _part(
    name: str,
    value: ValueRef,
    shape: tuple[int, ...],
    rng: np.random.Generator,
    channels_last: bool,
) -> LossPart:
    if name == "auto":
        if not shape:
            return LossPart("itself", value)
        name = "mse" if len(shape) == 1 or shape[-1] == 1 else "cross_entropy"
    if name == "sum":
        return LossPart("sum", value)
    if name == "mse":
        return LossPart("mse", value, np.zeros(shape, np.float32))
    if name == "bce":
        return LossPart("bce", value, rng.integers(2, size=shape).astype(np.float32))
    if len(shape) < 2:
        raise ModelError(f"cross_entropy needs scores of classes, not {shape}: use mse or bce")
    if len(shape) == 4 and not channels_last:
        pixels = (shape[0], *shape[2:])
        return LossPart("of_pixels", value, rng.integers(shape[1], size=pixels))
    rows = int(np.prod(shape[:-1]))
    return LossPart("cross_entropy", value, rng.integers(shape[-1], size=rows))


def seeds(shapes: Sequence[Sequence[int]], rng: np.random.Generator) -> list[Any]:
    """Gradients that a backward pass starts from where there is no loss.

    As small as those of a mean, or the weights would run away.
    """
    return [
        (rng.standard_normal(tuple(shape)) / max(int(np.prod(shape)), 1)).astype(np.float32)
        for shape in shapes
    ]
