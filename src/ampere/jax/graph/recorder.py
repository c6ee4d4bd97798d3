"""Modules of flax.nnx as opaque primitives: what happens in a standard one is not recorded.

While a model is traced, `__call__` of every class in it is replaced. A standard module binds a
primitive of ours that stands for all that it does; around others a scope is opened, so that JAX
notes with each of its own primitives in which module it was called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flax import nnx
from jax.extend.core import Primitive

import jax
from ampere.jax.graph.registry import is_whole

SCOPE = "ampere:"
MODULE = Primitive("ampere_module")
MODULE.multiple_results = True
MODULE.def_abstract_eval(lambda *_, number, recorder: recorder.calls[number].shapes)


@dataclass(frozen=True)
class ModuleCall:
    """One call of a standard module: trees in which arrays are numbered `Operand`s."""

    module: Any
    args: Any
    kwargs: Any
    shapes: list[Any]  # of what comes out
    result: Any  # a tree with the number of each array


@dataclass(frozen=True)
class Operand:
    """An array that a module is called with, by its number."""

    number: int


@dataclass(eq=False)
class Recorder:
    """What modules were called with, and the scopes that were opened."""

    names: dict[int, str]  # of modules, by their identity
    calls: list[ModuleCall] = field(default_factory=list)
    scopes: list[tuple[str, int]] = field(default_factory=list)
    inside: int = 0  # standard modules that are being asked for their shapes

    def call(self, original: Callable[..., Any], module: Any, args: Any, kwargs: Any) -> Any:
        """A call of a module: recorded as one, or run inside a scope of its own."""
        if self.inside:
            return original(module, *args, **kwargs)
        name = self.names.get(id(module), "")
        self.scopes.append((name, len(self.scopes) + 1))
        with jax.named_scope(f"{SCOPE}{len(self.scopes) - 1}"):
            if not is_whole(module):
                return original(module, *args, **kwargs)
            return self._record(original, module, args, kwargs)

    def _record(self, original: Callable[..., Any], module: Any, args: Any, kwargs: Any) -> Any:
        arrays: list[Any] = []

        def numbered(leaf: Any) -> Any:
            if not isinstance(leaf, jax.Array):
                return None if isinstance(leaf, nnx.Rngs | nnx.RngStream) else leaf
            arrays.append(leaf)
            return Operand(len(arrays) - 1)

        def is_leaf(leaf: Any) -> bool:
            return leaf is None or isinstance(leaf, nnx.Rngs | nnx.RngStream)

        given, named = jax.tree.map(numbered, (args, kwargs), is_leaf=is_leaf)
        shapes = self._shapes(original, module, args, kwargs)
        leaves, structure = jax.tree.flatten(shapes)
        numbers = jax.tree.unflatten(structure, list(range(len(leaves))))
        avals = [jax.core.ShapedArray(leaf.shape, leaf.dtype) for leaf in leaves]
        self.calls.append(ModuleCall(module, given, named, avals, numbers))
        made = MODULE.bind(*arrays, number=len(self.calls) - 1, recorder=self)
        return jax.tree.unflatten(structure, made)

    def _shapes(self, original: Callable[..., Any], module: Any, args: Any, kwargs: Any) -> Any:
        """What comes out, asked of a copy: what the module keeps must not change."""
        definition, state = nnx.split(module)
        arrays, static = _apart((args, kwargs))

        def run(state: Any, arrays: list[Any]) -> Any:
            args, kwargs = static(arrays)
            return original(nnx.merge(definition, state), *args, **kwargs)

        self.inside += 1
        try:
            return jax.eval_shape(run, state, arrays)
        finally:
            self.inside -= 1


def _apart(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The arrays of a tree, and what puts others in their places."""
    leaves, structure = jax.tree.flatten(tree, is_leaf=lambda leaf: leaf is None)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]

    def together(arrays: list[Any]) -> Any:
        filled = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array
        return jax.tree.unflatten(structure, filled)

    return [leaves[i] for i in places], together


@contextmanager
def recorded(model: Any, recorder: Recorder) -> Iterator[None]:
    """While this is open, modules of the classes in the model are recorded."""
    classes = {type(module) for _, module in nnx.iter_modules(model)}
    homes = {home for cls in classes for home in cls.__mro__ if "__call__" in vars(home)}
    originals = {home: vars(home)["__call__"] for home in homes if home not in (object, type)}

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            return recorder.call(original, self, args, kwargs)

        return call

    try:
        for home, original in originals.items():
            home.__call__ = wrapped(original)  # type: ignore[method-assign]
        yield
    finally:
        for home, original in originals.items():
            home.__call__ = original  # type: ignore[method-assign]
