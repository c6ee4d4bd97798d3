"""Calls of a forward pass: what each function of torch does that was called.

Layers of kinds that were never measured are made of calls that were. Heavy ones (those with FLOPs,
tables, sequences) are told at their sizes (heavy.py), light ones by the bytes that they read and
write, rounded to a few sizes, so that a profile has hundreds of them and not thousands (sums.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from ampere.core.layers import Features, Work
from ampere.core.types import Json
from ampere.pytorch.graph.recorder import tensors_in
from ampere.pytorch.work.heavy import HEAVY, Call, matmul, multi_head
from ampere.pytorch.work.operations import CURVED, NORMS, operation_of, works_in_place
from ampere.pytorch.work.sums import NOTHING, bytes_of, rounded, work_of_loss

ATTENTION = "multi_head_attention_forward"
NO_CALLS = ("__get__", "__set__", "requires_grad_", "backward")


def work_of_call(
    function: Callable[..., Any], args: Any, kwargs: Any, result: Any, flops: float
) -> list[Work]:
    """What one call of a function does; FLOPs are those of its forward pass."""
    name = getattr(function, "__name__", "")
    inputs = [tensor for _, tensor in tensors_in((args, kwargs)) if tensor.numel()]
    outputs = [tensor for _, tensor in tensors_in(result)]
    if not outputs or name in NO_CALLS:
        return []
    call = Call(name, args, kwargs, inputs, outputs, flops)
    if name == ATTENTION:
        return multi_head(call)
    operation = operation_of(name)
    if operation == "loss":
        return work_of_loss(inputs[:1])
    heavy = HEAVY.get(operation) or (matmul if flops else None)
    try:
        work = heavy(call) if heavy is not None and inputs else _light(call, operation)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError):
        # Called in a way that nobody has thought of: by its bytes, under its own name.
        work = _light(call, name)
    if work == NOTHING or not inputs or inputs[0].is_contiguous():
        return [work]
    # Transposed, or channels last: it is copied first, or worked on against the grain.
    return [replace(work, attributes={**work.attributes, "strided": 1})]


def _light(call: Call, operation: str) -> Work:
    """A call whose cost follows the bytes that it reads and writes, there and back."""
    if operation == "view" or _moves_nothing(call):
        return NOTHING
    moved = bytes_of(t for t in call.inputs if not isinstance(t, nn.Parameter))
    moved += bytes_of(call.outputs)
    attributes: dict[str, Json] = {}
    if operation == "normalisation":
        attributes["of"] = NORMS[call.name]
    elif operation == "activation":
        attributes["curved"] = int(call.name in CURVED)
    back = any(tensor.requires_grad for tensor in call.outputs)
    if not back:
        attributes["forward"] = 1
    features = Features(0.0, moved * (1 + back), 0.0)
    return rounded(Work(operation, attributes=attributes, features=features))


def _moves_nothing(call: Call) -> bool:
    """Whether it returns what it was given, whatever it is called."""
    if (
        works_in_place(call.name)
        or call.kwargs.get("inplace")
        or any(argument is True for argument in call.args[1:])
    ):
        return False
    given = {tensor.untyped_storage()._cdata for tensor in call.inputs}
    return call.output.untyped_storage()._cdata in given
