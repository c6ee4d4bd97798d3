"""A program run forward: the values of all steps, and what is left for the next training step."""

from __future__ import annotations

from collections.abc import Callable  # for Python 3.8, on old devices
from typing import Any, Dict  # the latter for Python 3.8, on old devices

import jax
from ampere.jax.runtime.sites import KEY, Operation, Site
from ampere.programs.program import Key, Program, Step, pick

Arrays = Dict[Key, Any]


def run_program(
    program: Program, apply: Operation, arrays: Arrays, inputs: list[Any]
) -> tuple[list[Any], Arrays]:
    """Run the steps in order; a layer that is checkpointed is run again on the way back."""
    values: list[Any] = [tuple(inputs)]
    after: Arrays = {KEY: arrays[KEY] + jax.numpy.asarray([0, 1], jax.numpy.uint32)}
    start = 0
    while start < len(program.steps):
        end = start + 1
        while end < len(program.steps) and _together(program.steps[start], program.steps[end]):
            end += 1
        run = _some(program.steps[start:end], start, apply)
        run = jax.checkpoint(run) if program.steps[start].checkpointed else run
        made, after = run(arrays, values, after)
        values += made
        start = end
    return values, after


def _some(
    steps: tuple[Step, ...], before: int, apply: Operation
) -> Callable[..., tuple[list[Any], Arrays]]:
    """Some steps of a program as a function of what is known."""

    def run(arrays: Arrays, values: list[Any], after: Arrays) -> tuple[list[Any], Arrays]:
        known, left = list(values), dict(after)
        for number, step in enumerate(steps, start=before + 1):
            site = Site(step, number, arrays, left)
            result = apply(site, pick(known, step.inputs), pick(known, step.options))
            known.append(jax.lax.stop_gradient(result) if step.detached else result)
        return known[len(values) :], left

    return run


def _together(first: Step, second: Step) -> bool:
    """Whether two steps are kept, or run again, together."""
    if first.checkpointed != second.checkpointed:
        return False
    return not first.checkpointed or first.layer == second.layer
