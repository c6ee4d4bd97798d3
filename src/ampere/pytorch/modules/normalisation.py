"""Normalisation, over batches, channels, groups of them or the last sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ampere.core.graph.channels import Dims, must_divide
from ampere.core.program.trees import Path
from ampere.pytorch.modules.base import (
    NO_PRODUCTS,
    PLAIN_NAMING,
    ModuleRecord,
    Place,
    Pruning,
    QuickForward,
    Shortcut,
    SizeRule,
    Sizing,
    WeightRule,
)

if TYPE_CHECKING:
    import torch

    from ampere.pytorch.graph.literals import Template
    from ampere.pytorch.graph.recorder import TracedCall
    from ampere.pytorch.pruning.coupling import Follower, Labels


# --- Over channels: the second dimension ----------------------------------------------------------


def _channel_sizes(argument: str) -> SizeRule:
    def rule(
        call: TracedCall, inputs: list[Dims], shape: tuple[int, ...], sizes: dict[str, Any]
    ) -> Dims:
        sizes[argument] = inputs[0][1]
        return inputs[0]

    return rule


def _group_sizes(
    call: TracedCall, inputs: list[Dims], shape: tuple[int, ...], sizes: dict[str, Any]
) -> Dims:
    norm: Any = call.module
    sizes["num_channels"] = inputs[0][1]
    must_divide(inputs[0][1], norm.num_groups)
    return inputs[0]


def _channel_weights(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    elements = follower.entering(call, 1)
    for part in ("weight", "bias", "running_mean", "running_var"):
        follower.weight(call, part, 0, elements)
    return {(): follower.passed_on(call, 1, elements)}


def _group_weights(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    norm: Any = call.module
    follower.together(follower.entering(call, 1), norm.num_groups)
    return _channel_weights(follower, call)


# --- Over the last sizes --------------------------------------------------------------------------


def _last_sizes(
    call: TracedCall, inputs: list[Dims], shape: tuple[int, ...], sizes: dict[str, Any]
) -> Dims:
    norm: Any = call.module
    sizes["normalized_shape"] = inputs[0][-len(norm.normalized_shape) :]
    return inputs[0]


def _last_literals(call: TracedCall, inputs: list[Dims], behind: list[Dims]) -> Template:
    """The function says the sizes that it normalises over as numbers."""
    x = inputs[0]
    if "normalized_shape" in call.kwargs:
        last = x[len(x) - len(call.kwargs["normalized_shape"]) :]
        return call.args, {**call.kwargs, "normalized_shape": last}
    return (call.args[0], x[len(x) - len(call.args[1]) :], *call.args[2:]), call.kwargs


def _last_weights(follower: Follower, call: TracedCall) -> dict[Path, Labels]:
    norm: Any = call.module
    rank = len(norm.normalized_shape)
    for k in range(rank):
        elements = follower.entering(call, k - rank)
        for part in ("weight", "bias"):
            follower.weight(call, part, k, elements)
    return {(): dict(follower.labels_of(call.inputs[0]))}


# --- Stand-ins on the meta device: the same shape, with a gradient for the same tensors -----------


def _scaled(x: torch.Tensor, weight: torch.Tensor | None, axis: int) -> torch.Tensor:
    if weight is None:
        return x.clone()
    shape = [1] * x.dim()
    shape[axis] = -1
    return x * (weight.reshape(shape) if weight.dim() == 1 else weight)


def _quick_batch_norm(
    input: torch.Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: torch.Tensor | None = None,
    bias: Any = None,
    training: bool = False,
    *rest: Any,
    **options: Any,
) -> torch.Tensor:
    from torch.nn import functional

    if running_mean is not None and running_mean.numel() != input.shape[1]:
        raise RuntimeError(f"{input.shape[1]} channels, not {running_mean.numel()}")
    if training:
        functional._verify_batch_size(input.size())  # type: ignore[attr-defined]
    return _scaled(input, weight, 1)


def _quick_instance_norm(
    input: torch.Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: torch.Tensor | None = None,
    bias: Any = None,
    use_input_stats: bool = True,
    *rest: Any,
    **options: Any,
) -> torch.Tensor:
    from torch.nn import functional

    if use_input_stats:
        functional._verify_spatial_size(input.size())  # type: ignore[attr-defined]
    return _scaled(input, weight, 1)


def _quick_group_norm(
    input: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None = None,
    *rest: Any,
    **options: Any,
) -> torch.Tensor:
    if input.shape[1] % num_groups:
        raise RuntimeError(f"{input.shape[1]} channels do not divide into {num_groups} groups")
    return _scaled(input, weight, 1)


def _quick_last_norm(
    input: torch.Tensor,
    normalized_shape: Any,
    weight: torch.Tensor | None = None,
    *rest: Any,
    **options: Any,
) -> torch.Tensor:
    if tuple(input.shape[-len(normalized_shape) :]) != tuple(normalized_shape):
        raise RuntimeError(f"an input of {tuple(input.shape)} is no {tuple(normalized_shape)}")
    return _scaled(input, weight, -1)


def _batch_forward(norm: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    training = norm.training or norm.running_mean is None
    statistics = (norm.running_mean, norm.running_var)
    return _quick_batch_norm(args[0], *statistics, norm.weight, norm.bias, training)


def _instance_forward(norm: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if args[0].dim() != norm._get_no_batch_dim() + 1:  # one sample alone, or no map at all
        return None
    from_input = norm.training or not norm.track_running_stats
    return _quick_instance_norm(args[0], None, None, norm.weight, norm.bias, from_input)


def _group_forward(norm: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    return _quick_group_norm(args[0], norm.num_groups, norm.weight)


def _last_forward(norm: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    return _quick_last_norm(args[0], norm.normalized_shape, norm.weight)


def _sizing(rule: SizeRule, entering: tuple[str, int], literals: Mapping[str, Any]) -> Sizing:
    return Sizing(
        rule=rule,
        entering=entering,
        makes=None,
        ids_below=None,
        weight_sides=(),
        literals=literals,
    )


def _record(
    *,
    names: tuple[str, ...],
    parameters: str,
    sizing: Sizing,
    forward: QuickForward,
    functions: Mapping[str, Callable[..., Any]],
    weights: WeightRule,
    batch_statistics: bool = False,
) -> ModuleRecord:
    """What all of them share, and what tells them apart; functions come with their stand-ins."""
    return ModuleRecord(
        names=names,
        functions=tuple(functions),
        place=Place.NORMALISATION,
        parameters=parameters,
        whole=False,
        keeps_places=True,
        naming=PLAIN_NAMING,
        sizing=sizing,
        shortcut=Shortcut(forward=forward, functions=functions, per_position=()),
        pruning=Pruning(rule=weights, after_cut=None, batch_statistics=batch_statistics),
        physics=NO_PRODUCTS,
    )


RECORDS = (
    _record(
        names=("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"),
        parameters="affine",
        sizing=_sizing(_channel_sizes("num_features"), ("num_features", 1), {}),
        forward=_batch_forward,
        functions={"batch_norm": _quick_batch_norm},
        weights=_channel_weights,
        batch_statistics=True,
    ),
    _record(
        names=("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"),
        parameters="affine",
        sizing=_sizing(_channel_sizes("num_features"), ("num_features", 1), {}),
        forward=_instance_forward,
        functions={"instance_norm": _quick_instance_norm},
        weights=_channel_weights,
    ),
    _record(
        names=("GroupNorm",),
        parameters="affine",
        sizing=_sizing(_group_sizes, ("num_channels", 1), {}),
        forward=_group_forward,
        functions={"group_norm": _quick_group_norm},
        weights=_group_weights,
    ),
    _record(
        names=("LayerNorm", "RMSNorm"),
        parameters="elementwise_affine",
        sizing=_sizing(
            _last_sizes,
            ("normalized_shape", -1),
            {"layer_norm": _last_literals, "rms_norm": _last_literals},
        ),
        forward=_last_forward,
        functions={"layer_norm": _quick_last_norm, "rms_norm": _quick_last_norm},
        weights=_last_weights,
    ),
)
