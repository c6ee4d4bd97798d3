"""Functions of torch by name: a closed list, since names come with networks that others describe.

On it are torch's operations on tensors and what torch itself lets a traced call be, and nothing
else: no function that reads or writes files, and no way through an attribute to one.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch

from ampere.errors import ModelError

ATTRIBUTE = re.compile(r"torch\.Tensor\.([A-Za-z]\w*)\.__get__")  # x.T, x.real
FILES = ("from_file",)  # the one operation that opens a file
# What makes tensors is not in the list of what can be overridden: it has none to be overridden by.
METHODS = ("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros")


def find_function(name: str) -> Callable[..., Any]:
    """A function of torch by its full name; only names that a trace can have written."""
    attribute = ATTRIBUTE.fullmatch(name)
    if attribute is not None:
        if not _is_attribute(attribute[1]):
            raise ModelError(f"{name} is not an attribute of tensors")
        return operator.attrgetter(attribute[1])
    home, *parts = name.split(".")
    function: Any = torch
    for part in parts:
        function = getattr(function, part, None)
    listed = home == "torch" and bool(parts) and _is_operator_or_plain(parts[-1])
    if not listed or id(function) not in _listed():
        raise ModelError(f"{name} is not a function of torch that a network may call")
    return function  # type: ignore[no-any-return]


def _is_attribute(name: str) -> bool:
    """Whether tensors have this as a property, and not as a method."""
    return hasattr(torch.Tensor, name) and not callable(getattr(torch.Tensor, name))


def _is_operator_or_plain(name: str) -> bool:
    """`relu_`, `_weight_norm` and `__radd__`, but not `__reduce_ex__`."""
    word = name[2:-2]
    if name != f"__{word}__":
        return not name.startswith("__")
    reflected = word[1:] if word.startswith("r") else word
    return f"__{word}__" in dir(operator) or f"__{reflected}__" in dir(operator)


@lru_cache(maxsize=1)
def _listed() -> frozenset[int]:
    from torch.overrides import get_overridable_functions

    functions = [each for group in get_overridable_functions().values() for each in group]
    operations = (name for name in dir(torch._C._VariableFunctions) if name not in FILES)
    functions += [getattr(torch, name) for name in operations if hasattr(torch, name)]
    functions += [getattr(torch.Tensor, name) for name in METHODS if hasattr(torch.Tensor, name)]
    return frozenset(map(id, functions))
