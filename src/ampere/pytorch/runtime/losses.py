"""The loss that a model is trained with: one by name, or the user's own function.

Targets are synthetic, and made once from a first output: a step pays for the loss alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from ampere.core.boundary.code import homes_of, in_words, raised
from ampere.core.boundary.losses import load_loss
from ampere.core.program.trees import leaves
from ampere.errors import AmpereError, ModelError

if TYPE_CHECKING:
    Loss = Callable[[Any], Tensor]  # of whatever the model returns
    TensorLoss = Callable[[Tensor], Tensor]


def returned_tensors(output: Any) -> Iterator[Tensor]:
    """The tensors that a model returns: alone, or in tuples, lists, dicts and dataclasses."""
    for leaf in leaves(output):
        if isinstance(leaf, Tensor):
            yield leaf
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            yield from returned_tensors([getattr(leaf, field.name) for field in fields(leaf)])


def _cross_entropy(output: Tensor) -> TensorLoss:
    """Over the last dimension of scores, or over the channels of each pixel."""
    if output.dim() < 2:
        shape = tuple(output.shape)
        raise ModelError(f"cross_entropy needs scores of classes, not {shape}: use mse or bce")
    if output.dim() == 4:
        labels = torch.randint(output.shape[1], output[:, 0].shape, device=output.device)
        return lambda result: functional.cross_entropy(result, labels)
    classes = output.shape[-1]
    labels = torch.randint(classes, (output.numel() // classes,), device=output.device)
    return lambda result: functional.cross_entropy(result.reshape(-1, classes), labels)


def _mse(output: Tensor) -> TensorLoss:
    target = torch.zeros_like(output)
    return lambda result: functional.mse_loss(result, target)


def _bce(output: Tensor) -> TensorLoss:
    target = torch.randint_like(output, 2)
    return lambda result: functional.binary_cross_entropy_with_logits(result, target)


def _sum(output: Tensor) -> TensorLoss:
    return Tensor.sum


def _by_shape(output: Tensor) -> TensorLoss:
    """A scalar is a loss already; squared error for single numbers, cross-entropy for scores."""
    if output.dim() == 0:
        return lambda result: result
    single = output.dim() == 1 or output.shape[-1] == 1
    return _mse(output) if single else _cross_entropy(output)


def _of_each(make: Callable[[Tensor], TensorLoss], output: Any) -> Loss:
    """The sum over all tensors with a gradient; over all numbers where everything is frozen."""
    tensors = list(returned_tensors(output))
    counted = [i for i, tensor in enumerate(tensors) if tensor.requires_grad] or [
        i for i, tensor in enumerate(tensors) if tensor.is_floating_point()
    ]
    if not counted:
        raise ModelError(
            f"the model returns {in_words(output)} without a tensor to take a loss of:"
            " pass your own as path/file.py:loss"
        )
    parts = [(i, make(tensors[i])) for i in counted]
    if isinstance(output, Tensor):
        return parts[0][1]

    def loss(result: Any) -> Tensor:
        tensors = list(returned_tensors(result))
        return reduce(torch.add, (part(tensors[i]) for i, part in parts))

    return loss


def _entry(output: Any) -> Any:
    """What a model itself calls its loss."""
    return output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)


def _has_entry(output: Any) -> bool:
    own = _entry(output)
    return isinstance(own, Tensor) and own.dim() == 0 and own.requires_grad


def _auto(output: Any) -> Loss:
    return _entry if _has_entry(output) else _of_each(_by_shape, output)


def scored(name: str, output: Any) -> list[Tensor]:
    """What a loss of this name is made of; a loss of the model's own was made by the model."""
    if name != "auto":
        return [tensor for tensor in returned_tensors(output) if tensor.requires_grad]
    if _has_entry(output):
        return []
    return [each for each in returned_tensors(output) if each.requires_grad and each.dim()]


LOSSES: Mapping[str, Callable[[Any], Loss]] = {
    "auto": _auto,
    "cross_entropy": partial(_of_each, _cross_entropy),
    "mse": partial(_of_each, _mse),
    "bce": partial(_of_each, _bce),
    "sum": partial(_of_each, _sum),
}


def find_loss(name: str) -> Callable[[Any], Loss]:
    """What makes the loss of this name from a first output; the user's own needs no targets."""
    if name in LOSSES:
        return LOSSES[name]
    own = load_loss(name)
    return lambda output: own


def make_loss(name: str, output: Any) -> Loss:
    """The loss as a function of what the model returns, its targets made from a first output.

    Raises:
        ModelError: There is no such loss, it raises, or it returns no scalar with a gradient.
    """
    make = find_loss(name)
    try:
        loss = make(output)
        value: Any = loss(output)
    except AmpereError:
        raise
    except Exception as error:
        raise raised(f"the loss {name}", error, homes_of(name.rpartition(":")[0])) from error
    if not isinstance(value, Tensor):
        raise ModelError(f"the loss {name} returned {in_words(value)}; it must return a scalar")
    if value.numel() != 1:
        shape = tuple(value.shape)
        raise ModelError(f"the loss {name} is of shape {shape}, no scalar: take its mean or sum")
    if not value.requires_grad and any(tensor.requires_grad for tensor in returned_tensors(output)):
        raise ModelError(
            f"the loss {name} has no gradient: make it of the model's outputs, without detaching"
        )
    return loss
