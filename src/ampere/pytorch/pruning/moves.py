"""Calls that only move numbers: asked of torch with tensors whose entries are all different.

If every number that comes out went in, where each came from is known: views, permutations, slices,
concatenations. What computes new numbers (a sum, a mean, a softmax) moves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ampere.core.arrays import Ints
from ampere.core.graph.calls import Value
from ampere.core.program.trees import Path, map_leaves
from ampere.pytorch.graph.recorder import TracedCall, tensors_in

MOST = 1 << 24  # entries that float32 can still tell apart
ROUNDS = 3  # sums that happen to be other entries are so only once


def find_sources(call: TracedCall, tensors: Sequence[torch.Tensor]) -> dict[Path, Ints] | None:
    """For each number that comes out, its place among all that went in; None if it is computed.

    Args:
        call: What is asked.
        tensors: What it was called with, in order; their values do not matter.
    """
    whole = sum(tensor.numel() for tensor in tensors)
    if not 0 < whole < MOST or not all(tensor.is_floating_point() for tensor in tensors):
        return None
    rounds = [_follow_numbers(call, tensors, seed) for seed in range(ROUNDS)]
    return rounds[0] if _agree(rounds) else None


def _follow_numbers(
    call: TracedCall, tensors: Sequence[torch.Tensor], seed: int
) -> dict[Path, Ints] | None:
    """Run a call on numbers that are all different, and find each again in what comes out."""
    whole = sum(t.numel() for t in tensors)
    numbers = torch.randperm(whole, generator=torch.Generator().manual_seed(seed)) + 1
    parts = torch.split(numbers.to(torch.float64), [t.numel() for t in tensors])
    fed = iter([part.reshape(t.shape) for part, t in zip(parts, tensors, strict=True)])
    try:
        args, kwargs = _filled((call.args, call.kwargs), fed)
        with torch.no_grad():
            result = call.run(*args, **kwargs) if call.run is not None else None
    except Exception:  # whatever torch objects to
        return None
    if result is None:  # an assignment in place
        result = args[0]
    place = np.full(whole + 1, -1)
    place[numbers.numpy()] = np.arange(whole)
    sources = {}
    for path, tensor in tensors_in(result):
        values = tensor.numpy()
        if not tensor.is_floating_point() or not ((values >= 0) & (values <= whole)).all():
            return None
        if (values != np.round(values)).any():
            return None
        sources[path] = place[values.astype(np.intp)]  # 0 is padding: it came from nowhere
    return sources


def _agree(rounds: Sequence[dict[Path, Ints] | None]) -> bool:
    """Whether every round found the same sources."""
    first = rounds[0]
    return first is not None and all(
        other is not None
        and other.keys() == first.keys()
        and all(np.array_equal(first[path], other[path]) for path in first)
        for other in rounds[1:]
    )


def _filled(tree: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """Arguments with tensors in the place of values."""

    def filled(leaf: Any) -> Any:
        if isinstance(leaf, Value):
            return next(tensors)
        return torch.device("cpu") if isinstance(leaf, torch.device) else leaf

    return map_leaves(filled, tree)
