from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.errors import MeterError
from ampere.meters.drivers.rapl import RaplMeter

from .powercap import Powercap


def test_adds_packages_and_their_memory(powercap: Powercap) -> None:
    for zone, name in {
        "intel-rapl:0": "package-0",
        "intel-rapl:0:0": "core",
        "intel-rapl:0:1": "uncore",
        "intel-rapl:0:2": "dram",
        "intel-rapl:1": "package-1",
        "intel-rapl:1:0": "dram",
        "intel-rapl:2": "psys",
        "intel-rapl-mmio:0": "package-0",
        "intel-rapl-mmio:0:0": "dram",
    }.items():
        powercap.add(zone, name)
    meter = RaplMeter(powercap.root)
    # Different powers of ten show which zones were counted, and how often.
    for power, zone in enumerate(
        [
            "intel-rapl:0",
            "intel-rapl:0:2",
            "intel-rapl:1",
            "intel-rapl:1:0",
            "intel-rapl:0:0",
            "intel-rapl:2",
        ]
    ):
        powercap.spend(zone, 10**power)
    powercap.spend("intel-rapl-mmio:0", 500_000)
    powercap.spend("intel-rapl-mmio:0:0", 500_000)
    assert meter.read().energy_j == 1111 / 1e6


def test_multi_die_packages_count(powercap: Powercap) -> None:
    powercap.add("intel-rapl:0", "package-0-die-0")
    powercap.add("intel-rapl:1", "package-0-die-1")
    meter = RaplMeter(powercap.root)
    powercap.spend("intel-rapl:0", 3)
    powercap.spend("intel-rapl:1", 40)
    assert meter.read().energy_j == 43 / 1e6


def test_ten_sockets_are_all_found(powercap: Powercap) -> None:
    for socket in range(11):
        powercap.add(f"intel-rapl:{socket}", f"package-{socket}")
        powercap.add(f"intel-rapl:{socket}:0", "dram")
    meter = RaplMeter(powercap.root)
    for socket in range(11):
        powercap.spend(f"intel-rapl:{socket}", 1)
        powercap.spend(f"intel-rapl:{socket}:0", 100)
    assert meter.read().energy_j == 1111 / 1e6


def test_platform_counts_where_no_package_is(powercap: Powercap) -> None:
    powercap.add("intel-rapl:0", "psys")
    powercap.add("intel-rapl:0:0", "dram")
    meter = RaplMeter(powercap.root)
    powercap.spend("intel-rapl:0", 7)
    powercap.spend("intel-rapl:0:0", 100)
    assert meter.read().energy_j == 7 / 1e6


def test_wraps_each_zone_at_its_own_range(powercap: Powercap) -> None:
    powercap.add("intel-rapl:0", "package-0", energy_uj=990, range_uj=1000)
    powercap.add("intel-rapl:0:0", "dram", energy_uj=90, range_uj=100)
    meter = RaplMeter(powercap.root)
    powercap.write("intel-rapl:0", "energy_uj", "5")
    powercap.write("intel-rapl:0:0", "energy_uj", "20")
    assert meter.read().energy_j == (15 + 30) / 1e6


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_increments_with_wraps_add_up_exactly(data: st.DataObject) -> None:
    range_uj = data.draw(st.integers(2, 2**48))
    start_uj = data.draw(st.integers(0, range_uj - 1))
    increments = data.draw(st.lists(st.integers(0, range_uj - 1), max_size=15))
    with tempfile.TemporaryDirectory() as folder:
        powercap = Powercap(Path(folder) / "powercap")
        powercap.add("intel-rapl:0", "package-0", start_uj, range_uj)
        meter = RaplMeter(powercap.root)
        total_uj = 0
        for increment_uj in increments:
            powercap.spend("intel-rapl:0", increment_uj)
            total_uj += increment_uj
            assert meter.read().energy_j == total_uj / 1e6


def test_failed_reading_loses_no_energy(powercap: Powercap) -> None:
    powercap.add("intel-rapl:0", "package-0")
    powercap.add("intel-rapl:1", "package-1")
    meter = RaplMeter(powercap.root)
    powercap.spend("intel-rapl:0", 5)
    powercap.write("intel-rapl:1", "energy_uj", "")
    with pytest.raises(MeterError):
        meter.read()
    powercap.write("intel-rapl:1", "energy_uj", "21")
    assert meter.read().energy_j == 25 / 1e6


def test_fall_beyond_the_range_is_refused(powercap: Powercap) -> None:
    powercap.add("intel-rapl:0", "package-0", energy_uj=5000, range_uj=1000)
    meter = RaplMeter(powercap.root)
    powercap.write("intel-rapl:0", "energy_uj", "3")
    with pytest.raises(MeterError, match="from 5000 to 3 µJ"):
        meter.read()


@pytest.mark.parametrize("content", ["", "\n", "many", "-5", "1.5", "nan", "²", "\0"])
@pytest.mark.parametrize("file", ["energy_uj", "max_energy_range_uj"])
def test_nonsense_is_refused(powercap: Powercap, file: str, content: str) -> None:
    powercap.add("intel-rapl:0", "package-0")
    powercap.write("intel-rapl:0", file, content)
    with pytest.raises(MeterError, match=f"{file} holds .* not a number"):
        RaplMeter(powercap.root)


@pytest.mark.parametrize("file", ["energy_uj", "max_energy_range_uj", "name"])
def test_missing_file_is_refused(powercap: Powercap, file: str) -> None:
    powercap.add("intel-rapl:0", "package-0")
    (powercap.path / "intel-rapl:0" / file).unlink()
    with pytest.raises(MeterError, match=f"{file} does not exist"):
        RaplMeter(powercap.root)


def test_missing_permission_says_how_to_get_it(
    powercap: Powercap, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not by chmod: tests that run as root may read everything.
    powercap.add("intel-rapl:0", "package-0")
    read_text = Path.read_text

    def guarded(path: Path, *args: str, **kwargs: str) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return read_text(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", guarded)
    advice = f"sudo chmod o+r {powercap.root}/intel-rapl:*/energy_uj"
    with pytest.raises(MeterError) as caught:
        RaplMeter(powercap.root)
    assert advice in str(caught.value)
    assert "root" in str(caught.value)
    assert RaplMeter.obstacle(powercap.root) == str(caught.value)


@pytest.mark.parametrize("zones", [{}, {"intel-rapl-mmio:0": "package-0"}, {"intel-rapl:0": "x"}])
def test_no_counter_is_an_obstacle(powercap: Powercap, zones: dict[str, str]) -> None:
    for zone, name in zones.items():
        powercap.add(zone, name)
    with pytest.raises(MeterError, match="no RAPL counter"):
        RaplMeter(powercap.root)


def test_absent_tree_is_an_obstacle(tmp_path: Path) -> None:
    obstacle = RaplMeter.obstacle(str(tmp_path / "nowhere"))
    assert obstacle is not None
    assert "no RAPL counter" in obstacle


def test_counters_at_zero_are_an_obstacle(powercap: Powercap) -> None:
    powercap.add("intel-rapl:0", "package-0", energy_uj=0)
    assert "virtual machine" in (RaplMeter.obstacle(powercap.root) or "")
    powercap.spend("intel-rapl:0", 1)
    assert RaplMeter.obstacle(powercap.root) is None
