"""The list of meters: ampere's own, and those that other packages register."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ampere.meters.registry
from ampere.core.boundary.trust import ForeignText
from ampere.errors import MeterError
from ampere.meters.base import Meter, Provenance
from ampere.meters.drivers.cpu import CpuMeter
from ampere.meters.drivers.fake import FakeMeter
from ampere.meters.drivers.rapl import RaplMeter
from ampere.meters.drivers.replay import ReplayMeter
from ampere.meters.registry import (
    MeterStatus,
    choose_meter,
    describe_meters,
    meter_classes,
    open_meter,
    own_meters,
    parse_meter,
)

Register = Callable[..., None]

THIRD_PARTY = """
from ampere.meters.drivers.fake import FakeMeter
from ampere.meters.base import Provenance

class Meter(FakeMeter):
    name = "{name}"
    summary = "a meter from elsewhere"
    provenance = Provenance("{provenance}")

    @classmethod
    def obstacle(cls):
        {obstacle}
"""


@pytest.fixture
def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Register:
    """Installs a package that registers one meter, as pip would."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, provenance: str = "counter", obstacle: str = "", code: str = "") -> None:
        module = f"thirdparty_{name}_{abs(hash(tmp_path))}"
        source = THIRD_PARTY.format(
            name=name, provenance=provenance, obstacle=obstacle or "return None"
        )
        (tmp_path / f"{module}.py").write_text(code or source)
        metadata = tmp_path / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[ampere.meters]\n{name} = {module}:Meter\n")
        importlib.invalidate_caches()

    return install


@pytest.fixture(autouse=True)
def no_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that runs the tests must not matter."""
    for name, driver in meter_classes().items():
        if name in own_meters() and name not in ("cpu", "replay", "fake"):
            monkeypatch.setattr(driver, "obstacle", classmethod(lambda cls: "no counter here"))


@pytest.fixture
def rapl_is_present(no_hardware: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RaplMeter, "obstacle", classmethod(lambda cls: None))


def status(name: str) -> MeterStatus:
    return next(status for status in describe_meters() if status.name == name)


def test_own_meters_are_found() -> None:
    classes = meter_classes()
    own: dict[str, type[Meter]] = {
        "rapl": RaplMeter,
        "cpu": CpuMeter,
        "replay": ReplayMeter,
        "fake": FakeMeter,
    }
    assert {name: classes[name] for name in own} == own
    assert all(driver.name == name for name, driver in own.items())


@pytest.mark.parametrize("name", own_meters())
def test_every_driver_is_named_as_its_file_is(name: str) -> None:
    driver = meter_classes()[name]
    assert (driver.name, driver.__module__) == (name, f"ampere.meters.drivers.{name}")


def test_the_ladder_of_own_meters_has_a_rung_for_each() -> None:
    listed = [listed.name for listed in describe_meters() if listed.name in own_meters()]
    assert listed == [
        *("jetson", "nvml", "rapl", "amdsmi", "apple", "emi", "hwmon"),  # what `auto` may take
        *("shelly", "log", "battery", "android", "iphone"),
        *("cpu", "tree", "replay", "fake"),
    ]
    rungs = [meter_classes()[name].rung for name in listed]
    assert rungs == sorted(set(rungs))
    assert max(rungs) < Meter.rung


def test_third_party_meter_is_found_and_opened(register: Register) -> None:
    register("ina219", provenance="sensor")
    assert "ina219" in meter_classes()
    assert open_meter("ina219", step_j=1.0).read().provenance is Provenance.SENSOR
    assert status("ina219") == MeterStatus(
        "ina219", Provenance.SENSOR, "a meter from elsewhere", True, None, default=True
    )


def test_own_meters_cannot_be_replaced(register: Register) -> None:
    register("cpu")
    assert meter_classes()["cpu"] is CpuMeter


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("import no_such_package", "no_such_package"),
        ("raise RuntimeError('no driver')", "no driver"),
        ("", "Meter"),
        ("class Meter: pass", "derive it from ampere.Meter"),
    ],
)
def test_broken_meter_only_hurts_who_asks_for_it(
    register: Register, code: str, complaint: str
) -> None:
    register("broken", code=code or "# no class")
    assert "broken" not in meter_classes()
    assert choose_meter("auto") == "cpu"
    listed = status("broken")
    assert (listed.available, listed.provenance, listed.default) == (False, None, False)
    assert complaint in str(listed.obstacle)
    assert "\n" not in str(listed.obstacle)
    with pytest.raises(MeterError, match=complaint):
        open_meter("broken")


def test_meter_that_fails_to_look_around_is_unavailable(register: Register) -> None:
    register("shaky", obstacle="raise OSError('bus error')")
    assert choose_meter("auto") == "cpu"
    assert not status("shaky").available
    assert "bus error" in str(status("shaky").obstacle)


def test_auto_takes_rapl_first(register: Register, rapl_is_present: None) -> None:
    register("a_sensor", provenance="sensor")
    assert choose_meter("auto") == "rapl"
    assert [s.name for s in describe_meters() if s.default] == ["rapl"]


@pytest.mark.parametrize("provenance", ["counter", "sensor"])
def test_auto_takes_other_hardware_before_the_model(register: Register, provenance: str) -> None:
    register("elsewhere", provenance=provenance)
    assert choose_meter("auto") == "elsewhere"


@pytest.mark.parametrize("provenance", ["battery", "external", "modelled", "simulated", "recorded"])
def test_auto_takes_nothing_else(register: Register, provenance: str) -> None:
    register("elsewhere", provenance=provenance)
    assert choose_meter("auto") == "cpu"


def test_auto_passes_over_what_cannot_be_used(register: Register) -> None:
    register("unplugged", obstacle="return 'plug it in'")
    assert choose_meter("auto") == "cpu"
    assert isinstance(open_meter("auto"), CpuMeter)
    assert status("unplugged").obstacle == "plug it in"
    assert [s.name for s in describe_meters() if s.default] == ["cpu"]


def test_settings_reach_the_meter() -> None:
    meter = open_meter("cpu", idle_w=2.5, active_w=9.0)
    assert isinstance(meter, CpuMeter)
    assert (meter.idle_w, meter.active_w) == (2.5, 9.0)


def test_unknown_meter_lists_the_known_ones() -> None:
    for ask in (open_meter, choose_meter):
        with pytest.raises(MeterError, match=r"'volta'.*: auto, jetson, .*cpu, tree, replay, fake"):
            ask("volta")


@pytest.mark.parametrize("name", [ForeignText("cpu"), ForeignText("auto"), 3.0, None, ["cpu"]])
def test_only_a_text_that_was_typed_names_a_meter(name: Any) -> None:
    for ask in (open_meter, choose_meter):
        with pytest.raises(MeterError, match="named by a text that the user typed"):
            ask(name)


@pytest.mark.parametrize("value", [ForeignText("touch /tmp/x"), None, ["adb"]])
def test_settings_out_of_a_file_open_nothing(value: Any) -> None:
    with pytest.raises(MeterError, match="meter iphone: command must be a number or a text"):
        open_meter("iphone", command=value)


@pytest.mark.parametrize(
    ("name", "settings", "complaint"),
    [
        ("cpu", {"idle": 1.0}, "'idle'; its settings are: idle_w, active_w"),
        ("replay", {}, "'path'; its settings are: path"),
        ("replay", {"path": 3.0}, "does not take"),
        ("cpu", {"idle_w": "two"}, "must be watts"),
    ],
)
def test_wrong_settings_are_explained(
    name: str, settings: dict[str, float | str], complaint: str
) -> None:
    with pytest.raises(MeterError, match=complaint):
        open_meter(name, **settings)


@pytest.mark.parametrize(
    ("text", "name", "settings"),
    [
        ("rapl", "rapl", {}),
        (" auto ", "auto", {}),
        ("cpu:idle_w=2.5,active_w=9", "cpu", {"idle_w": 2.5, "active_w": 9.0}),
        ("cpu: idle_w = 2.5 , active_w = 1e1", "cpu", {"idle_w": 2.5, "active_w": 10.0}),
        ("replay:path=log.csv", "replay", {"path": "log.csv"}),
        ("replay:path=C:\\logs\\a=b.csv", "replay", {"path": "C:\\logs\\a=b.csv"}),
    ],
)
def test_parse(text: str, name: str, settings: dict[str, float | str]) -> None:
    assert parse_meter(text) == (name, settings)


@pytest.mark.parametrize(
    "text", ["", ":", ":idle_w=1", "cpu:", "cpu:idle_w", "cpu:=2", "cpu:idle_w=", "cpu:idle_w=1,"]
)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(MeterError, match=r"write it as|has no name"):
        parse_meter(text)


def test_parse_refuses_a_setting_given_twice() -> None:
    with pytest.raises(MeterError, match="idle_w is given twice"):
        parse_meter("cpu:idle_w=1,idle_w=2")


def test_listing_meters_imports_nothing_heavy() -> None:
    code = (
        "import sys, ampere.meters.registry; ampere.meters.registry.describe_meters();"
        "print(*{'torch', 'scipy', 'numpy', 'typer', 'rich'} & set(sys.modules))"
    )
    environment = {"PYTHONPATH": str(Path(ampere.meters.__file__).parents[2])}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == []


def test_texts_that_look_like_numbers_stay_texts_where_the_driver_wants_them() -> None:
    assert parse_meter("android:serial=0012345678,period_s=5") == (
        "android",
        {"serial": "0012345678", "period_s": 5.0},
    )
    assert parse_meter("log:path=123,wait_s=9")[1] == {"path": "123", "wait_s": 9.0}
    assert parse_meter("nvml:gpu=1")[1] == {"gpu": 1.0}
    assert parse_meter("nvml:gpu=all")[1] == {"gpu": "all"}


def test_counters_of_other_packages_come_before_their_sensors(register: Register) -> None:
    register("a_sensor", provenance="sensor")
    register("b_counter", provenance="counter")
    assert choose_meter("auto") == "b_counter"


def test_nothing_is_taken_for_an_accelerator_whose_joules_nobody_tells() -> None:
    with pytest.raises(MeterError, match="no meter here holds the joules of cuda"):
        choose_meter("auto", "cuda")
    assert not any(listed.default for listed in describe_meters("cuda"))
    assert choose_meter("cpu", "cuda") == "cpu"  # named, it is taken


@pytest.mark.parametrize(
    ("code", "count"), [("", 0), ("class A(Meter): ...\nclass B(Meter): ...", 2)]
)
def test_a_module_that_is_registered_holds_one_meter(
    register: Register, tmp_path: Path, code: str, count: int
) -> None:
    register("several", code=f"from ampere.meters.base import Meter\n{code}")
    (entry_points,) = tmp_path.glob("*.dist-info/entry_points.txt")
    entry_points.write_text(entry_points.read_text().replace(":Meter", ""))
    with pytest.raises(MeterError, match=f"holds {count} meters: put one into each file"):
        open_meter("several")
