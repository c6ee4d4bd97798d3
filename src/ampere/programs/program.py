"""A program: the layers of a network as one list of steps, with numbers in the place of sizes.

    layers ──wiring──> Program ──an engine's table──> one training step

Whoever trains a program needs a table from the names of calls to functions, and nothing else: what
each call is given, the shapes of what it holds, what trains and what a gradient must reach are
worked out here, without a framework. Values are numbered as in a structure: 0 is the tuple of the
network's inputs, and step k makes value k.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Tuple  # for Python 3.8, on old devices

from ampere.core.program.terms import ValueRef
from ampere.core.program.trees import leaves, map_leaves
from ampere.core.training import Training

Key = Tuple[int, int, str]  # the layer's number, the call's in it from 1, and torch's name


@dataclass(frozen=True)
class Start:
    """How first values are drawn: even up to ± `size`, normal of this size, or all the same."""

    how: str  # "uniform", "normal" or "constant"
    size: float
    empty_row: int | None = None  # a row of a table that is all zeros


@dataclass(frozen=True)
class Held:
    """A tensor that a call holds: a parameter, or a buffer, which no gradient reaches.

    One that is `shared` gets a gradient, and is updated where another layer holds it.
    """

    key: Key
    shape: tuple[int, ...]
    start: Start
    dtype: str = "float32"
    trains: bool = True
    shared: bool = False
    buffer: bool = False


@dataclass(frozen=True)
class Input:
    """A batch that enters the network; `below` is the limit of token ids."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    below: int | None = None
    grad: bool = False


@dataclass(frozen=True)
class Step:
    """One call: a module with what it holds, or a function.

    `inputs` and `options` are trees in which a `ValueRef` stands for what an earlier step made.
    A module that runs once more holds what it held the first time.
    """

    op: str
    layer: int
    number: int  # of the call in its layer, from 1
    place: str  # the layer, for people
    arguments: Mapping[str, Any]
    inputs: tuple[Any, ...]
    options: Mapping[str, Any]
    held: tuple[Held, ...] = ()
    detached: bool = False  # no gradient is recorded
    in_place: bool = False  # torch overwrites what it is given first
    checkpointed: bool = False  # its layer runs forward again in the backward pass

    @property
    def sources(self) -> tuple[ValueRef, ...]:
        """The values that it is given."""
        terms = (self.inputs, self.options)
        return tuple(leaf for leaf in leaves(terms) if isinstance(leaf, ValueRef))

    @property
    def at(self) -> tuple[int, int]:
        """Its place: the number of its layer, and its own there."""
        return self.layer, self.number

    @property
    def where(self) -> str:
        """What a refusal names: the operation and its layer."""
        return f"{self.op} in {self.place}"

    def key(self, part: str) -> Key:
        """How a part that it holds is found: a module that runs again has the first one's."""
        for held in self.held:
            if held.key[2] == part:
                return held.key
        return self.layer, self.number, part


@dataclass(frozen=True)
class Program:
    """A network, ready for an engine.

    `result` is a tree of what the last layer delivers; `dangling` is what no layer reads, and gets
    a gradient of its own. With `ends_in_loss` the training's loss is taken of the result; without,
    the backward pass starts from random gradients.
    """

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    result: Any
    dangling: tuple[ValueRef, ...]
    training: Training
    ends_in_loss: bool

    @property
    def held(self) -> tuple[Held, ...]:
        """All that its steps hold, each once."""
        found = {held.key: held for step in self.steps for held in step.held}
        return tuple(found.values())


def run(
    program: Program,
    inputs: Sequence[Any],
    apply: Callable[[Step, Sequence[Any], Mapping[str, Any]], Any],
) -> list[Any]:
    """The values that the steps make, one after the other; number 0 is the inputs."""
    values: list[Any] = [tuple(inputs)]
    for step in program.steps:
        args, options = pick(values, step.inputs), pick(values, step.options)
        values.append(apply(step, args, options))
    return values


def pick(values: Sequence[Any], tree: Any) -> Any:
    """The same tree with values in the place of what refers to them."""

    def look_up(leaf: Any) -> Any:
        if not isinstance(leaf, ValueRef):
            return leaf
        value = values[leaf.number]
        for place in leaf.path:
            value = value[place]
        return value

    return map_leaves(look_up, tree)
