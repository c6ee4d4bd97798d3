from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Provenance, Reading, energy_between
from ampere.meters.drivers.nvml import NvmlMeter

from .contract import MeterContract
from .windows import window_of


class NVMLError(Exception):
    """As in nvidia-ml-py, where subclasses are named after NVML's codes."""


ERRORS = {
    f"NVMLError_{code}": type(f"NVMLError_{code}", (NVMLError,), {})
    for code in (
        *("Uninitialized", "InvalidArgument", "NotSupported", "NoPermission", "NotFound"),
        *("DriverNotLoaded", "Timeout", "LibraryNotFound", "FunctionNotFound", "GpuIsLost"),
        "Unknown",
    )
}


class Pynvml(ModuleType):
    """The functions of `pynvml` that are called, on GPUs that the tests describe."""

    NVMLError = NVMLError

    def __init__(self, *gpus: dict[str, Any]) -> None:
        super().__init__("pynvml")
        vars(self).update(ERRORS)
        self.gpus = list(gpus)
        self.started = 0
        self.init_error = ""
        self.errors: dict[str, str] = {}

    def fail(self, function: str, code: str) -> None:
        self.errors[function] = f"NVMLError_{code}"

    def nvmlInit(self) -> None:  # noqa: N802
        if self.init_error:
            raise ERRORS[f"NVMLError_{self.init_error}"](self.init_error)
        self.started += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self._check("nvmlShutdown")
        self.started -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        self._check("nvmlDeviceGetCount")
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:  # noqa: N802
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> dict[str, Any]:  # noqa: N802
        for gpu in self.gpus:
            if gpu["uuid"] == uuid:
                return gpu
        raise ERRORS["NVMLError_NotFound"]("Not Found")

    def nvmlDeviceGetName(self, gpu: dict[str, Any]) -> str:  # noqa: N802
        return str(gpu["name"])

    def nvmlDeviceGetArchitecture(self, gpu: dict[str, Any]) -> int:  # noqa: N802
        return int(gpu["architecture"])

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: dict[str, Any]) -> int:  # noqa: N802
        return self._tell(gpu, "energy_mj", "nvmlDeviceGetTotalEnergyConsumption")

    def nvmlDeviceGetPowerUsage(self, gpu: dict[str, Any]) -> int:  # noqa: N802
        return self._tell(gpu, "power_mw", "nvmlDeviceGetPowerUsage")

    def _tell(self, gpu: dict[str, Any], key: str, function: str) -> int:
        self._check(function)
        if gpu[key] is None:
            raise ERRORS["NVMLError_NotSupported"]("Not Supported")
        return int(gpu[key])

    def _check(self, function: str) -> None:
        if not self.started:
            raise ERRORS["NVMLError_Uninitialized"]("Uninitialized")
        if function in self.errors:
            raise ERRORS[self.errors[function]](self.errors[function])


def gpu(
    energy_mj: int | None = 10**9,
    power_mw: int | None = 50_000,
    name: str = "NVIDIA A100",
    uuid: str = "GPU-0",
    architecture: int = 4,
) -> dict[str, Any]:
    return locals().copy()


Install = Callable[..., Pynvml]


@pytest.fixture(autouse=True)
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts GPUs into the machine."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)

    def put(*gpus: dict[str, Any]) -> Pynvml:
        pynvml = Pynvml(*gpus)
        monkeypatch.setitem(sys.modules, "pynvml", pynvml)
        return pynvml

    yield put


class TestCounter(MeterContract):
    driver = NvmlMeter

    @pytest.fixture(autouse=True)
    def machine(self, install: Install) -> None:
        self.pynvml = install(gpu())

    def work(self, meter: Any) -> None:
        self.pynvml.gpus[0]["energy_mj"] += 700


class TestPower(MeterContract):
    driver = NvmlMeter

    @pytest.fixture(autouse=True)
    def machine(self, install: Install) -> None:
        install(gpu(energy_mj=None))

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        return {"gpu": 0.0, "period_s": 0.05}

    def test_every_reading_has_the_provenance_of_the_class(self, readings: list[Reading]) -> None:
        assert {reading.provenance for reading in readings} == {Provenance.SENSOR}


def spend(pynvml: Pynvml, meter: NvmlMeter) -> float:
    """Joules that the meter shows when the GPUs take 1, 2, 4, ... J."""
    before = meter.read()
    for bit, one in enumerate(pynvml.gpus):
        one["energy_mj"] += 1000 * 2**bit
    return energy_between(before, meter.read()).energy_j


@pytest.mark.parametrize(("wanted", "energy_j"), [(0.0, 1), (2.0, 4), (1, 2), ("all", 7)])
def test_counts_the_gpus_that_are_meant(
    install: Install, wanted: float | str, energy_j: float
) -> None:
    pynvml = install(gpu(), gpu(), gpu())
    meter = NvmlMeter(gpu=wanted)
    assert spend(pynvml, meter) == energy_j
    assert meter.provenance is Provenance.COUNTER
    assert meter.resolution.period_s == 0.1


@pytest.mark.parametrize(
    ("visible", "energy_j"), [("2", 4), ("1,0", 2), ("GPU-c,GPU-a", 4), (" 1 ", 2)]
)
def test_first_gpu_is_the_one_that_cuda_sees_first(
    install: Install, monkeypatch: pytest.MonkeyPatch, visible: str, energy_j: float
) -> None:
    pynvml = install(gpu(uuid="GPU-a"), gpu(uuid="GPU-b"), gpu(uuid="GPU-c"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert spend(pynvml, NvmlMeter()) == energy_j


@pytest.mark.parametrize("visible", ["", "-1", "7", "GPU-x", "0,1"])
def test_gpu_that_cuda_does_not_see_is_refused(
    install: Install, monkeypatch: pytest.MonkeyPatch, visible: str
) -> None:
    pynvml = install(gpu(), gpu())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(MeterError):
        NvmlMeter(gpu=2.0 if visible == "0,1" else 0.0)
    assert pynvml.started == 0


def test_order_of_different_gpus_must_be_known(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    pynvml = install(gpu(name="NVIDIA T400"), gpu(name="NVIDIA A100", uuid="GPU-b"))
    with pytest.raises(MeterError, match="CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        NvmlMeter(gpu=1.0)
    assert spend(pynvml, NvmlMeter(gpu="all")) == 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b")
    assert spend(pynvml, NvmlMeter()) == 2
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert spend(pynvml, NvmlMeter(gpu=1.0)) == 2


@pytest.mark.parametrize(
    "wanted", [1.0, -1.0, 0.5, float("nan"), float("inf"), "", "0", "every", "GPU-0"]
)
def test_gpu_that_is_not_there_is_refused(install: Install, wanted: float | str) -> None:
    pynvml = install(gpu())
    with pytest.raises(MeterError, match=f"there is no gpu={wanted}; CUDA sees 1 of 1"):
        NvmlMeter(gpu=wanted)
    assert pynvml.started == 0


@pytest.mark.parametrize("wanted", [0.0, "all"])
def test_machine_without_gpu_is_refused(install: Install, wanted: float | str) -> None:
    install()
    with pytest.raises(MeterError, match="CUDA sees 0 of 0"):
        NvmlMeter(gpu=wanted)


def test_integrates_power_where_there_is_no_counter(install: Install) -> None:
    pynvml = install(gpu(energy_mj=None, power_mw=30_000))
    meter = NvmlMeter(period_s=0.05)
    before = meter.read()
    window = window_of(meter, 0.1)
    meter.close()
    assert window.energy_j == pytest.approx(30 * window.time_s, rel=0.3)
    assert meter.provenance is before.provenance is Provenance.SENSOR
    assert meter.resolution.period_s == 0.05
    assert NvmlMeter.provenance is Provenance.COUNTER
    assert pynvml.started == 0


def test_one_gpu_without_counter_makes_all_of_them_a_sensor(install: Install) -> None:
    install(gpu(power_mw=10_000), gpu(energy_mj=None, power_mw=5_000))
    meter = NvmlMeter(gpu="all", period_s=0.05)
    before = meter.read()
    window = window_of(meter, 0.1)
    meter.close()
    assert before.provenance is Provenance.SENSOR
    assert window.energy_j == pytest.approx(15 * window.time_s, rel=0.3)


@pytest.mark.parametrize(
    ("architectures", "period_s"), [([4], 0.05), ([4, 6], 0.05), ([7], 1.0), ([2**32 - 1, 4], 1.0)]
)
def test_newer_gpus_show_the_mean_of_a_second(
    install: Install, architectures: list[int], period_s: float
) -> None:
    install(*(gpu(energy_mj=None, architecture=architecture) for architecture in architectures))
    meter = NvmlMeter(gpu="all", period_s=0.05)
    meter.close()
    assert meter.resolution.period_s == period_s


def test_driver_without_the_function_is_integrated_too(install: Install) -> None:
    install(gpu()).fail("nvmlDeviceGetTotalEnergyConsumption", "FunctionNotFound")
    meter = NvmlMeter(period_s=0.05)
    meter.close()
    assert meter.provenance is Provenance.SENSOR


def test_gpu_that_tells_nothing_is_an_obstacle(install: Install) -> None:
    pynvml = install(gpu(energy_mj=None, power_mw=None))
    assert "no nvmlDeviceGetPowerUsage" in (NvmlMeter.obstacle() or "")
    assert pynvml.started == 0


def test_usable_gpu_is_no_obstacle_and_is_let_go(install: Install) -> None:
    pynvml = install(gpu())
    assert NvmlMeter.obstacle() is None
    assert pynvml.started == 0


def test_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "pip install nvidia-ml-py" in (NvmlMeter.obstacle() or "")


@pytest.mark.parametrize("code", ["LibraryNotFound", "DriverNotLoaded", "Unknown"])
def test_missing_driver_is_an_obstacle(install: Install, code: str) -> None:
    install().init_error = code
    obstacle = NvmlMeter.obstacle() or ""
    assert "no NVIDIA driver" in obstacle
    assert code in obstacle


@pytest.mark.parametrize("code", ["Unknown", "Timeout"])
def test_passing_error_is_a_fault(install: Install, code: str) -> None:
    pynvml = install(gpu())
    meter = NvmlMeter()
    pynvml.fail("nvmlDeviceGetTotalEnergyConsumption", code)
    with pytest.raises(MeterFault, match=code):
        meter.read()
    pynvml.errors.clear()
    assert spend(pynvml, meter) == 1


@pytest.mark.parametrize("code", ["GpuIsLost", "NoPermission"])
def test_lasting_error_is_no_fault(install: Install, code: str) -> None:
    pynvml = install(gpu())
    meter = NvmlMeter()
    pynvml.fail("nvmlDeviceGetTotalEnergyConsumption", code)
    with pytest.raises(MeterError, match=code) as caught:
        meter.read()
    assert not isinstance(caught.value, MeterFault)


def test_driver_that_was_loaded_again_is_a_fault(install: Install) -> None:
    pynvml = install(gpu(energy_mj=5000))
    meter = NvmlMeter()
    before = meter.read()
    pynvml.gpus[0]["energy_mj"] = 10
    with pytest.raises(MeterFault, match="backwards"):
        energy_between(before, meter.read())


def test_closing_lets_go_once_and_never_fails(install: Install) -> None:
    pynvml = install(gpu())
    first, second = NvmlMeter(), NvmlMeter()
    assert pynvml.started == 2
    first.close()
    first.close()
    assert pynvml.started == 1
    assert second.read().energy_j > 0
    pynvml.fail("nvmlShutdown", "Unknown")
    second.close()


def test_old_pynvml_without_a_function_is_one_clear_line(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(gpu(energy_mj=None))
    monkeypatch.delattr(Pynvml, "nvmlDeviceGetArchitecture")
    with pytest.raises(MeterError, match="has no nvmlDeviceGetArchitecture; choose another"):
        NvmlMeter()
