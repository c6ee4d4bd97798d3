"""Recurrent layers counted on two positions of a sequence instead of all.

On the meta device torch takes them apart, position by position, which takes a second for a sequence
of a hundred. FLOPs of the forward and backward pass are affine in the length from two positions on:

    flops(T)  =  flops(2) + (T − 2) · (flops(3) − flops(2))                      exactly
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from ampere.pytorch.graph.flops import flop_counter
from ampere.pytorch.modules.registry import RECORDS

RECURRENT: dict[Callable[..., Any], str] = {
    getattr(torch, name): name
    for record in RECORDS.values()
    if record.shortcut is not None
    for name in record.shortcut.per_position
}
SHORT = 2

Spec = tuple[tuple[int, ...], torch.dtype, bool]  # shape, type, and whether it has a gradient


@dataclass(frozen=True)
class Shortened:
    """A recurrent call of which only two positions were run."""

    name: str
    positions: int  # that were left out
    input: Spec
    states: tuple[Spec, ...]
    weights: tuple[Spec, ...]
    flags: tuple[Any, ...]  # bias, layers, dropout, training, bidirectional, batch_first


def shorten(func: Callable[..., Any], args: Any) -> tuple[Any, Shortened] | None:
    """The result of a recurrent call from two positions, and what was left out.

    None where it is better run as it is: packed sequences, short ones, real data.
    """
    x = args[0]
    if len(args) != 9 or not x.is_meta or x.dim() != 3:
        return None
    axis = 1 if args[-1] else 0
    length = x.shape[axis]
    if length <= SHORT + 1:
        return None
    y, *states = func(x.narrow(axis, 0, SHORT), *args[1:])
    last = y.narrow(axis, SHORT - 1, 1)
    rest = last.expand(*(length - SHORT if i == axis else -1 for i in range(3)))
    hidden = args[1] if isinstance(args[1], (tuple, list)) else (args[1],)
    left_out = Shortened(
        RECURRENT[func],
        length - SHORT,
        _spec(x.narrow(axis, 0, 1)),
        tuple(map(_spec, hidden)),
        tuple(map(_spec, args[2])),
        tuple(args[3:]),
    )
    return (torch.cat([y, rest], axis), *states), left_out


def left_out_flops(call: Shortened) -> int:
    """FLOPs of the positions that were not run."""
    return call.positions * _flops_of_a_position(
        call.name, call.input, call.states, call.weights, call.flags
    )


@lru_cache(maxsize=4096)
def _flops_of_a_position(
    name: str,
    input: Spec,
    states: tuple[Spec, ...],
    weights: tuple[Spec, ...],
    flags: tuple[Any, ...],
) -> int:
    """What one position more takes, forward and backward."""
    short, long = (_flops(name, input, states, weights, flags, n) for n in (SHORT, SHORT + 1))
    return long - short


def _flops(
    name: str,
    input: Spec,
    states: tuple[Spec, ...],
    weights: tuple[Spec, ...],
    flags: tuple[Any, ...],
    length: int,
) -> int:
    shape, dtype, grad = input
    axis = 1 if flags[-1] else 0
    longer = tuple(length if i == axis else size for i, size in enumerate(shape))
    x = _made((longer, dtype, grad))
    hidden = tuple(map(_made, states))
    run = getattr(torch, name)
    with torch.enable_grad(), flop_counter() as counter:
        result = run(x, hidden if name == "lstm" else hidden[0], list(map(_made, weights)), *flags)
        if result[0].requires_grad:
            result[0].sum().backward()
    return int(counter.get_total_flops())


def _spec(tensor: torch.Tensor) -> Spec:
    return tuple(tensor.shape), tensor.dtype, tensor.requires_grad


def _made(spec: Spec) -> torch.Tensor:
    shape, dtype, grad = spec
    return torch.empty(shape, dtype=dtype, device="meta", requires_grad=grad)
