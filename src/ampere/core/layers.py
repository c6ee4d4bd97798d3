"""Layers as plain data: what a model is made of, without any framework.

A `Layer` is one line of an estimate. Its `LayerKind` is everything that stays fixed while its
`Widths` vary: one kind is one Gaussian process (paper, section 3.2). The kind's `Structure` is what
a framework builds the layer from; layers that come from a file of measurements have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from dataclasses import fields as dataclass_fields
from enum import Enum
from functools import cached_property
from typing import Tuple  # for Python 3.8, on old devices

from ampere.core.boundary.fields import Fields, shown
from ampere.core.program.structure import DEEP, LARGEST, Structure
from ampere.core.program.widths import Widths
from ampere.core.types import Json
from ampere.errors import DataError, ModelError

Source = Tuple[int, int]  # the number of a layer, −1 for the network's inputs, and of its output
LayerIdentity = Tuple[str, Widths, Tuple[Tuple[str, str], ...]]
NetworkIdentity = Tuple[Tuple[str, int], ...]


class Role(str, Enum):
    """Where a layer stands: the paper's input, hidden and output layer."""

    FIRST = "first"
    HIDDEN = "hidden"
    LAST = "last"


ROLES = tuple(role.value for role in Role)
MOST_WIDTH, MOST_COUNT = 10**9, 10**6  # of anything that somebody trains
SIZE = "#size"  # an attribute that tells layers apart and is no coordinate
CHECKPOINTED = (
    "checkpointed"  # an attribute: the layer's forward pass is run again for the backward
)
MOST_WORK = 10_000  # different calls of a layer
MOST_EXACT = 2**53  # whole numbers below are the same as a float


@dataclass(frozen=True)
class LayerKind:
    """Everything about a layer that is held fixed; its name is its identity.

    `attributes` are the numbers inside the kind (kernel, stride, height, width, batch, ...).
    """

    name: str
    role: Role = field(compare=False)
    operation: str = field(compare=False)
    attributes: Mapping[str, Json] = field(default_factory=dict, compare=False)
    structure: Structure | None = field(default=None, compare=False, repr=False)


def structure_of(kind: LayerKind) -> Structure:
    """The kind's structure; kinds that came from a file of measurements have none."""
    if kind.structure is None:
        raise ModelError(f"{kind.name} has no structure to build it from")
    return kind.structure


def brief(value: float) -> float:
    """A number as short as JSON has it: whole ones without a point; a journal has thousands."""
    return int(value) if float(value).is_integer() and abs(value) < MOST_EXACT else value


@dataclass(frozen=True)
class Features:
    """What a layer does in one training step, forward and backward together."""

    flops: float | None = None
    activation_bytes: float | None = None
    parameter_bytes: float | None = None

    @property
    def numbers(self) -> tuple[float | None, float | None, float | None]:
        """FLOPs, bytes of activations and bytes of parameters, in this order."""
        return self.flops, self.activation_bytes, self.parameter_bytes

    def to_json(self) -> dict[str, float]:
        """Only what is known."""
        return {name: brief(value) for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, fields: Fields) -> Features:
        """Read what is known; a name that is not ours is a slip of the pen, and refused."""
        known = [field.name for field in dataclass_fields(cls)]
        for name in fields.names():
            if name not in known:
                raise DataError(f"{fields.place(name)} is unknown: features are {', '.join(known)}")
        return cls(**{name: fields.number(name, None, least=0.0) for name in known})


@dataclass(frozen=True)
class Work:
    """Calls of one operation at one size: what layers of whatever kind are made of.

    `count` need not be whole: small calls of nearly equal size are told as so many of one size.
    """

    operation: str
    widths: Widths = field(default_factory=Widths)
    attributes: Mapping[str, Json] = field(default_factory=dict)
    features: Features = Features()
    count: float = 1.0

    def call(self, batch: int | None = None) -> Layer:
        """The calls as a layer by themselves: words make kinds, numbers vary within a kind.

        Libraries work along the map of one sample: as many rows of small maps take them longer.
        """
        # Calls that are told by their bytes alone differ in nothing else.
        told = {**self.attributes, SIZE: self.features.activation_bytes}
        rows = told.get("rows")
        if "kernel" in told and batch is not None and isinstance(rows, (int, float)):
            told["map"] = max(round(rows / batch), 1)
        words = sorted(v for v in self.attributes.values() if isinstance(v, str))
        name = " ".join([self.operation, *words])
        kind = LayerKind(name, Role.HIDDEN, self.operation, told)
        return Layer(name, kind, self.widths, self.features, part=self.count)

    def to_json(self) -> dict[str, Json]:
        """Plain data, as short as it goes: a layer has some, a journal thousands."""
        numbers = [None if each is None else brief(each) for each in self.features.numbers]
        row: dict[str, Json] = {"op": self.operation, "features": numbers}
        if self.widths:
            row["widths"] = dict(self.widths)
        if self.attributes:
            row["attributes"] = dict(self.attributes)
        if self.count != 1:
            row["count"] = brief(round(self.count, 6))
        return row

    @classmethod
    def from_json(cls, row: Json, where: str = "") -> Work:
        """Read back what `to_json` wrote."""
        fields = Fields(row, where)
        attributes = fields.inner("attributes", {})
        fields.items("features", least=3, most=3)
        return cls(
            fields.text("op"),
            Widths(fields.wholes("widths", most=MOST_WIDTH)),
            {name: attributes.plain(name) for name in attributes.names(most=50)},
            Features(*fields.numbers("features", least=0.0)),
            fields.number("count", 1.0, above=0.0, most=float(MOST_COUNT)),
        )


@dataclass(frozen=True)
class Layer:
    """One layer of a network: a kind at certain widths, `count` times in a row.

    `reads` says where its inputs come from; it is empty in a chain, where it is the layer before.
    `work` is what it does, call by call, where that is known. What stands for a call says `within`
    which layer it is one.
    """

    name: str
    kind: LayerKind
    widths: Widths
    features: Features = Features()
    params: int | None = None
    count: int = 1
    reads: tuple[Source, ...] = field(default=(), compare=False)
    work: tuple[Work, ...] = field(default=(), compare=False, repr=False)
    part: float = 1.0  # of one: `count` for calls, which need not be whole
    within: Layer | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        """One line, since layers come in lists; what a name holds is escaped."""
        count = f", count={self.count}" if self.count > 1 else ""
        return f"Layer({self.name!r}, {self.kind.name!r}, {dict(self.widths)!r}{count})"

    @cached_property
    def identity(self) -> LayerIdentity:
        """What makes two layers the same one: the kind, its attributes and the widths.

        Attributes are in it since the kinds of other tools' rows need not tell them in their names.
        """
        attributes = self.kind.attributes
        texts = tuple((name, repr(attributes[name])) for name in sorted(attributes))
        return self.kind.name, self.widths, texts

    @cached_property
    def calls(self) -> tuple[Layer, ...]:
        """Its calls, each as a layer by itself; none where nobody told them."""
        batch = self.kind.attributes.get("batch")
        samples = batch if isinstance(batch, int) and batch > 0 else None
        return tuple(
            replace(each.call(samples), count=self.count, within=self) for each in self.work
        )

    def to_json(self, with_structure: bool = False) -> dict[str, Json]:
        """Plain data, as in a row of a journal; with what it takes to build it, as for a worker."""
        row: dict[str, Json] = {
            "name": self.name,
            "kind": self.kind.name,
            "operation": self.kind.operation,
            "role": self.kind.role.value,
            "widths": dict(self.widths),
            "count": self.count,
            "attributes": dict(self.kind.attributes),
            "features": self.features.to_json(),
        }
        if self.work and not with_structure:  # what is built need not be told
            row["work"] = [each.to_json() for each in self.work]
        if with_structure:
            row["structure"] = self.kind.structure.to_json() if self.kind.structure else None
            row["reads"] = [list(source) for source in self.reads]
        return row

    @classmethod
    def from_json(
        cls,
        row: Json,
        with_structure: bool = False,
        where: str = "",
        calls: Sequence[Work] = (),
    ) -> Layer:
        """Read a layer of a row, ours or another tool's; `kind` alone is enough.

        What is built is only read where it is asked for: rows of files are never built. `where` is
        the layer's place in what it was read from, for refusals; `calls` are those that its row
        tells once, so that layers have their numbers.
        """
        fields = Fields(row, where)
        kind = fields.text("kind")
        attributes = fields.inner("attributes", {})
        return cls(
            name=fields.text("name", kind),
            kind=LayerKind(
                name=kind,
                role=Role(fields.choice("role", ROLES, Role.HIDDEN.value)),
                operation=fields.text("operation", kind),
                attributes={name: attributes.plain(name) for name in attributes.names(most=200)},
                structure=_structure(fields) if with_structure else None,
            ),
            widths=Widths(fields.wholes("widths", most=MOST_WIDTH)),
            features=Features.from_json(fields.inner("features", {})),
            count=fields.whole("count", 1, least=1, most=MOST_COUNT),
            work=tuple(
                _work(place, each, calls) for place, each in fields.items("work", most=MOST_WORK)
            ),
            reads=tuple(map(_source, fields.items("reads"))) if with_structure else (),
        )


def _work(place: str, row: Json, calls: Sequence[Work]) -> Work:
    """A call as it stands there, or by its number among those that are told once."""
    if type(row) is not int:
        return Work.from_json(row, place)
    if not 0 <= row < len(calls):
        raise DataError(f"{place} is the number of a call, and {row} is none of {len(calls)}")
    return calls[row]


def _structure(fields: Fields) -> Structure | None:
    if "structure" not in fields:
        return None
    calls = fields.plain("structure", depth=DEEP, largest=LARGEST)
    return Structure.from_json(calls, fields.place("structure"))


def _source(item: tuple[str, Json]) -> Source:
    """One place that a layer reads from: the number of a layer, and of its output."""
    place, pair = item
    if not isinstance(pair, list) or [type(number) for number in pair] != [int, int]:
        raise DataError(f"{place} must be two whole numbers, not {shown(pair)}")
    return pair[0], pair[1]


def sources_of(layers: Sequence[Layer]) -> list[tuple[Source, ...]]:
    """Where the inputs of each layer come from; unless it says so, from the layer before."""
    sources = [layer.reads or ((i - 1, 0),) for i, layer in enumerate(layers)]
    if not layers[0].reads:
        sources[0] = tuple((-1, n) for n in range(len(structure_of(layers[0].kind).inputs)))
    return sources


def network_identity(layers: Iterable[Layer]) -> NetworkIdentity:
    """What makes two networks the same one to a fit: their layers, in any order."""
    return tuple(sorted((repr(layer.identity), layer.count) for layer in layers))
