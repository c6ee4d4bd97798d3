"""Plan: how much is measured on which bench.

    seconds on two slow cores, roughly             full plan          quick plan
    a network on this machine                      1.5                0.25
    a network on a simulated device                0.03               0.02
    this machine, 1 thread                         42 min             90 s
    its two other settings                         11 min each        30 s each
    a simulated device                             1 min              5 to 15 s
    fits, figures and pages                        3 min              50 s

`Sizes.seconds` is the same in numbers: it feeds the time that is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ampere.core.types import Json
from ampere.sittings.effort import Effort
from ampere_paper.lab.benches import BENCHES, Bench, bench_names

FOUR = ("lenet5", "cnn5", "har", "lstm")  # the families of the paper's Fig. 8 and Table 1
TWO = ("lenet5", "cnn5")
SIX = (*FOUR, "transformer", "resnet")
LITTLE = Effort(burst_s=0.015, warmup_s=0.03, min_rounds=3, max_rounds=4, target=0.05)


@dataclass(frozen=True)
class Sizes:
    """How much is measured on one bench.

    Args:
        families: Whose members are estimated.
        points: Of each kind of layer, at most, by the paper's method.
        networks: By the additive one.
        pool: Members of a family that it chooses among.
        models: Unseen members of each family.
        cnns: Unseen 5-layer CNNs.
        levels: Sizes of each width at which NeuralPower measures; its own choice unless given.
        sweep: Widths of a linear layer.
        tests: Layers beside each surface; none, no surfaces.
        cuts: Prunings to half of the energy, with a seed each.
        iterations: Training steps of the case study; none, no training.
        round_to: What widths are multiples of when pruning.
        effort: How carefully everything is measured.
    """

    families: tuple[str, ...] = FOUR
    points: int = 14
    networks: int = 40
    pool: int = 32
    models: int = 30
    cnns: int = 100
    levels: int | None = None
    sweep: int = 24
    tests: int = 0
    cuts: int = 1
    iterations: int = 0
    round_to: int = 1
    effort: Effort | None = None

    def members(self, family: str) -> int:
        """How many unseen members of a family are metered."""
        return self.cnns if family == "cnn5" else self.models

    def of_trial(self, family: str) -> int:
        """Networks of a trial: variants of some five kinds, single stages, members thrice."""
        return 5 * self.points + 30 + self.networks + 3 * self.members(family)

    def seconds(self, networks: int, bench: Bench) -> float:
        """What so many networks take, roughly."""
        careful, hasty = (0.03, 0.02) if bench.simulated else (1.5, 0.25)
        return networks * (careful if self.effort is None else hasty)


@dataclass(frozen=True)
class Plan:
    """Sizes by the name of a bench, and where recorded energies are, if anywhere."""

    name: str
    sizes: Mapping[str, Sizes]
    recorded: Path | None = None

    @property
    def benches(self) -> tuple[Bench, ...]:
        """The benches, in the order of figures."""
        return tuple(bench for name, bench in BENCHES.items() if name in self.sizes)

    def on(self, devices: Iterable[str] = (), recorded: Path | None = None) -> Plan:
        """The same on some benches only."""
        kept = {name: self.sizes[name] for name in bench_names(devices) if name in self.sizes}
        return replace(self, sizes=kept, recorded=recorded)

    def to_json(self) -> dict[str, Json]:
        """Plain data: results of another plan are not taken for this one's."""
        return {"name": self.name, "sizes": {name: asdict(s) for name, s in self.sizes.items()}}


_FULL = Sizes()
FULL = Plan(
    "full",
    {
        "threads1": replace(_FULL, families=SIX, tests=12, cuts=3, iterations=2000),
        "threads2": Sizes(points=6, networks=16, models=10, cnns=20, sweep=12),
        "no-onednn": Sizes(points=6, networks=16, models=10, cnns=20, sweep=12),
        "iphone": _FULL,
        "oppo": _FULL,
        "server": replace(_FULL, families=SIX, tests=12),
        "tx2": _FULL,
        "xavier": replace(_FULL, families=SIX, tests=12, cuts=3),
    },
)

_QUICK = Sizes(
    points=6, networks=10, pool=10, models=6, cnns=8, levels=2, sweep=8, cuts=0, round_to=8,
    effort=LITTLE,
)  # fmt: skip
QUICK = Plan(
    "quick",
    {
        "threads1": replace(_QUICK, points=4, families=TWO, tests=4, cuts=1, iterations=60),
        "threads2": replace(_QUICK, points=4, families=("cnn5",)),
        "no-onednn": replace(_QUICK, points=4, families=("cnn5",)),
        "iphone": replace(_QUICK, families=TWO),
        "oppo": replace(_QUICK, cuts=1),
        "server": replace(_QUICK, families=TWO),
        "tx2": replace(_QUICK, families=TWO),
        "xavier": replace(_QUICK, families=SIX, tests=6),
    },
)
