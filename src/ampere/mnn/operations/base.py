"""The record of an operation: how MNN does what a call of torch does.

To add one, write a function of a `Call` in the file of its family, and an `Operation` with torch's
names in that file's `OPERATIONS`. Build from what has a gradient in MNN (`docs/frameworks.md` lists
what has none); the guard refuses networks whose parameters do not all get one, and the test of
golden steps compares each operation with torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ampere.errors import ModelError
from ampere.mnn.library import plain
from ampere.programs.program import Step


class Owner(Protocol):
    """Who keeps what steps hold, from one training step to the next."""

    def part(self, step: Step, name: str) -> Any:
        """A parameter or buffer of a step; None if it has none of this name."""
        ...

    def module(self, step: Step, make: Callable[[], Any]) -> Any:
        """The module of MNN's own that stands for a step, made when it is first asked for."""
        ...


class Call:
    """A step that is about to run: what it is given, and what it holds."""

    def __init__(
        self, step: Step, args: Sequence[Any], options: Mapping[str, Any], owner: Owner
    ) -> None:
        self.step, self.args, self.options = step, args, options
        self._owner = owner

    def part(self, name: str) -> Any:
        """A parameter or buffer that it holds; None if it has none of this name."""
        return self._owner.part(self.step, name)

    def module(self, make: Callable[[], Any]) -> Any:
        """The module of MNN's own that stands for it."""
        return self._owner.module(self.step, make)

    def argument(self, name: str, usual: Any = None) -> Any:
        """What its module was built with."""
        return self.step.arguments.get(name, usual)

    def given(self, position: int, name: str, usual: Any = None) -> Any:
        """What it is called with, by position or by name."""
        if position < len(self.args):
            return self.args[position]
        return self.options.get(name, usual)

    @property
    def x(self) -> Any:
        """What it is called with first."""
        return self.args[0] if self.args else self.options["input"]

    @property
    def plain_x(self) -> Any:
        """The same, with its dimensions in order."""
        return plain(self.x)

    def several(self, position: int, name: str) -> tuple[Any, ...]:
        """Numbers that are given one by one, or as a tuple: `x.view(2, 3)`, `x.view((2, 3))`."""
        rest = self.args[position:]
        if not rest:
            rest = (self.options.get(name, ()),)
        if len(rest) == 1 and isinstance(rest[0], (tuple, list)):
            return tuple(rest[0])
        return tuple(rest)

    def refusal(self, why: str) -> ModelError:
        """The error that names the operation and its layer."""
        return ModelError(f"mnn cannot train {self.step.where}: {why}")


@dataclass(frozen=True)
class Operation:
    """What MNN does for some of torch's names.

    Attributes:
        names: Of modules (`Conv2d`), and the last part of functions' names (`relu`, `__add__`).
        run: Makes the value.
        how: What it is made of, for people.
        except_for: What is refused.
    """

    names: tuple[str, ...]
    run: Callable[[Call], Any]
    how: str
    except_for: str = ""


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    return axis + rank if axis < 0 else axis


def axes_of(axes: Any, rank: int) -> list[int]:
    """Axes as a list, counted from the front; all of them where none is given."""
    if axes is None or axes == ():
        return list(range(rank))
    listed = axes if isinstance(axes, (tuple, list)) else (axes,)
    return [axis_of(int(axis), rank) for axis in listed]
