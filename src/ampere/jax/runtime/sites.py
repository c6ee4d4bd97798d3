"""Sites: one step of a program while it runs, with the arrays that it holds.

An operation gets its site, and what the step is called with; it returns what the step makes. What a
step leaves for the next one (statistics of a batch, a key) it writes down at its site.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Sequence, Tuple  # for Python 3.8, on old devices

import jax
from ampere.errors import ModelError
from ampere.programs.program import Key, Step

KEY: Key = (-1, 0, "key")  # the program's own key, for what is drawn


@dataclass
class Site:
    """A step at work."""

    step: Step
    number: int  # of the step in the program
    arrays: Mapping[Key, Any]  # all that the program holds
    after: dict[Key, Any] = field(default_factory=dict)  # what was left for the next step

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What the module was built with."""
        return self.step.arguments

    def part(self, name: str) -> Any:
        """An array that the step holds; None if it holds none of this name."""
        for held in self.step.held:
            if held.key[2] == name:
                return self.after.get(held.key, self.arrays[held.key])
        return None

    def leave(self, name: str, value: Any) -> None:
        """Leave an array for the next training step."""
        self.after[self.step.key(name)] = value

    def key(self) -> Any:
        """A key to draw with, another one in each training step."""
        return jax.random.fold_in(jax.random.wrap_key_data(self.arrays[KEY]), self.number)

    def refuse(self, reason: str) -> ModelError:
        """What to raise where a step cannot be trained faithfully."""
        return ModelError(f"JAX cannot train {self.step.where}: {reason}")


Operation = Callable[[Site, Sequence[Any], Mapping[str, Any]], Any]
Shape = Tuple[int, ...]


def sides(value: Any, rank: int) -> tuple[int, ...]:
    """A kernel, stride or padding with a number for each side."""
    return tuple(value) if isinstance(value, (tuple, list)) else (int(value),) * rank
