"""What a program holds, as MNN has it: parameters that train, constants, and modules of its own.

MNN has modules for two things that cannot be written as expressions: dropout, which draws anew at
each step, and normalisation over the batch, whose statistics an optimiser updates with a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ampere.mnn.library import constant
from ampere.programs.gradients import Reach
from ampere.programs.program import Held, Key, Program, Step

INTEGERS = ("int64", "int32", "int8", "uint8", "bool")
# Parameters of MNN's module for normalisation over the batch, in its order.
BATCH_NORM_PARTS = ("weight", "bias", "running_var", "running_mean")


class Holding:
    """All that the steps of a program hold, from one training step to the next.

    `wanted` has, by name, what must get a gradient. An input that gets one is a parameter here, and
    so is what torch would leave to another layer: MNN's optimisers compute the gradients of what
    they update, and no others.

    Args:
        program: The program.
        reach: What its gradients reach.
        values: The first values.
        batches: What enters.
    """

    def __init__(
        self,
        program: Program,
        reach: Reach,
        values: Mapping[Key, Any],
        batches: list[Any],
    ) -> None:
        from MNN import nn

        self.root = nn.Module()
        self.root.train(True)
        self.wanted: dict[str, Any] = {}
        self._reach, self._values = reach, values
        self._vars: dict[Key, Any] = {}
        self._modules: dict[tuple[int, int], Any] = {}
        self._norms: dict[Key, tuple[Any, int]] = {}
        self._shapes = {held.key: held.shape for held in program.held}
        self.inputs = [
            self._trainable(constant(array, _sort(entering.dtype)), f"input {n}", n in reach.inputs)
            for n, (array, entering) in enumerate(zip(batches, program.inputs))
        ]

    def part(self, step: Step, name: str) -> Any:
        """A parameter or buffer of a step; None if it has none of this name."""
        for held in step.held:
            if held.key[2] == name:
                if held.key not in self._vars:
                    self._vars[held.key] = self._var(held)
                return self._vars[held.key]
        return None

    def module(self, step: Step, make: Callable[[], Any]) -> Any:
        """The module of MNN's own that stands for a step, made when it is first asked for."""
        at = step.held[0].key[:2] if step.held else step.at  # of one that runs again, the first
        if at not in self._modules:
            module = make()
            module.train(True)
            self._modules[at] = module
            self.root._register_submodules([module])
            if step.op.startswith("BatchNorm"):
                self._fill(module, step)
        return self._modules[at]

    def values(self) -> dict[Key, Any]:
        """What everything is worth now, as arrays of numpy; before the first step, nothing."""
        found = {key: var.read() for key, var in self._vars.items()}
        for key, (module, number) in self._norms.items():
            found[key] = module.parameters[number].read()
        return {key: array.reshape(self._shapes[key]).copy() for key, array in found.items()}

    def _var(self, held: Held) -> Any:
        var = constant(self._values[held.key], _sort(held.dtype))
        return self._trainable(var, str(held.key), held.key in self._reach.parameters)

    def _trainable(self, var: Any, name: str, trains: bool) -> Any:
        if trains:
            var.fix_as_trainable()
            var.name = name
            self.wanted[name] = var
            self.root._add_parameter(var)
        return var

    def _fill(self, module: Any, step: Step) -> None:
        """Give a module of MNN's own its first values."""
        for held in step.held:
            number = BATCH_NORM_PARTS.index(held.key[2])
            var = module.parameters[number]
            var.write(self._values[held.key])
            self._norms[held.key] = (module, number)
            if held.key in self._reach.parameters:
                var.name = str(held.key)
                self.wanted[var.name] = var


def _sort(dtype: str) -> str:
    return "int" if dtype in INTEGERS else "float"
