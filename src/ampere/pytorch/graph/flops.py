"""FLOPs, by torch's own counter, but for kernels of grouped convolutions.

Of these torch (2.13, and before) counts the gradient as if every group saw the channels of all: as
many times too much as there are groups, 192 of a depthwise convolution of 192 channels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, flop_registry

_BACKWARD = torch.ops.aten.convolution_backward


def flop_counter() -> FlopCounterMode:
    """What counts FLOPs while it is entered; 2 a multiply-add."""
    return FlopCounterMode(display=False, custom_mapping={_BACKWARD: _of_convolution})


def _of_convolution(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
    *told, groups, (wants_input, wants_kernel, _) = args
    of_input, of_kernel = (
        flop_registry[_BACKWARD](*told, groups, mask, out_val=out_val)
        for mask in ([wants_input, False, False], [False, wants_kernel, False])
    )
    return int(of_input + of_kernel // groups)


_of_convolution._get_raw = True  # type: ignore[attr-defined]  # tensors, not their shapes
