"""What a layer does, call by call: the operations that its forward pass asks torch for.

Layers of kinds that were never measured are made of calls that were. Each function of torch belongs
to an operation; heavy ones (those with FLOPs, tables, sequences) are told at their sizes, light
ones by the bytes that they read and write, rounded to a few sizes, so that a profile has hundreds
of them and not thousands. Backward passes and updates are in them, loss and update as operations of
their own. A function that nobody has put into an operation is one by itself, under its own name.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ampere.core.layers import Features, LayerIdentity, Work
from ampere.core.program.widths import Widths
from ampere.core.types import Json
from ampere.pytorch.graph.recorder import tensors_in

STEPS_AN_OCTAVE = 2  # that sizes of light calls are rounded to
SMALL = 16384.0  # bytes; below, a call costs what any call costs
STATES = {"sgd": 0, "momentum": 1, "rmsprop": 1, "adam": 2, "adamw": 2}  # numbers a parameter has

VIEWS = """__getitem__ view reshape flatten unflatten squeeze unsqueeze permute transpose t swapaxes
    movedim chunk split unbind narrow select expand expand_as view_as detach unfold_view tensor_split
    swapdims moveaxis split_with_sizes ravel mT T real imag diagonal as_strided""".split()
RECTIFIERS = """relu relu_ relu6 hardtanh hardtanh_ leaky_relu leaky_relu_ threshold prelu hardswish
    hardsigmoid clamp clamp_ clamp_min rrelu hardshrink softshrink""".split()
CURVES = """gelu silu sigmoid tanh elu selu celu mish softplus logsigmoid softsign exp log sin cos
    erf sqrt rsqrt pow __pow__ reciprocal tanh_ sigmoid_ exp_ log1p expm1 glu tanhshrink
    __rpow__""".split()
NORMS = {
    "batch_norm": "batch",
    "instance_norm": "instance",
    "group_norm": "group",
    "layer_norm": "layer",
    "rms_norm": "layer",
    "local_response_norm": "response",
    "normalize": "layer",
}
POOLS = """max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d lp_pool2d
    boolean_dispatch max_pool2d_with_indices max_pool1d_with_indices adaptive_max_pool2d_with_indices
    """.split()
REDUCTIONS = """mean sum max min amax amin var std norm var_mean std_mean prod logsumexp argmax argmin
    any all cumsum topk sort argsort vector_norm""".split()
COPIES = """cat concat stack contiguous clone pad roll repeat repeat_interleave gather index_select
    scatter scatter_ index_put index_put_ __setitem__ to float half bfloat16 type type_as copy_ flip
    tile pixel_shuffle pixel_unshuffle channel_shuffle masked_select index_add tril triu where
    meshgrid unfold fold one_hot broadcast_to masked_scatter take_along_dim hstack vstack
    constant_pad_nd scatter_add index_copy bucketize searchsorted""".split()
ELEMENTWISE = """add add_ sub sub_ mul mul_ div div_ neg abs __add__ __radd__ __iadd__ __sub__
    __rsub__ __isub__ __mul__ __rmul__ __imul__ __truediv__ __rtruediv__ __itruediv__ __neg__
    masked_fill masked_fill_ addcmul addcdiv lerp maximum minimum square true_divide rsub
    __floordiv__ __mod__ floor_divide remainder eq ne lt le gt ge __eq__ __ne__ __lt__ __le__
    __gt__ __ge__ __and__ __or__ __invert__ __rand__ logical_and logical_not logical_or sign floor
    ceil round zero_ fill_ bitwise_and bitwise_not""".split()
MAKERS = """arange zeros ones full zeros_like ones_like full_like empty empty_like tensor linspace
    new_zeros new_ones new_full new_empty eye rand randn rand_like randn_like scalar_tensor
    new_tensor bernoulli bernoulli_ outer""".split()

OPERATION_OF: Mapping[str, str] = {
    **dict.fromkeys(VIEWS, "view"),
    **dict.fromkeys(RECTIFIERS + CURVES, "activation"),
    **dict.fromkeys(NORMS, "normalisation"),
    **dict.fromkeys(POOLS, "pooling"),
    **dict.fromkeys(REDUCTIONS, "reduction"),
    **dict.fromkeys([*COPIES, *MAKERS], "copy"),
    **dict.fromkeys(ELEMENTWISE, "element-wise"),
    **dict.fromkeys(["softmax", "log_softmax", "softmin"], "softmax"),
    **dict.fromkeys(["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
                     "feature_alpha_dropout", "drop_path", "dropout_"], "dropout"),
    **dict.fromkeys(["interpolate", "upsample", "grid_sample", "affine_grid"], "resampling"),
    **dict.fromkeys(["bmm", "matmul", "mm", "__matmul__", "__rmatmul__", "einsum", "baddbmm", "mv", "addmm",
                     "tensordot", "bilinear", "dot", "inner"], "matmul"),
    **dict.fromkeys(["lstm", "gru", "rnn_tanh", "rnn_relu"], "recurrent"),
    **dict.fromkeys(["lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"], "recurrent"),
    **dict.fromkeys(["embedding", "embedding_bag"], "embedding"),
    "scaled_dot_product_attention": "attention",
    "linear": "linear",
}  # fmt: skip
CONVOLUTIONS = frozenset(f"conv{'_transpose' * t}{n}d" for n in (1, 2, 3) for t in (0, 1))
ATTENTION = "multi_head_attention_forward"


def bytes_of(tensors: Iterable[Tensor]) -> float:
    """What tensors hold."""
    return float(sum(tensor.numel() * tensor.element_size() for tensor in tensors))


def work_of_call(
    func: Callable[..., Any], args: Any, kwargs: Any, result: Any, flops: float
) -> list[Work]:
    """What one call of a function does; FLOPs are those of its forward pass."""
    outputs = [tensor for _, tensor in tensors_in(result)]
    name = getattr(func, "__name__", "")
    if not outputs or name in ("__get__", "requires_grad_", "__set__", "backward"):
        return []
    inputs = [t for _, t in tensors_in((args, kwargs)) if t.numel()]
    if name in CONVOLUTIONS:
        return [_convolution(name, args, kwargs, outputs[0], flops)]
    if name == ATTENTION:
        return list(_multi_head(args, kwargs, outputs[0], flops))
    operation = OPERATION_OF.get(name.rstrip("_") if name not in OPERATION_OF else name, name)
    sized = _SIZED.get(operation)
    if sized is not None and inputs:
        return [sized(name, args, inputs, outputs[0], flops)]
    if flops:
        operation, sized = "matmul", _SIZED["matmul"]
        return [sized(name, args, inputs, outputs[0], flops)]
    storages = {t.untyped_storage()._cdata for t in inputs}
    in_place = (
        (name.endswith("_") and not name.endswith("__"))
        or name in ("__setitem__", "__iadd__", "__imul__")
        or bool(kwargs.get("inplace"))
    )
    if (
        not in_place
        and outputs[0].untyped_storage()._cdata in storages
        and not (operation == "activation" and True in args)
    ):
        operation = "view"  # whatever it is called, nothing is moved
    return [_light(name, operation, inputs, outputs)]


def _light(name: str, operation: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Work:
    """A call whose cost follows the bytes that it reads and writes, there and back."""
    if operation == "view":
        return Work("view", features=Features(0.0, 0.0, 0.0))
    moved = bytes_of(t for t in inputs if not isinstance(t, nn.Parameter)) + bytes_of(outputs)
    back = any(t.requires_grad for t in outputs)
    attributes: dict[str, Json] = {}
    if operation == "normalisation":
        attributes["of"] = NORMS[name]
    elif operation == "activation":
        attributes["curved"] = int(name in CURVES)
    if not back:
        attributes["forward"] = 1
    return rounded(
        Work(operation, attributes=attributes, features=Features(0.0, moved * (1 + back), 0.0))
    )


def rounded(work: Work) -> Work:
    """So many calls of the next of a few sizes: as many bytes, and nearly as many calls."""
    moved = work.features.activation_bytes or 0.0
    if moved <= SMALL:  # such calls cost the same, whatever they move
        return replace(work, features=replace(work.features, activation_bytes=SMALL))
    size = float(round(2.0 ** (round(math.log2(moved) * STEPS_AN_OCTAVE) / STEPS_AN_OCTAVE)))
    features = replace(work.features, activation_bytes=size)
    return replace(work, features=features, count=work.count * moved / size)


def _passes(*tensors: Tensor | None) -> int:
    """Forward, and one pass back for each of the tensors that want a gradient."""
    return 1 + sum(t is not None and t.requires_grad for t in tensors)


def _heavy(operation: str, widths: Mapping[str, int], attributes: Mapping[str, Json], moved: float,
           held: float, passes: int, flops: float) -> Work:  # fmt: skip
    told = {**attributes, "passes": passes}
    back = 2.0 if passes > 1 else 1.0
    return Work(operation, Widths(widths), told, Features(flops * passes, moved * back, held))


def _convolution(name: str, args: Any, kwargs: Any, output: Tensor, flops: float) -> Work:
    x, weight = (args[i] if len(args) > i else kwargs[n] for i, n in enumerate(("input", "weight")))
    transposed = "transpose" in name
    groups = int(kwargs.get("groups", args[6] if len(args) > 6 and not transposed else 1))
    if transposed and len(args) > 6:
        groups = int(args[6])
    spatial = weight.dim() - 2
    channels_in, channels_out = (t.shape[-spatial - 1] for t in (x, output))
    positions = math.prod(output.shape) // channels_out
    before = math.prod(x.shape) // channels_in
    attributes: dict[str, Json] = {
        "rows": max(positions, before),
        "kernel": math.prod(weight.shape[2:]),
        "stride": round(max(positions, before) / max(min(positions, before), 1), 2),
        "dimensions": spatial,
    }
    operation = "depthwise" if groups > 1 and weight.shape[1] == 1 else "convolution"
    if operation == "convolution":
        attributes["groups"] = groups
        widths = {"in": channels_in // groups, "out": channels_out // groups}
    else:
        widths = {"out": channels_out}
    moved = bytes_of([x, output])
    return _heavy(
        operation, widths, attributes, moved, bytes_of([weight]), _passes(x, weight), flops
    )


def _linear(name: str, args: Any, inputs: Sequence[Tensor], output: Tensor, flops: float) -> Work:
    x, weight = inputs[0], inputs[1]
    rows = x.numel() // x.shape[-1]
    widths = {"in": x.shape[-1], "out": weight.numel() // x.shape[-1]}
    moved = bytes_of([x, output])
    return _heavy(
        "linear", widths, {"rows": rows}, moved, bytes_of([weight]), _passes(x, weight), flops
    )


def _matmul(name: str, args: Any, inputs: Sequence[Tensor], output: Tensor, flops: float) -> Work:
    x, y = inputs[-2:] if len(inputs) > 1 else (inputs[0], inputs[0])
    out = output.shape[-1] if output.dim() else 1
    rows = output.shape[-2] if output.dim() > 1 else 1
    summed = max(round(flops / 2 / max(output.numel(), 1)), 1)
    attributes = {"rows": rows, "matrices": max(output.numel() // max(rows * out, 1), 1)}
    return _heavy("matmul", {"in": summed, "out": max(out, 1)}, attributes, bytes_of([x, y, output]), 0.0,
                  _passes(x, y), flops)  # fmt: skip


def _attention(
    name: str, args: Any, inputs: Sequence[Tensor], output: Tensor, flops: float
) -> Work:
    query, key = inputs[0], inputs[1]
    attributes = {"rows": query.shape[-2], "keys": key.shape[-2],
                  "matrices": math.prod(query.shape[:-2]), "masked": int(len(inputs) > 3)}  # fmt: skip
    return _heavy("attention", {"in": query.shape[-1]}, attributes, bytes_of(inputs) + bytes_of([output]), 0.0,
                  _passes(query, key), flops)  # fmt: skip


def _embedding(
    name: str, args: Any, inputs: Sequence[Tensor], output: Tensor, flops: float
) -> Work:
    table = max(inputs, key=lambda t: (t.is_floating_point(), t.numel()))
    attributes = {"rows": output.numel() // max(output.shape[-1], 1), "entries": table.shape[0]}
    held = bytes_of([table])
    return _heavy(
        "embedding",
        {"out": output.shape[-1]},
        attributes,
        bytes_of([output]),
        held,
        _passes(table),
        0.0,
    )


def _recurrent(
    name: str, args: Any, inputs: Sequence[Tensor], output: Tensor, flops: float
) -> Work:
    x = inputs[0]
    weights = [t for t in inputs if isinstance(t, nn.Parameter)]
    hidden = weights[1].shape[-1] if len(weights) > 1 else output.shape[-1]
    matrices = [t for t in weights if t.dim() == 2]
    cell = "cell" in name
    steps = 1 if cell else (x.shape[1] if args and args[-1] is True else x.shape[0])
    samples = max(x.numel() // max(x.shape[-1] * steps, 1), 1)
    attributes: dict[str, Json] = {
        "of": name.split("_")[0],
        "steps": steps,
        "rows": samples,
        "stacked": max(len(matrices) // 2, 1),
    }
    widths = {"in": x.shape[-1], "out": hidden}
    return _heavy(
        "recurrent",
        widths,
        attributes,
        bytes_of([x, output]),
        bytes_of(weights),
        _passes(x, *weights[:1]),
        flops,
    )


_SIZED: Mapping[str, Callable[..., Work]] = {
    "linear": _linear,
    "matmul": _matmul,
    "attention": _attention,
    "embedding": _embedding,
    "recurrent": _recurrent,
}


def _multi_head(args: Any, kwargs: Any, output: Tensor, flops: float) -> Iterable[Work]:
    """Attention as `nn.MultiheadAttention` does it in one call: three operations, and views."""
    query, key, _, embed, heads = args[:5]
    rows, keys = query.numel() // embed, key.numel() // key.shape[-1]
    length, other = query.shape[0], key.shape[0]
    samples = query.shape[1] if query.dim() > 2 else 1
    size = query.element_size()
    inner = (rows + 2 * keys) * embed
    yield _heavy("linear", {"in": embed, "out": 3 * embed}, {"rows": rows}, size * (rows * embed + inner), 3.0 * size * embed**2,
                 3, 2.0 * inner * embed)  # fmt: skip
    needs_weights = kwargs.get("need_weights", True)
    attention = {
        "rows": length,
        "keys": other,
        "matrices": samples * heads,
        "masked": int(kwargs.get("attn_mask") is not None),
    }
    moved = size * (inner + rows * embed)
    if needs_weights:
        scores = size * samples * heads * length * other
        yield _heavy(
            "matmul",
            {"in": embed // heads, "out": other},
            {"rows": length, "matrices": samples * heads},
            moved / 2 + scores,
            0.0,
            3,
            2.0 * samples * length * other * embed,
        )
        yield rounded(Work("softmax", features=Features(0.0, 4.0 * scores, 0.0)))
        yield _heavy(
            "matmul",
            {"in": other, "out": embed // heads},
            {"rows": length, "matrices": samples * heads},
            moved / 2 + scores,
            0.0,
            3,
            2.0 * samples * length * other * embed,
        )
    else:
        yield _heavy(
            "attention",
            {"in": embed // heads},
            attention,
            moved,
            0.0,
            3,
            4.0 * samples * length * other * embed,
        )
    yield _heavy("linear", {"in": embed, "out": embed}, {"rows": rows}, 2.0 * size * rows * embed, float(size) * embed**2, 3,
                 2.0 * rows * embed**2)  # fmt: skip
    yield rounded(Work("copy", features=Features(0.0, 4.0 * moved, 0.0)))
    yield Work("view", features=Features(0.0, 0.0, 0.0), count=12.0)


def work_of_update(parameters: Iterable[Tensor], optimizer: str) -> list[Work]:
    """What an optimiser does with parameters, one after the other."""
    attributes = {"by": optimizer, "states": STATES.get(optimizer, 2)}
    return [
        rounded(Work("update", attributes=attributes, features=Features(0.0, bytes_of([p]), 0.0)))
        for p in parameters
    ]


def work_of_loss(outputs: Iterable[Tensor]) -> list[Work]:
    """What the loss of outputs does, whichever it is."""
    return [rounded(Work("loss", features=Features(0.0, bytes_of([t]), 0.0))) for t in outputs]


def summed(work: Iterable[Work], flops: float, precision: Mapping[str, Json]) -> tuple[Work, ...]:
    """Equal calls together, FLOPs such that they add up to what was counted of all."""
    listed = list(work)
    told = sum((each.features.flops or 0.0) * each.count for each in listed)
    scale = flops / told if told else 1.0
    together: dict[LayerIdentity, Work] = {}
    counts: defaultdict[LayerIdentity, float] = defaultdict(float)
    for each in listed:
        features = replace(each.features, flops=float(round((each.features.flops or 0.0) * scale)))
        one = replace(
            each, features=features, attributes={**each.attributes, **precision}, count=1.0
        )
        together.setdefault(one.layer.identity, one)
        counts[one.layer.identity] += each.count
    return tuple(replace(one, count=counts[key]) for key, one in together.items())
