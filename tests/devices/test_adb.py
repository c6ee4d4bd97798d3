"""An Android device behind an adb that is a script: it runs what a phone would run in a folder."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ampere.core.fingerprint import local_fingerprint
from ampere.core.workloads import IDLE, REFERENCE, Settings
from ampere.devices import adb, worker_device
from ampere.devices.adb import AdbDevice
from ampere.devices.worker_archive import worker_archive
from ampere.errors import DeviceError, MeasurementFailed, MeterError
from ampere.meters.base import Provenance, Resolution
from frameworks.fake_runtime import STAND_IN

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs scripts as Linux does")

SERIAL = "192.168.1.5:5555"

# Its exit codes and errors are adb's; a phone that is not there is a file that is not there. A file
# `drop` breaks the connection of a shell, which then ends with 255, as adb does (or 0: old ones).
ADB = """#!{python} -S
import os, shutil, signal, subprocess, sys, time

home = os.path.dirname(os.path.abspath(__file__))

def path(name):
    return os.path.join(home, name)

def fail(*lines):
    sys.exit(chr(10).join(lines))

def shell(command):
    for known, ours in [("/data/local/tmp", "tmp"), ("/sys/class/power_supply", "none")]:
        command = command.replace(known, path(ours))
    env = {{"PATH": path("bin") + ":" + os.environ["PATH"], "PYTHONPATH": path("decoy")}}
    env.update(HOME=path("tmp"), TMPDIR=path("tmp"), OMP_NUM_THREADS="1")
    child = subprocess.Popen(["/bin/sh", "-c", command], env=env)
    while child.poll() is None:
        if os.path.exists(path("drop")) or not os.path.exists(phone):
            child.send_signal(signal.SIGHUP)
            if os.path.exists(path("drop")):
                os.remove(path("drop"))
            return 255
        time.sleep(0.02)
    return 128 - child.returncode if child.returncode < 0 else child.returncode

serial, arguments = "", sys.argv[1:]
if arguments[0] == "-s":
    serial, arguments = arguments[1], arguments[2:]
with open(path("calls"), "a") as log:
    log.write(arguments[0] + chr(10))
if os.path.exists(path("hang")):
    time.sleep(600)
phones = [serial] if serial else os.listdir(path("phones"))
if not phones:
    fail("* daemon started successfully", "error: no devices/emulators found")
if len(phones) > 1:
    fail("error: more than one device/emulator")
phone = os.path.join(path("phones"), phones[0])
if not os.path.exists(phone):
    fail("error: device '" + serial + "' not found")
with open(phone) as file:
    state = file.read()
if state == "offline":
    fail("error: device offline")
if state == "unauthorized":
    fail("error: device unauthorized.", "This adb server's $ADB_VENDOR_KEYS is not set",
         "Try 'adb kill-server' if that seems wrong.",
         "Otherwise check for a confirmation dialog on your device.")
if arguments[0] == "get-state":
    print(state)
elif arguments[0] == "push":
    shutil.copy(arguments[1], arguments[2].replace("/data/local/tmp", path("tmp")))
    print(arguments[1] + ": 1 file pushed, 0 skipped.")
elif arguments[0] == "shell":
    words = [word for word in arguments[1:] if word != "-T"]
    sys.exit(shell(" ".join(words)))
else:
    fail("adb: unknown command " + arguments[0])
"""

# Every look at the battery finds a milliamperehour less in it.
DUMPSYS = """#!/bin/sh
[ "$2" = get ] && exit 0
left=$(($(cat {folder}/left) - 1000)); echo $left > {folder}/left
cat <<END
Current Battery Service state:
  AC powered: false
  USB powered: false
  Wireless powered: false
  Charge counter: $left
  status: 3
  level: 84
  scale: 100
  voltage: 4000
END
"""


class Phones:
    """A folder that adb takes for phones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("bin", "tmp", "phones", "decoy/ampere"):
            (folder / name).mkdir(parents=True)
        (folder / "decoy/ampere/__init__.py").write_text("raise SystemExit('the wrong ampere')")
        (folder / "left").write_text("3361204")
        self.adb = self.script("adb", ADB.format(python=sys.executable))
        self.script("bin/dumpsys", DUMPSYS.format(folder=folder))
        self.script("bin/python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        self.script("bin/torchless", f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
        self.script("bin/light", f"#!/bin/sh\nexec {shlex.join(STAND_IN)}\n")
        self.devices: list[AdbDevice] = []

    def script(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def connect(self, serial: str = SERIAL, state: str = "device") -> None:
        (self.folder / "phones" / serial).write_text(state)

    def disconnect(self, serial: str = SERIAL) -> None:
        (self.folder / "phones" / serial).unlink(missing_ok=True)

    def drop(self) -> None:
        """The connection breaks, and is there again at once."""
        (self.folder / "drop").touch()

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().split()

    def device(self, serial: str = SERIAL, **given: Any) -> AdbDevice:
        """A device by this serial; those before it let go, since a worker is there alone."""
        for each in self.devices:
            each.close()
        given = {"meter": "cpu", "adb": self.adb, **given}
        self.devices.append(AdbDevice(serial, Settings(threads=1), **given))
        return self.devices[-1]


@pytest.fixture(scope="module")
def phones(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phones]:
    phones = Phones(tmp_path_factory.mktemp("adb"))
    yield phones
    for device in phones.devices:
        device.close()


@pytest.fixture
def phone(phones: Phones) -> Phones:
    """The phones, of which one is connected."""
    phones.connect()
    return phones


@pytest.fixture(scope="module")
def light(phones: Phones) -> AdbDevice:
    """One whose worker is soon there again, for the tests that leave it fit for the next."""
    return phones.device(python="light")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three more tries, and short pauses."""
    monkeypatch.setattr(worker_device, "RECONNECT_S", (0.05, 0.1, 0.2))


@pytest.mark.usefixtures("phone")
def test_joules_seconds_and_fingerprint_come_from_there(phones: Phones) -> None:
    device = phones.device()
    loaded = device.load(REFERENCE)
    burst = device.burst(loaded.handle, 3)
    assert 0 < burst.time_s < 60 and 0 < burst.energy_j < 600
    assert local_fingerprint({}).identity.items() <= device.fingerprint.identity.items()
    assert device.fingerprint.identity["meter"].startswith("cpu")
    assert device.provenance is Provenance.MODELLED
    device.unload(loaded.handle)


@pytest.mark.usefixtures("phone")
def test_a_worker_that_is_killed_fails_one_workload(light: AdbDevice, phones: Phones) -> None:
    loaded = light.load(REFERENCE)
    lock = next((phones.folder / "tmp" / ".cache" / "ampere").glob("worker-*.lock"))
    os.kill(int(lock.read_text().split()[0]), signal.SIGKILL)
    with pytest.raises(MeasurementFailed, match="lack of memory"):
        light.burst(loaded.handle, 3)
    assert light.burst(loaded.handle, 3).energy_j > 0
    light.unload(loaded.handle)


@pytest.mark.usefixtures("phone", "quick")
def test_a_connection_that_breaks_for_a_moment_is_nobodys_fault(
    light: AdbDevice, phones: Phones
) -> None:
    idle = light.load(IDLE)
    threading.Timer(0.3, phones.drop).start()
    burst = light.burst(idle.handle, 60)
    assert burst.steps == 60 and burst.time_s >= 0.6
    assert not (phones.folder / "drop").exists()
    light.unload(idle.handle)


@pytest.mark.usefixtures("phone", "quick")
def test_a_phone_that_stays_away_is_told_in_a_line(light: AdbDevice, phones: Phones) -> None:
    idle = light.load(IDLE)
    threading.Timer(0.3, phones.disconnect).start()
    with pytest.raises(DeviceError, match=f"device '{SERIAL}' not found, and stays so") as told:
        light.burst(idle.handle, 1000)
    assert "\n" not in str(told.value)
    phones.connect()
    assert light.burst(idle.handle, 2).energy_j > 0


@pytest.mark.usefixtures("phone")
def test_the_worker_is_pushed_once_and_whole(light: AdbDevice, phones: Phones) -> None:
    _ = light.provenance
    (file,) = (phones.folder / "tmp" / "ampere").glob("*.pyz")
    assert (file.name, file.read_bytes()) == worker_archive()
    assert file.parent.stat().st_mode & 0o777 == 0o700  # nobody else puts a worker there
    phones.device()._command()
    assert phones.calls().count("push") == 1


@pytest.mark.parametrize(
    ("code", "lost"), [(255, True), (0, True), (None, False), (3, False), (137, False)]
)
def test_a_lost_connection_is_told_from_a_lost_worker(
    phone: Phones, code: int | None, lost: bool
) -> None:
    assert (phone.device()._why_lost(code, "") is not None) is lost


def test_the_battery_is_read_from_this_side(phone: Phones) -> None:
    meter: dict[str, Any] = {"meter": "auto", "meter_settings": {"period_s": 1000.0}}
    with phone.device(python="light", **meter) as device:
        idle = device.load(IDLE)
        burst = device.burst(idle.handle, 10)
        assert burst.energy_j == pytest.approx(3.6 * 4.0)  # a milliamperehour at 4 V
        assert 0.1 <= burst.time_s < 5
        assert device.provenance is Provenance.BATTERY
        settings = {"adb": phone.adb, "serial": SERIAL, "period_s": 1000.0}
        assert device.meter == {"name": "android", "settings": settings}
        assert device.resolution == Resolution(energy_j=14.4, period_s=60.0)
        named = phone.device(meter="android", meter_settings={"period_s": 1000.0})
        assert named._meter == device.meter


def test_a_phone_on_its_cable_is_not_measured(phone: Phones) -> None:
    dumpsys = phone.folder / "bin" / "dumpsys"
    text = dumpsys.read_text()
    dumpsys.write_text(text.replace("USB powered: false", "USB powered: true"))
    try:
        with pytest.raises(MeterError, match="unplug it"):
            phone.device(meter="auto").load(IDLE)
    finally:
        dumpsys.write_text(text)


@pytest.mark.parametrize(
    ("serial", "connected", "reason"),
    [
        ("", {}, "error: no devices/emulators found"),
        ("", {"a": "device", "b": "device"}, "error: more than one device/emulator"),
        ("c", {"a": "device"}, "error: device 'c' not found"),
        ("a", {"a": "unauthorized"}, "error: device unauthorized."),
        ("a", {"a": "offline"}, "error: device offline"),
    ],
)
def test_a_phone_that_cannot_be_reached_is_told_in_a_line(
    tmp_path: Path, serial: str, connected: dict[str, str], reason: str
) -> None:
    phones = Phones(tmp_path)
    for name, state in connected.items():
        phones.connect(name, state)
    with pytest.raises(DeviceError) as told:
        _ = phones.device(serial).provenance
    who = serial or "the Android device"
    assert str(told.value) == f"{who} cannot be reached by adb: {reason}"


def test_an_adb_that_hangs_or_is_not_there_is_told_in_a_line(
    phone: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DeviceError, match=r"/no/adb cannot be run .*: install Android's platform"):
        _ = phone.device(adb="/no/adb").provenance
    monkeypatch.setattr(adb, "ANSWER_S", 0.3)
    (phone.folder / "hang").touch()
    try:
        with pytest.raises(DeviceError, match=f"{SERIAL} does not answer: is it on"):
            _ = phone.device().provenance
    finally:
        (phone.folder / "hang").unlink()


@pytest.mark.parametrize(
    ("python", "reason"),
    [
        ("nopython", "cannot start: .*exit code 127 .*nopython.*not found"),
        ("torchless", "cannot use torch .*No module named 'torch'.*: install it there"),
    ],
)
def test_a_python_that_does_not_do_is_told_in_a_line(
    phone: Phones, python: str, reason: str
) -> None:
    with phone.device(python=python) as device, pytest.raises(DeviceError, match=reason) as told:
        device.load(IDLE)
    assert "\n" not in str(told.value)
