"""A user's own model of flax.nnx as a program of one step: trained by its own code.

It is built where that code is, and without values; other devices are sent layers.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from flax import nnx

import jax
from ampere.core.boundary.code import Factory, check_arguments, in_words, own_factory
from ampere.core.boundary.model_names import parse_name
from ampere.core.inputs import InputSpec, parse_inputs
from ampere.core.program.terms import ValueRef
from ampere.core.training import PLAIN
from ampere.core.workloads import ModelSpec
from ampere.errors import ModelError
from ampere.jax.runtime.modules import Definition, as_held, in_dtype, take_apart
from ampere.jax.runtime.sites import Site
from ampere.jax.runtime.trainer import Trainer
from ampere.programs.program import Input, Program, Step

TRAINING = {"train": True, "training": True, "is_training": True, "deterministic": False}


def of_training(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that say that a model is trained, where it must be told."""
    wanted = inspect.signature(type(model).__call__).parameters
    told: dict[str, Any] = {name: value for name, value in TRAINING.items() if name in wanted}
    if "rngs" in wanted and wanted["rngs"].default is inspect.Parameter.empty:
        told["rngs"] = nnx.Rngs(0)
    return {name: value for name, value in told.items() if name not in given}


def hollow(factory: Factory) -> Any:
    """What a factory makes, without values, for which JAX would compile; None if it wants some."""
    if isinstance(factory.make, nnx.Module):
        return None
    check_arguments(factory.make, factory.label, **factory.arguments)
    try:
        made = nnx.eval_shape(lambda: factory.make(**factory.arguments))
    except Exception:  # it looks at values, or is of another framework: it is built as it is
        return None
    return made if isinstance(made, nnx.Module) else None


def model_trainer(spec: ModelSpec, **given: Any) -> Trainer:
    """A trainer of a model that is given by the name of the user's code."""
    named = parse_name(spec.model)
    if not named.is_own:
        raise ModelError(f"{spec.model} is a model of torch: JAX trains the layers it is read into")
    with own_factory(named) as factory:
        fed = factory.fed(None if spec.input is None else parse_inputs(spec.input))
        model = hollow(factory)
        if model is None:
            model = factory.build(lambda made: isinstance(made, nnx.Module))
    if not isinstance(model, nnx.Module):
        raise ModelError(
            f"{factory.label} returned {in_words(model)}; JAX trains a flax.nnx.Module"
        )
    if spec.training.dtype:
        model = in_dtype(model, spec.training.dtype)
    model.train()
    definition = take_apart(model)
    batch, dtype = spec.training.batch_size, spec.training.dtype or PLAIN
    inputs = tuple(_input(each, batch, dtype) for each in fed)
    names = [None] * len(fed.positional) + [name for name, _ in fed.named]
    step = Step(
        op="model",
        layer=0,
        number=1,
        place=spec.model,
        arguments={},
        inputs=tuple(ValueRef(0, (i,)) for i, name in enumerate(names) if name is None),
        options={name: ValueRef(0, (i,)) for i, name in enumerate(names) if name is not None},
        held=as_held(definition, (0, 1)),
    )
    program = Program(
        inputs=inputs,
        steps=(step,),
        result=_result(model, fed, inputs),
        dangling=(),
        training=spec.training,
        ends_in_loss=True,
    )
    return Trainer(program, _Own(definition).apply, channels_last=True, **given)


class _Own:
    """Runs the model as it stands."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition

    def apply(self, site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        return self.definition.run(site, args, options, told=of_training)


def _input(spec: InputSpec, batch: int, dtype: str) -> Input:
    kind = {"int64": "int32", PLAIN: dtype}.get(spec.dtype, spec.dtype)
    return Input((batch, *spec.shape), kind, spec.below)


def _result(model: Any, fed: Any, inputs: Sequence[Input]) -> Any:
    """Where the arrays stand in what the model returns."""
    shapes = [jax.ShapeDtypeStruct(each.shape, jax.numpy.dtype(each.dtype)) for each in inputs]
    count = len(fed.positional)
    named = dict(zip([name for name, _ in fed.named], shapes[count:]))
    definition, state = nnx.split(model)

    def run(state: Any, args: Any, kwargs: Any) -> Any:
        copy = nnx.merge(definition, state)
        return copy(*args, **kwargs, **of_training(copy, kwargs))

    made = jax.eval_shape(run, state, shapes[:count], named)
    if hasattr(made, "shape"):
        return ValueRef(1)
    return _refs(made, ())


def _refs(tree: Any, path: tuple[Any, ...]) -> Any:
    if isinstance(tree, Mapping):
        return {name: _refs(part, (*path, name)) for name, part in tree.items()}
    if isinstance(tree, (tuple, list)):
        return tuple(_refs(part, (*path, i)) for i, part in enumerate(tree))
    return ValueRef(1, path)
