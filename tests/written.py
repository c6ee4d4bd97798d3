"""A model as users write them: modules by name, and a forward of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class Written(nn.Module):
    """Modules, parameters and plain values by name, and a function of them and the inputs."""

    def __init__(self, forward: Callable[..., Any], **held: Any) -> None:
        super().__init__()
        for name, part in held.items():
            setattr(self, name, part)
        self._forward = forward

    def forward(self, *inputs: Tensor, **named: Tensor) -> Any:
        return self._forward(self, *inputs, **named)
