"""What a layer does in one training step: floating-point operations, bytes, parameters.

FLOPs are counted in the program of the step itself, forward and backward: 2 a multiply-add of every
product of matrices and every convolution, as XLA's own analysis does; padding multiplies nothing,
and a loop counts as often as it runs. Bytes are those that the calls of the forward pass write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

import jax
from ampere.core.layers import Features, Layer, structure_of
from ampere.core.program.sizes import shape_at
from ampere.core.program.structure import Port
from ampere.core.program.terms import ValueRef
from ampere.core.program.trees import leaves
from ampere.core.program.widths import Widths
from ampere.errors import ModelError
from ampere.jax.runtime import modules
from ampere.jax.runtime.running import run_program
from ampere.jax.runtime.sites import KEY
from ampere.programs.gradients import reach_of
from ampere.programs.program import Program, pick
from ampere.programs.wiring import program_of

VIEWS = frozenset(("lax.reshape", "lax.squeeze", "lax.broadcast_in_dim", "parameter", "buffer"))


def with_features(layer: Layer) -> Layer:
    """The same layer with its features and parameters filled in."""
    features, params = _count(replace(layer, name="", features=Features(), params=None))
    return replace(layer, features=features, params=params)


@lru_cache(maxsize=4096)
def _count(layer: Layer) -> tuple[Features, int]:
    program = _alone(layer)
    parameters = [held for held in program.held if not held.buffer]
    size = sum(prod(held.shape) * np.dtype(_numpy(held.dtype)).itemsize for held in parameters)
    step = jax.make_jaxpr(_step(program))(*_shapes(program))
    written = jax.eval_shape(
        lambda *given: run_program(program, modules.apply, *given)[0], *_shapes(program)
    )
    moved = sum(
        leaf.size * leaf.dtype.itemsize
        for step_, made in zip(program.steps, written[1:], strict=True)
        if step_.op not in VIEWS
        for leaf in jax.tree.leaves(made)
    )
    params = sum(prod(held.shape) for held in parameters)
    return Features(float(flops_of(step.jaxpr)), float(moved), float(size)), params


def _alone(layer: Layer) -> Program:
    """The layer as a program of its own, whose inputs all come from outside."""
    reads = tuple((-1, i) for i in range(len(structure_of(layer.kind).inputs)))
    return program_of([replace(layer, reads=reads)], modules.holding)


def _numpy(dtype: str) -> Any:
    return jax.numpy.dtype(dtype)


def _shapes(program: Program) -> tuple[dict[Any, Any], list[Any]]:
    arrays = {
        held.key: jax.ShapeDtypeStruct(held.shape, _numpy(held.dtype)) for held in program.held
    }
    arrays[KEY] = jax.ShapeDtypeStruct((2,), np.uint32)
    inputs = [jax.ShapeDtypeStruct(each.shape, _numpy(each.dtype)) for each in program.inputs]
    return arrays, inputs


def _step(program: Program) -> Any:
    """The forward pass, and the backward pass from all that comes out and has a gradient."""
    reach = reach_of(program)

    def step(arrays: dict[Any, Any], inputs: list[Any]) -> Any:
        trained = {key: arrays[key] for key in sorted(reach.parameters)}
        entering = [inputs[number] for number in reach.inputs]

        def forward(trained: Any, entering: list[Any]) -> Any:
            given = list(inputs)
            for number, batch in zip(reach.inputs, entering, strict=True):
                given[number] = batch
            values, _ = run_program(program, modules.apply, {**arrays, **trained}, given)
            return [pick(values, ref) for ref in reach.ends]

        ends, back = jax.vjp(forward, trained, entering)
        return ends, back(ends) if reach.trains else None

    return step


def flops_of(jaxpr: Any) -> int:
    """FLOPs of a program, and of those inside it as often as they run."""
    total = 0
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        if name == "dot_general":
            total += _product_flops(equation)
        elif name == "conv_general_dilated":
            total += _convolution_flops(equation)
        times = int(params["length"]) if name == "scan" else 1
        for inner in jax.tree.leaves(list(params.values()), is_leaf=_is_program):
            if _is_program(inner):
                total += times * flops_of(getattr(inner, "jaxpr", inner))
    return total


def _is_program(leaf: Any) -> bool:
    return hasattr(leaf, "eqns") or hasattr(leaf, "jaxpr")


def _product_flops(equation: Any) -> int:
    (over, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return int(2 * prod(equation.outvars[0].aval.shape) * prod(left[i] for i in over))


def _convolution_flops(equation: Any) -> int:
    """Only taps that fall on numbers: neither on padding nor between dilated ones."""
    params = equation.params
    numbers = params["dimension_numbers"]
    left, right = (var.aval.shape for var in equation.invars)
    out = equation.outvars[0].aval.shape
    taps = 1
    for i, (low, _) in enumerate(params["padding"]):
        taps *= _taps(
            (left[numbers.lhs_spec[2 + i]], params["lhs_dilation"][i]),
            (right[numbers.rhs_spec[2 + i]], params["rhs_dilation"][i]),
            out[numbers.out_spec[2 + i]],
            (params["window_strides"][i], low),
        )
    channels = out[numbers.out_spec[0]] * out[numbers.out_spec[1]] * right[numbers.rhs_spec[1]]
    return int(2 * taps * channels)


def _taps(
    entering: tuple[int, int], kernel: tuple[int, int], out: int, moved: tuple[int, int]
) -> int:
    """Pairs of an output and a tap of the kernel that meet a number, along one side."""
    (size, spread), (taps, apart), (stride, low) = entering, kernel, moved
    at = np.arange(out)[:, None] * stride - low + np.arange(taps)[None] * apart
    inside = (at >= 0) & (at <= (size - 1) * spread) & (at % spread == 0)
    return int(inside.sum())


def runs_resized(layer: Layer) -> bool:
    """Whether a layer runs at other widths, and delivers what it should there."""
    steps = structure_of(layer.kind).multiples
    other = {
        name: width - steps[name] if width > steps[name] else width + steps[name]
        for name, width in layer.widths.items()
    }
    return _runs(replace(layer, widths=Widths(other)))


def delivered(layer: Layer) -> list[tuple[int, ...]]:
    """The shapes that come out of a layer at its widths, with the batch."""
    program = _alone(layer)

    def run(arrays: Any, inputs: Any) -> Any:
        values, _ = run_program(program, modules.apply, arrays, inputs)
        refs = [leaf for leaf in leaves(program.result) if isinstance(leaf, ValueRef)]
        return [pick(values, ref) for ref in refs]

    return [tuple(each.shape) for each in jax.eval_shape(run, *_shapes(program))]


def _runs(layer: Layer) -> bool:
    structure = structure_of(layer.kind)
    batch = int(layer.kind.attributes["batch"])
    try:
        made = delivered(layer)
        wanted = [_whole(port, layer.widths, batch) for port in structure.outputs]
    except (ModelError, TypeError, ValueError, IndexError, AssertionError):
        return False  # whatever JAX or a size objects to
    return made == wanted


def _whole(port: Port, widths: Mapping[str, int], batch: int) -> tuple[int, ...]:
    shape: Sequence[int] = shape_at(port.shape, widths)
    return tuple(shape) if port.whole else (batch, *shape)
