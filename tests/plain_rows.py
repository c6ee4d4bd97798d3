"""Layers and rows to fit baselines to."""

from collections.abc import Mapping

from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.records.failure import Failure
from ampere.records.measurement import Measurement


def layer(
    name: str,
    role: Role = Role.HIDDEN,
    flops: float | None = None,
    count: int = 1,
    widths: Mapping[str, int] = Widths(),
) -> Layer:
    return Layer(
        name, LayerKind(name, role, name), Widths(widths), Features(flops=flops), None, count
    )


def network(hidden: float | None, last: float | None, count: int = 1) -> tuple[Layer, ...]:
    return layer("conv", Role.HIDDEN, hidden, count), layer("head", Role.LAST, last)


def step(layers: tuple[Layer, ...], energy_j: float, time_s: float | None = None) -> Measurement:
    return Measurement(layers, energy_j, time_s)


def alone(
    subject: Layer,
    stage: str,
    energy_j: float | None,
    time_s: float | None = None,
    failed: Failure | None = None,
) -> Measurement:
    return Measurement((subject,), energy_j, time_s, stage=stage, failed=failed)
