from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.errors import MeterError, MeterFault
from ampere.meters.base import Provenance
from ampere.meters.drivers.jetson import JetsonMeter

from .contract import MeterContract
from .windows import window_of

# Rails as the device trees name them, in the order of their channels; None: disabled, no label.
TX2 = {
    "0-0040": ["VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_4V0_WIFI"],
    "0-0041": ["VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR"],
    "0-0042": ["VDD_MUX", "VDD_5V0_IO_SYS", "VDD_3V3_SYS"],
}
NANO = {"6-0040": ["POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"]}
AGX_XAVIER = {"1-0040": ["GPU", "CPU", "SOC"], "1-0041": ["CV", "VDDRQ", "SYS5V"]}
XAVIER_NX = {"7-0040": ["VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"]}
AGX_ORIN = {
    "1-0040": ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"],
    "1-0041": ["NC", "VDDQ_VDD2_1V8AO", "NC"],
}
THOR = {"2-0040": ["VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"]}

Board = dict[str, list[str]]


class Sysfs:
    """A tree as on a Jetson. Rails show 1, 2, 4, ... W, so that a sum tells which were added."""

    def __init__(self, root: Path) -> None:
        self.path = root
        self.files: dict[str, list[Path]] = {}

    @property
    def root(self) -> str:
        return str(self.path)

    def old(self, board: Board, device: str = "iio:device{}", power: bool = True) -> Sysfs:
        """The layout until JetPack 4: rails count from 0."""
        for number, (chip, rails) in enumerate(board.items()):
            folder = self._folder("ina3221x", chip, device.format(number))
            for channel, rail in enumerate(rails):
                self._write(folder / f"rail_name_{channel}", rail)
                volts = folder / f"in_voltage{channel}_input"
                amperes = folder / f"in_current{channel}_input"
                self._add(rail, volts, amperes)
                if power:
                    self.files[rail] = [folder / f"in_power{channel}_input"]
                    self._write(self.files[rail][0], "1000")
            self._write(folder / "crit_current_limit_0", "32760 ma")
        self._spread()
        return self

    def new(self, board: Board) -> Sysfs:
        """The layout since JetPack 5: rails count from 1."""
        for number, (chip, rails) in enumerate(board.items()):
            folder = self._folder("ina3221", chip, f"hwmon/hwmon{number + 3}")
            for channel, rail in enumerate(rails, start=1):
                self._write(folder / f"in{channel}_label", rail)
                self._add(rail, folder / f"in{channel}_input", folder / f"curr{channel}_input")
                self._write(folder / f"in{channel + 3}_input", "760")
            self._write(folder / "in7_label", "sum of shunt voltages")
            self._write(folder / "in7_input", "9000")
            self._write(folder / "curr7_input", "9000")
            self._write(folder / "name", "ina3221")
        self._spread()
        return self

    def set_mw(self, rail: str, power_mw: int) -> None:
        *volts, last = self.files[rail]
        self._write(last, str(power_mw // 5 if volts else power_mw))

    def _folder(self, driver: str, chip: str, inside: str) -> Path:
        folder = self.path / "bus" / "i2c" / "drivers" / driver / chip / inside
        folder.mkdir(parents=True)
        self._write(folder.parents[len(Path(inside).parts)] / "uevent", "")
        return folder

    def _add(self, rail: str, volts: Path, amperes: Path) -> None:
        self._write(volts, "5000")
        self._write(amperes, "77")
        if rail != "NC":
            self.files[rail] = [volts, amperes]

    def _spread(self) -> None:
        for bit, rail in enumerate(self.files):
            self.set_mw(rail, 1000 * 2**bit)

    @staticmethod
    def _write(file: Path, text: str) -> None:
        file.write_text(f"{text}\n", encoding="utf-8")


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path / "sys")


@pytest.fixture
def open_jetson() -> Iterator[Callable[..., JetsonMeter]]:
    meters = []

    def open_one(sysfs: Sysfs, **settings: Any) -> JetsonMeter:
        meters.append(JetsonMeter(sysfs.root, **settings))
        return meters[-1]

    yield open_one
    for meter in meters:
        meter.close()


Open = Callable[..., JetsonMeter]


class TestJetson(MeterContract):
    driver = JetsonMeter

    def settings(self, tmp_path: Path) -> dict[str, float | str]:
        sysfs = Sysfs(tmp_path / "sys")
        if not sysfs.path.exists():
            sysfs.new(XAVIER_NX)
        return {"root": sysfs.root, "period_s": 0.05}


@pytest.mark.parametrize(
    ("board", "rails"),
    [
        (TX2, ["VDD_IN"]),
        (NANO, ["POM_5V_IN"]),
        (XAVIER_NX, ["VDD_IN"]),
        ({"7-0040": ["VDD_SOC", "5V_IN", "VDD_CPU_GPU"]}, ["5V_IN"]),
        (AGX_XAVIER, ["GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"]),
        (AGX_ORIN, ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"]),
    ],
)
@pytest.mark.parametrize("layout", ["old", "old without power", "new"])
def test_counts_each_joule_of_the_module_once(
    sysfs: Sysfs, open_jetson: Open, board: Board, rails: list[str], layout: str
) -> None:
    if layout == "new":
        sysfs.new(board)
    else:
        sysfs.old(board, power=layout == "old")
    meter = open_jetson(sysfs)
    every = list(sysfs.files)
    assert meter.power_w() == sum(2 ** every.index(rail) for rail in rails)
    assert JetsonMeter.obstacle(sysfs.root) is None


def test_the_older_name_of_the_folder_is_no_second_chip(sysfs: Sysfs, open_jetson: Open) -> None:
    sysfs.old(NANO, device="iio_device")
    assert open_jetson(sysfs).power_w() == 1
    chip = sysfs.path / "bus/i2c/drivers/ina3221x/6-0040"
    (chip / "iio:device0").symlink_to(chip / "iio_device")
    assert open_jetson(sysfs).power_w() == 1


def test_multiplies_millivolts_and_milliamperes(sysfs: Sysfs, open_jetson: Open) -> None:
    sysfs.new(XAVIER_NX)
    volts, amperes = sysfs.files["VDD_IN"]
    volts.write_text("19592\n")
    amperes.write_text("1120\n")
    assert open_jetson(sysfs).power_w() == pytest.approx(19.592 * 1.120)


def test_integrates_watts_as_a_sensor(sysfs: Sysfs, open_jetson: Open) -> None:
    meter = open_jetson(sysfs.new(XAVIER_NX), period_s=0.05)
    sysfs.set_mw("VDD_IN", 8000)
    window = window_of(meter, 0.1)
    assert window.energy_j == pytest.approx(8.0 * window.time_s, rel=0.3)
    assert meter.read().provenance is Provenance.SENSOR
    assert meter.resolution.period_s == 0.05


def test_idle_power_is_subtracted(sysfs: Sysfs, open_jetson: Open) -> None:
    meter = open_jetson(sysfs.new(XAVIER_NX), period_s=0.05, idle_w=0.75)
    window = window_of(meter, 0.1)
    assert window.energy_j == pytest.approx(0.25 * window.time_s, rel=0.3)


def test_rails_can_be_named(sysfs: Sysfs, open_jetson: Open) -> None:
    sysfs.old(TX2)
    every = list(sysfs.files)
    meter = open_jetson(sysfs, rail="VDD_IN+VDD_MUX")
    assert meter.power_w() == 2 ** every.index("VDD_IN") + 2 ** every.index("VDD_MUX")
    assert open_jetson(sysfs, rail="VDD_SYS_GPU").power_w() == 1


@pytest.mark.parametrize("rail", ["VDD_GPU", "VDD_IN+", "+", "NC", "VDD_IN+VDD_IN", 5.0])
def test_rails_that_are_not_there_or_twice_are_refused(sysfs: Sysfs, rail: str) -> None:
    with pytest.raises(MeterError, match="is not among VDD_IN, VDD_CPU_GPU_CV, VDD_SOC"):
        JetsonMeter(sysfs.new(XAVIER_NX).root, rail=rail)


def test_sum_of_shunt_voltages_is_no_rail(sysfs: Sysfs) -> None:
    with pytest.raises(MeterError, match="is not among"):
        JetsonMeter(sysfs.new(XAVIER_NX).root, rail="sum of shunt voltages")


def test_part_of_a_module_is_not_taken_for_all_of_it(sysfs: Sysfs) -> None:
    # The second chip of an AGX Xavier did not answer at boot.
    sysfs.new({"1-0040": AGX_XAVIER["1-0040"]})
    with pytest.raises(MeterError, match=r"the rails GPU, CPU, SOC are of no module.*rail=A\+B"):
        JetsonMeter(sysfs.root)


def test_unknown_module_asks_for_its_rails(sysfs: Sysfs, open_jetson: Open) -> None:
    sysfs.new(THOR)
    assert "VDD_GPU, VDD_CPU_SOC_MSS, VIN_SYS_5V0" in (JetsonMeter.obstacle(sysfs.root) or "")
    assert open_jetson(sysfs, rail="VDD_GPU+VDD_CPU_SOC_MSS+VIN_SYS_5V0").power_w() == 7


def test_rail_with_two_chips_is_refused(sysfs: Sysfs) -> None:
    sysfs.new({"1-0040": ["VDD_IN"], "1-0041": ["VDD_IN"]})
    with pytest.raises(MeterError, match="second rail VDD_IN"):
        JetsonMeter(sysfs.root)


def test_rail_that_is_off_may_show_a_little_less_than_nothing(
    sysfs: Sysfs, open_jetson: Open
) -> None:
    sysfs.new(AGX_XAVIER)
    before_w = open_jetson(sysfs).power_w()
    sysfs.set_mw("CV", -40)
    assert open_jetson(sysfs).power_w() == pytest.approx(before_w - 8 - 0.04)


def test_dead_sensor_is_a_fault(sysfs: Sysfs, open_jetson: Open) -> None:
    meter = open_jetson(sysfs.new(XAVIER_NX), period_s=0.005)
    sysfs.set_mw("VDD_IN", 0)
    time.sleep(0.1)
    with pytest.raises(MeterFault, match="it shows 0 W"):
        meter.read()


def test_busy_bus_is_bridged_and_then_a_fault(
    sysfs: Sysfs, open_jetson: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = open_jetson(sysfs.new(XAVIER_NX), period_s=0.05)
    meter.read()

    def busy(path: Path, *args: str, **kwargs: str) -> str:
        raise OSError(121, "Remote I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", busy)
        with pytest.raises(MeterFault, match="cannot be read now"):
            meter.power_w()
        meter.read()
        time.sleep(0.6)
        with pytest.raises(MeterFault, match="nothing usable"):
            meter.read()


def test_no_jetson_is_an_obstacle(tmp_path: Path) -> None:
    assert "this is no Jetson" in (JetsonMeter.obstacle(str(tmp_path)) or "")
    with pytest.raises(MeterError, match="this is no Jetson"):
        JetsonMeter(str(tmp_path / "nowhere"))


def test_missing_permission_says_how_to_get_it(
    sysfs: Sysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not by chmod: tests that run as root may read everything.
    sysfs.new(XAVIER_NX)
    read_text = Path.read_text

    def guarded(path: Path, *args: str, **kwargs: str) -> str:
        if path.name == "in1_input":
            raise PermissionError(13, "Permission denied")
        return read_text(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", guarded)
    with pytest.raises(MeterError, match=r"sudo chmod o\+r .*in1_input") as caught:
        JetsonMeter(sysfs.root)
    assert JetsonMeter.obstacle(sysfs.root) == str(caught.value)


@pytest.mark.parametrize("content", ["", "many", "1.5", "nan", "²", "\0", "5000 mV", "9" * 400])
def test_nonsense_is_refused(sysfs: Sysfs, content: str) -> None:
    sysfs.new(XAVIER_NX)
    sysfs.files["VDD_IN"][0].write_text(content, encoding="utf-8")
    with pytest.raises(MeterError, match=r"in1_input holds .* not a number"):
        JetsonMeter(sysfs.root)


def test_missing_file_is_refused(sysfs: Sysfs) -> None:
    sysfs.new(XAVIER_NX)
    sysfs.files["VDD_IN"][1].unlink()
    with pytest.raises(MeterError, match="curr1_input does not exist"):
        JetsonMeter(sysfs.root)


@pytest.mark.parametrize("setting", [{"period_s": 0.0}, {"idle_w": -1.0}])
def test_settings_are_checked(sysfs: Sysfs, setting: dict[str, float]) -> None:
    sysfs.new(XAVIER_NX)
    with pytest.raises(MeterError, match=next(iter(setting))):
        JetsonMeter(sysfs.root, **setting)


FILES = st.sampled_from(
    [
        f"{driver}/1-0040/{folder}/{file}"
        for driver in ("ina3221", "ina3221x")
        for folder in ("iio:device0", "iio_device", "hwmon/hwmon1")
        for file in (
            *("in1_label", "in2_label", "in7_label", "in1_input", "in2_input", "curr1_input"),
            *("rail_name_0", "in_power0_input", "in_voltage0_input", "in_current0_input"),
        )
    ]
)
TEXTS = (
    st.sampled_from(["VDD_IN", "NC", "5V_IN", "", "1000\n", "5000", "-1", "1e3", "\xff"])
    | st.text()
)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(FILES, TEXTS, max_size=14))
def test_broken_trees_give_watts_or_an_error(tree: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tree.items():
            file = Path(folder) / "bus/i2c/drivers" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", errors="replace")
        obstacle = JetsonMeter.obstacle(folder)
        assert obstacle is None or (obstacle and "\n" not in obstacle)
        try:
            meter = JetsonMeter(folder)
        except MeterError as error:
            assert str(error) == obstacle
            return
        meter.close()
        assert obstacle is None
        assert abs(meter.power_w()) < 1e40
