"""The table of what is translated: torch's modules by their class, functions by their last name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ampere.errors import AmpereError
from ampere.jax.runtime.sites import Operation, Site
from ampere.jax.runtime.translation import dense, functions, maps, sequences

_FAMILIES = (dense, functions, maps, sequences)


def _joined(name: str) -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    for family in _FAMILIES:
        found.update(getattr(family, name))
    return found


MODULES: Mapping[str, Operation] = _joined("MODULES")
FUNCTIONS: Mapping[str, Operation] = _joined("FUNCTIONS")


def apply(site: Site, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """What a step of the dialect torch makes of what it is given.

    Raises:
        ModelError: It is not translated; names the operation and the layer.
    """
    if site.step.op in ("parameter", "buffer"):
        return site.part(site.step.op)
    try:
        return _operation(site)(site, args, options)
    except (AmpereError, MemoryError):
        raise
    except Exception as error:  # an argument that nobody thought of
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise site.refuse(reason) from error


def _operation(site: Site) -> Operation:
    home, _, name = site.step.op.rpartition(".")
    table = FUNCTIONS if home else MODULES
    in_place = name.rstrip("_") if not name.endswith("__") else name
    operation = table.get(name) or table.get(in_place)
    if operation is None:
        raise site.refuse("it is not translated from torch")
    return operation
