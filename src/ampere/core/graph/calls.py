"""Calls of a forward pass as a graph: who made which value, and who reads it.

    calls      1: conv   2: relu   3: conv   4: add      a value is named by the call that made
    values     0 ──────> 1 ──────> 2 ──────> 3 ─> 4      it; 0 is what the model is given
                                   └──────────────┘

How a framework runs its calls is its own business; what is asked of them here is what cutting and
grouping need. What a call is to a layer (whether it multiplies by weights, normalises, ...) only
the framework's room knows: it hands in a `Knowledge`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ampere.core.program.trees import leaves


@dataclass(frozen=True)
class Value:
    """A tensor, by the call that made it; call 0 stands for the model's inputs, one a path."""

    call: int
    path: tuple[int, ...] = ()


def values_in(tree: Any) -> Iterator[Value]:
    """All values inside nested arguments."""
    return (leaf for leaf in leaves(tree) if isinstance(leaf, Value))


class Shaped(Protocol):
    """Whatever has a shape: a tensor, or what stands for one."""

    @property
    def shape(self) -> Sequence[int]:
        """Its sizes."""
        ...


class GraphCall(Protocol):
    """One call: where it stands, what it reads, what came out."""

    @property
    def index(self) -> int:
        """Its number, from 1."""
        ...

    @property
    def op(self) -> str:
        """What is called."""
        ...

    @property
    def stack(self) -> tuple[tuple[str, int], ...]:
        """The module calls around it: name and number of each."""
        ...

    @property
    def where(self) -> str:
        """The innermost module that it belongs to."""
        ...

    @property
    def inputs(self) -> list[Value]:
        """The values it reads, in order."""
        ...

    @property
    def needs(self) -> list[Value]:
        """The values that must be there before it runs."""
        ...

    @property
    def outputs(self) -> Mapping[tuple[int, ...], Any]:
        """What came out, by where it stands in the result; each is `Shaped`."""
        ...

    @property
    def before(self) -> tuple[int, ...]:
        """The shape of its first tensor input."""
        ...

    @property
    def through(self) -> Value | None:
        """The view through which it writes in place."""
        ...

    @property
    def is_constant(self) -> bool:
        """Whether it is a parameter or buffer that a user's module holds itself."""
        ...


C = TypeVar("C", bound=GraphCall)
Other = TypeVar("Other", bound=GraphCall, contravariant=True)
Made = TypeVar("Made", bound=GraphCall, covariant=True)


class Graph(Protocol[Made]):
    """Every call of one forward pass, and what came out at the end."""

    @property
    def calls(self) -> Sequence[Made]:
        """The calls, in the order in which they ran."""
        ...

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values inside the result."""
        ...

    @property
    def result(self) -> Any:
        """What the model returned: values in a tree."""
        ...

    @property
    def written(self) -> tuple[Value, ...]:
        """Values made by writing in place: needed, whoever reads them."""
        ...

    @property
    def batch(self) -> int:
        """Samples that it ran with."""
        ...


class Knowledge(Protocol[Other]):
    """What a framework's room knows of its calls."""

    @property
    def POSITIONS(self) -> slice:  # noqa: N802
        """Which dimensions of a batch of maps are positions, and not channels."""
        ...

    def multiplies(self, call: Other, tainted: Set[int]) -> bool:
        """Whether a call multiplies by weights: what a layer is made around."""
        ...

    def work(self, call: Other) -> float:
        """About how many multiplications a call makes; only to tell large segments from small."""
        ...

    def normalises(self, call: Other) -> bool:
        """Whether a call is a normalisation."""
        ...

    def holds_parameters(self, call: Other) -> bool:
        """Whether a call brings parameters of its own."""
        ...

    def pools_all(self, call: Other) -> bool:
        """Whether a call pools to a size that is given, such as a single position."""
        ...


def constants(graph: Graph[C]) -> dict[int, C]:
    """The parameters and buffers that users' modules hold themselves, by their number."""
    return {call.index: call for call in graph.calls if call.is_constant}


def tainted_calls(graph: Graph[C]) -> set[int]:
    """The numbers of the calls that depend on the model's input."""
    tainted = {0}
    for call in graph.calls:
        if any(value.call in tainted for value in call.needs):
            tainted.add(call.index)
    return tainted


def common_depth(a: Sequence[object], b: Sequence[object]) -> int:
    """How many module calls two calls lie in together."""
    for i, (mine, theirs) in enumerate(zip(a, b, strict=False)):
        if mine != theirs:
            return i
    return min(len(a), len(b))
