"""The training step that is metered, compiled whole: forward, loss, backward, optimiser.

XLA removes what nobody reads, so a step returns all that it is to compute: what it ends in, the
gradients of inputs and of weights that other layers update, the new weights. Compilation takes
seconds, and happens when the trainer is made: outside of what is metered.
"""

from __future__ import annotations

from collections.abc import (
    Callable,  # for Python 3.8, on old devices
    Mapping,
    Sequence,
)
from typing import Any

import numpy as np
import optax

import jax
from ampere.core.program.terms import ValueRef
from ampere.core.training import Training
from ampere.errors import ModelError
from ampere.jax.runtime.losses import loss_of
from ampere.jax.runtime.running import Arrays, run_program
from ampere.jax.runtime.sites import KEY, Operation
from ampere.programs.gradients import reach_of
from ampere.programs.losses import LossPart, counted, parts_of_loss, seeds
from ampere.programs.program import Key, Program, pick
from ampere.programs.values import batches, first_values
from jax import numpy as jnp

OPTIMIZERS: Mapping[str, Callable[[], Any]] = {
    "sgd": lambda: optax.sgd(1e-3),
    "momentum": lambda: optax.sgd(1e-3, momentum=0.9),
    "adam": lambda: optax.adam(1e-4),
    "adamw": lambda: optax.adamw(1e-4, weight_decay=1e-2),
    "rmsprop": lambda: optax.rmsprop(1e-4, decay=0.99, eps=1e-8),
}
SEED = 0


class Trainer:
    """A program with its data, loss and optimiser, compiled and ready to run steps.

    Args:
        program: What is trained.
        apply: What runs a step of it: one a dialect.
        channels_last: Whether maps have their channels there.
        weights: First values of what it holds, by key; what is not given is drawn.
        inputs: Batches of data; drawn if not given.
        targets: What the parts of the loss are compared with; drawn if not given.
        optimizer: One of optax, in the place of the training's.
    """

    def __init__(
        self,
        program: Program,
        apply: Operation,
        *,
        channels_last: bool = False,
        weights: Mapping[Key, Any] | None = None,
        inputs: Sequence[Any] | None = None,
        targets: Sequence[Any] | None = None,
        optimizer: Any = None,
    ) -> None:
        refuse_training(program.training)
        rng = np.random.default_rng(SEED)
        self.program, self._apply = program, apply
        self.reach = reach_of(program)
        self._optimizer = optimizer or OPTIMIZERS[program.training.optimizer]()
        values = _arrays(program, {**first_values(program, rng), **(weights or {})})
        trained = {key: value for key, value in values.items() if key in self.reach.parameters}
        held = {key: value for key, value in values.items() if key not in trained}
        held[KEY] = np.zeros(2, np.uint32)
        shared = {each.key for each in program.held if each.shared}
        self._updated = sorted(key for key in trained if key not in shared)
        given = [_narrow(batch) for batch in (inputs or batches(program, rng))]
        data = [_typed(x, each.dtype) for x, each in zip(given, program.inputs)]
        self._parts = self._parts_of_loss(trained, held, data, rng, channels_last)
        compared = [part.target for part in self._parts] if targets is None else targets
        own = {key: trained[key] for key in self._updated}
        self._now = jax.device_put((trained, self._optimizer.init(own), held))
        starts = self._starts(trained, held, data, rng)
        self._data = jax.device_put((data, [_narrow(each) for each in compared], starts))
        self._step = jax.jit(self._whole_step)
        self.results: Any = None  # of the last step: whoever waits for them waits for all
        self._compile()

    def _compile(self) -> None:
        """Run one step, and forget what it did."""
        jax.block_until_ready(self._step(*self._now, self._data))

    def step(self) -> Any:
        """Start one whole training step; `results` are there when it has ended."""
        *now, self.results = self._step(*self._now, self._data)
        self._now = tuple(now)
        return self.results

    def stage(self, name: str) -> Callable[[], Any]:
        """The step: under jit it has no stages."""
        if name != "step":
            raise ModelError(f"JAX compiles a step as a whole: it has no stage {name!r}")
        return self.step

    def values(self) -> Arrays:
        """What the program holds now, by key."""
        trained, _, held = self._now
        merged = {**trained, **held}
        return {key: np.asarray(value) for key, value in merged.items() if key != KEY}

    def _whole_step(self, trained: Arrays, optimizer: Any, held: Arrays, data: Any) -> Any:
        inputs, targets, starts = data
        entering = [inputs[number] for number in self.reach.inputs]

        def forward(trained: Arrays, entering: list[Any]) -> tuple[list[Any], Arrays]:
            given = list(inputs)
            for number, batch in zip(self.reach.inputs, entering):
                given[number] = batch
            values, after = self._run({**held, **trained}, given)
            return self._ends(values, targets), after

        if not self.reach.trains:
            ends, after = forward(trained, entering)
            return trained, optimizer, {**held, **after}, ends
        ends, back, after = jax.vjp(forward, trained, entering, has_aux=True)
        gradients, of_inputs = back([_like(start, end) for start, end in zip(starts, ends)])
        own = {key: trained[key] for key in self._updated}
        mine = {key: gradients[key] for key in self._updated}
        changes, optimizer = self._optimizer.update(mine, optimizer, own)
        others = {key: value for key, value in gradients.items() if key not in own}
        trained = {**trained, **optax.apply_updates(own, changes)}
        return trained, optimizer, {**held, **after}, (ends, of_inputs, others)

    def _run(self, arrays: Arrays, inputs: list[Any]) -> tuple[list[Any], Arrays]:
        return run_program(self.program, self._apply, arrays, inputs)

    def _ends(self, values: list[Any], targets: Sequence[Any]) -> list[Any]:
        """What the backward pass starts from: the loss, or what comes out, and what dangles."""
        dangling = [pick(values, ref) for ref in self.reach.dangling]
        if not self.program.ends_in_loss:
            return [pick(values, ref) for ref in self.reach.ends] + dangling
        return [
            loss_of(self._parts, [pick(values, p.value) for p in self._parts], targets),
            *dangling,
        ]

    def _parts_of_loss(
        self, trained: Arrays, held: Arrays, data: list[Any], rng: Any, channels_last: bool
    ) -> tuple[LossPart, ...]:
        refs = counted(self.program, self.reach)
        shapes = self._shapes(refs, trained, held, data)
        return parts_of_loss(self.program, self.reach, shapes, rng, channels_last=channels_last)

    def _shapes(
        self, refs: Sequence[ValueRef], trained: Arrays, held: Arrays, data: list[Any]
    ) -> dict[ValueRef, tuple[int, ...]]:
        def run(arrays: Arrays, data: list[Any]) -> list[Any]:
            values, _ = self._run(arrays, data)
            return [pick(values, ref) for ref in refs]

        made = jax.eval_shape(run, {**trained, **held}, data)
        return {ref: tuple(each.shape) for ref, each in zip(refs, made)}

    def _starts(self, trained: Arrays, held: Arrays, data: list[Any], rng: Any) -> list[Any]:
        """Gradients to start from; a loss has 1."""
        open_ends = list(self.reach.dangling)
        if not self.program.ends_in_loss:
            open_ends = [*self.reach.ends, *open_ends]
        shapes = self._shapes(open_ends, trained, held, data)
        drawn = seeds([shapes[ref] for ref in open_ends], rng)
        return [np.ones((), np.float32), *drawn] if self.program.ends_in_loss else drawn


def refuse_training(training: Training) -> None:
    """Raise if nothing is trained so, whatever the network."""
    if training.optimizer not in OPTIMIZERS:
        names = ", ".join(OPTIMIZERS)
        raise ModelError(f"unknown optimizer {training.optimizer!r}: use one of {names}")
    if training.amp:
        raise ModelError("JAX has no automatic mixed precision: use --dtype bfloat16 instead")
    if training.dtype == "float64":
        raise ModelError("JAX computes in 32 bits here: use --dtype float32, bfloat16 or float16")


def _arrays(program: Program, values: Mapping[Key, Any]) -> Arrays:
    types = {held.key: held.dtype for held in program.held}
    return {key: _typed(_narrow(value), types.get(key)) for key, value in values.items()}


def _narrow(array: Any) -> Any:
    """JAX has 32 bits unless it is told otherwise."""
    array = np.asarray(array)
    return array.astype({"int64": "int32", "float64": "float32"}.get(str(array.dtype), array.dtype))


def _typed(array: Any, dtype: str | None) -> Any:
    """Types that numpy does not have were drawn as float32."""
    return jnp.asarray(array, jnp.bfloat16) if dtype == "bfloat16" else array


def _like(start: Any, end: Any) -> Any:
    return start.astype(end.dtype)
