"""The training step of MNN: the graph of a program written anew at each step, and its optimiser.

    forward    every step's operation makes a value; nothing is computed yet
    loss       the program's, or what comes out times random gradients
    update     MNN's optimiser asks for gradients, computes, and writes the parameters

An input that gets a gradient stands among the parameters: what its update takes, a few operations
on each of its numbers, is in the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ampere.core.program.terms import ValueRef
from ampere.core.program.trees import map_leaves
from ampere.core.training import PLAIN
from ampere.errors import AmpereError, MeasurementFailed, ModelError
from ampere.mnn.guard import check_gradients
from ampere.mnn.holding import Holding
from ampere.mnn.library import F, constant, plain
from ampere.mnn.losses import loss_of, target_of
from ampere.mnn.operations.base import Call
from ampere.mnn.operations.elementwise import is_value
from ampere.mnn.operations.registry import find_operation
from ampere.programs.gradients import reach_of
from ampere.programs.losses import LossPart, counted, parts_of_loss, seeds
from ampere.programs.program import Key, Program, Step, pick, run
from ampere.programs.values import batches, first_values

# With torch's rates; without a momentum of zero, MNN takes 0.9.
OPTIMIZERS: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "sgd": ("SGD", {"learning_rate": 1e-3, "momentum": 0.0}),
    "momentum": ("SGD", {"learning_rate": 1e-3, "momentum": 0.9}),
    "adam": ("ADAM", {"learning_rate": 1e-4, "momentum": 0.9, "momentum2": 0.999, "eps": 1e-8}),
}


class MnnTrainer:
    """A program with its data, loss and optimiser, ready to run steps.

    Args:
        program: The program.
        values: First values of what it holds; by default drawn.
        data: A batch for each input; by default drawn.
        targets: What results are compared with, in the order of the loss's parts; by default drawn.
        rate: How far a step goes; by default as far as torch's.

    Raises:
        ModelError: MNN cannot train it faithfully; names the operation and the layer.
    """

    def __init__(
        self,
        program: Program,
        values: Mapping[Key, Any] | None = None,
        data: Sequence[Any] | None = None,
        targets: Sequence[Any] | None = None,
        rate: float | None = None,
    ) -> None:
        _check(program)
        rng = np.random.default_rng(0)
        self.program, self.reach, self.rate = program, reach_of(program), rate
        self._stops = {program.steps[number - 1].at for number in self.reach.stops}
        values = first_values(program, rng) if values is None else values
        entering = batches(program, rng) if data is None else list(data)
        self.optimizer: Any = None
        self.holding = Holding(program, self.reach, values, entering)
        first = self._forward()
        self._prepare(first, targets, rng)
        if self.reach.trains:
            check_gradients(program, self._loss(first), self.holding.wanted)
        # Statistics of the batch remember every forward pass until they are computed.
        self.holding = Holding(program, self.reach, values, entering)

    def step(self) -> None:
        """One whole training step; without anything to train, the forward pass."""
        values = self._forward()
        if not self.reach.trains:
            for value in self._ends:
                plain(pick(values, value)).read()
            return
        if self.optimizer is None:  # modules of MNN's own are made by the first pass
            self.optimizer = _optimizer(self.program, self.holding, self.rate)
        if not self.optimizer.step(self._loss(values)):
            raise MeasurementFailed("MNN could not compute a step")

    def stage(self, name: str) -> Callable[[], object]:
        """MNN computes forward, backward and update at once: there is only the step."""
        if name != "step":
            raise ModelError(f"mnn has no stage {name}: it computes whole steps")
        return self.step

    def values(self) -> dict[Key, Any]:
        """What is held now, by the keys of programs."""
        return self.holding.values()

    def _forward(self) -> list[Any]:
        return run(self.program, self.holding.inputs, self._apply)

    def _apply(self, step: Step, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        if step.op in ("parameter", "buffer"):
            return self.holding.part(step, step.op)
        if step.at in self._stops:
            args, options = map_leaves(_cut_off, args), map_leaves(_cut_off, options)
        call = Call(step, args, options, self.holding)
        try:
            return find_operation(step).run(call)
        except (AmpereError, MemoryError):
            raise
        except Exception as error:  # an argument that nobody thought of
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise call.refusal(reason) from error

    def _prepare(
        self, values: Sequence[Any], targets: Sequence[Any] | None, rng: np.random.Generator
    ) -> None:
        """The targets of the loss, and first gradients of what has none, from a first pass."""
        self._ends = counted(self.program, self.reach)
        shapes = {end: tuple(pick(values, end).shape) for end in self._ends}
        parts = parts_of_loss(self.program, self.reach, shapes, rng)
        if targets is not None:
            parts = tuple(LossPart(p.form, p.value, t) for p, t in zip(parts, targets))
        self._parts = [(p, target_of(p, shapes[p.value])) for p in parts]
        seeded = [*(() if parts else self.reach.ends), *self.reach.dangling]
        first = seeds([pick(values, end).shape for end in seeded], rng)
        self._seeds: list[tuple[ValueRef, Any]] = list(zip(seeded, map(constant, first)))

    def _loss(self, values: Sequence[Any]) -> Any:
        terms = [loss_of(p.form, pick(values, p.value), target) for p, target in self._parts]
        terms += [
            F.reduce_sum(plain(pick(values, end)) * seed, [], False) for end, seed in self._seeds
        ]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total


def _cut_off(leaf: Any) -> Any:
    """The same value without a gradient: a cast has none."""
    return F.cast(plain(leaf), F.dtype.float) if is_value(leaf) else leaf


def _optimizer(program: Program, holding: Holding, rate: float | None) -> Any:
    from MNN import optim

    name, usual = OPTIMIZERS[program.training.optimizer]
    settings = dict(usual) if rate is None else {**usual, "learning_rate": rate}
    return getattr(optim, name)(holding.root, **settings)


def _check(program: Program) -> None:
    training = program.training
    if training.optimizer not in OPTIMIZERS:
        raise ModelError(
            f"mnn has no optimizer {training.optimizer}: use one of {', '.join(OPTIMIZERS)}"
        )
    if training.amp or training.dtype not in (None, PLAIN):
        raise ModelError(f"mnn trains in float32, not in {training.precision}")
    for step in program.steps:
        if step.checkpointed:
            raise ModelError(f"mnn cannot train {step.where}: it does not run a layer twice")
        if step.op not in ("parameter", "buffer"):
            find_operation(step)
