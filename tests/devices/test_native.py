"""The native worker: compiled with an engine that only spends time, and run behind adb."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ampere.core.workloads import IDLE, REFERENCE, Settings, Workload
from ampere.devices.adb import AdbDevice
from ampere.devices.registry import open_device
from ampere.errors import AmpereError, DeviceError, MeasurementFailed, ModelError
from ampere.frameworks.models import read

from .test_adb import SERIAL, Phones

NATIVE = Path(__file__).parents[2] / "native"
MNN = Settings(runtime="mnn", threads=2)

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="runs scripts as Linux does"),
    pytest.mark.skipif(
        not (shutil.which("cmake") and shutil.which("c++")),
        reason="the native worker is compiled: install cmake and a C++ compiler",
    ),
]


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The worker with the stub, built as a user builds it."""
    build = tmp_path_factory.mktemp("native")
    for command in (
        ["cmake", "-S", str(NATIVE), "-B", str(build)],
        ["cmake", "--build", str(build)],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning:" not in done.stderr  # of the compiler
    return str(build / "ampere-worker")


class StubPhone(AdbDevice):
    """A phone whose worker may train nothing."""

    takes_stub = True


@pytest.fixture(scope="module")
def phones(tmp_path_factory: pytest.TempPathFactory) -> Phones:
    phones = Phones(tmp_path_factory.mktemp("adb"))
    phones.connect()
    return phones


@pytest.fixture
def phone(phones: Phones, worker: str) -> Iterator[AdbDevice]:
    with StubPhone(SERIAL, MNN, worker=worker, adb=phones.adb) as device:
        yield device


def script(phones: Phones, name: str, text: str) -> AdbDevice:
    """A phone with another native worker."""
    path = phones.script(name, f"#!/bin/sh\n{text}\n")
    return AdbDevice(SERIAL, MNN, worker=path, adb=phones.adb)


def test_steps_run_there_and_joules_are_read_here(phone: AdbDevice) -> None:
    loaded = phone.load(REFERENCE)
    burst = phone.burst(loaded.handle, 3)
    assert 0 < burst.time_s < 60 and burst.energy_j > 0
    assert burst.evidence is not None and burst.evidence.cpu_s > 0
    told = phone.fingerprint.identity
    assert (told["framework"], told["threads"], told["runtime"]) == ("mnn stub", "2", "mnn")
    phone.unload(loaded.handle)


def test_doing_nothing_takes_its_time(phone: AdbDevice) -> None:
    assert phone.burst(phone.load(IDLE).handle, 5).time_s >= 0.05
    assert phone.watch(0.05).time_s >= 0.05


def test_what_it_cannot_train_is_one_line(phone: AdbDevice) -> None:
    with pytest.raises(ModelError, match="mnn cannot train Embedding in call 0") as refused:
        phone.load(Workload(read("zoo:lstm")))
    assert "\n" not in str(refused.value)
    assert phone.burst(phone.load(REFERENCE).handle, 1).time_s > 0  # and it goes on


def test_another_runtime_and_a_file_that_is_not_there_are_refused(
    phones: Phones, worker: str
) -> None:
    with (
        AdbDevice(SERIAL, Settings(), worker=worker, adb=phones.adb) as device,
        pytest.raises(DeviceError, match="use --runtime mnn"),
    ):
        device.load(REFERENCE)
    with pytest.raises(DeviceError, match=r"nowhere cannot be read .*: build it"):
        open_device(f"adb:{SERIAL},worker=nowhere", MNN)


def test_joules_of_a_worker_that_trains_nothing_are_refused(phones: Phones, worker: str) -> None:
    refused = pytest.raises(DeviceError, match=r"built without MNN, and trains nothing: .*MNN_DIR")
    with open_device(f"adb:{SERIAL},worker={worker},adb={phones.adb}", MNN) as device:
        for _ in range(2):
            with refused:
                device.load(REFERENCE)


DIES = """read line; echo '{"id": 1, "framework": "mnn 3", "threads": 2, "freed_memory": "no"}'
read line; echo '{"id": 2, "identity": {"machine": "m"}, "conditions": {}}'
read line; exit 3"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ends", "exit 3"),
        ("garbage", "read line; echo '<html>'"),
        ("dies", DIES),
        ("wrong", 'read line; echo \'{"id": 1, "framework": 7}\''),
    ],
)
def test_a_worker_that_dies_or_talks_nonsense_is_one_line(
    phones: Phones, name: str, text: str
) -> None:
    with script(phones, name, text) as device, pytest.raises(AmpereError) as told:
        device.load(REFERENCE)
    assert isinstance(told.value, (DeviceError, MeasurementFailed))
    assert "\n" not in str(told.value)


def ask(worker: str, *lines: str) -> list[dict[str, Any]]:
    done = subprocess.run([worker], input="\n".join(lines), capture_output=True, text=True)
    assert done.returncode == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_requests_that_are_none_are_answered_in_words(worker: str) -> None:
    deep = "[" * 500
    answers = ask(
        worker,
        "garbage",
        deep,
        '{"do": "fly", "id": 3}',
        '{"id": 4}',
        '{"do": "burst", "handle": 1, "steps": 5, "id": 5}',
        '{"do": "load", "workload": {"stage": "backward"}, "id": 6}',
        '{"do": "describe", "id": "\\u00e9\\u20ac\\"\\\\"}',
    )
    assert [each.get("error") for each in answers[:3]] == ["DeviceError"] * 3
    assert answers[3]["error"] == answers[4]["error"] == "MeasurementFailed"
    assert "has no stage backward" in answers[5]["message"]
    assert answers[6]["id"] == 'é€"\\' and answers[6]["identity"]["system"] == "Linux"


TOOLCHAIN = """
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_CXX_COMPILER_FORCED ON)
set(CMAKE_FIND_ROOT_PATH {sysroot})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
"""


def configured(place: Path, *options: str) -> tuple[str, str]:
    """What CMake warns of, in one line, and the command that it would link with."""
    made = subprocess.run(
        ["cmake", "-S", str(NATIVE), "-B", str(place), "-G", "Unix Makefiles", *options],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    link = place / "CMakeFiles" / "ampere-worker.dir" / "link.txt"
    return " ".join(made.stderr.split()), link.read_text()


@pytest.mark.parametrize(("name", "static"), [("libMNN.a", True), ("libMNN.so", False)])
def test_mnn_is_found_where_it_is_said_to_be(tmp_path: Path, name: str, static: bool) -> None:
    """The NDK's toolchain file has find_library look in its own sysroot only."""
    library, toolchain = tmp_path / "MNN" / "build" / name, tmp_path / "phone.cmake"
    library.parent.mkdir(parents=True)
    library.touch()
    toolchain.write_text(TOOLCHAIN.format(sysroot=tmp_path / "sysroot"))
    complaint, link = configured(
        tmp_path / "build",
        f"-DCMAKE_TOOLCHAIN_FILE={toolchain}",
        f"-DMNN_DIR={tmp_path / 'MNN'}",
    )
    assert (f"-Wl,--whole-archive,{library},--no-whole-archive" in link) is static
    assert ("adb pushes the worker alone" in complaint) is not static


def test_a_worker_without_mnn_is_not_built_in_silence(tmp_path: Path) -> None:
    complaint, _ = configured(tmp_path)
    assert "CMake Warning" in complaint and "This worker trains nothing" in complaint
