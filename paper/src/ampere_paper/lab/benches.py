"""Bench: a device that experiments run on, by a short name.

This machine in three settings, and the paper's five devices, simulated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ampere.core.workloads import Settings
from ampere.devices.registry import AnyDevice, open_device
from ampere.errors import DataError

SIMULATED = "simulated"
GROUPS = ("local", SIMULATED)


@dataclass(frozen=True)
class Bench:
    """Hardware and settings: `name` in files and on the command line, `title` on figures."""

    name: str
    title: str
    device: str = "local"
    settings: Settings | None = None

    @property
    def group(self) -> str:
        """Whether it is this machine or a simulated one."""
        return self.device.partition(":")[0]

    @property
    def simulated(self) -> bool:
        """Whether nobody waits for it."""
        return self.group == SIMULATED

    def open(self, seed: int = 0) -> AnyDevice:
        """The device; whoever opens it closes it. The seed is that of simulated noise."""
        noise = f",seed={seed}" if self.simulated else ""
        return open_device(self.device + noise, self.settings)


BENCHES = {
    bench.name: bench
    for bench in (
        Bench("threads1", "1 thread", settings=Settings(threads=1)),
        Bench("threads2", "2 threads", settings=Settings(threads=2)),
        Bench("no-onednn", "no oneDNN", settings=Settings(threads=1, onednn=False)),
        Bench("iphone", "iPhone", "simulated:iphone"),
        Bench("oppo", "OPPO", "simulated:oppo"),
        Bench("server", "server", "simulated:server"),
        Bench("tx2", "TX2", "simulated:tx2"),
        Bench("xavier", "Xavier", "simulated:xavier"),
    )
}


def bench_names(wanted: Iterable[str]) -> list[str]:
    """Names of benches, groups of them (`local`, `simulated`) written out; all if none is wanted.

    Raises:
        DataError: There is no such bench.
    """
    chosen = set(wanted)
    if unknown := sorted(chosen - {*BENCHES, *GROUPS}):
        valid = ", ".join((*GROUPS, *BENCHES))
        raise DataError(f"unknown device {unknown[0]!r}: use {valid}")
    return [
        bench.name for bench in BENCHES.values() if not chosen or {bench.name, bench.group} & chosen
    ]
