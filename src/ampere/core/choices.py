"""A network at other widths: widths that meet in one tensor are tied, the others are free.

What one layer delivers is what the next one takes, so its `out` and their `in` are one choice. The
choices of a network are what pruning, sampling and search vary.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from ampere.core.layers import Features, Layer, sources_of, structure_of
from ampere.core.program.proportions import Proportional
from ampere.core.program.sizes import Shape, Size
from ampere.core.program.widths import Widths
from ampere.errors import ModelError

Place = tuple[int, str]  # the number of a layer, and the name of its width


@dataclass(frozen=True)
class Choice:
    """Widths that are tied, each with its size as a multiple of the first one's."""

    places: tuple[Place, ...]
    ratios: tuple[Fraction, ...]
    size: int  # of the first
    step: int  # what the first must be a multiple of, for all to be whole and allowed
    fixed: bool  # tied to the model's input, its output, or a size that cannot vary

    def at(self, size: int) -> dict[Place, int]:
        """All its widths where the first has this size."""
        return {
            place: int(size * ratio) for place, ratio in zip(self.places, self.ratios, strict=True)
        }


def choices(layers: Sequence[Layer]) -> tuple[Choice, ...]:
    """The independent widths of a network, in order of appearance."""
    tied = _Ties(layers)
    independent = []
    for members in tied.groups():
        first = members[0]
        ratios = [tied.ratio(place) / tied.ratio(first) for place in members]
        step = 1
        for place, ratio in zip(members, ratios, strict=True):
            multiple = structure_of(layers[place[0]].kind).multiples[place[1]]
            step = lcm(step, (multiple / ratio).numerator)
        size = layers[first[0]].widths[first[1]]
        fixed = any(place in tied.fixed for place in members)
        independent.append(
            Choice(places=tuple(members), ratios=tuple(ratios), size=size, step=step, fixed=fixed)
        )
    return tuple(independent)


def resize(layers: Sequence[Layer], widths: Mapping[str, int]) -> tuple[Layer, ...]:
    """The same network with some widths changed, named like `conv1.out`; tied ones follow."""
    names = {f"{layer.name}.{width}": (i, width) for i, layer in enumerate(layers)
             for width in layer.widths}  # fmt: skip
    unknown = sorted(set(widths) - set(names))
    if unknown:
        raise ModelError(f"no width {unknown[0]!r}: there are {', '.join(names) or 'none'}")
    new: dict[Place, int] = {}
    for choice in choices(layers):
        asked = {name: widths[name] for name, place in names.items()
                 if place in choice.places and name in widths}  # fmt: skip
        sizes = {
            Fraction(size) / choice.ratios[choice.places.index(names[name])]
            for name, size in asked.items()
        }
        if len(sizes) > 1:
            text = ", ".join(f"{name}={size}" for name, size in asked.items())
            raise ModelError(f"these widths are tied and cannot differ: {text}")
        if not sizes:
            continue
        (size,) = sizes
        name = next(iter(asked))
        if choice.fixed and size != choice.size:
            raise ModelError(f"{name} cannot be changed: it is tied to a size that is fixed")
        if size % choice.step or size < 1:
            ratio = choice.ratios[choice.places.index(names[name])]
            raise ModelError(f"{name}={asked[name]} must be a multiple of {choice.step * ratio}")
        new |= choice.at(int(size))
    return at_widths(layers, new)


def resample(layers: Sequence[Layer], rng: random.Random, least: int = 1) -> tuple[Layer, ...]:
    """The same network at random widths, each from `least` of its steps to the original."""
    new: dict[Place, int] = {}
    for choice in choices(layers):
        if not choice.fixed:
            steps = max(1, choice.size // choice.step)
            new |= choice.at(choice.step * rng.randint(min(least, steps), steps))
    return at_widths(layers, new)


def smallest(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The same network at the least width of every choice."""
    new: dict[Place, int] = {}
    for choice in choices(layers):
        if not choice.fixed:
            new |= choice.at(choice.step)
    return at_widths(layers, new)


def at_widths(layers: Sequence[Layer], new: Mapping[Place, int]) -> tuple[Layer, ...]:
    """The layers with some widths replaced; where they differ, features are not known any more."""
    resized = []
    for i, layer in enumerate(layers):
        widths = Widths({name: new.get((i, name), old) for name, old in layer.widths.items()})
        if widths != layer.widths:
            layer = replace(layer, widths=widths, features=Features(), params=None)
        resized.append(layer)
    return tuple(resized)


class _Ties:
    """Widths tied where they meet."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.sizes = {(i, width): Proportional() for i, layer in enumerate(layers)
                      for width in layer.widths}  # fmt: skip
        self.fixed: set[Place] = set()
        for i, (layer, sources) in enumerate(zip(layers, sources_of(layers), strict=True)):
            for port, (k, n) in zip(structure_of(layer.kind).inputs, sources, strict=True):
                if k < 0:
                    self._fix(i, port.shape)
                else:
                    self._meet(k, structure_of(layers[k].kind).outputs[n].shape, i, port.shape)
            twin = _twin(layers, i)
            if twin is not None:
                for width in layer.widths:
                    if width in layers[twin].widths:
                        self._join((twin, width), (i, width), Fraction(1))
        for port in structure_of(layers[-1].kind).outputs:
            self._fix(len(layers) - 1, port.shape)

    def ratio(self, place: Place) -> Fraction:
        """The width as a multiple of its root."""
        return self.sizes[place].find()[1]

    def groups(self) -> Iterator[list[Place]]:
        """Widths that are tied, in order of appearance."""
        groups: dict[Proportional, list[Place]] = {}
        for place, size in self.sizes.items():
            groups.setdefault(size.find()[0], []).append(place)
        yield from groups.values()

    def _join(self, a: Place, b: Place, ratio: Fraction) -> None:
        """From now on width b is `ratio` times width a."""
        if not self.sizes[a].tie(self.sizes[b], ratio):  # tied in two ways: nothing can move
            self.fixed.add(a)

    def _meet(self, k: int, delivered: Shape, i: int, taken: Shape) -> None:
        for left, right in zip(delivered, taken, strict=True):
            if isinstance(left, Size) and isinstance(right, Size):
                ratio = Fraction(left.times * right.over, left.over * right.times)
                self._join((k, left.width), (i, right.width), ratio)
            else:
                self._fix(k, (left,))
                self._fix(i, (right,))

    def _fix(self, i: int, shape: Shape) -> None:
        self.fixed.update((i, size.width) for size in shape if isinstance(size, Size))


def _twin(layers: Sequence[Layer], i: int) -> int | None:
    """The layer before that runs the same modules: both have the widths of its parameters."""
    name, mark, _ = layers[i].name.partition("#")
    if not mark or not any(call.shared_parts for call in structure_of(layers[i].kind).calls):
        return None
    return next((k for k in range(i) if layers[k].name == name), None)
