"""What torch's calls are to layers: the `Knowledge` that cutting takes, and the `Dictionary`."""

from __future__ import annotations

from collections.abc import Set

from ampere.core.program.sizes import Shape
from ampere.core.program.structure import Call
from ampere.core.types import Json
from ampere.pytorch.graph.recorder import TracedCall
from ampere.pytorch.modules.base import ModuleRecord, Place
from ampere.pytorch.modules.registry import record_named, record_of, record_of_function

POSITIONS = slice(2, None)  # batch and channels come first
_ATTENTION = "scaled_dot_product_attention"
_PRODUCTS = {  # of functions that no module has
    *("matmul", "__matmul__", "__rmatmul__", "bmm", "mm", "addmm", "baddbmm"),
    *("einsum", "tensordot", _ATTENTION),
}


def multiplies(call: TracedCall, tainted: Set[int]) -> bool:
    """Whether a call multiplies by weights: what a layer is made around."""
    if call.index not in tainted:  # a position table goes with the layer that adds it
        return False
    if call.module is not None:
        record = record_of(call.module)
        is_core = record is None or record.place is Place.CORE
        return is_core and any(True for _ in call.module.parameters())
    name = call.op.rpartition(".")[2]
    by_weights = any(value.call not in tainted for value in call.inputs)
    attends = name == _ATTENTION  # what does not depend on the input is its mask
    return by_weights and not attends and _is_product(name)


def work(call: TracedCall) -> float:
    """About how many multiplications a call makes; only to tell large segments from small."""
    made = next(iter(call.outputs.values()))
    if call.module is None:
        if not _is_product(call.op.rpartition(".")[2]):
            return 0.0
        return float(made.numel() * (call.before[-1] if call.before else 1))
    record = record_of(call.module)
    multiplies_nothing = record is not None and not record.physics.products
    if multiplies_nothing or made.dim() < 2 or made.numel() == 0:
        return 0.0
    return sum(
        parameter.numel() * made.numel() / made.shape[-1 if parameter.dim() == 2 else 1]
        for parameter in call.module.parameters()
        if parameter.dim() > 1
    )


def _is_product(name: str) -> bool:
    """Whether a function multiplies matrices, or does what a layer's module does."""
    record = record_of_function(name)
    return name in _PRODUCTS or (record is not None and record.place is Place.CORE)


def normalises(call: TracedCall) -> bool:
    """Whether a call is a module that normalises."""
    record = record_of(call.module) if call.module is not None else None
    return record is not None and record.place is Place.NORMALISATION


def holds_parameters(call: TracedCall) -> bool:
    """Whether a call is of a module with parameters."""
    return call.module is not None and any(True for _ in call.module.parameters())


def pools_all(call: TracedCall) -> bool:
    """Whether a call pools to a size that is given."""
    return "adaptive" in call.op.lower()


def has_weights(call: Call) -> bool:
    """Whether a layer is made around such a call of a structure."""
    record = _record(call)
    is_core = record is not None and record.place is Place.CORE
    return is_core or call.op.rpartition(".")[2] == "addmm"  # a linear layer with its bias


def attributes(call: Call) -> dict[str, Json]:
    """The numbers of a call that its kind shows."""
    record = _record(call)
    return record.naming.attributes(call.arguments) if record else {}


def positions(shape: Shape) -> list[int]:
    """The sizes of a map that do not vary: channels come first, positions last."""
    return [size for size in shape if isinstance(size, int)]


def _record(call: Call) -> ModuleRecord | None:
    home, _, name = call.op.rpartition(".")
    return record_of_function(name) if home else record_named(name)
