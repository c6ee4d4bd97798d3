"""Models of flax.nnx as layers: one of the readers.

graph.trace: calls -> graph.sizes -> graph.model_reading: layers -> graph.standins: variants
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flax import nnx

from ampere.core.boundary.code import Factory
from ampere.core.boundary.example_inputs import Input, as_inputs
from ampere.core.layers import Layer, LayerKind
from ampere.core.program.sizes import Shape
from ampere.core.program.structure import Call, Structure
from ampere.core.training import LOSSES, Training
from ampere.errors import ModelError
from ampere.jax.graph import counter, standins
from ampere.jax.graph.model_reading import ModelReading, read_model
from ampere.jax.graph.writer import DIALECT
from ampere.jax.runtime import modules
from ampere.jax.runtime.own_models import hollow
from ampere.jax.runtime.trainer import refuse_training
from ampere.programs.program import Program
from ampere.programs.wiring import program_of

MOST_NUMBERS = 10**12  # in a batch


class JaxReader:
    """Reads an `nnx.Module`, with or without values."""

    dialect = DIALECT

    def owns(self, model: object) -> bool:
        """Whether it is a module of flax.nnx."""
        return isinstance(model, nnx.Module)

    def hollow(self, factory: Factory) -> object | None:
        """What the user's factory makes, without values: JAX would compile for them."""
        made: object | None = hollow(factory)
        return made

    def read_whole(self, model: Any, input: Input | None, training: Training) -> ModelReading:
        """The layers of a model, and what belongs to none of them."""
        refuse_training(training)
        if training.loss not in LOSSES:
            raise ModelError(f"a model of flax.nnx is trained with one of {', '.join(LOSSES)}")
        if input is None:
            raise ModelError("the model's input is not known: pass its shape, such as (32, 32, 3)")
        inputs = as_inputs(input)
        if training.batch_size * sum(math.prod(spec.shape) for spec in inputs) > MOST_NUMBERS:
            raise ModelError(f"a batch of {training.batch_size} samples of {inputs} is too large")
        return read_model(model, inputs, training)

    def with_features(self, layer: Layer) -> Layer:
        """The same layer, counted in the program of its step."""
        return counter.with_features(layer)

    def first_for(self, first: LayerKind, target: Shape, input_grad: bool) -> LayerKind:
        """FIRST at an input for which it delivers this shape."""
        return standins.first_for(first, target, input_grad)

    def last_for(self, last: LayerKind, source: Shape, input_grad: bool) -> LayerKind:
        """LAST for an input of this shape."""
        return standins.last_for(last, source, input_grad)

    def trains(self, structure: Structure) -> bool:
        """Whether it holds parameters that are not frozen."""
        return standins.trains(structure)

    def holds_parameters(self, call: Call) -> bool:
        """Whether a call brings parameters of its own."""
        return standins.holds_parameters(call)

    def build(self, layers: Sequence[Layer]) -> Program:
        """A network of these layers, as a program that `jax.runtime` runs."""
        return program_of(layers, modules.holding)


READER = JaxReader()
