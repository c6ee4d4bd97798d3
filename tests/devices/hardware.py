"""Layers whose work is known, and what they cost on simulated hardware without any noise."""

from __future__ import annotations

from dataclasses import replace

from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.devices.physics import Hardware, Pace, paces

NAMES = ("iphone", "oppo", "server", "tx2", "xavier")

BATCH, MAP = 10, 28 * 28


def conv(
    in_: int, out: int, positions: int = MAP, role: Role = Role.HIDDEN, count: int = 1
) -> Layer:
    """A 3x3 convolution with a batch of ten: what one training step of it does."""
    flops = 3 * 2 * 9 * BATCH * positions * in_ * out
    features = Features(flops, 4 * BATCH * positions * out, 4 * 9 * in_ * out)
    kind = LayerKind(f"{role.value} conv {positions}", role, "conv2d")
    return Layer("conv", kind, Widths({"in": in_, "out": out}), features, count=count)


def with_work(layer: Layer) -> Layer:
    """A plain layer of the fakes as a linear layer over vectors, with its features."""
    in_, out = layer.widths.get("in", 4), layer.widths.get("out", 10)
    work = Features(3 * 2 * BATCH * 64 * in_ * out, 4 * BATCH * 64 * out, 4 * in_ * out)
    return replace(layer, features=work)


def energy_j(hardware: Hardware, pace: Pace) -> float:
    return (hardware.idle_w + pace.active_w) * pace.time_s + pace.dynamic_j


def cost(hardware: Hardware, *layers: Layer) -> tuple[float, float]:
    """Joules and seconds of a step at the highest clock, without any noise."""
    pace = paces(hardware, layers)[0]
    return energy_j(hardware, pace), pace.time_s
