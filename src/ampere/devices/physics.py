"""What a training step takes on hardware that is known from its data sheet.

Per layer and stage (forward, backward, update), with A and P its activation and parameter bytes,
f the clock as a share of the highest, v the voltage as a share of that at the highest:

    padded FLOPs  = FLOPs · Σ ⌈a⌉ · ⌈b⌉ / Σ a · b, over its matrix products a × b     (stairs)
    cached bytes  = near · A · min(1, cache / (A + A' + P'))        ' is the next layer
    DRAM bytes    = near · A + far · A + weights · P − cached bytes
    memory_s      = DRAM bytes / DRAM bandwidth + cached bytes / cache bandwidth
    compute_s     = padded FLOPs / (peak · utilisation)
    time_s        = launches · launch_s / f + max(compute_s / f, memory_s)          (roofline)
    dynamic_j     = v² · flop_j · padded FLOPs + dram_byte_j · DRAM bytes + cache_byte_j · cached

               launches of a call   near             far                     weights
    forward    1                    read by the next written                 read
    backward   1, 2 with weights    gradient read    kept read, gradient     read, gradient written
                                                     written
    update     0, 2 with weights                                             gradient, read, written

⌈a⌉ is a width rounded up to a multiple of the tile; sizes that are fixed are not padded.

Of a step, over its layers and a few launches for the loss:

    energy_j      = (idle_w + active_w · f · v²) · Σ time_s + Σ dynamic_j

What a layer hands on stays in the last-level cache as far as that holds what the two layers touch,
so networks are not the sum of their layers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from itertools import chain, repeat
from typing import TYPE_CHECKING

from ampere.core.layers import Layer, Role, structure_of
from ampere.core.program.sizes import Size
from ampere.core.program.structure import TORCH, Call
from ampere.core.program.terms import Term, number_at
from ampere.core.program.trees import leaves
from ampere.errors import DeviceError
from ampere.frameworks.models import holds_parameters
from ampere.meters.base import Resolution

if TYPE_CHECKING:
    from ampere.pytorch.modules.base import Physics

FORMULAS = 2  # a change of the formulas above makes other devices


@dataclass(frozen=True)
class Hardware:
    """The parameters of a device; their units and sources stand in its file."""

    peak_flops: float
    utilisation: float
    tile: int
    launch_s: float
    dram_bytes_per_s: float
    cache_bytes_per_s: float
    cache_bytes: float
    memory_bytes: float
    idle_w: float
    active_w: float
    flop_j: float
    dram_byte_j: float
    cache_byte_j: float
    clocks_mhz: tuple[float, ...]  # highest first
    voltage_low: float
    ambient_c: float
    resistance_k_per_w: float
    settling_s: float
    throttle_c: float
    release_c: float
    tick_s: float
    sensor_period_s: float
    sensor_delay_s: float
    sensor_step_w: float
    sensor_step_j: float
    jitter: float
    background_per_s: float
    background_w: float
    background_share: float

    @property
    def digest(self) -> str:
        """Eight hex digits that differ where any parameter does."""
        text = json.dumps([FORMULAS, asdict(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def resolution(self) -> Resolution:
        """How finely the sensor tells; what it shows is late as well."""
        step_j = max(self.sensor_step_j, self.sensor_step_w * self.sensor_period_s)
        return Resolution(step_j, self.sensor_period_s + self.sensor_delay_s)

    def voltage(self, clock_mhz: float) -> float:
        """As a share of that at the highest clock; linear in the clock."""
        highest, lowest = self.clocks_mhz[0], self.clocks_mhz[-1]
        if highest == lowest:
            return 1.0
        height = (clock_mhz - lowest) / (highest - lowest)
        return self.voltage_low + (1 - self.voltage_low) * height


def simulated_devices() -> tuple[str, ...]:
    """Names of the devices that can be simulated."""
    names = [file.name for file in files("ampere.devices").joinpath("simulations").iterdir()]
    return tuple(sorted(name[: -len(".json")] for name in names if name.endswith(".json")))


def load_hardware(name: str) -> Hardware:
    """The parameters of a device by its name."""
    names = simulated_devices()
    if name not in names:
        raise DeviceError(f"no simulated device is named {name!r}: use one of {', '.join(names)}")
    file = files("ampere.devices").joinpath("simulations", f"{name}.json")
    parameters = json.loads(file.read_text(encoding="utf-8"))["parameters"]
    values = {field.name: parameters[field.name]["value"] for field in fields(Hardware)}
    return Hardware(**{**values, "clocks_mhz": tuple(values["clocks_mhz"])})


@dataclass(frozen=True)
class Stage:
    """How often a stage launches something and moves bytes: the table of the module."""

    loss_launches: int
    call_launches: int
    weights_launches: int
    near: int
    far: int
    weights: int

    def launches(self, layer: Layer) -> int:
        """How many kernels it starts; a layer without a structure counts as one call."""
        structure = layer.kind.structure
        calls = structure.calls if structure else ()
        if not calls:
            return self.call_launches + self.weights_launches
        length = int(layer.kind.attributes.get("length") or 1) if self.call_launches else 1
        return sum(
            (self.call_launches + self.weights_launches * holds_parameters(layer, call))
            * (length if _runs_per_position(layer, call) else 1)
            for call in calls
        )


def _runs_per_position(layer: Layer, call: Call) -> bool:
    physics = _physics(layer, call)
    return physics is not None and physics.per_position


def _physics(layer: Layer, call: Call) -> Physics | None:
    """How a call of torch runs; of calls of other dialects nothing is known."""
    if structure_of(layer.kind).dialect != TORCH:
        return None
    from ampere.pytorch.modules.registry import record_named

    record = record_named(call.op)
    return None if record is None else record.physics


STAGES = {
    "forward": Stage(
        loss_launches=2, call_launches=1, weights_launches=0, near=1, far=1, weights=1
    ),
    "backward": Stage(
        loss_launches=1, call_launches=1, weights_launches=1, near=1, far=2, weights=2
    ),
    "update": Stage(loss_launches=1, call_launches=0, weights_launches=2, near=0, far=0, weights=3),
}


@dataclass(frozen=True)
class Piece:
    """A layer in a stage, at the highest clock: what it takes."""

    launch_s: float
    compute_s: float = 0.0
    memory_s: float = 0.0
    compute_j: float = 0.0
    memory_j: float = 0.0


@dataclass(frozen=True)
class Pace:
    """A step at one clock: its seconds, watts above idle for as long, and joules besides."""

    time_s: float
    active_w: float = 0.0
    dynamic_j: float = 0.0


def paces(hardware: Hardware, layers: Sequence[Layer], stage: str = "step") -> list[Pace]:
    """What a step of these layers takes at each of the device's clocks."""
    layers = tuple(chain.from_iterable(repeat(layer, layer.count) for layer in layers))
    followers: tuple[Layer | None, ...] = (*layers[1:], None)
    pieces = []
    for name in STAGES if stage == "step" else (stage,):
        pieces.append(Piece(STAGES[name].loss_launches * hardware.launch_s))
        for layer, follower in zip(layers, followers, strict=False):
            pieces.append(_piece(hardware, name, layer, follower))
    return [_pace(hardware, pieces, clock_mhz) for clock_mhz in hardware.clocks_mhz]


def _pace(hardware: Hardware, pieces: Sequence[Piece], clock_mhz: float) -> Pace:
    speed = clock_mhz / hardware.clocks_mhz[0]
    heat = hardware.voltage(clock_mhz) ** 2
    return Pace(
        time_s=sum(p.launch_s / speed + max(p.compute_s / speed, p.memory_s) for p in pieces),
        active_w=hardware.active_w * speed * heat,
        dynamic_j=sum(heat * p.compute_j + p.memory_j for p in pieces),
    )


def _piece(hardware: Hardware, name: str, layer: Layer, follower: Layer | None) -> Piece:
    stage = STAGES[name]
    flops = _flops(layer, name) * _padding(layer, hardware.tile)
    activation, parameters = held_bytes(layer)
    cached = 0.0
    if follower is not None:
        touched = activation + sum(held_bytes(follower))
        cached = stage.near * activation * min(1.0, hardware.cache_bytes / max(touched, 1.0))
    dram = (stage.near + stage.far) * activation + stage.weights * parameters - cached
    return Piece(
        launch_s=stage.launches(layer) * hardware.launch_s,
        compute_s=flops / (hardware.peak_flops * hardware.utilisation),
        memory_s=dram / hardware.dram_bytes_per_s + cached / hardware.cache_bytes_per_s,
        compute_j=flops * hardware.flop_j,
        memory_j=dram * hardware.dram_byte_j + cached * hardware.cache_byte_j,
    )


def _flops(layer: Layer, stage: str) -> float:
    """Of this stage: backward is twice the forward pass, or once where no gradient goes on."""
    forward = 1 / 2 if layer.kind.role is Role.FIRST else 1 / 3
    share = {"forward": forward, "backward": 1 - forward, "update": 0.0}[stage]
    return share * (layer.features.flops or 0.0)


def held_bytes(layer: Layer) -> tuple[float, float]:
    """Of its activations and its parameters."""
    return layer.features.activation_bytes or 0.0, layer.features.parameter_bytes or 0.0


def _padding(layer: Layer, tile: int) -> float:
    """By how much more is computed, since matrices are cut into tiles.

    Each product pads its own sides: an LSTM of one input and many hidden channels pads the few
    weights of its input, not those of its recurrence.
    """
    plain = padded = 0.0
    structure = layer.kind.structure
    for call in structure.calls if structure else ():
        physics = _physics(layer, call)
        for names in physics.products if physics else ():
            if not all(name in call.arguments for name in names):
                continue
            sides = [_side(call.arguments[name], layer.widths, tile) for name in names]
            if call.arguments.get("groups", 1) != 1:
                sides = sides[-1:]  # each group is narrow: only its outputs fill tiles
            area = math.prod(leaves(call.arguments.get("kernel_size") or 1))
            plain += area * math.prod(size for size, _ in sides)
            padded += area * math.prod(rounded for _, rounded in sides)
    if plain:
        return padded / plain
    return math.prod(-(-width // tile) * tile / width for width in layer.widths.values())


def _side(side: Term, widths: Mapping[str, int], tile: int) -> tuple[float, float]:
    """A side of a matrix, as it is and as it is padded; only widths are."""
    size = float(number_at(side, widths))
    return size, math.ceil(size / tile) * tile if isinstance(side, Size) else size
