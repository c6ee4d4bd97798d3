"""Layers as plain data: what a model is made of, without any framework.

A `Layer` is one line of an estimate. Its `LayerKind` is everything that stays fixed while its
`Widths` vary: one kind is one Gaussian process (paper, section 3.2). The kind's `Structure` is a
small program (calls of modules and functions with symbolic sizes) from which a framework can build
the layer at any widths; layers that come from a file of measurements have none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import gcd
from typing import Any, Mapping, Tuple  # two of them for Python 3.8, on old devices

from ampere.errors import DataError, ModelError

Json = Any  # numbers, strings, booleans, None, and lists and dicts of them


class Role(str, Enum):
    """Where a layer stands: the paper's input, hidden and output layer."""

    FIRST = "first"
    HIDDEN = "hidden"
    LAST = "last"


class Widths(Mapping[str, int]):
    """Sizes that a kind's process varies over: `in` and `out`, or `width` where they are tied."""

    __slots__ = ("_items",)

    def __init__(self, widths: Mapping[str, int] | Sequence[tuple[str, int]] = ()) -> None:
        self._items = tuple(sorted((str(k), int(v)) for k, v in dict(widths).items()))

    def __getitem__(self, name: str) -> int:
        for key, value in self._items:
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return "Widths(" + ", ".join(f"{k}={v}" for k, v in self._items) + ")"


@dataclass(frozen=True)
class Size:
    """A size that follows a width: `times · width / over`."""

    width: str
    times: int = 1
    over: int = 1

    def at(self, widths: Mapping[str, int]) -> int:
        """The size at these widths; a width that does not divide evenly is refused."""
        size, rest = divmod(self.times * widths[self.width], self.over)
        if rest or size < 1:
            raise ModelError(f"{self} is not a whole size at {self.width}={widths[self.width]}")
        return size

    def step_to_meet(self, other: Size, multiple: int) -> int:
        """What our width must be a multiple of, so that `other`, the same size, has its own."""
        return Fraction(self.times * other.over, self.over * other.times * multiple).denominator

    def __str__(self) -> str:
        times = f"{self.times}*" if self.times != 1 else ""
        over = f"/{self.over}" if self.over != 1 else ""
        return f"{times}{self.width}{over}"

    @classmethod
    def parse(cls, text: str) -> Size:
        """Read back what `str` wrote: `in`, `25*in`, `out/4`, `3*out/4`."""
        times, _, rest = text.rpartition("*")
        width, _, over = rest.partition("/")
        return cls(width, int(times or 1), int(over or 1))


def number_at(tree: Mapping[str, Json], widths: Mapping[str, int]) -> float | None:
    """A symbolic size, or a power of one, as a number; None if the tree is neither."""
    if "size" in tree:
        return Size.parse(tree["size"]).at(widths)
    if "power" in tree:
        size, exponent = tree["power"]
        return float(float(Size.parse(size).at(widths)) ** exponent)
    return None


Shape = Tuple["int | Size", ...]


def steps_to_meet(
    steps: Mapping[str, int], side: Shape, other: Shape, multiples: Mapping[str, int]
) -> dict[str, int]:
    """Steps of the widths in `side`, raised until `other`, the same tensor, has its multiples."""
    raised = dict(steps)
    for mine, theirs in zip(side, other):
        if isinstance(mine, Size) and isinstance(theirs, Size):
            need = mine.step_to_meet(theirs, multiples[theirs.width])
            raised[mine.width] *= need // gcd(raised[mine.width], need)
    return raised


def shape_at(shape: Shape, widths: Mapping[str, int]) -> tuple[int, ...]:
    """A shape with its symbolic sizes filled in."""
    return tuple(size.at(widths) if isinstance(size, Size) else size for size in shape)


@dataclass(frozen=True)
class Call:
    """One step of a structure: a module built and called, or a function called.

    `arguments` of a module call build it (`{"in_channels": {"size": "in"}, ...}`); `inputs` are
    what it is called with. `{"value": k}` stands for the result of call k (0 is the layer's input,
    so calls count from 1), `{"value": [k, 0]}` for its first part (`[0, 1]`: the second of several
    inputs), `{"size": "4*out"}` for a size.
    """

    op: str
    arguments: Mapping[str, Json] = field(default_factory=dict)
    inputs: tuple[Json, ...] = ()
    options: Mapping[str, Json] = field(default_factory=dict)
    frozen: bool = False
    frozen_parts: tuple[str, ...] = ()  # names of the parameters, where only some are frozen
    shared_parts: tuple[str, ...] = ()  # parameters that another layer holds, and updates
    again: int | None = None  # the call whose module runs once more
    detached: bool = False  # runs where no gradient is recorded

    def to_json(self) -> Json:
        """A dict without the fields that are empty."""
        row: dict[str, Json] = {"op": self.op, "inputs": list(self.inputs)}
        rest = {
            "arguments": dict(self.arguments),
            "options": dict(self.options),
            "frozen": self.frozen,
            "frozen_parts": list(self.frozen_parts),
            "shared_parts": list(self.shared_parts),
            "again": self.again,
            "detached": self.detached,
        }
        return {**row, **{key: value for key, value in rest.items() if value}}

    @classmethod
    def from_json(cls, row: Json) -> Call:
        """Read back what `to_json` wrote."""
        return cls(
            row["op"],
            row.get("arguments", {}),
            tuple(row["inputs"]),
            row.get("options", {}),
            row.get("frozen", False),
            tuple(row.get("frozen_parts", ())),
            tuple(row.get("shared_parts", ())),
            row.get("again"),
            row.get("detached", False),
        )


def holds_parameters(call: Call) -> bool:
    """Whether a call brings parameters of its own, trained or frozen."""
    for switch in ("affine", "elementwise_affine"):  # a normalisation may have none
        if switch in call.arguments:
            return bool(call.arguments[switch])
    hints = ("bias", "num_embeddings", "num_parameters")
    return call.op == "parameter" or any(hint in call.arguments for hint in hints)


@dataclass(frozen=True)
class Port:
    """One tensor that enters or leaves a layer: its shape without the batch, and what it is.

    `below` is the limit of token ids; `grad` says whether a gradient flows back through it, `whole`
    that the batch does not come first, so that nothing is left out.
    """

    shape: Shape
    dtype: str = "float32"
    below: int | None = None
    grad: bool = True
    whole: bool = False

    def to_json(self) -> Json:
        """Plain data."""
        row: dict[str, Json] = {"shape": _shape_to_json(self.shape), "dtype": self.dtype}
        row["grad"] = self.grad
        if self.below is not None:
            row["below"] = self.below
        if self.whole:
            row["whole"] = True
        return row

    @classmethod
    def from_json(cls, row: Json) -> Port:
        """Read back what `to_json` wrote."""
        return cls(
            _shape_from_json(row["shape"]), row["dtype"], row.get("below"), row["grad"],
            row.get("whole", False),
        )  # fmt: skip


@dataclass(frozen=True)
class Structure:
    """A layer as a program: enough to build it anywhere, at any widths.

    Shapes leave out the batch dimension. Most layers have one input and one output; one that a long
    skip reaches has several. `result` says which values come out. `multiples` are what a width must
    be a multiple of (attention heads, bottlenecks).
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    calls: tuple[Call, ...]
    result: Json = 0
    multiples: Mapping[str, int] = field(default_factory=dict)

    @property
    def widths(self) -> tuple[str, ...]:
        """Names of the widths it varies over."""
        return tuple(sorted(self.multiples))

    @property
    def input(self) -> Shape:
        """The shape of the first input: the only one, in a chain."""
        return self.inputs[0].shape

    @property
    def output(self) -> Shape:
        """The shape of the first output: the only one, in a chain."""
        return self.outputs[0].shape

    @property
    def input_grad(self) -> bool:
        """Whether a gradient flows back through any input."""
        return any(port.grad for port in self.inputs)

    @property
    def chains(self) -> bool:
        """Whether one batch enters and one comes out, as in the middle of a chain."""
        ports = (*self.inputs, *self.outputs)
        return len(self.inputs) == len(self.outputs) == 1 and not any(p.whole for p in ports)

    def to_json(self) -> Json:
        """Plain data; `from_json` reads it back. A link of a chain is written flat."""
        rest: dict[str, Json] = {
            "calls": [call.to_json() for call in self.calls],
            "result": self.result,
            "multiples": dict(self.multiples),
        }
        if not self.chains or self.outputs[0] != Port(self.output):
            rest["inputs"] = [port.to_json() for port in self.inputs]
            rest["outputs"] = [port.to_json() for port in self.outputs]
            return rest
        (port,) = self.inputs
        rest["input"] = _shape_to_json(port.shape)
        rest["output"] = _shape_to_json(self.output)
        rest["input_dtype"] = port.dtype
        rest["input_grad"] = port.grad
        if port.below is not None:
            rest["input_below"] = port.below
        return rest

    @classmethod
    def from_json(cls, row: Json) -> Structure:
        """Read back what `to_json` wrote."""
        if "inputs" in row:
            inputs = tuple(Port.from_json(port) for port in row["inputs"])
            outputs = tuple(Port.from_json(port) for port in row["outputs"])
        else:
            inputs = (
                Port(
                    _shape_from_json(row["input"]),
                    row["input_dtype"],
                    row.get("input_below"),
                    row["input_grad"],
                ),
            )
            outputs = (Port(_shape_from_json(row["output"])),)
        calls = tuple(Call.from_json(call) for call in row["calls"])
        return cls(inputs, outputs, calls, row["result"], row["multiples"])

    @property
    def digest(self) -> str:
        """Six hex digits that differ where structures do; which widths are allowed is no part."""
        row = self.to_json()
        del row["multiples"]
        text = json.dumps(row, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:6]


def _shape_to_json(shape: Shape) -> list[int | str]:
    return [str(size) if isinstance(size, Size) else size for size in shape]


def _shape_from_json(sizes: list[int | str]) -> Shape:
    return tuple(Size.parse(size) if isinstance(size, str) else size for size in sizes)


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


@dataclass(frozen=True)
class Features:
    """What a layer does in one training step, forward and backward together."""

    flops: float | None = None
    activation_bytes: float | None = None
    parameter_bytes: float | None = None

    def to_json(self) -> dict[str, float]:
        """Only what is known."""
        return {k: v for k, v in vars(self).items() if v is not None}


@dataclass(frozen=True)
class Layer:
    """One layer of a network: a kind at certain widths, `count` times in a row.

    `reads` says where its inputs come from: (number of a layer, number of its output), with layer
    −1 for the model's own inputs; empty in a chain, where it is the layer before.
    """

    name: str
    kind: LayerKind
    widths: Widths
    features: Features = Features()
    params: int | None = None
    count: int = 1
    reads: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    def to_json(self) -> dict[str, Json]:
        """The layer as it stands in a row of a journal."""
        return {
            "name": self.name,
            "kind": self.kind.name,
            "operation": self.kind.operation,
            "role": self.kind.role.value,
            "widths": dict(self.widths),
            "count": self.count,
            "attributes": dict(self.kind.attributes),
            "features": self.features.to_json(),
        }

    @classmethod
    def from_json(cls, row: Json) -> Layer:
        """Read a layer of a row, ours or another tool's; `kind` alone is enough."""
        try:
            kind = LayerKind(
                str(row["kind"]),
                Role(row.get("role", "hidden")),
                str(row.get("operation", row["kind"])),
                dict(row.get("attributes", {})),
            )
            given = row.get("widths", {})
            if any(isinstance(w, bool) or w != int(w) for w in given.values()):
                raise ValueError("widths are whole numbers")
            widths = Widths(given)
            count = int(row.get("count", 1))
            features = Features(**{k: float(v) for k, v in row.get("features", {}).items()})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"not a layer ({error!r}): {json.dumps(row)[:120]}") from None
        if count < 1 or any(width < 1 for width in widths.values()):
            raise DataError(f"layer {kind.name}: widths and count must be at least 1")
        return cls(str(row.get("name", kind.name)), kind, widths, features, None, count)
