"""Checkpoint: how far a trainer is, as plain numbers that go to other devices.

    model.conv1.weight, ...       weights and what else the model keeps
    optimizer.3.exp_avg, ...      what the optimiser knows of the fourth parameter

Safetensors: numbers and nothing else, so that reading one cannot do anything. What an optimiser is
set to is no part of it: that is the trainer's own.
"""

from __future__ import annotations

from typing import Any

import torch

from ampere.errors import DataError
from ampere.pytorch.runtime.trainer import Trainer

MODEL, OPTIMIZER = "model.", "optimizer."


def save_state(trainer: Trainer) -> bytes:
    """All that training needs to go on elsewhere."""
    from safetensors.torch import save

    state = {f"{MODEL}{name}": _plain(x) for name, x in trainer.model.state_dict().items()}
    if trainer.optimizer is not None:
        for number, known in trainer.optimizer.state_dict()["state"].items():
            for name, value in known.items():
                if isinstance(value, torch.Tensor):
                    state[f"{OPTIMIZER}{number}.{name}"] = _plain(value)
    data: bytes = save(state)
    return data


def load_state(trainer: Trainer, data: bytes) -> None:
    """Go on from what `save_state` told.

    Raises:
        DataError: It is something else, or of another network.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        state: dict[str, torch.Tensor] = load(data)
        weights = {
            name[len(MODEL) :]: value for name, value in state.items() if name.startswith(MODEL)
        }
        trainer.model.load_state_dict(weights)
        if trainer.optimizer is not None:
            own = trainer.optimizer.state_dict()
            trainer.optimizer.load_state_dict({**own, "state": _known(state)})
    except (SafetensorError, RuntimeError, KeyError, ValueError) as error:
        line = " ".join(str(error).split())
        raise DataError(f"the checkpoint does not fit the network: {line:.200}") from None


def _known(state: dict[str, torch.Tensor]) -> dict[int, dict[str, Any]]:
    """What the optimiser knows of each parameter."""
    known: dict[int, dict[str, Any]] = {}
    for name, value in state.items():
        if name.startswith(OPTIMIZER):
            number, _, what = name[len(OPTIMIZER) :].partition(".")
            known.setdefault(int(number), {})[what] = value
    return known


def _plain(value: torch.Tensor) -> torch.Tensor:
    """A copy by itself: tensors that share memory cannot be told."""
    return value.detach().cpu().clone().contiguous()
