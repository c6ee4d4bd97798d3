"""A model made narrower: its most important channels stay, with the weights they have.

The result is the user's own model with smaller modules in the place of its larger ones. Where its
code does not follow (a size written out as a number), it is built again from its layers instead.
"""

from __future__ import annotations

import copy
import inspect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from ampere.core.arrays import Array, Ints
from ampere.core.choices import choices, resize
from ampere.core.graph.channels import Channels
from ampere.core.inputs import Inputs
from ampere.core.layers import Layer, structure_of
from ampere.core.program.structure import Call
from ampere.core.training import Training
from ampere.errors import ModelError
from ampere.pytorch.graph.counter import with_features
from ampere.pytorch.graph.model_reading import ModelReading, read_model
from ampere.pytorch.graph.recorder import TracedCall
from ampere.pytorch.modules.registry import keeps_statistics, record_named, record_of
from ampere.pytorch.pruning.coupling import Coupling, couple
from ampere.pytorch.runtime.builder import build, build_module, fill_each, modules_in
from ampere.pytorch.runtime.wrappers import unwrapped

IMPORTANCES = ("l1", "l2", "bn", "random")


@dataclass(frozen=True)
class Bundle:
    """Components that can stand for each other: of these, some stay."""

    root: Channels
    components: Ints
    importance: Array

    def best(self, share: Fraction) -> Ints:
        """The most important share of them."""
        count = share * len(self.components)
        if count.denominator != 1:
            raise ModelError(f"{share} of {len(self.components)} channels is no whole number")
        order = np.argsort(-self.importance, kind="stable")
        return self.components[order[: int(count)]]

    def kept(self, share: float) -> float:
        """Which share of the importance stays with the best of them."""
        return float(self._curve[round(share * len(self.components))])

    @cached_property
    def _curve(self) -> Array:
        """The share that stays with the best 0, 1, 2, ... of them."""
        ranked = np.sort(self.importance)[::-1]
        sums = np.concatenate(([0.0], np.cumsum(ranked if ranked.any() else np.ones(len(ranked)))))
        return np.asarray(sums / sums[-1])


@dataclass(frozen=True)
class Slim:
    """A narrower model, its layers, and what stands in it in the place of what was there."""

    model: nn.Module
    layers: tuple[Layer, ...]
    modules: Mapping[str, str]  # name: the expression that makes it
    parameters: Mapping[str, tuple[int, ...]]  # that the user's modules hold themselves: shapes
    rebuilt: bool  # from its layers, because its own code does not follow


class Slimmer:
    """A trained model, and which of its channels matter.

    Args:
        model: The model with its weights; it is left as it is.
        inputs: What it is fed.
        training: How it is trained, as its layers were read.
        importance: `l1` or `l2` norm of all weights that a channel has, `bn` for the scale of its
            batch normalisation (`l2` where it has none), or `random`.
        seed: Of random importance.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Inputs,
        training: Training,
        importance: str = "l2",
        seed: int = 0,
    ) -> None:
        if importance not in IMPORTANCES:
            raise ModelError(
                f"unknown importance {importance!r}: use one of {', '.join(IMPORTANCES)}"
            )
        self.model, self.inputs, self.training = unwrapped(model), inputs, training
        self.importance, self.seed = importance, seed
        self.reading: ModelReading = read_model(model, inputs, training)
        if self.reading.unused and self.reading.trace.looked:
            raise ModelError(
                f"{type(model).__name__} looks at values to choose what runs, so what did not run"
                f" ({', '.join(self.reading.unused)}) cannot be cut along"
            )

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of the whole model."""
        return self.reading.layers

    @property
    def weight_bytes(self) -> int:
        """What the weights of the whole model take; those of a narrower one take no more."""
        return sum(tensor.nbytes for tensor in self.model.state_dict().values())

    @cached_property
    def coupling(self) -> Coupling:
        """Which channels go together."""
        return couple(self.reading)

    @cached_property
    def bundles(self) -> tuple[Bundle, ...]:
        """What can be chosen from: components with the same number of channels of each origin."""
        component = self.coupling.components()
        touched: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for number, (_, elements) in enumerate(self.coupling.origins):
            for each in component[elements].tolist():
                touched[each][number] += 1
        alike: dict[tuple[tuple[int, int], ...], list[int]] = defaultdict(list)
        for each, counts in touched.items():
            alike[tuple(sorted(counts.items()))].append(each)
        scores = self._scores(component)
        bundles = []
        for origins, members in alike.items():
            root = self.coupling.origins[origins[0][0]][0].find()[0]
            components = np.array(members)
            bundles.append(Bundle(root, components, scores[components]))
        return tuple(bundles)

    @cached_property
    def stuck(self) -> frozenset[str]:
        """Free widths, named like `conv1.out`, whose channels could not be followed."""
        roots = {root.find()[0] for root in self.coupling.stuck}
        return frozenset(name for name, held in self._roots.items() if held & roots)

    def kept(self, width: str, size: int) -> float:
        """Which share of the importance stays where a free width has this size; the mean of all."""
        roots = self._roots[width]
        share = size / self._full[width]
        shares = [bundle.kept(share) for bundle in self.bundles if bundle.root in roots]
        return float(np.mean(shares)) if shares else share

    def slim(self, widths: Mapping[str, int]) -> Slim:
        """The model with some widths smaller; those that are tied follow."""
        layers = tuple(with_features(layer) for layer in resize(self.layers, widths))
        tensors = self._tensors(layers)
        slim = self._in_place(layers, tensors)
        if slim is None:
            return Slim(self._from_layers(layers, tensors), layers, {}, {}, rebuilt=True)
        return slim

    def ratios(self, widths: Mapping[str, int]) -> dict[str, float]:
        """Which share of its channels each module that makes some loses, by its name."""
        ratios = {}
        narrow = resize(self.layers, widths)
        for was, layer, part in zip(self.layers, narrow, self.reading.parts, strict=True):
            for call, traced in zip(structure_of(layer.kind).calls, part.calls, strict=True):
                record = record_named(call.op)
                argument = record.sizing.makes if record and record.sizing else None
                if argument is None:
                    continue
                old = fill_each(call.arguments, was.widths)[argument]
                new = fill_each(call.arguments, layer.widths)[argument]
                # Half a channel more stays: whoever rounds down ends at the right number.
                ratios[traced.where] = 1 - (new + 0.5) / old if new < old else 0.0
        return ratios

    @cached_property
    def _full(self) -> dict[str, int]:
        return {
            f"{self.layers[i].name}.{width}": choice.size
            for choice in choices(self.layers)
            for i, width in choice.places[:1]
        }

    @cached_property
    def _roots(self) -> dict[str, set[Channels]]:
        """The channels that follow each independent width."""
        roots = {}
        for choice in choices(self.layers):
            i, width = choice.places[0]
            roots[f"{self.layers[i].name}.{width}"] = {
                root.find()[0]
                for number, name in choice.places
                for root, size in self.reading.parts[number].names.items()
                if size.width == name
            }
        return roots

    def _scores(self, component: Ints) -> Array:
        """The importance of each component, by its first element."""
        scores = np.zeros(len(component))
        if self.importance == "random":
            return np.random.default_rng(self.seed).random(len(component))
        held = _tensors_of(self.model)
        power = 1 if self.importance == "l1" else 2
        for (name, dim), elements in self.coupling.slices.items():
            tensor = held[name].detach().to("cpu", torch.float64).abs() ** power
            if not tensor.isfinite().all():
                raise ModelError(f"{name} holds numbers that are not finite: check the weights")
            if tensor.dim() > 1:
                others = [d for d in range(tensor.dim()) if d != dim]
                np.add.at(scores, component[elements], tensor.sum(others).numpy())
        if self.importance == "bn":
            self._scale_of_norms(scores, component, held)
        return np.asarray(scores if power == 1 else np.sqrt(scores))

    def _scale_of_norms(
        self, scores: Array, component: Ints, held: Mapping[str, torch.Tensor]
    ) -> None:
        """Put the scale of batch normalisation in the place of norms, where there is one."""
        named = dict(self.model.named_modules())
        scales = np.zeros(len(scores))
        seen = np.zeros(len(scores), bool)
        for (name, _), elements in self.coupling.slices.items():
            owner, _, part = name.rpartition(".")
            if part == "weight" and keeps_statistics(named[owner]):
                own = component[elements]
                squares = held[name].detach().to("cpu", torch.float64) ** 2
                np.add.at(scales, own, squares.numpy())
                seen[own] = True
        scores[seen] = scales[seen]

    def kept_indices(self, layers: Sequence[Layer]) -> dict[tuple[str, int], Ints]:
        """Which entries stay, for each dimension of a parameter or buffer that follows channels."""
        shares: dict[Channels, Fraction] = {}
        for part, layer in zip(self.reading.parts, layers, strict=True):
            for root, size in part.names.items():
                shares[root.find()[0]] = Fraction(size.at(layer.widths), root.size)
        component = self.coupling.components()
        stays = np.zeros(len(component), bool)
        for bundle in self.bundles:
            stays[bundle.best(shares.get(bundle.root, Fraction(1)))] = True
        return {
            place: np.flatnonzero(stays[component[elements]])
            for place, elements in self.coupling.slices.items()
        }

    def _tensors(self, layers: Sequence[Layer]) -> dict[str, torch.Tensor]:
        """Every parameter and buffer that becomes smaller, its kept entries alone."""
        held = _tensors_of(self.model)
        narrower: dict[str, torch.Tensor] = {}
        for (name, dim), kept in self.kept_indices(layers).items():
            tensor = narrower.get(name, held[name]).detach()
            if len(kept) < tensor.shape[dim]:
                index = torch.from_numpy(kept).to(tensor.device)
                narrower[name] = tensor.index_select(dim, index).clone()
        return narrower

    def _in_place(
        self, layers: tuple[Layer, ...], tensors: Mapping[str, torch.Tensor]
    ) -> Slim | None:
        """The user's model with smaller modules; None if it does not run as its layers say."""
        model = copy.deepcopy(self.model)
        modules: dict[str, str] = {}
        for (was, layer), part in zip(
            zip(self.layers, layers, strict=True), self.reading.parts, strict=True
        ):
            for call, traced in zip(structure_of(layer.kind).calls, part.calls, strict=True):
                if not call.is_module or traced.where in modules:
                    continue
                if fill_each(call.arguments, was.widths) != fill_each(call.arguments, layer.widths):
                    modules[traced.where] = expression(call, layer.widths)
                    _replace(model, traced.where, call, layer.widths)
        own = [name for name in tensors if name.rpartition(".")[0] not in modules
               and not any(name.startswith(f"{path}.") for path in modules)]  # fmt: skip
        _hold(model, tensors)
        parameters = {name: tuple(tensors[name].shape) for name in own}
        try:
            again = read_model(model, self.inputs, self.training).layers
        except ModelError:
            return None
        if [layer.identity for layer in again] != [layer.identity for layer in layers]:
            return None
        return Slim(model, layers, modules, parameters, rebuilt=False)

    def _from_layers(
        self, layers: Sequence[Layer], tensors: Mapping[str, torch.Tensor]
    ) -> nn.Module:
        """The model built from its layers, with the kept weights."""
        held = {**_tensors_of(self.model), **tensors}
        built = build(layers)
        pieces = [built] if len(layers) == 1 else list(_pieces(built))
        with torch.no_grad():
            for piece, layer, part in zip(pieces, layers, self.reading.parts, strict=True):
                own = modules_in(piece, structure_of(layer.kind))
                for k, traced in enumerate(part.calls, start=1):
                    self._fill(own.get(k, piece), k, traced, held)
        return built.train(self.model.training)

    def _fill(
        self, module: nn.Module, number: int, call: TracedCall, held: Mapping[str, torch.Tensor]
    ) -> None:
        """Copy the weights of a call into what was built for it."""
        first_name = self.reading.trace.parameter  # tied weights have several
        if call.parameter is not None:
            target = getattr(module, f"{call.op}_{number}")
            target.copy_(held[first_name(call.name)] if call.name else call.parameter)
        elif call.module is not None:
            for name, target in _tensors_of(module).items():
                target.copy_(held[first_name(f"{call.where}.{name}" if call.where else name)])


def expression(call: Call, widths: Mapping[str, int]) -> str:
    """The line of Python that makes a module at these widths; what is the default is left out."""
    parameters = inspect.signature(getattr(nn, call.op)).parameters
    parts = []
    for name, value in fill_each(call.arguments, widths).items():
        default = parameters[name].default if name in parameters else inspect.Parameter.empty
        needed = name in parameters and default is inspect.Parameter.empty
        same = isinstance(value, tuple) and not isinstance(default, tuple)
        if needed:
            parts.append(repr(value))
        elif value != ((default,) * len(value) if same else default):
            parts.append(f"{name}={value!r}")
    return f"nn.{call.op}({', '.join(parts)})"


def _tensors_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return dict(model.named_parameters()) | dict(model.named_buffers())


def _paths(model: nn.Module, path: str) -> list[str]:
    """All names of a module: it may stand at several places."""
    module = model.get_submodule(path)
    return [name for name, each in model.named_modules(remove_duplicate=False) if each is module]


def _replace(model: nn.Module, path: str, call: Call, widths: Mapping[str, int]) -> None:
    """Put a module of other sizes in the place of one; its weights follow."""
    old = model.get_submodule(path)
    with torch.device("meta"):
        new = build_module(call, widths)
    for name, tensor in _tensors_of(old).items():
        owner, _, part = name.rpartition(".")
        _set_tensor(new.get_submodule(owner), part, tensor)
    new.train(old.training)
    for name in _paths(model, path):
        owner, _, part = name.rpartition(".")
        setattr(model.get_submodule(owner), part, new)


def _hold(model: nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """Give the model smaller tensors under the names they have; tied ones stay tied."""
    aliases: dict[int, list[str]] = defaultdict(list)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        aliases[id(parameter)].append(name)
    held = _tensors_of(model)
    for name, tensor in tensors.items():
        old = held[name]
        new = nn.Parameter(tensor, old.requires_grad) if isinstance(old, nn.Parameter) else tensor
        for alias in aliases.get(id(old), [name]):
            owner, _, part = alias.rpartition(".")
            _set_tensor(model.get_submodule(owner), part, new)


def _set_tensor(module: nn.Module, name: str, tensor: torch.Tensor) -> None:
    if isinstance(tensor, nn.Parameter):
        module.register_parameter(name, tensor)
    else:
        module._buffers[name] = tensor
    record = record_of(module)
    if record is not None and record.pruning is not None and record.pruning.after_cut is not None:
        record.pruning.after_cut(module)


def _pieces(built: nn.Module) -> Any:
    return built.pieces if hasattr(built, "pieces") else built.children()
