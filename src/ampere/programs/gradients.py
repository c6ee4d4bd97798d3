"""Which values of a program a gradient reaches, worked out without running it.

    forward:   a value has a gradient if something that trains is in it
    backward:  from the ends, through all that has one, to the parameters and inputs

An engine that returns gradients for other parameters than these does not train what it was asked
to: some skip in silence what they cannot differentiate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ampere.core.program.terms import ValueRef
from ampere.core.program.trees import leaves
from ampere.programs.program import Key, Program, Step

# By the last part of their names: what they return has no gradient.
_WITHOUT = """detach detach_ argmax argmin argsort eq ne lt le gt ge __eq__ __ne__ __lt__ __le__
    __gt__ __ge__ isnan isinf isfinite logical_and logical_or logical_not logical_xor __and__ __or__
    __invert__ any all size dim numel zeros_like ones_like full_like empty_like new_zeros new_ones
    new_full new_empty arange bool long int"""
WITHOUT_GRADIENT = frozenset(_WITHOUT.split())


@dataclass(frozen=True)
class Reach:
    """What a backward pass has to do.

    Attributes:
        ends: Values of the result that it starts from.
        dangling: Values that no layer reads, and that it starts from, too.
        parameters: Keys that get a gradient.
        inputs: Numbers of the inputs that get one.
        steps: Numbers of the steps that it goes through, from 1.
        stops: Numbers of the steps that something with a gradient enters, and leaves without.
    """

    ends: tuple[ValueRef, ...]
    dangling: tuple[ValueRef, ...]
    parameters: frozenset[Key]
    inputs: tuple[int, ...]
    steps: frozenset[int]
    stops: frozenset[int]

    @property
    def trains(self) -> bool:
        """Whether there is anything to go back to."""
        return bool(self.parameters or self.inputs)


def reach_of(program: Program) -> Reach:
    """Work out what a gradient reaches."""
    tracked = _tracked(program)
    ends = _with_gradient(program, program.result, tracked)
    dangling = _with_gradient(program, program.dangling, tracked)
    steps = _behind(program, (*ends, *dangling), tracked)
    keys = {held.key for n in steps for held in program.steps[n - 1].held if held.trains}
    sources = [ref for n in steps for ref in program.steps[n - 1].sources]
    read = {ref.path[0] for ref in (*sources, *ends, *dangling) if ref.number == 0 and ref.path}
    entering = tuple(n for n, batch in enumerate(program.inputs) if batch.grad and n in read)
    stops = {
        n
        for n, step in enumerate(program.steps, start=1)
        if _stops(step) and _is_entered(program, step, tracked)
    }
    return Reach(ends, dangling, frozenset(keys), entering, steps, frozenset(stops))


def _tracked(program: Program) -> list[bool]:
    """Of each step's value, whether it has a gradient; number 0 is left to the inputs."""
    tracked = [False]
    for step in program.steps:
        tracked.append(_is_entered(program, step, tracked) and not _stops(step))
    return tracked


def _is_entered(program: Program, step: Step, tracked: Sequence[bool]) -> bool:
    """Whether something that trains enters a step, or is held by it."""
    return any(held.trains for held in step.held) or any(
        _has_gradient(program, ref, tracked) for ref in step.sources
    )


def _stops(step: Step) -> bool:
    return step.detached or step.op.rpartition(".")[2] in WITHOUT_GRADIENT


def _has_gradient(program: Program, ref: ValueRef, tracked: Sequence[bool]) -> bool:
    if ref.number:
        return tracked[ref.number]
    return bool(ref.path) and program.inputs[int(ref.path[0])].grad


def _with_gradient(program: Program, tree: Any, tracked: Sequence[bool]) -> tuple[ValueRef, ...]:
    refs = (leaf for leaf in leaves(tree) if isinstance(leaf, ValueRef))
    return tuple(ref for ref in refs if _has_gradient(program, ref, tracked))


def _behind(program: Program, ends: Sequence[ValueRef], tracked: Sequence[bool]) -> frozenset[int]:
    """The steps with a gradient that the ends are made by."""
    found: set[int] = set()
    open_numbers = [ref.number for ref in ends]
    while open_numbers:
        number = open_numbers.pop()
        if number in found or not tracked[number]:
            continue
        found.add(number)
        open_numbers += [ref.number for ref in program.steps[number - 1].sources]
    return frozenset(found)
