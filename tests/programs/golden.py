"""One training step of torch, and what another engine must make of the same weights and data.

golden = golden_step(layers)          # torch's gradients, by the keys of programs
worst_error(golden, after)            # how far an engine's weights moved elsewhere
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ampere.core.layers import Layer
from ampere.programs.gradients import reach_of
from ampere.programs.losses import counted, parts_of_loss
from ampere.programs.program import Key, Program
from ampere.programs.values import batches
from ampere.programs.wiring import program_of
from ampere.pytorch.runtime.losses import returned_tensors

from .networks import built


@dataclass(frozen=True)
class Golden:
    """A program, what it starts from, and torch's gradients of its loss."""

    program: Program
    values: Mapping[Key, Any]
    data: Sequence[Any]
    targets: Sequence[Any]
    gradients: Mapping[Key, Any]


def golden_step(layers: Sequence[Layer], seed: int = 0) -> Golden:
    """Torch's gradients of one step from weights and data that are drawn by chance."""
    program = program_of(layers)
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    network, held = built(layers)
    network.train()
    values = {key: tensor.detach().numpy().copy() for key, tensor in held.items()}
    data = batches(program, rng)
    output = network(*(torch.from_numpy(np.array(array)) for array in data))
    tensors = [tensor for tensor in returned_tensors(output) if tensor.requires_grad]
    reach = reach_of(program)
    shapes = {end: tuple(t.shape) for end, t in zip(counted(program, reach), tensors, strict=True)}
    parts = parts_of_loss(program, reach, shapes, rng)
    losses = [_loss(p.form, t, p.target) for p, t in zip(parts, tensors, strict=True)]
    torch.stack(losses).sum().backward()
    gradients = {
        key: tensor.grad.numpy().copy() for key, tensor in held.items() if tensor.grad is not None
    }
    return Golden(program, values, data, [part.target for part in parts], gradients)


def _loss(form: str, result: torch.Tensor, target: Any) -> torch.Tensor:
    functional = torch.nn.functional
    aim = None if target is None else torch.from_numpy(np.asarray(target))
    if form == "cross_entropy":
        return functional.cross_entropy(result.reshape(-1, result.shape[-1]), aim)
    if form == "of_pixels":
        return functional.cross_entropy(result, aim)
    if form == "mse":
        return functional.mse_loss(result, aim)
    if form == "bce":
        return functional.binary_cross_entropy_with_logits(result, aim)
    return result.sum()


def errors(golden: Golden, after: Mapping[Key, Any], rate: float) -> dict[Key, float]:
    """How far each weight moved elsewhere than by SGD of torch, as a share of how far it moved.

    What hardly moves at all, such as a bias before a normalisation, is compared with others.
    """
    largest = max(float(np.linalg.norm(each)) for each in golden.gradients.values())
    found = {}
    for key, gradient in golden.gradients.items():
        moved = (golden.values[key].astype(float) - after[key].astype(float)) / rate
        size = max(float(np.linalg.norm(gradient)), 1e-2 * largest)
        found[key] = float(np.linalg.norm(moved - gradient)) / size
    return found
