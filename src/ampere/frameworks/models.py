"""The verbs on models of any framework: read one, count its layers, plan its variants."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ampere.core.boundary.code import own_factory
from ampere.core.boundary.example_inputs import Input, as_inputs
from ampere.core.boundary.model_names import parse_name
from ampere.core.layers import Layer, structure_of
from ampere.core.program.structure import TORCH, Call
from ampere.core.shown.layer_list import Layers
from ampere.core.training import Training
from ampere.core.variants import Plan, plan
from ampere.core.workloads import ModelSpec
from ampere.frameworks.readers import (
    READERS,
    Model,
    ModelReading,
    find_reader,
    made_by,
    own_name,
    reader_of,
)


def framework_of(model: Model) -> str:
    """Whose model it is, and so who trains it unless another runtime is asked for."""
    if (named := own_name(model)) is not None:
        with own_factory(named):  # what the user's code loads; it makes nothing yet
            if not any(entry.is_loaded for name, entry in READERS.items() if name != TORCH):
                return TORCH
    return reader_of(model).dialect


def dialect_of(layers: Sequence[Layer]) -> str:
    """The dialect that layers were read in; those of a file do not tell, and count as torch's."""
    structures = (layer.kind.structure for layer in layers)
    return next((each.dialect for each in structures if each is not None), TORCH)


def is_translation(layers: Sequence[Layer], runtime: str, *, named: bool = False) -> bool:
    """Whether a runtime trains a translation of what these layers were read from.

    Those of a file do not tell; those that are kept of a name (`named`) are torch's.
    """
    structures = [layer.kind.structure for layer in layers]
    dialects = {structure.dialect for structure in structures if structure is not None}
    return bool((dialects or ({TORCH} if named else set())) - {runtime})


def runtime_facts(runtime: str, translated: bool) -> list[tuple[str, str]]:
    """Whose training joules are of, where it is not torch's: a fact for a page, or none."""
    if runtime == TORCH:
        return []
    of = "ampere's translation of the model, not its own code" if translated else "the model"
    return [("runtime", f"{runtime}: it is what {runtime} takes to train {of}")]


def read(model: Model, input: Input | None = None, training: Training = Training()) -> Layers:
    """The layers of a model, given itself or by name (`timm:resnet50`, `file.py:factory`)."""
    return Layers(read_whole(model, input, training).layers)


def read_whole(
    model: Model, input: Input | None = None, training: Training = Training()
) -> ModelReading:
    """The layers of a model, and which of its parameters belong to none of them.

    Raises:
        ModelError: It cannot be found, built or read, or is of no framework that is known.
    """
    named = own_name(model)
    if named is None:
        return reader_of(model).read_whole(model, input, training)
    with own_factory(named) as factory:
        fed = factory.fed(None if input is None else as_inputs(input))
        reader, made = made_by(factory)
    return reader.read_whole(made, fed, training)


def layers_of(spec: ModelSpec) -> tuple[Layer, ...]:
    """The layers of a model that is given by name; of one that cannot change, they stay known."""
    return _settled_layers(spec) if parse_name(spec.model).is_settled else _read_spec(spec)


def _read_spec(spec: ModelSpec) -> tuple[Layer, ...]:
    return read(spec.model, spec.input, spec.training)


_settled_layers = lru_cache(maxsize=2048)(_read_spec)


def with_features(layer: Layer) -> Layer:
    """The same layer with its features and parameters filled in."""
    return find_reader(structure_of(layer.kind).dialect).with_features(layer)


def plan_variants(layers: Sequence[Layer]) -> Plan:
    """The variants that isolate each kind of these layers."""
    # A kind's name tells its structure, but not which widths that allows.
    steps = [sorted(structure_of(layer.kind).multiples.items()) for layer in layers]
    return _plan(tuple(layers), tuple(map(tuple, steps)))


@lru_cache(maxsize=64)
def _plan(layers: tuple[Layer, ...], steps: tuple[tuple[tuple[str, int], ...], ...]) -> Plan:
    return plan(layers, find_reader(dialect_of(layers)))


def holds_parameters(layer: Layer, call: Call) -> bool:
    """Whether a call of a layer brings parameters of its own."""
    return find_reader(structure_of(layer.kind).dialect).holds_parameters(call)
