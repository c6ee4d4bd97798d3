"""Primitives of JAX as calls of a structure: their parameters as plain terms, and back.

    transpose[permutation=(0, 2, 1)] x   <->   Call("lax.transpose", inputs=(x,), options={...})

What a file or a device says is looked up among JAX's own primitives and in the two tables below; it
never becomes code.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping  # for Python 3.8, on old devices
from typing import Any

import numpy as np
from jax.extend.core import Primitive, primitives

import jax
from ampere.core.program.terms import DType
from ampere.errors import ModelError

HOME = "lax."
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "jax.nn.relu": jax.nn.relu,  # with a gradient of its own
    "lax.split": lambda x, sizes, axis: jax.lax.split(x, sizes, axis),  # not listed for others
}
RECORDS: Mapping[str, Any] = {
    "GatherDimensionNumbers": jax.lax.GatherDimensionNumbers,
    "ScatterDimensionNumbers": jax.lax.ScatterDimensionNumbers,
    "ConvDimensionNumbers": jax.lax.ConvDimensionNumbers,
}
CHOICES: Mapping[str, Any] = {
    "GatherScatterMode": jax.lax.GatherScatterMode,
    "Precision": jax.lax.Precision,
    "RoundingMethod": jax.lax.RoundingMethod,
}


def find_function(op: str) -> Callable[..., Any]:
    """What a call of a structure runs: a function by name, or one of JAX's primitives."""
    if op in FUNCTIONS:
        return FUNCTIONS[op]
    primitive = getattr(primitives, f"{op[len(HOME) :]}_p", None)
    if not op.startswith(HOME) or not isinstance(primitive, Primitive):
        raise ModelError(f"{op[:80]} is not a primitive of this JAX ({jax.__version__})")
    bind: Callable[..., Any] = primitive.bind
    return bind


def is_known(op: str) -> bool:
    """Whether a call of this name can be found again."""
    return op in FUNCTIONS or hasattr(primitives, f"{op[len(HOME) :]}_p")


def term_of(value: Any) -> Any:
    """A parameter of a primitive as a term.

    Raises:
        TypeError: It is nothing that can be written down, such as a program inside.
    """
    kind = type(value).__name__
    if kind in RECORDS:
        fields = {name: term_of(getattr(value, name)) for name in _fields(value)}
        return {"class": kind, **fields}
    if isinstance(value, enum.Enum):
        if kind not in CHOICES:
            raise TypeError(f"a {kind}")
        return {"class": kind, "name": value.name}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return tuple(term_of(part) for part in value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (np.dtype, type)):
        return DType(str(np.dtype(value)))
    raise TypeError(f"a {kind}")


def filled(tree: Any) -> Any:
    """Terms whose sizes are numbers already as JAX takes them."""
    if isinstance(tree, DType):
        return np.dtype(tree.name)
    if isinstance(tree, tuple):
        return tuple([filled(part) for part in tree])
    if not isinstance(tree, dict):
        return tree
    if "number" in tree:
        return np.asarray(tree["number"], filled(tree["dtype"]))
    if "class" not in tree:
        return {name: filled(part) for name, part in tree.items()}
    kind = str(tree["class"])
    if kind in CHOICES:
        return CHOICES[kind][str(tree["name"])]
    if kind not in RECORDS:
        raise ModelError(f"{kind[:80]} is not known to ampere's runtime of JAX")
    fields = {name: filled(part) for name, part in tree.items() if name != "class"}
    return RECORDS[kind](**fields)


def _fields(value: Any) -> tuple[str, ...]:
    names = getattr(value, "_fields", None) or value.__dataclass_fields__
    return tuple(names)
