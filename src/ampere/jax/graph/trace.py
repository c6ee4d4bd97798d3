"""A model's forward pass as a list of calls: its jaxpr, with standard modules whole.

JAX runs it without values, in training mode, on a copy. Programs inside (jit, custom gradients,
checkpoints) are opened: XLA compiles them into one as well. What nobody reads is left out, as XLA
does: the random keys that a recurrent cell is given for a carry of zeros are such.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flax import nnx
from jax.extend.core import Literal
from jax.interpreters.partial_eval import dce_jaxpr

import jax
from ampere.core.graph.calls import Value, values_in
from ampere.core.inputs import Inputs
from ampere.core.program.terms import DType
from ampere.core.program.trees import map_leaves
from ampere.errors import ModelError
from ampere.jax.graph.recorder import MODULE, SCOPE, Operand, Recorder, recorded
from ampere.jax.runtime.modules import named_leaves
from ampere.jax.runtime.own_models import of_training
from ampere.jax.runtime.primitives import HOME, is_known, term_of

OPENED = {  # programs inside a program, and the parameter that holds each
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
}
OWN_GRADIENTS = {"relu": "jax.nn.relu"}
_ONE_AT_A_TIME = threading.Lock()  # classes are changed meanwhile


@dataclass
class TracedCall:
    """One call: a module, a primitive of JAX, or a parameter that a user's module holds."""

    index: int
    op: str
    stack: tuple[tuple[str, int], ...]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    outputs: dict[tuple[int, ...], Any] = field(default_factory=dict)  # shapes
    module: Any = None
    name: str = ""  # of the parameter
    trains: bool = False  # holds parameters
    checkpointed: bool = False
    before: tuple[int, ...] = ()
    through: Value | None = None  # nothing is written in place

    @property
    def where(self) -> str:
        """The innermost module that it belongs to."""
        return self.stack[-1][0] if self.stack else ""

    @property
    def inputs(self) -> list[Value]:
        """The values it reads, in order."""
        return list(values_in((self.args, self.kwargs)))

    @property
    def needs(self) -> list[Value]:
        """The values that must be there before it runs."""
        return self.inputs

    @property
    def is_constant(self) -> bool:
        """Whether it is a parameter or buffer that a user's module holds itself."""
        return self.op in ("parameter", "buffer")


@dataclass(frozen=True)
class Trace:
    """Every call of one forward pass, and what came out at the end: values in a tree."""

    calls: tuple[TracedCall, ...]
    result: Any
    inputs: Mapping[Value, Any]  # shapes
    batch: int
    reached: frozenset[Value]  # where a gradient comes back to
    parameters: Mapping[str, int]  # by name and size, of the whole model
    written: tuple[Value, ...] = ()

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values inside the result."""
        return tuple(values_in(self.result))


def trace(model: Any, inputs: Inputs, batch: int, dtype: str) -> Trace:
    """Record one forward pass of a model.

    Raises:
        ModelError: It does not run so, or does what cannot be followed.
    """
    definition, state = nnx.split(model)
    args, kwargs = shapes_of(inputs, batch, dtype)

    def forward(state: Any, args: Any, kwargs: Any) -> Any:
        copy = nnx.merge(definition, state)
        copy.train()
        names = {id(module): ".".join(map(str, path)) for path, module in nnx.iter_modules(copy)}
        recorder.names = names
        kept.append(copy)  # an identity is only unique while its object lives
        return copy(*args, **kwargs, **of_training(copy, kwargs))

    recorder, kept = Recorder({}), []  # type: Recorder, list[Any]
    try:
        with _ONE_AT_A_TIME, recorded(model, recorder):
            program, result = jax.make_jaxpr(forward, return_shape=True)(state, args, kwargs)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"{type(model).__name__} does not run on an input of {batch}x({inputs}):"
            f" {_reason(error)}{_turned(inputs)}"
        ) from error
    return _Walk(recorder, batch, state).trace(program, result, len(args) + len(kwargs))


def shapes_of(inputs: Inputs, batch: int, dtype: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A batch of each input as a shape: those by position, and those by keyword."""

    def shape(spec: Any) -> Any:
        kind = {"int64": "int32", "float32": dtype}.get(spec.dtype, spec.dtype)
        return jax.ShapeDtypeStruct((batch, *spec.shape), np.dtype(jax.numpy.dtype(kind)))

    return tuple(map(shape, inputs.positional)), {name: shape(spec) for name, spec in inputs.named}


def _reason(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    if isinstance(error, jax.errors.ConcretizationTypeError):
        return "it looks at values, which JAX does not have while it compiles"
    return f"{type(error).__name__}: {(lines or [''])[0][:200]}"


def _turned(inputs: Inputs) -> str:
    """What to try where maps are given as torch has them."""
    for spec in inputs:
        if len(spec.shape) == 3 and spec.shape[0] < spec.shape[2]:
            last = "x".join(map(str, (*spec.shape[1:], spec.shape[0])))
            return f"; flax has channels last, such as {last}"
    return ""


class _Walk:
    """Goes through a program, and writes down its calls."""

    def __init__(self, recorder: Recorder, batch: int, state: Any) -> None:
        self.recorder, self.batch = recorder, batch
        self.calls: list[TracedCall] = []
        self.variables = named_leaves(state)
        kinds = [type(v) for v in jax.tree.leaves(state, is_leaf=_is_variable)]
        self.is_parameter = [issubclass(kind, nnx.Param) for kind in kinds]

    def trace(self, program: Any, result: Any, inputs: int) -> Trace:
        jaxpr, _ = dce_jaxpr(program.jaxpr, [True] * len(program.jaxpr.outvars), instantiate=True)
        held = jaxpr.invars[: len(jaxpr.invars) - inputs]
        fed = jaxpr.invars[len(held) :]
        known: dict[Any, Any] = {var: Value(0, (i,)) for i, var in enumerate(fed)}
        for var, (name, leaf), trains in zip(held, self.variables, self.is_parameter, strict=True):
            known[var] = _Unread(name, leaf, trains)
        made = self._walk(jaxpr, [*map(_Constant, program.consts)], known, (), False)
        leaves = [self._value(each) for each in made]
        tree = jax.tree.unflatten(jax.tree.structure(result), leaves)
        if not leaves:
            raise ModelError("the model returns no array")
        sizes = {
            name: int(np.prod(leaf.shape))
            for (name, leaf), trains in zip(self.variables, self.is_parameter, strict=True)
            if trains
        }
        shapes = {Value(0, (i,)): var.aval for i, var in enumerate(fed)}
        calls = tuple(self.calls)
        return Trace(calls, tree, shapes, self.batch, _reached(calls), sizes)

    def _walk(
        self,
        jaxpr: Any,
        consts: Sequence[Any],
        known: dict[Any, Any],
        around: tuple[str, ...],
        checkpointed: bool,
    ) -> list[Any]:
        """Write down the equations of a program; what its results are."""
        known.update(zip(jaxpr.constvars, consts, strict=True))
        for equation in jaxpr.eqns:
            read = [self._read(var, known) for var in equation.invars]
            scopes = (*around, *_scopes(equation))
            name = equation.primitive.name
            if name in OPENED and _own_gradient(equation) is None:
                inner = equation.params[OPENED[name]]
                open_jaxpr, inner_consts = _opened(inner)
                inside = dict(zip(open_jaxpr.invars, read, strict=True))
                again = checkpointed or name in ("checkpoint", "remat2")
                made = self._walk(
                    open_jaxpr, [*map(_Constant, inner_consts)], inside, scopes, again
                )
            else:
                made = self._note(equation, read, scopes, checkpointed)
            known.update(zip(equation.outvars, made, strict=True))
        return [self._read(var, known) for var in jaxpr.outvars]

    def _read(self, var: Any, known: Mapping[Any, Any]) -> Any:
        if isinstance(var, Literal):
            return _Number(var.val, var.aval)
        return known[var]

    def _note(
        self, equation: Any, read: list[Any], scopes: tuple[str, ...], checkpointed: bool
    ) -> list[Any]:
        stack = self._stack(scopes)
        operands = [self._value(each, stack) for each in read]
        call = TracedCall(len(self.calls) + 1, "", stack, checkpointed=checkpointed)
        if equation.primitive is MODULE:
            self._fill_module(call, equation, operands)
        else:
            self._fill_primitive(call, equation, operands)
        shapes = [var.aval.shape for var in equation.invars if getattr(var.aval, "shape", ()) != ()]
        call.before = tuple(shapes[0]) if shapes else ()
        self.calls.append(call)
        return [Value(call.index, path) for path in call.outputs]

    def _fill_module(self, call: TracedCall, equation: Any, operands: list[Any]) -> None:
        noted = self.recorder.calls[equation.params["number"]]

        def value(leaf: Any) -> Any:
            return operands[leaf.number] if isinstance(leaf, Operand) else leaf

        call.op, call.module = type(noted.module).__name__, noted.module
        call.args, call.kwargs = (map_leaves(value, part) for part in (noted.args, noted.kwargs))
        call.kwargs = {name: part for name, part in call.kwargs.items() if part is not None}
        call.trains = bool(jax.tree.leaves(nnx.state(noted.module, nnx.Param)))
        paths = {number: path for path, number in _places(noted.result)}
        call.outputs = {paths[i]: shape for i, shape in enumerate(noted.shapes)}

    def _fill_primitive(self, call: TracedCall, equation: Any, operands: list[Any]) -> None:
        if any(map(_is_key, (*equation.invars, *equation.outvars))):
            where = call.where or "the model"
            raise ModelError(f"{where} draws random numbers itself, which is not read: {_ADVICE}")
        own = _own_gradient(equation)
        call.op = own or f"{HOME}{equation.primitive.name}"
        if not is_known(call.op):
            where = call.where or "the model"
            raise ModelError(
                f"{where} does {equation.primitive.name}, which is not read: {_ADVICE}"
            )
        try:
            params = {} if own else {k: term_of(v) for k, v in equation.params.items()}
        except TypeError as error:
            where = call.where or "the model"
            raise ModelError(
                f"{where} does {equation.primitive.name} with {error}, which is not read: {_ADVICE}"
            ) from None
        call.args, call.kwargs = tuple(operands), params
        several = len(equation.outvars) > 1 or (equation.primitive.multiple_results and not own)
        call.outputs = {
            ((i,) if several else ()): var.aval for i, var in enumerate(equation.outvars)
        }

    def _stack(self, scopes: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
        numbers = [int(scope[len(SCOPE) :]) for scope in scopes if scope.startswith(SCOPE)]
        return tuple(self.recorder.scopes[number] for number in dict.fromkeys(numbers))

    def _value(self, each: Any, stack: tuple[tuple[str, int], ...] = ()) -> Any:
        """A value, or a number that stands in a call; what is held is noted when it is read."""
        if isinstance(each, _Number) and not np.shape(each.value):
            return {"number": np.asarray(each.value).item(), "dtype": DType(str(each.aval.dtype))}
        if isinstance(each, _Unread):
            if each.value is None:
                each.value = self._constant(each.name, each.leaf, each.trains, stack)
            return each.value
        if isinstance(each, _Constant):
            if not np.shape(each.array):
                array = np.asarray(each.array)
                return {"number": array.item(), "dtype": DType(str(array.dtype))}
            if each.value is None:
                each.value = self._constant("", each.array, False, stack)
            return each.value
        return each

    def _constant(
        self, name: str, leaf: Any, trains: bool, stack: tuple[tuple[str, int], ...]
    ) -> Value:
        op = "parameter" if trains else "buffer"
        call = TracedCall(len(self.calls) + 1, op, stack, name=name, trains=trains)
        call.outputs[()] = jax.core.ShapedArray(leaf.shape, leaf.dtype)
        self.calls.append(call)
        return Value(call.index)


_ADVICE = (
    "standard modules of flax.nnx (nnx.RNN for loops), jax.numpy and jax.lax without loops are"
)


@dataclass(eq=False)
class _Unread:
    """A variable of the model that nothing has read yet."""

    name: str
    leaf: Any
    trains: bool
    value: Value | None = None


@dataclass(eq=False)
class _Constant:
    """An array that stands in the program."""

    array: Any
    value: Value | None = None


@dataclass(frozen=True, eq=False)
class _Number:
    value: Any
    aval: Any


def _is_variable(leaf: Any) -> bool:
    return isinstance(leaf, nnx.Variable)


def _is_key(var: Any) -> bool:
    return bool(jax.dtypes.issubdtype(var.aval.dtype, jax.dtypes.prng_key))


def _own_gradient(equation: Any) -> str | None:
    """A function with a gradient of its own that is known by name."""
    if equation.primitive.name != "custom_jvp_call":
        return None
    info = equation.params["call_jaxpr"].jaxpr.debug_info
    return OWN_GRADIENTS.get(info.func_name if info is not None else "")


def _opened(program: Any) -> tuple[Any, Sequence[Any]]:
    """A program and its constants, closed over them or not."""
    return (program.jaxpr, program.consts) if hasattr(program, "consts") else (program, ())


def _scopes(equation: Any) -> tuple[str, ...]:
    stack = equation.source_info.name_stack.stack
    return tuple(str(getattr(scope, "name", "")) for scope in stack)


def _places(tree: Any, path: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], int]]:
    """Numbers in a result, each with the positions that lead to it."""
    if isinstance(tree, int):
        return [(path, tree)]
    parts = list(tree.values()) if isinstance(tree, Mapping) else list(tree)
    return [found for i, part in enumerate(parts) for found in _places(part, (*path, i))]


def _reached(calls: Sequence[TracedCall]) -> frozenset[Value]:
    """Values that a parameter is in: a gradient flows back through these."""
    reached: set[Value] = set()
    for call in calls:
        if call.op == f"{HOME}stop_gradient":
            continue
        if call.trains or any(value in reached for value in call.inputs):
            reached.update(
                Value(call.index, path)
                for path, shape in call.outputs.items()
                if jax.numpy.issubdtype(shape.dtype, jax.numpy.floating)
            )
    return frozenset(reached)
