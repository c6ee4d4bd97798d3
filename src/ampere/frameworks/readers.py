"""Readers: who turns a model into layers, on the host. Who trains them is a runtime's business.

    model or its name ─▶ reader ─▶ layers ─▶ variants ─▶ any runtime that takes their dialect

A name of the zoo, of timm or of transformers is torch's. What a user's own factory makes belongs to
the reader whose framework it is of. Layers say their dialect: what was read is counted, planned and
built by the same reader.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ampere.core.boundary.code import Factory, in_words, own_factory
from ampere.core.boundary.example_inputs import Input
from ampere.core.boundary.model_names import ModelName, parse_name
from ampere.core.layers import Layer
from ampere.core.program.structure import TORCH, Call
from ampere.core.training import Training
from ampere.core.variants import StandIns
from ampere.errors import MissingLibrary, ModelError

Model: TypeAlias = Any  # a model of one of the frameworks, or its name


class ModelReading(Protocol):
    """The layers of a model, and what belongs to none of them."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """FIRST, HIDDEN..., LAST, with kinds, widths and features."""
        ...

    @property
    def unused(self) -> Mapping[str, int]:
        """Parameters of no layer, by name and size."""
        ...

    @property
    def unknown(self) -> tuple[str, ...]:
        """A sentence for each module that holds parameters and keeps its sizes."""
        ...


class Reader(StandIns, Protocol):
    """A framework's models as layers; FIRST and LAST for variants of them (`StandIns`)."""

    @property
    def dialect(self) -> str:
        """The framework's name, as structures have it."""
        ...

    def owns(self, model: object) -> bool:
        """Whether a model is of this framework."""
        ...

    def hollow(self, factory: Factory) -> object | None:
        """What the user's factory makes, without values; None where it is built as it stands."""
        ...

    def read_whole(self, model: Any, input: Input | None, training: Training) -> ModelReading:
        """The layers of a model.

        Raises:
            ModelError: It cannot be read.
        """
        ...

    def with_features(self, layer: Layer) -> Layer:
        """The same layer with its FLOPs, bytes, parameters and calls counted."""
        ...

    def holds_parameters(self, call: Call) -> bool:
        """Whether a call of a structure brings parameters of its own."""
        ...

    def build(self, layers: Sequence[Layer]) -> object:
        """A network of these layers, as a model of the framework."""
        ...


@dataclass(frozen=True)
class ReaderEntry:
    """What is known of a reader before it is loaded.

    Attributes:
        load: Imports it.
        module: What is loaded wherever there is a model of the framework.
        models: The class of its models, as people know it.
    """

    load: Callable[[], Reader]
    module: str
    models: str

    @property
    def is_loaded(self) -> bool:
        """Whether there can be a model of it in this process."""
        return sys.modules.get(self.module) is not None


def _torch() -> Reader:
    from ampere.pytorch.reader import READER

    return READER


def _jax() -> Reader:
    from ampere.jax.reader import READER

    return READER


READERS: dict[str, ReaderEntry] = {  # by dialect
    TORCH: ReaderEntry(_torch, "torch", "an nn.Module"),
    "jax": ReaderEntry(_jax, "flax", "a flax.nnx.Module"),
}

OTHERS: Mapping[str, str] = {  # libraries whose models nobody reads, and what to do
    "flax.linen": "write it with flax.nnx, or wrap it in nnx.bridge.ToNNX",
    "equinox": "write it with flax.nnx",
    "haiku": "write it with flax.nnx",
}

_MODELS = " or ".join(entry.models for entry in READERS.values())


def find_reader(dialect: str) -> Reader:
    """The reader of a dialect.

    Raises:
        ModelError: There is none: the layers were read by a later version.
        MissingLibrary: Its framework is not installed.
    """
    if dialect not in READERS:
        raise ModelError(f"layers of {dialect!r} are not known here: {', '.join(READERS)} are")
    entry = READERS[dialect]
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in (dialect, entry.module):
            raise
        library = "PyTorch" if dialect == TORCH else dialect
        raise MissingLibrary(
            f"this needs {library}: pip install 'ampere-energy[{dialect}]'", name=error.name
        ) from None


def reader_of(model: Model) -> Reader:
    """Who reads a model, given itself or by name.

    Raises:
        ModelError: It is of no framework that is known.
    """
    named = own_name(model)
    if named is None:
        return find_reader(TORCH) if isinstance(model, str) else _reader_of_object(model)
    with own_factory(named) as factory:
        return made_by(factory)[0]


def own_name(model: Model) -> ModelName | None:
    """What the user's own code is called; None for other names, and for a model itself."""
    named = parse_name(model) if isinstance(model, str) else None
    return named if named is not None and named.is_own else None


def made_by(factory: Factory) -> tuple[Reader, Any]:
    """What the user's factory makes, and who reads it."""
    _refuse_other(factory.make)  # a model that is ready
    for reader in _loaded():
        if (hollow := reader.hollow(factory)) is not None:
            return reader, hollow
    made = factory.build(lambda made: _owner(made) is not None or _library(made) is not None)
    if (owner := _owner(made)) is None:
        _refuse_other(made)
        raise ModelError(f"{factory.label} returned {in_words(made)}; it must return {_MODELS}")
    return owner, made


def _reader_of_object(model: object) -> Reader:
    if (owner := _owner(model)) is not None:
        return owner
    _refuse_other(model)
    home = type(model).__module__.partition(".")[0]
    of = "" if home == "builtins" else f" of {home}"
    raise ModelError(f"a model is {_MODELS} or its name, not {type(model).__name__}{of}")


def _owner(model: object) -> Reader | None:
    return next((reader for reader in _loaded() if reader.owns(model)), None)


def _library(model: object) -> str | None:
    """The library whose models are not read that this is of; none of them need be installed."""
    if isinstance(model, type):
        return None
    homes = [f"{cls.__module__}." for cls in type(model).__mro__]
    return next((name for name in OTHERS if any(h.startswith(f"{name}.") for h in homes)), None)


def _refuse_other(model: object) -> None:
    """Say what to do with a model of a library that is known, and not read."""
    if (library := _library(model)) is not None:
        name = type(model).__name__
        raise ModelError(f"{name} is a model of {library}, which is not read: {OTHERS[library]}")


def _loaded() -> list[Reader]:
    """Readers of which there can be a model in this process."""
    return [entry.load() for entry in READERS.values() if entry.is_loaded]
