from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import ampere.meters.zeus
from ampere.errors import MeterError, MeterFault
from ampere.meters.base import energy_between
from ampere.meters.drivers.amdsmi import AmdMeter
from ampere.meters.drivers.apple import AppleMeter
from ampere.meters.drivers.emi import EmiMeter

from .contract import MeterContract


class ZeusBaseError(Exception):
    """As in zeus.exception."""


class AMDGPUs:
    """As in zeus.device.gpu.amd: counters in mJ, and whether zeus found that they can be true."""

    def __init__(self, *energies_mj: int, trusted: bool = True) -> None:
        self.energies_mj = list(energies_mj)
        self.trusted = trusted
        self.error = ""

    def __len__(self) -> int:
        return len(self.energies_mj)

    def supports_get_total_energy_consumption(self, gpu_index: int) -> bool:
        return self.trusted

    def get_total_energy_consumption(self, gpu_index: int) -> int:
        if self.error:
            raise ZeusBaseError(self.error)
        return self.energies_mj[gpu_index]


@dataclass
class AppleSiliconMeasurement:
    cpu_total_mj: int | None = None
    dram_mj: int | None = None
    gpu_mj: int | None = None
    gpu_sram_mj: int | None = None
    ane_mj: int | None = None


class AppleSilicon:
    """As in zeus.device.soc.apple."""

    def __init__(self, **parts: int | None) -> None:
        self.parts = parts

    def get_total_energy_consumption(self) -> AppleSiliconMeasurement:
        return AppleSiliconMeasurement(**self.parts)


@dataclass
class CpuDramMeasurement:
    cpu_mj: float
    dram_mj: float | None = None


class EMICPUs:
    """As in zeus.device.cpu.emi."""

    def __init__(self, *packages: CpuDramMeasurement) -> None:
        self.packages = list(packages)

    def __len__(self) -> int:
        return len(self.packages)

    def supports_get_dram_energy_consumption(self, index: int) -> bool:
        return self.packages[index].dram_mj is not None

    def get_total_energy_consumption(self, index: int) -> CpuDramMeasurement:
        return self.packages[index]


class NVIDIAGPUs(AMDGPUs):
    pass


class RAPLCPUs(EMICPUs):
    pass


class Jetson(AppleSilicon):
    pass


Install = Callable[..., ModuleType]


@pytest.fixture(autouse=True)
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a `zeus` into the machine that finds what it is told; without, it finds nothing."""

    def put(gpus: Any = None, soc: Any = None, cpus: Any = None) -> ModuleType:
        device = ModuleType("zeus.device")

        def find(what: Any) -> Any:
            if what is None:
                raise ZeusBaseError("NVML and AMDSMI unavailable.\nFailed to initialize.")
            return what

        vars(device).update(
            get_gpus=lambda: find(gpus), get_soc=lambda: find(soc), get_cpus=lambda: find(cpus)
        )
        monkeypatch.setitem(sys.modules, "zeus", ModuleType("zeus"))
        monkeypatch.setitem(sys.modules, "zeus.device", device)
        return device

    put()
    return put


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets only the meters believe that this is another platform."""
    return lambda platform: monkeypatch.setattr(
        ampere.meters.zeus, "sys", SimpleNamespace(platform=platform)
    )


class TestAmd(MeterContract):
    driver = AmdMeter

    @pytest.fixture(autouse=True)
    def machine(self, install: Install) -> None:
        self.gpus = AMDGPUs(4000)
        install(gpus=self.gpus)

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        return {"gpu": 0.0}

    def work(self, meter: Any) -> None:
        self.gpus.energies_mj[0] += 20


class TestApple(MeterContract):
    driver = AppleMeter

    @pytest.fixture(autouse=True)
    def machine(self, install: Install) -> None:
        self.soc = AppleSilicon(cpu_total_mj=100, gpu_mj=50)
        install(soc=self.soc)

    def work(self, meter: Any) -> None:
        self.soc.parts["gpu_mj"] += 20


class TestEmi(MeterContract):
    driver = EmiMeter

    @pytest.fixture(autouse=True)
    def machine(self, install: Install) -> None:
        self.cpus = EMICPUs(CpuDramMeasurement(100.0))
        install(cpus=self.cpus)

    def work(self, meter: Any) -> None:
        self.cpus.packages[0].cpu_mj += 20.5


@pytest.mark.parametrize(("wanted", "energy_j"), [(0.0, 1), (1.0, 2), (2, 4), ("all", 7)])
def test_counts_the_gpus_that_are_meant(
    install: Install, wanted: float | str, energy_j: float
) -> None:
    gpus = AMDGPUs(10, 20, 30)
    install(gpus=gpus)
    meter = AmdMeter(gpu=wanted)
    before = meter.read()
    gpus.energies_mj = [10 + 1000, 20 + 2000, 30 + 4000]
    assert energy_between(before, meter.read()).energy_j == pytest.approx(energy_j)


@pytest.mark.parametrize("wanted", [1.0, -1.0, 0.5, float("nan"), float("inf"), "", "0", "x"])
def test_gpu_that_is_not_there_is_refused(install: Install, wanted: float | str) -> None:
    install(gpus=AMDGPUs(10))
    with pytest.raises(MeterError, match=f"there is no gpu={wanted}; zeus sees 1"):
        AmdMeter(gpu=wanted)


@pytest.mark.parametrize("wanted", [0.0, "all"])
def test_no_gpu_is_refused(install: Install, wanted: float | str) -> None:
    install(gpus=AMDGPUs())
    with pytest.raises(MeterError, match="zeus sees 0"):
        AmdMeter(gpu=wanted)


def test_counter_that_zeus_does_not_trust_is_refused(install: Install) -> None:
    install(gpus=AMDGPUs(10, trusted=False))
    with pytest.raises(MeterError, match="hwmon:chip=amdgpu,sensor=power1"):
        AmdMeter()


def test_adds_the_parts_of_a_chip_once(install: Install) -> None:
    soc = AppleSilicon(cpu_total_mj=1, gpu_mj=2, dram_mj=3, ane_mj=4, gpu_sram_mj=5)
    install(soc=soc)
    meter = AppleMeter()
    before = meter.read()
    soc.parts = {
        "cpu_total_mj": 1001,
        "gpu_mj": 2002,
        "dram_mj": 4003,
        "ane_mj": 8004,
        "gpu_sram_mj": 16005,
    }
    assert energy_between(before, meter.read()).energy_j == pytest.approx(15)


@pytest.mark.parametrize("missing", ["dram_mj", "ane_mj"])
def test_part_that_the_chip_does_not_have_is_left_out(install: Install, missing: str) -> None:
    parts = {"cpu_total_mj": 1000, "gpu_mj": 2000, "dram_mj": 4000, "ane_mj": 8000, missing: None}
    install(soc=AppleSilicon(**parts))
    assert AppleMeter().read().energy_j == 15 - {"dram_mj": 4, "ane_mj": 8}[missing]


@pytest.mark.parametrize("missing", ["cpu_total_mj", "gpu_mj"])
def test_chip_without_cpu_or_gpu_is_refused(install: Install, missing: str) -> None:
    parts = {"cpu_total_mj": 1, "gpu_mj": 2, "dram_mj": 3, "ane_mj": 4, missing: None}
    install(soc=AppleSilicon(**parts))
    with pytest.raises(MeterError, match="both CPU and GPU"):
        AppleMeter()


def test_part_that_disappears_is_a_fault(install: Install) -> None:
    soc = AppleSilicon(cpu_total_mj=1, gpu_mj=2, dram_mj=3)
    install(soc=soc)
    meter = AppleMeter()
    soc.parts["dram_mj"] = None
    with pytest.raises(MeterFault):
        meter.read()


def test_adds_packages_and_their_memory(install: Install) -> None:
    install(cpus=EMICPUs(CpuDramMeasurement(1000.0, 2000.0), CpuDramMeasurement(4000.0)))
    assert EmiMeter().read().energy_j == 7


def test_memory_that_disappears_is_a_fault(install: Install) -> None:
    cpus = EMICPUs(CpuDramMeasurement(1000.0, 2000.0))
    install(cpus=cpus)
    meter = EmiMeter()
    cpus.packages[0].dram_mj = None
    with pytest.raises(MeterFault):
        meter.read()


def test_no_package_is_refused(install: Install) -> None:
    install(cpus=EMICPUs())
    with pytest.raises(MeterError, match="no processor"):
        EmiMeter()


@pytest.mark.parametrize("driver", [AmdMeter, AppleMeter, EmiMeter])
def test_hardware_of_another_kind_is_refused(install: Install, driver: Any) -> None:
    install(
        gpus=NVIDIAGPUs(1),
        soc=Jetson(cpu_total_mj=1, gpu_mj=1),
        cpus=RAPLCPUs(CpuDramMeasurement(1)),
    )
    with pytest.raises(MeterError, match=r"zeus finds (NVIDIAGPUs|Jetson|RAPLCPUs) here, not"):
        driver()


@pytest.mark.parametrize("driver", [AmdMeter, AppleMeter, EmiMeter])
def test_machine_where_zeus_finds_nothing_is_an_obstacle_in_one_line(
    on: Callable[[str], None], driver: Any
) -> None:
    on(driver.platform or "linux")
    obstacle = driver.obstacle() or ""
    assert obstacle.startswith(
        "zeus: NVML and AMDSMI unavailable. Failed to initialize. (it takes "
    )
    assert "\n" not in obstacle


@pytest.mark.parametrize(
    ("driver", "platform"), [(AppleMeter, "linux"), (AppleMeter, "win32"), (EmiMeter, "darwin")]
)
def test_other_platform_is_an_obstacle(
    on: Callable[[str], None], driver: Any, platform: str
) -> None:
    on(platform)
    assert (driver.obstacle() or "").startswith(f"only on {driver.platform}, this is {platform}")


def test_readable_counter_is_no_obstacle(install: Install, on: Callable[[str], None]) -> None:
    install(
        gpus=AMDGPUs(1),
        soc=AppleSilicon(cpu_total_mj=1, gpu_mj=1),
        cpus=EMICPUs(CpuDramMeasurement(1.0)),
    )
    on("darwin")
    assert AmdMeter.obstacle() is AppleMeter.obstacle() is None
    on("win32")
    assert EmiMeter.obstacle() is None


def test_whatever_zeus_raises_while_reading_is_a_fault_in_one_line(install: Install) -> None:
    gpus = AMDGPUs(10)
    install(gpus=gpus)
    meter = AmdMeter()
    gpus.error = "GPU 1 is a chiplet\n\n  1. Use GPU 0"
    with pytest.raises(MeterFault, match=r"^zeus: GPU 1 is a chiplet 1\. Use GPU 0$"):
        meter.read()


@pytest.mark.parametrize("driver", [AmdMeter, AppleMeter, EmiMeter])
def test_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch, driver: Any) -> None:
    monkeypatch.setitem(sys.modules, "zeus", None)
    monkeypatch.setitem(sys.modules, "zeus.device", None)
    with pytest.raises(MeterError, match=r"pip install ampere-energy\[zeus\]"):
        driver()


def test_package_that_lacks_another_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "zeus")
    monkeypatch.delitem(sys.modules, "zeus.device")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "zeus").mkdir()
    (tmp_path / "zeus" / "__init__.py").write_text("")
    (tmp_path / "zeus" / "device.py").write_text("import no_such_package")
    with pytest.raises(MeterError, match=r"zeus cannot be imported .*no_such_package"):
        AmdMeter()
    (tmp_path / "zeus" / "device.py").write_text("raise OSError('libamd_smi.so')")
    with pytest.raises(MeterError, match=r"zeus cannot be imported .*libamd_smi\.so"):
        AmdMeter()


def test_old_package_says_to_update_it(install: Install) -> None:
    del install(soc=AppleSilicon()).get_soc
    with pytest.raises(MeterError, match="no get_soc; run `pip install --upgrade zeus`"):
        AppleMeter()
