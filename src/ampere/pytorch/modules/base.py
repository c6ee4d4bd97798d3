"""The record of a module: all that reading, counting, pruning and simulating must know of it.

To add a module of `torch.nn`, write one `ModuleRecord` in the file of its family (`convolution`,
`normalisation`, ...) and put it into that file's `RECORDS`; a new family is a new file, named in
`registry.FAMILIES`. Every part must be given: `None` or `()` says that there is nothing to know, so
that nobody forgets one. Modules that share every part share a record.

A module without parameters needs no record: torch itself is asked what becomes of its input. One
with parameters and no record, or one whose record has no `sizing` and `pruning` (they go together),
is read and counted, but keeps its sizes and cannot be cut; `ampere layers` says so.

Rules are short: a `SizeRule` speaks of dimensions (`new`, `same`, `pin` of `graph.channels`), a
`WeightRule` of their indices (the public methods of `pruning.coupling.Follower`). Those of
`embedding` are the shortest; `Gain` in tests/pytorch/test_modules.py is a whole example. Put a
model that has the module into tests/reference_models.py: all checks of reading and cutting run
on it.

A file of a family is imported where torch is not installed: what needs torch imports it inside.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from ampere.core.graph.channels import Dims
from ampere.core.program.terms import Term
from ampere.core.program.trees import Path
from ampere.core.types import Json

if TYPE_CHECKING:
    from ampere.pytorch.graph.literals import Proposal
    from ampere.pytorch.graph.recorder import TracedCall
    from ampere.pytorch.pruning.coupling import Follower, Labels

# Gets the call, the dimensions of its tensor inputs, the shape of its first output and a dict to
# fill with the module's size arguments; returns the dimensions of the output (by path, where there
# are several), or None to give up.
SizeRule: TypeAlias = Callable[
    ["TracedCall", list[Dims], tuple[int, ...], dict[str, Any]], "Dims | dict[Path, Dims] | None"
]
# Notes which dimensions of the module's weights follow which channels (`Follower.weight`), and
# returns the channels that come out.
WeightRule: TypeAlias = Callable[["Follower", "TracedCall"], "dict[Path, Labels]"]
# Gets the module, and what it is called with; returns a result of the right shapes, or None if it
# must run after all.
QuickForward: TypeAlias = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]


class Place(Enum):
    """What a module is to the layers of a model."""

    CORE = "core"  # a layer is made around it
    NORMALISATION = "normalisation"  # joins the layer before it, or leads into the last one
    FOLLOWING = "following"  # joins the layer before it, whatever it holds


@dataclass(frozen=True, kw_only=True)
class Naming:
    """How a module is written down.

    Attributes:
        arguments: Those that build it again, read back from the module.
        attributes: The numbers that its kind shows, from these arguments.
    """

    arguments: Callable[[Any], dict[str, Term]]
    attributes: Callable[[Mapping[str, Term]], dict[str, Json]]


@dataclass(frozen=True, kw_only=True)
class Sizing:
    """How channels pass through a module.

    Attributes:
        rule: From the dimensions that enter to those that leave.
        entering: The argument that must follow the input, and which dimension of it that is.
        makes: The argument that says how many channels its weights make of those that enter.
        ids_below: The argument that token ids must stay below.
        weight_sides: The arguments that are the sides of `weight`, if other modules may share it.
        literals: For functions that do the same: which plain numbers in a call are sizes.
    """

    rule: SizeRule
    entering: tuple[str, int] | None
    makes: str | None
    ids_below: str | None
    weight_sides: tuple[str, ...]
    literals: Mapping[str, Proposal]


@dataclass(frozen=True, kw_only=True)
class Shortcut:
    """Stand-ins on the meta device, where torch takes an operation apart and is slow.

    Attributes:
        forward: In the place of the module's.
        functions: In the place of functions of `torch.nn.functional`, by name.
        per_position: Functions of torch that run position by position: two of them are counted.
    """

    forward: QuickForward
    functions: Mapping[str, Callable[..., Any]]
    per_position: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """How a module is made narrower.

    Attributes:
        rule: Which index of which weight serves which channel.
        after_cut: What a module must be told after its weights were replaced.
        batch_statistics: Whether it keeps statistics of batches, and scales each channel by itself.
    """

    rule: WeightRule
    after_cut: Callable[[Any], None] | None
    batch_statistics: bool


@dataclass(frozen=True, kw_only=True)
class Physics:
    """What a simulated device does for a module.

    Attributes:
        products: Pairs of arguments that are the sides of a matrix it multiplies by.
        per_position: Whether it is launched once for each position of a sequence.
    """

    products: tuple[tuple[str, str], ...]
    per_position: bool


@dataclass(frozen=True, kw_only=True)
class ModuleRecord:
    """All that is known of some modules of `torch.nn`.

    Attributes:
        names: Their classes.
        functions: Functions of torch that do the same with what they are given, weights included.
        place: What they are to the layers of a model.
        parameters: Whether they hold some: always, never, or where this argument is true.
        whole: Whether they are one call although they have modules inside.
        keeps_places: Whether every number that comes out stands where its channel went in.
        naming: How they are written down.
        sizing: How channels pass through; None if torch is to be asked, which keeps parameters at
            their sizes.
        shortcut: Stand-ins on the meta device; None where torch is quick.
        pruning: How they are made narrower; None exactly where `sizing` is.
        physics: What a simulated device does for them.
    """

    names: tuple[str, ...]
    functions: tuple[str, ...]
    place: Place
    parameters: bool | str
    whole: bool
    keeps_places: bool
    naming: Naming
    sizing: Sizing | None
    shortcut: Shortcut | None
    pruning: Pruning | None
    physics: Physics

    def holds_parameters(self, arguments: Mapping[str, Term]) -> bool:
        """Whether a module that was built with these arguments holds parameters."""
        if isinstance(self.parameters, str):
            return bool(arguments.get(self.parameters))
        return self.parameters


def signature_arguments(module: Any) -> dict[str, Term]:
    """The arguments that build a module again: its signature, read back from its attributes."""
    return read_arguments(module, tuple(inspect.signature(type(module)).parameters))


def read_arguments(module: Any, names: tuple[str, ...]) -> dict[str, Term]:
    """Arguments with these names, as far as the module has them as plain data."""
    arguments: dict[str, Term] = {}
    for name in names:
        if name in ("device", "dtype", "inplace") or not hasattr(module, name):
            continue
        value = getattr(module, name)
        if name == "bias" and not isinstance(value, bool):
            value = value is not None
        if value is None or isinstance(value, bool | int | float | str | list | tuple):
            arguments[name] = _with_tuples(value)
    if getattr(module, "inplace", False):
        arguments["inplace"] = True
    return arguments


def _with_tuples(value: Any) -> Term:
    """Lists as tuples: terms do not change."""
    return tuple(map(_with_tuples, value)) if isinstance(value, list | tuple) else value


def no_attributes(arguments: Mapping[str, Term]) -> dict[str, Json]:
    """A kind that shows no numbers of the module."""
    return {}


PLAIN_NAMING = Naming(arguments=signature_arguments, attributes=no_attributes)
NO_PRODUCTS = Physics(products=(), per_position=False)


def unresizable(*, names: tuple[str, ...], physics: Physics) -> ModuleRecord:
    """A record of modules that layers are made around, whose sizes stay as they are."""
    return ModuleRecord(
        names=names,
        functions=(),
        place=Place.CORE,
        parameters=True,
        whole=False,
        keeps_places=False,
        naming=PLAIN_NAMING,
        sizing=None,
        shortcut=None,
        pruning=None,
        physics=physics,
    )


def without_parameters(
    *, names: tuple[str, ...], functions: tuple[str, ...], keeps_places: bool
) -> ModuleRecord:
    """A record of modules that hold nothing: torch is asked what becomes of their input."""
    return ModuleRecord(
        names=names,
        functions=functions,
        place=Place.FOLLOWING,
        parameters=False,
        whole=False,
        keeps_places=keeps_places,
        naming=PLAIN_NAMING,
        sizing=None,
        shortcut=None,
        pruning=None,
        physics=NO_PRODUCTS,
    )
