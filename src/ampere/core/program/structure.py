"""Structures: a layer as a small program, from which a framework builds it at any widths.

A program is a list of calls of modules and functions. What they are built with and called with are
terms: plain values, sizes that follow the widths, and results of other calls.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from ampere.core.boundary.fields import Fields
from ampere.core.program.sizes import Shape, shape_from_json, shape_to_json
from ampere.core.program.terms import INPUT, Term, term_from_json, term_to_json
from ampere.core.types import Json

DEEP = 30  # terms inside each other
IN_PLACE = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__")
TORCH = "torch"  # the dialect of structures that name none
SHORT = 40  # characters of a dialect
LARGEST = 3.5e38  # numbers that are constants of a model: float32's least is what masks are made of


@dataclass(frozen=True)
class Call:
    """One step of a structure: a module built and called, or a function called.

    `arguments` of a module call build it; `inputs` and `options` are what it is called with, by
    position and by name.
    """

    op: str
    arguments: Mapping[str, Term] = field(default_factory=dict)
    inputs: tuple[Term, ...] = ()
    options: Mapping[str, Term] = field(default_factory=dict)
    frozen: bool = False
    frozen_parts: tuple[str, ...] = ()  # names of the parameters, where only some are frozen
    shared_parts: tuple[str, ...] = ()  # parameters that another layer holds, and updates
    again: int | None = None  # the call whose module runs once more
    detached: bool = False  # runs where no gradient is recorded

    @property
    def is_module(self) -> bool:
        """Module calls carry the bare name of a class in `torch.nn`."""
        return "." not in self.op and self.op not in ("parameter", "buffer")

    @property
    def works_in_place(self) -> bool:
        """Whether it may overwrite what it is given: `nn.ReLU(inplace=True)`, `x.relu_()`."""
        name = self.op.rpartition(".")[2]
        in_place = (name.endswith("_") and not name.endswith("__")) or name in IN_PLACE
        return in_place or bool(self.arguments.get("inplace") or self.options.get("inplace"))

    def to_json(self) -> dict[str, Json]:
        """A dict without the fields that are empty."""
        row: dict[str, Json] = {
            "op": self.op,
            "inputs": [term_to_json(part) for part in self.inputs],
        }
        rest = {
            "arguments": _named_to_json(self.arguments),
            "options": _named_to_json(self.options),
            "frozen": self.frozen,
            "frozen_parts": list(self.frozen_parts),
            "shared_parts": list(self.shared_parts),
            "again": self.again,
            "detached": self.detached,
        }
        return {**row, **{key: value for key, value in rest.items() if value}}

    @classmethod
    def from_json(cls, row: Json, where: str = "") -> Call:
        """Read back what `to_json` wrote."""
        fields = Fields(row, where)
        return cls(
            op=fields.text("op"),
            arguments=_named_from_json(fields, "arguments"),
            inputs=tuple(term_from_json(part) for _, part in fields.items("inputs")),
            options=_named_from_json(fields, "options"),
            frozen=fields.flag("frozen"),
            frozen_parts=tuple(str(part) for _, part in fields.items("frozen_parts")),
            shared_parts=tuple(str(part) for _, part in fields.items("shared_parts")),
            again=fields.whole("again", None, least=1),
            detached=fields.flag("detached"),
        )


def _named_to_json(terms: Mapping[str, Term]) -> dict[str, Json]:
    """Terms by name; a name is no tag (`nn.Upsample` has an argument named `size`)."""
    return {name: term_to_json(term) for name, term in terms.items()}


def _named_from_json(fields: Fields, name: str) -> dict[str, Term]:
    inner = fields.inner(name, {})
    return {
        each: term_from_json(inner.plain(each, depth=DEEP, largest=LARGEST))
        for each in inner.names()
    }


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

    def to_json(self) -> dict[str, Json]:
        """Plain data; `from_json` reads it back."""
        row: dict[str, Json] = {"shape": shape_to_json(self.shape), "dtype": self.dtype}
        row["grad"] = self.grad
        if self.below is not None:
            row["below"] = self.below
        if self.whole:
            row["whole"] = True
        return row

    @classmethod
    def from_json(cls, row: Json, where: str = "") -> Port:
        """Read back what `to_json` wrote."""
        fields = Fields(row, where)
        return cls(
            shape=_shape(fields, "shape"),
            dtype=fields.text("dtype"),
            below=fields.whole("below", None, least=1),
            grad=fields.flag("grad"),
            whole=fields.flag("whole"),
        )


def _shape(fields: Fields, name: str) -> Shape:
    return shape_from_json([size for _, size in fields.items(name)])


@dataclass(frozen=True)
class Structure:
    """A layer as a program: enough to build it anywhere, at any widths.

    Shapes leave out the batch dimension. Most layers have one input and one output; one that a long
    skip reaches has several. `result` says which values come out. `multiples` are what a width must
    be a multiple of (attention heads, bottlenecks). `dialect` is the framework in whose names
    its calls are told: torch's can be translated for other runtimes.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    calls: tuple[Call, ...]
    result: Term = INPUT
    multiples: Mapping[str, int] = field(default_factory=dict)
    dialect: str = TORCH

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

    def to_json(self) -> dict[str, Json]:
        """Plain data; `from_json` reads it back. A link of a chain is written flat."""
        row: dict[str, Json] = {
            "calls": [call.to_json() for call in self.calls],
            "result": term_to_json(self.result),
            "multiples": dict(self.multiples),
        }
        if self.dialect != TORCH:  # torch's are as they were before there were others
            row["dialect"] = self.dialect
        if not self.chains or self.outputs[0] != Port(self.output):
            row["inputs"] = [port.to_json() for port in self.inputs]
            row["outputs"] = [port.to_json() for port in self.outputs]
            return row
        (port,) = self.inputs
        row["input"] = shape_to_json(port.shape)
        row["output"] = shape_to_json(self.output)
        row["input_dtype"] = port.dtype
        row["input_grad"] = port.grad
        if port.below is not None:
            row["input_below"] = port.below
        return row

    @classmethod
    def from_json(cls, row: Json, where: str = "structure") -> Structure:
        """Read back what `to_json` wrote; whether it can be built is another question."""
        fields = Fields(row, where)
        if "inputs" in fields:
            inputs = tuple(Port.from_json(port, at) for at, port in fields.items("inputs"))
            outputs = tuple(Port.from_json(port, at) for at, port in fields.items("outputs"))
        else:
            port = Port(
                shape=_shape(fields, "input"),
                dtype=fields.text("input_dtype"),
                below=fields.whole("input_below", None, least=1),
                grad=fields.flag("input_grad"),
            )
            inputs, outputs = (port,), (Port(_shape(fields, "output")),)
        return cls(
            inputs=inputs,
            outputs=outputs,
            calls=tuple(Call.from_json(call, at) for at, call in fields.items("calls")),
            result=term_from_json(fields.plain("result", depth=DEEP, largest=LARGEST)),
            multiples=fields.wholes("multiples"),
            dialect=fields.text("dialect", TORCH, most=SHORT),
        )

    @property
    def digest(self) -> str:
        """Six hex digits that differ where structures do; which widths are allowed is no part."""
        row = self.to_json()
        del row["multiples"]
        text = json.dumps(row, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:6]
