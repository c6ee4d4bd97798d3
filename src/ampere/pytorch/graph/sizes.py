"""Which sizes of a traced model vary together: channels followed from call to call.

Every dimension of every value is a plain number or a multiple of a `Channels`: a set of sizes that
can only change together. Modules that make new channels (the output of a convolution) start a set.
For everything else torch itself is asked: the call is repeated on the meta device with one set a
little larger. If it runs, what came out larger belongs to that set; if it only runs with two sets
enlarged together (a residual add, a concatenation), they are joined; if not at all, the set is
pinned to the size it has. Nothing is ever resized on a guess.

A call may hold sizes as plain numbers (`x.view(b, n, 3, heads, d)`). `literals` says which of them
would follow the channels; whether they do, torch decides in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import Any

import torch
from torch import nn

from ampere.core.graph.calls import Value
from ampere.core.graph.channels import Channels, Dim, Dims, Power, Scaled, Sizes, new, pin, same
from ampere.core.program.trees import Path, leaves, map_leaves
from ampere.pytorch.graph.literals import Template, propose
from ampere.pytorch.graph.recorder import TracedCall, tensors_in
from ampere.pytorch.graph.trace import Trace
from ampere.pytorch.modules.registry import record_of


def follow(trace: Trace) -> Sizes:
    """Follow channels through every call of a trace; what comes out of the model stays fixed."""
    sizes = Sizes()
    for value, tensor in trace.inputs.items():
        sizes.dims[value] = tuple(tensor.shape)
    tensors = dict(trace.inputs)
    made_by = {call.index: call for call in trace.calls}
    asked: dict[Any, _Answer] = {}
    for call in trace.calls:
        tensors.update((Value(call.index, path), t) for path, t in call.outputs.items())
        for path, dims in _dims_of(call, sizes, tensors, made_by, asked).items():
            sizes.dims[Value(call.index, path)] = dims
    _tie_shared_weights(trace, sizes)
    for value in trace.outputs:
        pin(sizes.of(value))
    for dims in sizes.dims.values():
        for dim in dims:
            if isinstance(dim, Scaled) and not dim.root.named:
                dim.root.pinned = True
    return sizes


def _tie_shared_weights(trace: Trace, sizes: Sizes) -> None:
    """A weight that two modules hold has one shape: what both make of it varies together."""
    first_dims: dict[str, Dims] = {}
    for call in trace.calls:
        dims = _weight_dims(call, sizes.arguments.get(call.index, {}))
        if dims is not None:
            first = first_dims.setdefault(trace.parameter(f"{call.where}.weight"), dims)
            for a, b in zip(first, dims, strict=True):
                if first is not dims and a != b:
                    same(a, b)


def _weight_dims(call: TracedCall, arguments: Mapping[str, Any]) -> Dims | None:
    """The dimensions of a table or a matrix, which two modules may share."""
    record = record_of(call.module)
    if record is None or record.sizing is None or not record.sizing.weight_sides:
        return None
    return tuple(
        arguments.get(name, getattr(call.module, name)) for name in record.sizing.weight_sides
    )


def _holds_sizes(module: nn.Module) -> bool:
    """Whether a module holds parameters, or sizes that its record has a rule for."""
    record = record_of(module)
    has_rule = record is not None and record.sizing is not None
    return has_rule or any(True for _ in module.parameters())


def _apply_rule(
    call: TracedCall, inputs: list[Dims], arguments: dict[str, Any]
) -> dict[Path, Dims]:
    """The dimensions that come out of a module by its rule; pinned if there is none, or it fails.

    Args:
        call: The module's call.
        inputs: The dimensions of the tensors that enter.
        arguments: Filled with the module's arguments that are sizes.
    """
    shapes = {path: tuple(t.shape) for path, t in call.outputs.items()}
    first = min(shapes)
    record = record_of(call.module)
    sizing = None if record is None else record.sizing
    leaving = sizing.rule(call, inputs, shapes[first], arguments) if sizing and inputs else None
    by_path = leaving if isinstance(leaving, dict) else {first: leaving} if leaving else {}
    if all(_shape_of(by_path.get(path)) == shape for path, shape in shapes.items()):
        return by_path
    for dims in inputs:
        pin(dims)
    for dim in arguments.values():
        pin((dim,) if isinstance(dim, int | Scaled) else dim)
    return dict(shapes)


def _shape_of(dims: Dims | None) -> tuple[int, ...] | None:
    """The shape that dimensions stand for in the traced model."""
    if dims is None:
        return None
    return tuple(dim if isinstance(dim, int) else dim.size for dim in dims)


def _dims_of(
    call: TracedCall,
    sizes: Sizes,
    tensors: Mapping[Value, torch.Tensor],
    made_by: Mapping[int, TracedCall],
    asked: dict[Any, _Answer],
) -> dict[Path, Dims]:
    shapes = {path: tuple(t.shape) for path, t in call.outputs.items()}
    if call.parameter is not None:
        return {(): tuple(d if d == 1 else new(d, named=False) for d in shapes[()])}
    inputs = [sizes.of(value) for value in call.inputs]
    if call.module is not None and _holds_sizes(call.module):
        return _apply_rule(call, inputs, sizes.arguments.setdefault(call.index, {}))
    before = [v for v in call.inputs if v.call in made_by]
    behind = [sizes.of(v) for b in before[:1] for v in made_by[b.call].inputs]
    try:
        template = propose(call, inputs, behind)
    except Exception:  # written in a way that no proposal foresaw: nothing is proposed
        template = (call.args, call.kwargs)
    question = _Question(call, template, [(tensors[v], sizes.of(v)) for v in call.inputs])
    if not question.roots:
        return dict(shapes)
    key = question.key
    if key not in asked:
        asked[key] = question.ask()
    answer = asked[key]
    sizes.templates[call.index] = template
    return question.follow(answer)


@dataclass(frozen=True)
class _Answer:
    """What torch said, with sets of channels by number."""

    groups: tuple[tuple[tuple[int, ...], int], ...]  # sets that grow together; step of the first
    outputs: Mapping[Path, tuple[int | tuple[int, Fraction], ...]]


class _Question:
    """One call, asked how its output follows the sets of channels that enter it."""

    def __init__(
        self, call: TracedCall, template: Template, entering: list[tuple[torch.Tensor, Dims]]
    ) -> None:
        self.call, self.template, self.entering = call, template, entering
        self.shapes = {path: tuple(t.shape) for path, t in call.outputs.items()}
        roots: dict[Channels, None] = {}
        for dim in _dims_in((template, [dims for _, dims in entering])):
            if not dim.root.pinned:
                roots.setdefault(dim.root)
        self.roots = list(roots)
        self.number = {root: i for i, root in enumerate(self.roots)}

    @property
    def key(self) -> Any:
        """Equal for calls that must get the same answer."""
        module = self.call.module
        return (
            self.call.op,
            None if module is None else module.extra_repr(),
            tuple((root.size, root.multiple) for root in self.roots),
            tuple((tensor.dtype, self._written(dims)) for tensor, dims in self.entering),
            self._written(self.template),
            tuple(self.shapes.items()),
        )

    def _written(self, tree: Any) -> str:
        """A tree as text, with sets of channels by number."""
        return repr(map_leaves(self._written_leaf, tree))

    def _written_leaf(self, leaf: Any) -> object:
        if isinstance(leaf, Scaled):
            fixed = leaf.root.pinned
            return leaf.size if fixed else (self.number[leaf.root], leaf.factor)
        if isinstance(leaf, Power):
            return ("power", self._written_leaf(leaf.dim), leaf.exponent)
        return "value" if isinstance(leaf, Value) else repr(leaf)

    def ask(self) -> _Answer:
        """Enlarge each set alone, else with another (of its size, if it can be), else with all."""
        left = list(range(len(self.roots)))
        groups: list[tuple[tuple[int, ...], int]] = []
        outputs: dict[Path, list[int | tuple[int, Fraction]]] = {
            path: list(shape) for path, shape in self.shapes.items()
        }
        while left:
            first, *others = left
            size = self.roots[first].size
            others.sort(key=lambda other: self.roots[other].size != size)
            pairs = [(first, other) for other in others]
            # A size of 1 would broadcast: it grows with others of its size, if it can.
            alike = [pair for pair in pairs if size == self.roots[pair[1]].size == 1]
            trials = [*alike, (first,), *pairs, tuple(left)]
            for group in dict.fromkeys(trials):
                enlarged = self._enlarge(group)
                if enlarged is not None:
                    step, grown = enlarged
                    if self._note(grown, first, outputs):
                        groups.append((group, step))
                    left = [i for i in left if i not in group]
                    break
            else:
                left.remove(first)
        return _Answer(tuple(groups), {path: tuple(dims) for path, dims in outputs.items()})

    def _note(
        self, grown: Mapping[Path, list[bool]], first: int, outputs: dict[Path, list[Any]]
    ) -> bool:
        """Write down what grew; False where it grows with another set already: a product."""
        for path, flags in grown.items():
            for i, grew in enumerate(flags):
                if grew and not isinstance(outputs[path][i], int):
                    outputs[path][i] = self.shapes[path][i]
                    return False
        for path, flags in grown.items():
            for i, grew in enumerate(flags):
                if grew:
                    share = Fraction(self.shapes[path][i], self.roots[first].size)
                    outputs[path][i] = (first, share)
        return True

    def _enlarge(self, group: tuple[int, ...]) -> tuple[int, dict[Path, list[bool]]] | None:
        """The smallest step by which these sets can grow, and the dimensions that then grow."""
        roots = [self.roots[i] for i in group]
        common = gcd(*(root.size for root in roots))
        for step in _divisors(common):
            larger = {root: root.size + root.size // common * step for root in roots}
            if any(size % root.multiple for root, size in larger.items()):
                continue
            shapes = self._shapes_at(larger)
            if shapes is None or shapes.keys() != self.shapes.keys():
                continue
            ratio = Fraction(common + step, common)
            grown = {
                path: _growth(self.shapes[path], shape, ratio) for path, shape in shapes.items()
            }
            if all(flags is not None for flags in grown.values()):
                first = roots[0].size // common * step
                return first, {path: flags or [] for path, flags in grown.items()}
        return None

    def _shapes_at(self, larger: Mapping[Channels, int]) -> dict[Path, tuple[int, ...]] | None:
        """The shapes that come out where some sets have other sizes; None where it does not run."""
        run = self.call.run
        try:
            tensors = iter(
                [
                    torch.empty(_at(dims, larger), dtype=tensor.dtype, device="meta")
                    for tensor, dims in self.entering
                ]
            )
            args, kwargs = _filled(self.template, tensors, larger)
            with torch.no_grad():
                result = run(*args, **kwargs) if run is not None else None
        except Exception:
            return None
        if result is None:  # an assignment in place
            result = args[0]
        return {path: tuple(t.shape) for path, t in tensors_in(result)}

    def follow(self, answer: _Answer) -> dict[Path, Dims]:
        """Join and pin our sets as the answer says; the dimensions that come out."""
        roots = self.roots
        done: set[int] = set()
        for group, step in answer.groups:
            done.update(group)
            roots[group[0]].find()[0].require(step)
            for other in group[1:]:
                roots[group[0]].join(roots[other])
        for i, root in enumerate(roots):
            if i not in done:
                root.find()[0].pinned = True

        def dim(written: int | tuple[int, Fraction]) -> Dim:
            if isinstance(written, int):
                return written
            return Scaled(roots[written[0]], written[1])

        return {path: tuple(map(dim, dims)) for path, dims in answer.outputs.items()}


def _growth(before: tuple[int, ...], after: tuple[int, ...], ratio: Fraction) -> list[bool] | None:
    """Which dimensions grew by this ratio; None if any changed in another way."""
    if len(before) != len(after):
        return None
    flags = []
    for old, size in zip(before, after, strict=True):
        if size != old and size != old * ratio:
            return None
        flags.append(size != old)
    return flags


def _divisors(number: int) -> Iterator[int]:
    """The divisors of a number, smallest first; the first few are enough."""
    tried = 0
    for candidate in range(1, number + 1):
        if number % candidate == 0:
            yield candidate
            tried += 1
        if tried >= 24:
            return


def _at(dims: Dims, larger: Mapping[Channels, int]) -> list[int]:
    return [dim if isinstance(dim, int) else dim.at(larger) for dim in dims]


def _filled(tree: Any, tensors: Iterator[torch.Tensor], larger: Mapping[Channels, int]) -> Any:
    """Arguments with tensors in the place of values, and sizes as numbers."""

    def filled(leaf: Any) -> Any:
        if isinstance(leaf, Value):
            return next(tensors)
        if isinstance(leaf, Scaled):
            return leaf.at(larger)
        if isinstance(leaf, Power):
            return float(leaf.dim.at(larger)) ** leaf.exponent
        return torch.device("meta") if isinstance(leaf, torch.device) else leaf

    return map_leaves(filled, tree)


def _dims_in(tree: Any) -> Iterator[Scaled]:
    for leaf in leaves(tree):
        if isinstance(leaf, Power):
            yield leaf.dim
        elif isinstance(leaf, Scaled):
            yield leaf
