"""ampere's own meters keep the contract, and the contract catches meters that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ampere.meters.base import Provenance, Reading
from ampere.meters.drivers.cpu import CpuMeter
from ampere.meters.drivers.fake import FakeMeter
from ampere.meters.drivers.rapl import RaplMeter
from ampere.meters.drivers.replay import ReplayMeter

from .contract import MeterContract
from .powercap import Powercap


class TestRapl(MeterContract):
    driver = RaplMeter

    @pytest.fixture(autouse=True)
    def tree(self, powercap: Powercap) -> None:
        powercap.add("intel-rapl:0", "package-0", energy_uj=500, range_uj=1000)
        self.powercap = powercap

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        return {"root": self.powercap.root}

    def work(self, meter: Any) -> None:
        self.powercap.spend("intel-rapl:0", 400)


class TestCpu(MeterContract):
    driver = CpuMeter


class TestCpuWithoutIdlePower(MeterContract):
    driver = CpuMeter

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        return {"idle_w": 0.0, "active_w": 9.0}


class TestFake(MeterContract):
    driver = FakeMeter

    def work(self, meter: Any) -> None:
        meter.advance(2.0, 1.0)


class TestFakeThatMovesItself(MeterContract):
    driver = FakeMeter

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        return {"step_j": 0.5, "step_s": 0.1}


class TestReplay(MeterContract):
    driver = ReplayMeter

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        path = tmp_path / "log.csv"
        path.write_text("time_s,energy_j\n0,0\n1,2\n2,2\n3,7\n")
        return {"path": str(path)}


class Falling(FakeMeter):
    def read(self) -> Reading:
        reading = super().read()
        return Reading(-reading.energy_j, reading.time_s, reading.provenance)


class Backdated(FakeMeter):
    def read(self) -> Reading:
        reading = super().read()
        return Reading(reading.energy_j, -reading.time_s, reading.provenance)


class Boasting(FakeMeter):
    def read(self) -> Reading:
        reading = super().read()
        return Reading(reading.energy_j, reading.time_s, Provenance.COUNTER)


class Rambling(FakeMeter):
    @classmethod
    def obstacle(cls) -> str | None:
        return "no\nway"


class Greedy(FakeMeter):
    def __init__(self, sensor: object = object()) -> None:
        super().__init__(1.0, 1.0)


def readings_of(meter: FakeMeter) -> Iterator[Reading]:
    for _ in range(3):
        meter.advance(1.0, 1.0)
        yield meter.read()


@pytest.mark.parametrize(
    ("driver", "check"),
    [
        (Falling, lambda c: c.test_total_never_falls(list(readings_of(Falling())))),
        (Backdated, lambda c: c.test_time_never_runs_backwards(list(readings_of(Backdated())))),
        (
            Boasting,
            lambda c: c.test_every_reading_has_the_provenance_of_the_class(
                list(readings_of(Boasting()))
            ),
        ),
        (Rambling, lambda c: c.test_obstacle_is_none_or_one_line()),
        (Greedy, lambda c: c.test_settings_are_plain_data(Path())),
    ],
)
def test_contract_catches(driver: type[FakeMeter], check: Callable[[MeterContract], None]) -> None:
    contract = MeterContract()
    contract.driver = driver
    with pytest.raises(AssertionError):
        check(contract)
