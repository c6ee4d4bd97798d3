"""A device whose costs are known, and plain kinds to run on it: no framework, no waiting."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence

from ampere.core.fingerprint import Fingerprint
from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.sizes import Size
from ampere.core.program.structure import Call, Port, Structure
from ampere.core.program.terms import ValueRef
from ampere.core.program.widths import Widths
from ampere.core.types import Json
from ampere.core.variants import Isolation, Plan
from ampere.core.workloads import Workload
from ampere.devices.base import Burst, Loaded
from ampere.errors import Crashed, OutOfMemory
from ampere.estimators.base import Cost
from ampere.meters.base import Provenance, Resolution
from ampere.meters.surroundings import Watched
from ampere.records.measurement import Measurement

EPOCH_S = 1_770_000_000.0
REFERENCE_COST = Cost(4e-3, 0.0, 1e-3, 0.0)
BASE_J = {Role.FIRST: 2e-3, Role.HIDDEN: 3e-3, Role.LAST: 1e-3}


def known_cost(layer: Layer) -> Cost:
    """Of one layer per step: grows with each width and with the map, and is linear in neither."""
    size = layer.kind.attributes.get("height") or layer.kind.attributes.get("length") or 8
    width = sum(layer.widths.values())
    volume = width / 16 + math.prod(layer.widths.values()) / (64 + width)
    energy_j = BASE_J[layer.kind.role] * (1 + size / 32 * volume) * layer.count
    return Cost(energy_j, 0.0, 0.25 * energy_j + 2e-4 * layer.count, 0.0)


def total(layers: Sequence[Layer], cost: Callable[[Layer], Cost] = known_cost) -> Cost:
    """What layers cost together."""
    costs = [cost(layer) for layer in layers]
    energy_j, time_s = sum(c.energy_j for c in costs), sum(c.time_s for c in costs)
    return Cost(energy_j, 0.0, time_s, 0.0)


class FakeDevice:
    """A step costs what its layers cost together; bursts advance a clock that nobody waits for.

    Args:
        cost: Joules and seconds of one layer per step.
        drift: How much slower and hungrier everything is at this time of the clock.
        noise: Relative standard deviation of every burst.
        interaction: What a network costs as a multiple of the sum of its layers.
        fails_to_load: Workloads that run out of memory while they are built.
        fails_to_run: Workloads that crash in their fourth burst.
        features: What the device knows of a layer, if anything.
    """

    provenance = Provenance.SIMULATED
    resolution = Resolution()
    meter: Mapping[str, Json] = {"name": "fake", "settings": {}}
    idle_w = 1.5

    def __init__(
        self,
        cost: Callable[[Layer], Cost] = known_cost,
        *,
        drift: Callable[[float], float] = lambda clock_s: 1.0,
        noise: float = 0.0,
        seed: int = 0,
        interaction: Callable[[Sequence[Layer]], float] = lambda layers: 1.0,
        fails_to_load: Collection[Workload] = (),
        fails_to_run: Collection[Workload] = (),
        features: Callable[[Layer], Features] | None = None,
    ) -> None:
        self.fingerprint = Fingerprint({"device": "fake"}, {"host": "nowhere"})
        self.clock_s = 0.0
        self.loaded: dict[int, Workload] = {}
        self.seen: list[Workload] = []
        self.bursts: dict[int, int] = {}
        self._cost, self._drift, self._noise, self._interaction = cost, drift, noise, interaction
        self._fails_to_load, self._fails_to_run = fails_to_load, fails_to_run
        self._features = features
        self._rng = random.Random(seed)

    def load(self, workload: Workload) -> Loaded:
        """Remember a workload."""
        self.seen.append(workload)
        if workload in self._fails_to_load:
            raise OutOfMemory("out of memory")
        handle = len(self.seen)
        self.loaded[handle] = workload
        self.bursts[handle] = 0
        asked = () if workload.stage == "reference" else workload.layers
        known = () if self._features is None else tuple(map(self._features, asked))
        return Loaded(handle, known)

    def burst(self, handle: int, steps: int) -> Burst:
        """Advance the clock by what these steps take."""
        workload = self.loaded[handle]
        self.bursts[handle] += 1
        if workload in self._fails_to_run and self.bursts[handle] > 3:
            raise Crashed("it crashed with SIGSEGV")
        once = self._once(workload)
        factor = steps * self._drift(self.clock_s)
        if self._noise:
            factor *= math.exp(self._rng.gauss(0.0, self._noise))
        self.clock_s += factor * once.time_s
        return Burst(steps, factor * once.energy_j, factor * once.time_s)

    def watch(self, time_s: float) -> Watched:
        """Let the clock pass; nobody else is there."""
        self.clock_s += time_s
        return Watched(time_s)

    def now(self) -> float:
        """Its own clock, which began in 2026."""
        return EPOCH_S + self.clock_s

    def unload(self, handle: int) -> None:
        """Forget a workload."""
        del self.loaded[handle]

    def close(self) -> None:
        """Nothing was started."""

    def _once(self, workload: Workload) -> Cost:
        if workload.stage == "idle":
            return Cost(0.01 * self.idle_w, 0.0, 0.01, 0.0)
        if workload.stage == "reference":
            return REFERENCE_COST
        cost = total(workload.layers, self._cost)
        factor = self._interaction(workload.layers)
        return Cost(factor * cost.energy_j, 0.0, factor * cost.time_s, 0.0)


def plain_kind(role: Role, operation: str = "linear", multiple: int = 1) -> LayerKind:
    """A kind whose layers meet in vectors: enough structure to plan with, too little to build."""
    entering = 4 if role is Role.FIRST else Size("in")
    leaving = 10 if role is Role.LAST else Size("out")
    names = [size.width for size in (entering, leaving) if isinstance(size, Size)]
    ports = (Port((entering,)),), (Port((leaving,)),)
    structure = Structure(*ports, (), multiples=dict.fromkeys(names, multiple))
    return LayerKind(f"{role.value} {operation}", role, operation, {}, structure)


FIRST, HIDDEN, LAST = (plain_kind(role) for role in Role)


def plain_plan(top: int = 64, multiple: int = 1) -> Plan:
    """One kind of each role, with widths up to `top`."""
    first, hidden, last = (plain_kind(role, multiple=multiple) for role in Role)
    reach = (multiple, top)
    return Plan(
        (
            Isolation(last, {"in": reach}),
            Isolation(first, {"out": reach}, last=last),
            Isolation(hidden, {"in": reach, "out": reach}, first, last),
        )
    )


def plain_layer(kind: LayerKind, count: int = 1, **widths: int) -> Layer:
    """A layer of this kind; `in` is a keyword of Python, so it is written `in_`."""
    named = Widths({name.rstrip("_"): width for name, width in widths.items()})
    return Layer(kind.name, kind, named, count=count)


def plain_model(*widths: int) -> tuple[Layer, ...]:
    """A chain of FIRST, HIDDEN... and LAST with these widths between its layers."""
    return (
        plain_layer(FIRST, out=widths[0]),
        *(plain_layer(HIDDEN, in_=a, out=b) for a, b in itertools.pairwise(widths)),
        plain_layer(LAST, in_=widths[-1]),
    )


def exact(layers: Sequence[Layer], cost: Callable[[Layer], Cost] = known_cost) -> Measurement:
    """A measurement without any error."""
    true = total(layers, cost)
    return Measurement(tuple(layers), true.energy_j, true.time_s, provenance=Provenance.SIMULATED)


# A variant that a framework can build.
LINEAR = Structure(
    (Port((Size("in"),)),),
    (Port((3,)),),
    (Call("Linear", {"in_features": Size("in"), "out_features": 3}, (ValueRef(0),)),),
    ValueRef(1),
    multiples={"in": 1},
)
SMALL = LayerKind("last linear", Role.LAST, "linear", {"batch": 4, "optimizer": "sgd"}, LINEAR)
VARIANT = Workload((Layer("last", SMALL, Widths({"in": 8})),))
