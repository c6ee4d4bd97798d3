"""Quick stand-ins on the meta device for operations whose shapes torch works out slowly.

Normalisation and recurrent layers are decomposed into dozens of small operations there, which took
half of the time of reading a model. Shapes and gradients are all that is needed of them; where
their FLOPs are counted, only normalisation, which has none, is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode


def _scaled(x: torch.Tensor, weight: torch.Tensor | None, axis: int) -> torch.Tensor:
    """The same shape, with a gradient for the same tensors."""
    if weight is None:
        return x.clone()
    shape = [1] * x.dim()
    shape[axis] = -1
    return x * (weight.reshape(shape) if weight.dim() == 1 else weight)


def _batch_norm(
    input: torch.Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: torch.Tensor | None = None,
    bias: Any = None,
    training: bool = False,
    *rest: Any,
    **options: Any,
) -> torch.Tensor:
    if running_mean is not None and running_mean.numel() != input.shape[1]:
        raise RuntimeError(f"{input.shape[1]} channels, not {running_mean.numel()}")
    if training:
        functional._verify_batch_size(input.size())  # type: ignore[attr-defined]
    return _scaled(input, weight, 1)


def _layer_norm(
    input: torch.Tensor,
    normalized_shape: Any,
    weight: torch.Tensor | None = None,
    *rest: Any,
    **options: Any,
) -> torch.Tensor:
    if tuple(input.shape[-len(normalized_shape) :]) != tuple(normalized_shape):
        raise RuntimeError(f"an input of {tuple(input.shape)} is no {tuple(normalized_shape)}")
    return _scaled(input, weight, -1)


def _group_norm(
    input: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None = None,
    *rest: Any,
    **options: Any,
) -> torch.Tensor:
    if input.shape[1] % num_groups:
        raise RuntimeError(f"{input.shape[1]} channels do not divide into {num_groups} groups")
    return _scaled(input, weight, 1)


_QUICK: Mapping[Any, Callable[..., Any]] = {
    functional.batch_norm: _batch_norm,
    functional.layer_norm: _layer_norm,
    functional.group_norm: _group_norm,
}


class QuickNorms(TorchFunctionMode):
    """Normalisation by its quick stand-in, for tensors on the meta device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return quick(func, args)(*args, **(kwargs or {}))


def quick(func: Callable[..., Any], args: Any) -> Callable[..., Any]:
    """What to run instead of a function: its stand-in, where it has one and the input is meta."""
    stand_in = _QUICK.get(func)
    if stand_in is None or not args or not args[0].is_meta:
        return func

    def run(*given: Any, **options: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return stand_in(*given, **options)

    return run


def run_quickly(module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    """A standard module's forward, or its stand-in where the input is meta."""

    def run(*args: Any, **kwargs: Any) -> Any:
        meta = bool(args) and isinstance(args[0], torch.Tensor) and args[0].is_meta
        if meta and isinstance(module, nn.RNNBase) and args[0].dim() == 3 and not kwargs:
            return _recurrent(module, *args)
        if meta and isinstance(module, nn.modules.batchnorm._BatchNorm):
            training = module.training or module.running_mean is None
            statistics = (module.running_mean, module.running_var)
            return _batch_norm(args[0], *statistics, module.weight, module.bias, training)
        if meta and isinstance(module, nn.LayerNorm):
            return _layer_norm(args[0], module.normalized_shape, module.weight)
        if meta and isinstance(module, nn.GroupNorm):
            return _group_norm(args[0], module.num_groups, module.weight)
        return forward(*args, **kwargs)

    return run


def _recurrent(rnn: nn.RNNBase, x: torch.Tensor, states: Any = None) -> Any:
    """Tensors of the right shapes; a gradient reaches the input and the weights by flag only."""
    if x.shape[-1] != rnn.input_size:
        raise RuntimeError(f"an input of {x.shape[-1]} features, not {rnn.input_size}")
    given = [x, *rnn.parameters(), *(states if isinstance(states, tuple) else ())]
    if isinstance(states, torch.Tensor):
        given.append(states)
    grad = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given)
    directions = 2 if rnn.bidirectional else 1
    batch = x.shape[0 if rnn.batch_first else 1]
    width = rnn.proj_size or rnn.hidden_size

    def made(*shape: int) -> torch.Tensor:
        tensor = torch.empty(shape, device="meta", dtype=x.dtype).requires_grad_(grad)
        return tensor.clone()  # no leaf: it may be worked on in place

    output = made(*x.shape[:2], width * directions)
    state = made(rnn.num_layers * directions, batch, width)
    if isinstance(rnn, nn.LSTM):
        return output, (state, made(rnn.num_layers * directions, batch, rnn.hidden_size))
    return output, state
