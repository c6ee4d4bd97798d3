"""Memory: the bytes that a training step needs, counted without running it.

The network runs forward and backward on the meta device, where tensors have sizes and no numbers,
and every tensor is followed from when it is made until nothing refers to it. The peak of these is
exact for what torch shows; what libraries take for themselves inside an operation (workspaces, the
gates of a fused LSTM, the pools of an allocator) is not in it, nor is the interpreter.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ampere.core.layers import Layer
from ampere.core.training import training_of
from ampere.errors import ModelError
from ampere.pytorch.graph.counter import backward
from ampere.pytorch.graph.recorder import tensors_in
from ampere.pytorch.runtime.builder import build, is_shared, network_inputs

# Numbers that an optimiser keeps for each that it trains.
KEPT = {"sgd": 0, "momentum": 1, "rmsprop": 1, "adam": 2, "adamw": 2}


@dataclass(frozen=True)
class StepMemory:
    """Bytes that a training step needs at its peak, by what they hold.

    `working` is the most that activations and gradients take together; they peak at one moment,
    which is why they are one number. Mixed precision is counted as if it were full.
    """

    parameters: int  # with buffers, and the batch
    optimizer_state: int
    working: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.parameters + self.optimizer_state + self.working


def step_memory(layers: Sequence[Layer]) -> StepMemory:
    """What a training step of these layers needs.

    Raises:
        ModelError: The layers cannot be run on the meta device, or came from a file.
    """
    training = training_of(layers)
    if training.optimizer not in KEPT:
        raise ModelError(f"what {training.optimizer!r} keeps is not known: no memory of it")
    live = _Live()
    try:
        with torch.device("meta"):
            network = build(layers).train()
        entering = [x.clone() if x.requires_grad else x for x in network_inputs(layers, "meta")]
        parameters = [p for p in network.parameters() if not is_shared(p)]
        for tensor in (*parameters, *network.buffers(), *entering):
            live.hold(tensor)
        held = live.now
        with live, torch.enable_grad():
            backward(network(*entering))
    except ModelError:
        raise
    except Exception as error:  # torch raises what it likes
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"the memory of this model cannot be counted: {reason}") from error
    trained = sum(p.numel() * p.element_size() for p in parameters if p.requires_grad)
    return StepMemory(held, KEPT[training.optimizer] * trained, live.peak - held)


class _Live(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows the bytes of all storages that are alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._sizes: dict[int, int] = {}

    def hold(self, tensor: torch.Tensor) -> None:
        """Count a tensor until its storage is gone; views share one."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._sizes:
            return
        self._sizes[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._release, key)

    def _release(self, key: int) -> None:
        self.now -= self._sizes.pop(key)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for _, tensor in tensors_in(result):
            self.hold(tensor)
        return result
