"""Which sizes of a traced model vary together: channels followed from call to call.

Every dimension of every value is a plain number or a multiple of a `Channels`: a set of sizes that
can only change together. Calls that make new channels (the output of a convolution) start a set,
calls that need equal sizes (a residual add) join two, and whatever a rule does not understand pins
its inputs to the sizes they have. Nothing is ever resized on a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm, prod
from typing import Any

from torch import nn

from ampere.frameworks.torch.tracing import Trace, TracedCall, Value


class Channels:
    """A set of sizes that change together; joined sets share one root."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.pinned = False
        self.multiple = 1
        self._joined: Channels | None = None

    @property
    def root(self) -> Channels:
        """The set that this one was joined to."""
        return self if self._joined is None else self._joined.root

    def join(self, other: Channels) -> None:
        """From now on both sets are one."""
        ours, theirs = self.root, other.root
        if ours is theirs:
            return
        if ours.size != theirs.size:
            ours.pinned = theirs.pinned = True
            return
        ours.pinned = ours.pinned or theirs.pinned
        ours.multiple = lcm(ours.multiple, theirs.multiple)
        theirs._joined = ours


@dataclass(frozen=True)
class Scaled:
    """A dimension that is `times` the size of its channels: 25 after a 5×5 map was flattened."""

    channels: Channels
    times: Fraction = Fraction(1)


Dim = int | Scaled
Dims = tuple[Dim, ...]


@dataclass
class Sizes:
    """The dimensions of every value, and the size-like arguments of every module."""

    dims: dict[Value, Dims] = field(default_factory=dict)
    arguments: dict[int, dict[str, Dim | tuple[Dim, ...]]] = field(default_factory=dict)

    def of(self, value: Any) -> Dims:
        """The dimensions of a value."""
        return self.dims[value]


def new(size: int) -> Scaled:
    """A dimension that starts a set of channels."""
    return Scaled(Channels(size))


def pin(dims: Sequence[Dim]) -> None:
    """These dimensions keep the size they have."""
    for dim in dims:
        if isinstance(dim, Scaled):
            dim.channels.root.pinned = True


def same(a: Dim, b: Dim) -> Dim:
    """Two dimensions that must be equal."""
    if isinstance(a, Scaled) and isinstance(b, Scaled):
        if a.times == b.times:
            a.channels.join(b.channels)
        else:
            pin((a, b))
        return a
    pin((a, b))
    return a if isinstance(a, int) else b


def scale(dim: Dim, factor: Fraction) -> Dim:
    """A dimension multiplied by a factor."""
    if isinstance(dim, Scaled):
        return Scaled(dim.channels, dim.times * factor)
    return int(dim * factor)


def must_divide(dim: Dim, by: int) -> None:
    """The channels of this dimension stay multiples of a number, such as attention heads."""
    if isinstance(dim, Scaled):
        root = dim.channels.root
        root.multiple = lcm(root.multiple, by)


# A rule gets the call, the dimensions of its tensor inputs, the shape of its first output and a
# dict for the module's size arguments; it returns the dimensions of the output (by path, where
# there are several), or None to give up.
Path = tuple[int, ...]
Rule = Callable[
    [TracedCall, list[Dims], tuple[int, ...], dict[str, Any]], "Dims | dict[Path, Dims] | None"
]


def _conv(call: TracedCall, inputs: list[Dims], shape: tuple[int, ...], sizes: Any) -> Dims | None:
    conv: Any = call.module
    (x,) = inputs
    out = new(conv.out_channels)
    channels: Dim = out
    if conv.groups > 1 and conv.groups == conv.in_channels and isinstance(x[1], Scaled):
        channels = scale(x[1], Fraction(conv.out_channels, conv.in_channels))  # depthwise
        sizes["groups"] = x[1]
    elif conv.groups > 1:
        must_divide(x[1], conv.groups)
        must_divide(out, conv.groups)
    sizes.update(in_channels=x[1], out_channels=channels)
    return (x[0], channels, *shape[2:]) if len(shape) == len(x) > 2 else None


def _linear(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims:
    (x,) = inputs
    out = new(shape[-1])
    sizes.update(in_features=x[-1], out_features=out)
    return (*x[:-1], out)


def _embedding(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims:
    (x,) = inputs
    out = new(shape[-1])
    sizes.update(embedding_dim=out)
    return (*x, out)


def _recurrent(
    call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any
) -> dict[Path, Dims] | None:
    rnn: Any = call.module
    if len(inputs) > 1 or rnn.proj_size > 0:
        return None
    (x,) = inputs
    hidden = new(rnn.hidden_size)
    sizes.update(input_size=x[-1], hidden_size=hidden)
    directions = 2 if rnn.bidirectional else 1
    batch = x[0 if rnn.batch_first else 1]
    state: Dims = (rnn.num_layers * directions, batch, hidden)
    output = (*x[:-1], scale(hidden, Fraction(directions)))
    return {(0,): output, (1,): state, (1, 0): state, (1, 1): state}


def _attention(
    call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any
) -> dict[Path, Dims] | None:
    attention: Any = call.module
    if not attention._qkv_same_embed_dim or len(inputs) != 3:
        return None
    query, key, value = inputs
    width = same(same(query[-1], key[-1]), value[-1])
    must_divide(width, attention.num_heads)
    sizes.update(embed_dim=width)
    weights = call.outputs.get((1,))  # None unless they are asked for
    return {(0,): query} if weights is None else {(0,): query, (1,): tuple(weights.shape)}


def _channel_norm(name: str) -> Rule:
    def rule(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims:
        x = inputs[0]
        sizes[name] = x[1]
        if isinstance(call.module, nn.GroupNorm):
            must_divide(x[1], call.module.num_groups)
        return x

    return rule


def _layer_norm(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims | None:
    norm: Any = call.module
    sizes["normalized_shape"] = inputs[0][-len(norm.normalized_shape) :]
    return inputs[0]


def _elementwise(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims | None:
    """Same shape in and out, broadcasting where there are two inputs."""
    rank = len(shape)
    out: list[Dim] = [1] * rank
    for dims in inputs:
        for i, dim in enumerate(dims, start=rank - len(dims)):
            if dim != 1:
                out[i] = dim if out[i] == 1 else same(out[i], dim)
    return tuple(out)


def _pool(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims | None:
    x = inputs[0]
    return (x[0], x[1], *shape[2:]) if len(x) > 2 else None


def _flatten(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims | None:
    """Any reshape that merges everything behind the batch dimension, however it is written."""
    x = inputs[0]
    if len(shape) != 2 or len(x) < 2 or shape[0] != x[0]:
        return None
    scaled = [dim for dim in x[1:] if isinstance(dim, Scaled)]
    numbers = prod(dim for dim in x[1:] if isinstance(dim, int))
    if len(scaled) > 1:
        return None
    return (x[0], scale(scaled[0], Fraction(numbers)) if scaled else numbers)


def _reduce(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims | None:
    x = inputs[0]
    axes = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else None)
    if axes is None:
        return None
    axes = {axis % len(x) for axis in ([axes] if isinstance(axes, int) else axes)}
    if len(shape) == len(x):
        return tuple(1 if i in axes else dim for i, dim in enumerate(x))
    return tuple(dim for i, dim in enumerate(x) if i not in axes)


def _getitem(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims | None:
    index = call.args[1] if isinstance(call.args[1], tuple) else (call.args[1],)
    if not all(isinstance(i, int | slice | None) or i is Ellipsis for i in index):
        return None
    x, rest = inputs[0], sum(1 for i in index if i is not None and i is not Ellipsis)
    full = (slice(None),) * (len(inputs[0]) - rest)
    index = (
        tuple(part for i in index for part in (full if i is Ellipsis else (i,)))
        if Ellipsis in index
        else (*index, *full)
    )
    out: list[Dim] = []
    axis = 0
    for i in index:
        if i is None:
            out.append(1)
            continue
        dim = x[axis]
        axis += 1
        if isinstance(i, slice):
            whole = i == slice(None)
            if not whole:
                pin((dim,))
            out.append(dim if whole else shape[len(out)])
        else:
            pin((dim,))
    return tuple(out)


def _select(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims | None:
    x = inputs[0]
    axis = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else 0) % len(x)
    pin((x[axis],))
    return x[:axis] + x[axis + 1 :]


def _transpose(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims | None:
    x = list(inputs[0])
    a, b = (*call.args[1:], *(call.kwargs[k] for k in ("dim0", "dim1") if k in call.kwargs))
    x[a], x[b] = x[b], x[a]
    return tuple(x)


def _permute(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims | None:
    given = call.kwargs.get("dims", call.args[1:])
    order = given[0] if isinstance(given[0], tuple | list) else given
    return tuple(inputs[0][axis] for axis in order)


def _as_is(call: TracedCall, inputs: list[Dims], shape: Any, sizes: Any) -> Dims | None:
    return inputs[0]


def _rules(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


FUNCTION_RULES: Mapping[str, Rule] = {
    **_rules(
        _elementwise,
        "relu relu_ relu6 leaky_relu elu selu celu gelu silu mish hardswish hardsigmoid hardtanh"
        " softplus sigmoid tanh logsigmoid softsign softmax log_softmax normalize clamp exp log"
        " sqrt abs neg square rsqrt dropout dropout1d dropout2d dropout3d alpha_dropout",
    ),
    **_rules(
        _elementwise,
        "add add_ sub mul mul_ div true_divide maximum minimum where __add__ __radd__ __iadd__"
        " __sub__ __mul__ __rmul__ __truediv__",
    ),
    **_rules(
        _pool,
        "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d interpolate"
        " adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d"
        " adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d",
    ),
    **_rules(_flatten, "flatten view reshape"),
    **_rules(_reduce, "mean sum amax amin"),
    **_rules(_as_is, "contiguous clone detach"),
    "__getitem__": _getitem,
    "select": _select,
    "transpose": _transpose,
    "permute": _permute,
}

_POOLING_MODULES = (
    nn.modules.pooling._MaxPoolNd,
    nn.modules.pooling._AvgPoolNd,
    nn.modules.pooling._AdaptiveAvgPoolNd,
    nn.modules.pooling._AdaptiveMaxPoolNd,
)

MODULE_RULES: tuple[tuple[tuple[type, ...], Rule], ...] = (
    ((nn.modules.conv._ConvNd,), _conv),
    ((nn.Linear,), _linear),
    ((nn.Embedding,), _embedding),
    ((nn.RNNBase,), _recurrent),
    ((nn.MultiheadAttention,), _attention),
    ((nn.modules.batchnorm._NormBase,), _channel_norm("num_features")),
    ((nn.GroupNorm,), _channel_norm("num_channels")),
    ((nn.LayerNorm,), _layer_norm),
    (_POOLING_MODULES, _pool),
    ((nn.Flatten,), _flatten),
)


def _rule_of(call: TracedCall) -> Rule | None:
    if call.module is None:
        return FUNCTION_RULES.get(call.op.rpartition(".")[2])
    for classes, rule in MODULE_RULES:
        if isinstance(call.module, classes):
            return rule
    stateless = not any(True for _ in call.module.parameters())
    return _elementwise if stateless and _keeps_shape(call) else None


def _keeps_shape(call: TracedCall) -> bool:
    """A module without parameters, from torch's activations, dropouts and paddings of nothing."""
    home = type(call.module).__module__.rpartition(".")[2]
    return home in ("activation", "dropout", "linear")


def _at_size(dims: Dims | None) -> tuple[int, ...] | None:
    """The shape that dimensions stand for in the traced model."""
    if dims is None:
        return None
    return tuple(
        dim if isinstance(dim, int) else int(dim.channels.root.size * dim.times) for dim in dims
    )


def follow(trace: Trace) -> Sizes:
    """Follow channels through every call of a trace; what comes out of the model stays fixed."""
    sizes = Sizes()
    sizes.dims[Value(0)] = tuple(trace.input_shape)
    for call in trace.calls:
        shapes = {path: tuple(t.shape) for path, t in call.outputs.items()}
        first = min(shapes)
        if call.parameter is not None:
            sizes.dims[Value(call.index)] = tuple(d if d == 1 else new(d) for d in shapes[first])
            continue
        inputs = [sizes.of(value) for value in call.inputs]
        arguments: dict[str, Any] = {}
        rule = _rule_of(call)
        found = rule(call, inputs, shapes[first], arguments) if rule and inputs else None
        by_path = found if isinstance(found, dict) else {first: found} if found else {}
        if not all(_at_size(by_path.get(path)) == shape for path, shape in shapes.items()):
            by_path = dict(shapes)
            for given in inputs:
                pin(given)
            for dim in arguments.values():
                pin((dim,) if isinstance(dim, int | Scaled) else dim)
        sizes.arguments[call.index] = arguments
        for path in shapes:
            sizes.dims[Value(call.index, path)] = by_path[path]
    for value in trace.outputs:
        pin(sizes.of(value))
    return sizes
