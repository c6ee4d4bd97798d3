"""World: six devices, their batteries, chargers and data; all of it follows from a seed.

Drawn before anything was run, and left as it is. A round is 20 real steps of LeNet-5, each of which
stands for 200 of the simulated device, so that a round lasts seconds there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from ampere.acquisition.families import read_network
from ampere.core.arrays import Ints
from ampere.core.training import Training
from ampere.datasets.digits import open_digits
from ampere.datasets.samples import Dataset
from ampere.devices.simulated import SimulatedDevice

DEVICES = ("server", "xavier", "tx2", "oppo", "iphone", "oppo")  # the first one has no battery
ROUNDS, CHOSEN = 40, 3
BATCH, REAL_STEPS, STANDS_FOR = 10, 20, 200
STEPS = REAL_STEPS * STANDS_FOR
RESERVE = 0.2  # of the capacity: below it a phone ends what runs in the background
CHARGED = 0.25  # of the capacity, in a round at a charger
PLUGGED_ROUNDS = 8
SKEW = 1.0  # of classes among clients: Dirichlet's parameter


@dataclass(frozen=True)
class Phone:
    """A client: what it is, what it has, when it is charged.

    Args:
        device: The simulated device.
        capacity_j: Of its battery; None on the mains.
        charge_j: At the beginning.
        plugged_from: The round in which it is put to a charger, for some rounds.
        radio_j: Of sending and receiving the model.
        number: In its world.
        seed: Of its world.
    """

    device: str
    capacity_j: float | None
    charge_j: float
    plugged_from: int
    radio_j: float
    number: int
    seed: int

    @property
    def reserve_j(self) -> float:
        """What must stay in the battery."""
        return RESERVE * (self.capacity_j or 0.0)

    def is_plugged(self, number: int) -> bool:
        """Whether it is at a charger in this round."""
        return self.plugged_from <= number < self.plugged_from + PLUGGED_ROUNDS

    def after(self, battery_j: float, number: int) -> float:
        """What is in the battery one round later, if it does not train: somebody uses the phone."""
        if self.capacity_j is None:
            return battery_j
        if self.is_plugged(number):
            return min(self.capacity_j, battery_j + CHARGED * self.capacity_j)
        use = random.Random(f"{self.seed} {self.number} {number} use").uniform(0, 0.01)
        return max(0.0, battery_j - use * self.capacity_j)

    def training_j(self, number: int, steps: int) -> float:
        """What so many steps really take in this round, on a device that was cool before."""
        seed = 10_000 * self.seed + 100 * self.number + number
        return self.radio_j + spent_j(self.device, seed, steps)


def spent_j(device: str, seed: int, steps: int) -> float:
    """Joules of a burst, as they were spent: what its sensor shows is too coarse."""
    simulated = SimulatedDevice(device, seed=seed)
    handle = simulated.load(_workload()).handle
    simulated._run(simulated._loaded[handle], steps)
    return simulated._energy_j


@cache
def _workload():  # type: ignore[no-untyped-def]
    return read_network("zoo:lenet5", None, Training(batch_size=BATCH)).workload


@cache
def phones(seed: int) -> tuple[Phone, ...]:
    """The clients of a world."""
    rng = random.Random(f"world {seed}")
    made = []
    for number, device in enumerate(DEVICES):
        round_j = spent_j(device, 0, STEPS)
        rounds = 4 * 4 ** rng.random()  # 4 to 16 of them from full to empty
        charge, plugged = rng.uniform(0.4, 1.0), rng.randrange(1, ROUNDS)
        radio_j = rng.uniform(0.02, 0.06) * round_j
        capacity_j = None if number == 0 else rounds * round_j
        phone = Phone(
            device, capacity_j, charge * (capacity_j or 0.0), plugged, radio_j, number, seed
        )
        made.append(phone)
    return tuple(made)


@cache
def digits(seed: int) -> Dataset:
    """Digits, split anew for each seed."""
    return open_digits((1, 28, 28), seed)


@cache
def parts(seed: int) -> Sequence[Ints]:
    """Which training samples each client has: shares of the classes are drawn."""
    labels, rng = digits(seed).train.labels, np.random.default_rng(seed)
    owned: list[list[int]] = [[] for _ in DEVICES]
    for kind in np.unique(labels):
        at = rng.permutation(np.flatnonzero(labels == kind))
        shares = rng.dirichlet([SKEW] * len(DEVICES))
        cuts = np.round(np.cumsum(shares)[:-1] * len(at)).astype(int)
        for part, some in zip(owned, np.split(at, cuts), strict=True):
            part.extend(map(int, some))
    return [np.array(sorted(part)) for part in owned]
