"""Which tiny networks isolate a layer, and the subtraction that recovers its cost.

    LAST alone                 ->  E_last(C)
    FIRST + LAST               ->  E_first(C)      = E − Ê_last(C)                       (eq. 1)
    FIRST + HIDDEN + LAST      ->  E_hidden(C, C') = E − Ê_first(C) − Ê_last(C')         (eq. 2)

with C the width that FIRST delivers and C' the width that reaches LAST. (The indices in the paper's
equation 1 are swapped against equations 2 and 4.)
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import gcd
from typing import Protocol

from ampere.core.layers import Layer, LayerKind, Role, structure_of
from ampere.core.program.sizes import Shape, Size, shape_at, steps_to_meet
from ampere.core.program.structure import Structure
from ampere.core.program.widths import Widths
from ampere.core.training import DTYPES
from ampere.errors import ModelError

MOST_LAYERS = 3  # of a variant


@dataclass(frozen=True)
class Isolation:
    """How one kind is isolated: the FIRST and LAST around it, and the widths it may take."""

    kind: LayerKind
    bounds: Mapping[str, tuple[int, int]]
    first: LayerKind | None = None
    last: LayerKind | None = None

    @property
    def steps(self) -> dict[str, int]:
        """What each width must be a multiple of."""
        structure = self.kind.structure
        steps = {w: (structure.multiples[w] if structure else 1) for w in sorted(self.bounds)}
        if structure and self.first is not None:  # FIRST and LAST cannot be built at any width
            first = structure_of(self.first)
            steps = steps_to_meet(steps, structure.input, first.output, first.multiples)
        if structure and self.last is not None:
            last = structure_of(self.last)
            steps = steps_to_meet(steps, structure.output, last.input, last.multiples)
        return steps


@dataclass(frozen=True)
class Variant:
    """A 1-, 2- or 3-layer network that is trained only to be metered."""

    layers: tuple[Layer, ...]

    @property
    def subject(self) -> Layer:
        """The layer that this variant is for: the hidden one, else the first, else the last."""
        order = (Role.HIDDEN, Role.FIRST, Role.LAST)
        return min(self.layers, key=lambda layer: order.index(layer.kind.role))

    def __str__(self) -> str:
        widths = ", ".join(f"{k}={v}" for k, v in self.subject.widths.items())
        return f"{self.subject.kind.operation}({widths})"


def isolate(isolation: Isolation, widths: Widths) -> Variant:
    """The smallest network that contains the kind at these widths."""
    subject = Layer(isolation.kind.role.value, isolation.kind, widths)
    layers = [subject]
    structure = structure_of(isolation.kind)
    if isolation.first is not None:
        delivers = shape_at(structure.input, widths)
        layers.insert(0, Layer("first", isolation.first, _meeting(isolation.first, delivers)))
    if isolation.last is not None:
        arrives = shape_at(structure.output, widths)
        layers.append(Layer("last", isolation.last, _meeting(isolation.last, arrives)))
    if structure.chains:
        return Variant(tuple(layers))
    # Its inputs are given from outside; of its outputs the first goes on to LAST.
    wired = [replace(subject, reads=tuple((-1, i) for i in range(len(structure.inputs))))]
    wired += [replace(layer, reads=((0, 0),)) for layer in layers[1:]]
    return Variant(tuple(wired))


def sample(isolation: Isolation, rng: random.Random) -> Variant:
    """A variant at random widths: each octave of a width is as likely as any other."""
    widths = {}
    for name, (low, high) in isolation.bounds.items():
        step = isolation.steps[name]
        first, last = max(1, -(-low // step)), max(1, high // step)
        drawn = round(first * (last / first) ** rng.random()) if last > first else first
        widths[name] = step * drawn
    return isolate(isolation, Widths(widths))


def _meeting(kind: LayerKind, shape: Sequence[int]) -> Widths:
    """The widths of a FIRST or LAST that meets its neighbour in a tensor of this shape."""
    structure = structure_of(kind)
    side = structure.output if kind.role is Role.FIRST else structure.input
    return Widths(
        {
            symbol.width: size * symbol.over // symbol.times
            for symbol, size in zip(side, shape, strict=True)
            if isinstance(symbol, Size)
        }
    )


class StandIns(Protocol):
    """A framework's way to fit FIRST and LAST to a hidden layer's map."""

    def first_for(self, first: LayerKind, target: Shape, input_grad: bool) -> LayerKind:
        """FIRST at an input for which it delivers this shape."""
        ...

    def last_for(self, last: LayerKind, source: Shape, input_grad: bool) -> LayerKind:
        """LAST for an input of this shape."""
        ...

    def trains(self, structure: Structure) -> bool:
        """Whether it holds parameters that are not frozen."""
        ...


@dataclass(frozen=True)
class Plan:
    """The isolations of all kinds, LAST before FIRST before HIDDEN."""

    isolations: tuple[Isolation, ...]


def plan(layers: Sequence[Layer], stand_ins: StandIns) -> Plan:
    """Which kinds must be profiled so that each of these layers gets its cost by subtraction."""
    return _Planner(layers, stand_ins).plan()


def tell_apart(layers: Sequence[Layer], plan: Plan) -> list[Variant]:
    """The variants of these layers at their own widths, and of each FIRST and LAST in them.

    Together they settle what each layer costs by itself. A width at which its neighbours cannot be
    built is the next one below.
    """
    isolations = {isolation.kind.name: isolation for isolation in plan.isolations}
    found: dict[Variant, None] = {}
    waiting = list(layers)
    while waiting:
        layer = waiting.pop()
        variant = _nearest(isolations[layer.kind.name], layer.widths)
        if variant not in found:
            found[variant] = None
            waiting += variant.layers
    return list(found)


def _nearest(isolation: Isolation, widths: Widths) -> Variant:
    steps = isolation.steps
    return isolate(isolation, Widths({w: steps[w] * max(1, widths[w] // steps[w]) for w in widths}))


class _Planner:
    def __init__(self, layers: Sequence[Layer], stand_ins: StandIns) -> None:
        self.layers, self.stand_ins = layers, stand_ins
        self.isolations: dict[str, Isolation] = {}

    def plan(self) -> Plan:
        first = self.layers[0].kind
        for layer in self.layers:
            structure = structure_of(layer.kind)
            grad_out = structure.outputs[0].grad
            before = after = None
            if layer.kind.role is not Role.LAST:
                after = self._last_behind(structure, grad_out)
            if layer.kind.role is Role.HIDDEN and structure.chains:
                with suppress(ModelError):  # no FIRST fits: the input is given from outside
                    before = self.stand_ins.first_for(first, structure.input, structure.input_grad)
            self._add_with_neighbours(Isolation(layer.kind, self._bounds(layer), before, after))
        order = (Role.LAST, Role.FIRST, Role.HIDDEN)
        by_role = sorted(self.isolations.values(), key=lambda each: order.index(each.kind.role))
        return Plan(tuple(by_role))

    def _last_behind(self, structure: Structure, grad: bool) -> LayerKind | None:
        """LAST for what comes out first; None where it gets its gradient from outside."""
        if structure.outputs[0].whole or structure.outputs[0].dtype not in DTYPES:
            return None
        try:
            return self.stand_ins.last_for(self.layers[-1].kind, structure.output, grad)
        except ModelError:
            return None

    def _bounds(self, layer: Layer) -> dict[str, tuple[int, int]]:
        structure = structure_of(layer.kind)
        return {name: (structure.multiples[name], size) for name, size in layer.widths.items()}

    def _add(self, isolation: Isolation) -> None:
        """Add a kind, or widen the widths of one that is there."""
        earlier = self.isolations.get(isolation.kind.name)
        if earlier is not None:
            bounds = {
                name: (min(low, earlier.bounds[name][0]), max(high, earlier.bounds[name][1]))
                for name, (low, high) in isolation.bounds.items()
            }
            isolation = replace(earlier, kind=_freer(earlier.kind, isolation.kind), bounds=bounds)
        self.isolations[isolation.kind.name] = isolation

    def _add_with_neighbours(self, isolation: Isolation) -> None:
        """Add a kind, and FIRST and LAST at every width that its variants give them."""
        ends = [
            isolate(isolation, Widths({name: side[i] for name, side in isolation.bounds.items()}))
            for i in (0, 1)
        ]
        for small, large in zip(*(variant.layers for variant in ends), strict=True):
            if small.kind == isolation.kind:
                continue
            bounds = {name: (small.widths[name], large.widths[name]) for name in small.widths}
            if small.kind.role is Role.LAST:
                self._add(Isolation(small.kind, bounds))
                continue
            structure = structure_of(small.kind)
            grad = self.stand_ins.trains(structure)
            after = self._last_behind(structure, grad)
            self._add_with_neighbours(Isolation(small.kind, bounds, last=after))
        self._add(isolation)


def _freer(kind: LayerKind, again: LayerKind) -> LayerKind:
    """One kind met twice: the layers around it asked for certain multiples; what both allow."""
    ours, theirs = structure_of(kind), structure_of(again)
    multiples = {name: gcd(step, theirs.multiples[name]) for name, step in ours.multiples.items()}
    return replace(kind, structure=replace(ours, multiples=multiples))
