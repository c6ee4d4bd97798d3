"""Modules of flax.nnx as steps of a program: built without values, run as pure functions.

    nnx.Linear(3, 4)  ->  Definition: how it is put together, and the names of what it holds

Modules are made by `nnx.eval_shape`: eager initialisation compiles for seconds at each width. What
they hold is drawn by numpy. Parameters train; what else they keep (statistics, keys, counts) is
left for the next step.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from flax import nnx

import jax
from ampere.core.program.structure import Call
from ampere.errors import ModelError
from ampere.jax.runtime.primitives import filled, find_function
from ampere.jax.runtime.sites import Site
from ampere.programs.program import Held, Start

CELLS = ("LSTMCell", "OptimizedLSTMCell", "GRUCell", "SimpleCell")
_ONES = frozenset(("scale", "var"))
_ZEROS = frozenset(("bias", "mean", "count"))


@dataclass(frozen=True)
class Definition:
    """A module taken apart: how it is put together, and what it holds, by name in order."""

    graph: Any
    parameters: Any  # trees of shapes
    state: Any

    def run(
        self,
        site: Site,
        args: Sequence[Any],
        options: Mapping[str, Any],
        told: Callable[[Any, Mapping[str, Any]], Mapping[str, Any]] = lambda *_: {},
    ) -> Any:
        """Call the module with the arrays of a site; what it keeps is left there."""
        module = nnx.merge(
            self.graph, self._filled(self.parameters, site), self._filled(self.state, site)
        )
        result = module(*args, **options, **told(module, options))
        state = nnx.split(module, nnx.Param, ...)[2]
        for name, leaf in named_leaves(state):
            site.leave(name, _data(leaf))
        return result

    def _filled(self, tree: Any, site: Site) -> Any:
        arrays = [
            jax.random.wrap_key_data(site.part(name)) if _is_key(leaf) else site.part(name)
            for name, leaf in named_leaves(tree)
        ]
        return jax.tree.unflatten(jax.tree.structure(tree), arrays)

    @property
    def held(self) -> list[tuple[str, Any, bool]]:
        """Name and shape of each array that it holds, and whether it is a parameter."""
        parameters = [(name, leaf, True) for name, leaf in named_leaves(self.parameters)]
        return parameters + [
            (name, _data_shape(leaf), False) for name, leaf in named_leaves(self.state)
        ]


def _is_key(leaf: Any) -> bool:
    return bool(jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _data(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _data_shape(leaf: Any) -> Any:
    return jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """The arrays of a module's state, each with its path: `kernel`, `cell/hi/kernel`."""
    pairs, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [("/".join(filter(None, map(_step, path))), leaf) for path, leaf in pairs]


def _step(entry: Any) -> str:
    """One step of a path; a variable's own value needs no name."""
    step = str(getattr(entry, "key", getattr(entry, "name", entry))).strip(".")
    return "" if step == "value" else step


def take_apart(module: Any) -> Definition:
    """A module, with or without values, as its definition."""
    return Definition(*nnx.split(module, nnx.Param, ...))


def in_dtype(model: Any, dtype: str) -> Any:
    """A copy of a model as if its modules had been built for a type; itself if it is of this type.

    A recurrent cell's carry is of the type that the cell is said to hold: casting weights alone
    would let it change on the way.
    """
    kind = jax.numpy.dtype(dtype)
    definition, parameters, rest = nnx.split(model, nnx.Param, ...)
    if all(leaf.dtype == kind for leaf in jax.tree.leaves(parameters)):
        return model
    copy = nnx.merge(definition, jax.tree.map(lambda leaf: _cast(leaf, kind), parameters), rest)
    for _, module in nnx.iter_modules(copy):
        if getattr(nnx, type(module).__name__, None) is not type(module):
            continue
        for name in ("dtype", "param_dtype"):
            if hasattr(module, name):
                setattr(module, name, kind)
    return copy


def _cast(leaf: Any, kind: Any) -> Any:
    """An array, or the shape of one, of another type; whole numbers stay."""
    if not jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating):
        return leaf
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(leaf.shape, kind)
    return leaf.astype(kind)


def define(op: str, arguments: Mapping[str, Any]) -> Definition:
    """The definition of a module of flax.nnx that is built with these arguments.

    Raises:
        ModelError: flax.nnx has no such module, or does not build it so.
    """
    return _define(op, tuple(sorted(arguments.items(), key=lambda item: item[0])))


@lru_cache(maxsize=1024)
def _define(op: str, arguments: tuple[tuple[str, Any], ...]) -> Definition:
    try:
        return take_apart(nnx.eval_shape(lambda: make_module(op, dict(arguments))))
    except (TypeError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"flax.nnx does not build {op} so: {reason}") from None


def make_module(op: str, arguments: Mapping[str, Any]) -> Any:
    """A module of flax.nnx, from plain arguments."""
    cls = getattr(nnx, op, None)
    if not (isinstance(cls, type) and issubclass(cls, nnx.Module)):
        raise ModelError(f"{op} is not a module of flax.nnx")
    given = dict(filled(dict(arguments)))
    if "cell" in given:  # of nnx.RNN, with the cell's own arguments beside it
        cell = str(given.pop("cell"))
        if cell not in CELLS:
            raise ModelError(f"{cell[:80]} is not a recurrent cell that is known")
        names = _accepted(getattr(nnx, cell))
        inner = {name: given.pop(name) for name in list(given) if name in names}
        return cls(make_module(cell, inner), rngs=nnx.Rngs(0), **given)
    if "rngs" in _accepted(cls):
        given["rngs"] = nnx.Rngs(0)
    return cls(**given)


def _accepted(cls: Any) -> Mapping[str, Any]:
    """The arguments that a class is built with; flax hides them from its own signature."""
    return inspect.signature(cls.__init__).parameters


def holding(
    call: Call, arguments: Mapping[str, Any], place: tuple[int, int], dtype: str
) -> tuple[Held, ...]:
    """What a call of the dialect jax holds (`programs.wiring.Holding`)."""
    if call.op in ("parameter", "buffer"):
        trains = call.op == "parameter"
        start = Start("normal", 1 / 50) if trains else Start("constant", 1.0)
        kind = str(arguments.get("dtype", "float32"))
        shape = tuple(arguments["shape"])
        return (_held(call, (*place, "value"), shape, kind, start, trains),)
    if not call.is_module:
        return ()
    return as_held(define(call.op, arguments), place, call)


def as_held(
    definition: Definition, place: tuple[int, int], call: Call = Call("")
) -> tuple[Held, ...]:
    """What a definition holds, at a place of a program."""
    return tuple(
        _held(call, (*place, name), tuple(leaf.shape), str(leaf.dtype), _start(name, leaf), trains)
        for name, leaf, trains in definition.held
    )


def _held(
    call: Call,
    key: tuple[int, int, str],
    shape: tuple[int, ...],
    dtype: str,
    start: Start,
    parameter: bool,
) -> Held:
    frozen = call.frozen or key[2] in call.frozen_parts
    return Held(
        key=key,
        shape=shape,
        start=start,
        dtype=dtype,
        trains=parameter and not frozen,
        shared=key[2] in call.shared_parts,
        buffer=not parameter,
    )


def _start(name: str, leaf: Any) -> Start:
    """How an array begins: as large as the library's own, whatever they are drawn from."""
    path = set(name.split("/"))
    if path & _ONES:
        return Start("constant", 1.0)
    floats = jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
    if path & _ZEROS or not floats:
        return Start("constant", 0.0)
    entering = math.prod(leaf.shape[:-1]) if len(leaf.shape) > 1 else 1
    return Start("normal", 1 / math.sqrt(max(entering, 1)))


def apply(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """What a step of the dialect jax makes of what it is given."""
    step = site.step
    if step.op in ("parameter", "buffer"):
        return site.part("value")
    if "." not in step.op:
        return define(step.op, step.arguments).run(site, filled(tuple(args)), filled(dict(options)))
    result = find_function(step.op)(*filled(tuple(args)), **filled(dict(options)))
    return tuple(result) if isinstance(result, list) else result
