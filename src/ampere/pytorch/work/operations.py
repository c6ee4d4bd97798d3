"""Operations: which functions of torch are alike in what they cost.

Names are those of torch's functions and of tensors' methods. A function that is in none of these
lists is an operation by itself, under its own name: a survey that never met it says so.
"""

from __future__ import annotations

from collections.abc import Mapping

VIEWS = """__getitem__ view reshape flatten unflatten squeeze unsqueeze permute transpose t swapaxes
    swapdims movedim moveaxis chunk split split_with_sizes tensor_split unbind narrow select expand
    expand_as view_as detach ravel mT T real imag diagonal as_strided"""
RECTIFIERS = """relu relu_ relu6 hardtanh hardtanh_ leaky_relu leaky_relu_ threshold prelu hardswish
    hardsigmoid clamp clamp_ clamp_min clamp_max rrelu hardshrink softshrink"""
CURVES = """gelu silu sigmoid tanh elu selu celu mish softplus logsigmoid softsign exp log sin cos
    erf sqrt rsqrt pow __pow__ __rpow__ reciprocal tanh_ sigmoid_ exp_ log1p expm1 glu tanhshrink"""
POOLS = """max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d lp_pool2d
    boolean_dispatch max_pool1d_with_indices max_pool2d_with_indices
    adaptive_max_pool2d_with_indices"""
REDUCTIONS = """mean sum max min amax amin var std norm var_mean std_mean prod logsumexp argmax
    argmin any all cumsum topk sort argsort vector_norm"""
COPIES = """cat concat stack hstack vstack contiguous clone pad constant_pad_nd roll repeat
    repeat_interleave gather index_select scatter scatter_ scatter_add index_put index_put_
    index_add index_copy __setitem__ to float half bfloat16 double long int short byte bool type
    type_as copy_ flip tile
    pixel_shuffle pixel_unshuffle channel_shuffle masked_select masked_scatter take_along_dim tril
    triu where meshgrid unfold fold one_hot broadcast_to bucketize searchsorted arange zeros ones
    full empty zeros_like ones_like full_like empty_like tensor linspace new_zeros new_ones
    new_full new_empty new_tensor scalar_tensor eye rand randn rand_like randn_like bernoulli
    bernoulli_ outer"""
ELEMENTWISE = """add add_ sub sub_ mul mul_ div div_ neg abs __add__ __radd__ __iadd__ __sub__
    __rsub__ __isub__ __mul__ __rmul__ __imul__ __truediv__ __rtruediv__ __itruediv__ __neg__
    __floordiv__ __mod__ masked_fill masked_fill_ addcmul addcdiv lerp maximum minimum square
    true_divide rsub floor_divide remainder eq ne lt le gt ge __eq__ __ne__ __lt__ __le__ __gt__
    __ge__ __and__ __or__ __invert__ __rand__ logical_and logical_not logical_or sign floor ceil
    round zero_ fill_ bitwise_and bitwise_not"""
LOSSES = """cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div
    binary_cross_entropy binary_cross_entropy_with_logits"""
MATMULS = """bmm matmul mm __matmul__ __rmatmul__ einsum baddbmm mv addmm tensordot bilinear dot
    inner"""

NORMS: Mapping[str, str] = {
    "batch_norm": "batch",
    "instance_norm": "instance",
    "group_norm": "group",
    "layer_norm": "layer",
    "rms_norm": "layer",
    "normalize": "layer",
    "local_response_norm": "response",
}
CONVOLUTIONS = frozenset(f"conv{'_transpose' * t}{n}d" for n in (1, 2, 3) for t in (0, 1))
CURVED = frozenset(CURVES.split())
IN_PLACE = frozenset(("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__"))

_LISTS: Mapping[str, str] = {
    "view": VIEWS,
    "activation": f"{RECTIFIERS} {CURVES}",
    "normalisation": " ".join(NORMS),
    "pooling": POOLS,
    "reduction": REDUCTIONS,
    "copy": COPIES,
    "element-wise": ELEMENTWISE,
    "softmax": "softmax log_softmax softmin",
    "dropout": "dropout dropout_ dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout",
    "resampling": "interpolate upsample grid_sample affine_grid",
    "convolution": " ".join(CONVOLUTIONS),
    "linear": "linear",
    "matmul": MATMULS,
    "attention": "scaled_dot_product_attention",
    "recurrent": "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell",
    "embedding": "embedding embedding_bag",
    "loss": LOSSES,
}
_OPERATION_OF = {name: operation for operation, names in _LISTS.items() for name in names.split()}


def operation_of(function: str) -> str:
    """The operation that a function belongs to, or its own name."""
    return _OPERATION_OF.get(function) or _OPERATION_OF.get(function.rstrip("_"), function)


def works_in_place(function: str) -> bool:
    """Whether it overwrites what it is given."""
    return function in IN_PLACE or (function.endswith("_") and not function.endswith("__"))
