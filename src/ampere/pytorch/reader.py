"""PyTorch's models as layers: one of the readers.

graph.model_reading: layers -> graph.standins: variants -> runtime.builder -> runtime.trainer
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from ampere.core.boundary.code import Factory
from ampere.core.boundary.example_inputs import Input
from ampere.core.layers import Layer, LayerKind
from ampere.core.program.sizes import Shape
from ampere.core.program.structure import TORCH, Call, Structure
from ampere.core.training import Training
from ampere.pytorch import models
from ampere.pytorch.graph import counter, standins
from ampere.pytorch.graph.model_reading import ModelReading
from ampere.pytorch.modules import registry
from ampere.pytorch.runtime import builder


class TorchReader:
    """Reads an `nn.Module`, or a name of the zoo, timm, transformers or the user's own code."""

    dialect = TORCH

    def owns(self, model: object) -> bool:
        """Whether it is a module."""
        return isinstance(model, nn.Module)

    def hollow(self, factory: Factory) -> None:
        """A user's own model is built as it is: that is fast."""

    def read_whole(
        self, model: nn.Module | str, input: Input | None, training: Training
    ) -> ModelReading:
        """The layers of a model, and what belongs to none of them."""
        return models.read_whole(model, input, training)

    def with_features(self, layer: Layer) -> Layer:
        """The same layer, counted on the meta device."""
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
        return registry.holds_parameters(call)

    def build(self, layers: Sequence[Layer]) -> nn.Module:
        """A network of these layers."""
        return builder.build(layers)


READER = TorchReader()
