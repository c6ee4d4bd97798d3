"""The worker process for real: whatever a model does to it, the next one is measured."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ampere.core.training import Training
from ampere.core.workloads import IDLE, REFERENCE, ModelSpec, Settings, Workload
from ampere.devices import worker
from ampere.devices.base import Device
from ampere.devices.local import LocalDevice
from ampere.errors import AmpereError, DeviceError, MeasurementFailed, MeterError, ModelError
from ampere.meters.base import Provenance
from fakes import VARIANT
from frameworks.fake_runtime import STAND_IN, StandInDevice

from .talk import Talk

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals as on Linux and macOS")

MODELS = """
import os, sys, time
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.calls = nn.Linear(4, 2), 0
    def forward(self, x):
        self.calls += 1
        self.act()
        return self.fc(x)
    def act(self):
        pass

def net(act):
    model = Net()
    model.act = lambda: act(model.calls)
    return model

def good(): return net(lambda calls: None)
def chatty(): return net(lambda calls: (print('{"energy_j": -1}'), os.write(1, b"noise\\n")))
def aborts(): return net(lambda calls: os.abort() if calls > 2 else None)
def greedy(): return net(lambda calls: bytearray(1 << 60) if calls > 2 else None)
def stuck(): time.sleep(600)
def raises(): return net(lambda calls: [][1] if calls > 2 else None)
for factory in (good, chatty, aborts, greedy, stuck, raises):
    factory.input = "4"
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "models.py"
    path.write_text(MODELS)
    return path


@pytest.fixture(scope="module")
def device() -> Iterator[LocalDevice]:
    """One device for all tests: each leaves it fit for the next, which is what they are about."""
    with LocalDevice(Settings(threads=1), meter="cpu", patience_s=60.0) as local:
        yield local


@pytest.fixture(scope="module")
def stand_in() -> Iterator[StandInDevice]:
    """One whose worker is soon there again, for tests that end it."""
    with StandInDevice(Settings(threads=1), meter="cpu", patience_s=60.0) as local:
        yield local


def workload(models: Path, name: str) -> Workload:
    return Workload(model=ModelSpec(f"{models}:{name}", training=Training(2)))


def worker_of(device: LocalDevice) -> int:
    if device._process is None:  # nobody has used it yet
        assert_works(device)
    assert device._process is not None
    return device._process.pid


def runs(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def assert_works(device: LocalDevice, work: Workload = VARIANT) -> None:
    loaded = device.load(work)
    burst = device.burst(loaded.handle, 5)
    assert burst.steps == 5
    assert 0 < burst.time_s < 60
    assert 0 < burst.energy_j < 600
    device.unload(loaded.handle)


def test_joules_and_seconds_of_a_variant_are_modelled(device: LocalDevice) -> None:
    as_device: Device = device
    assert as_device.provenance is Provenance.MODELLED
    assert_works(device)
    (features,) = device.load(VARIANT).features
    assert features.flops == 2 * 3 * (4 * 8 * 3)  # forward, and two products backward
    assert features.parameter_bytes == 4 * (8 * 3 + 3)


def test_models_by_name_the_reference_and_idling(device: LocalDevice, models: Path) -> None:
    for work in (workload(models, "good"), REFERENCE, IDLE):
        assert_works(device, work)


def test_the_fingerprint_tells_settings_framework_and_meter(device: LocalDevice) -> None:
    identity = device.fingerprint.identity
    assert identity["threads"] == "1"
    assert identity["framework"].startswith("torch 2")
    assert identity["meter"].startswith("cpu")
    assert identity["accelerator"] == "cpu"
    assert device.fingerprint.id == device.fingerprint.id


def test_what_a_model_prints_does_not_come_between_answers(
    device: LocalDevice, models: Path
) -> None:
    assert_works(device, workload(models, "chatty"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("aborts", "crashed with SIGABRT"),
        ("greedy", "out of memory"),
        ("raises", "IndexError"),
    ],
)
def test_a_network_that_fails_is_told_and_the_next_one_works(
    device: LocalDevice, models: Path, name: str, reason: str
) -> None:
    kept = device.load(VARIANT)  # was loaded before, and must survive a new worker
    bad = device.load(workload(models, name))
    with pytest.raises(MeasurementFailed, match=reason):
        device.burst(bad.handle, 5)
    assert device.burst(kept.handle, 3).energy_j > 0
    device.unload(bad.handle)
    device.unload(kept.handle)
    assert_works(device)


def test_a_network_that_hangs_is_given_up(device: LocalDevice, models: Path) -> None:
    """While it is loaded; for bursts, test_worker_device has it."""
    pid = worker_of(device)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "_patience_s", 1.0)
        with pytest.raises(MeasurementFailed, match="it hung: no answer within 1 s"):
            device.load(workload(models, "stuck"))
    assert not runs(pid)
    assert_works(device)
    assert worker_of(device) != pid


def test_a_worker_that_is_killed_in_between_is_replaced(stand_in: LocalDevice) -> None:
    device = stand_in
    loaded = device.load(VARIANT)
    before = worker_of(device)
    os.kill(before, signal.SIGKILL)
    with pytest.raises(MeasurementFailed, match="killed, most likely for lack of memory"):
        device.burst(loaded.handle, 3)
    assert device.burst(loaded.handle, 3).energy_j > 0
    assert worker_of(device) != before
    device.unload(loaded.handle)


def test_after_closing_no_process_is_left_and_it_can_start_again(stand_in: LocalDevice) -> None:
    device = stand_in
    loaded = device.load(VARIANT)
    pid = worker_of(device)
    assert runs(pid)
    device.close()
    assert not runs(pid)
    device.close()  # twice does no harm
    assert device.burst(loaded.handle, 2).energy_j > 0
    device.unload(loaded.handle)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("absent", ModelError, "has no 'absent'"),
        ("good(width=3)", ModelError, "width"),
    ],
)
def test_errors_of_ampere_keep_their_type_across_the_process(
    device: LocalDevice, models: Path, name: str, error: type[AmpereError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        device.load(workload(models, name))
    assert "\n" not in str(caught.value)
    assert_works(device)


def test_a_loss_that_cannot_be_is_told_across_the_process(
    device: LocalDevice, models: Path
) -> None:
    wrong = ModelSpec(f"{models}:good", training=Training(2, loss=f"{models}:absent"))
    with pytest.raises(ModelError, match="has no 'absent'"):
        device.load(Workload(model=wrong))
    assert_works(
        device, Workload(model=ModelSpec(f"{models}:good", training=Training(2, loss="mse")))
    )


def test_settings_and_meters_that_cannot_be() -> None:
    with pytest.raises(DeviceError, match="accelerator"):
        Settings(accelerator="abacus")
    with pytest.raises(DeviceError, match="0 threads"):
        Settings(threads=0)
    with pytest.raises(MeterError, match="no-such-meter"):
        LocalDevice(meter="no-such-meter")


def test_an_interrupted_request_does_not_answer_the_next_one(
    stand_in: LocalDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = stand_in
    idle = device.load(IDLE).handle
    with monkeypatch.context() as patch:

        def interrupted(timeout: float) -> str:
            raise KeyboardInterrupt

        assert device._process is not None
        patch.setattr(device._process.answers, "get", interrupted)
        with pytest.raises(KeyboardInterrupt):
            device.burst(idle, 3000)  # half a minute, if it were waited for
    assert device.burst(idle, 1).time_s < 15
    device.unload(idle)


def talk_to_worker(**environment: str) -> Talk:
    return Talk(STAND_IN, {**os.environ, **environment})


def test_a_worker_ends_with_its_master_in_mid_burst_too() -> None:
    with talk_to_worker() as talk:
        assert talk.ask(do="open", meter=None, settings={"threads": 1})["threads"] == 1
        loaded = talk.ask(do="load", workload=IDLE.to_json())
        talk.send(do="burst", handle=loaded["handle"], steps=60_000)
        assert talk.process.stdin is not None
        talk.process.stdin.close()
        assert talk.process.wait(10) == -signal.SIGKILL  # with its group


def test_a_device_belongs_to_one_worker_but_a_master_may_send_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".cache" / "ampere"
    with talk_to_worker(HOME=str(tmp_path)) as talk:
        opened = talk.ask(do="open", meter=None, settings={"threads": 1}, master="one")
        assert "framework" in opened
        with monkeypatch.context() as patch:  # who is killed below takes its time on a busy machine
            patch.setattr(worker, "WAIT_S", 0.3)
            with pytest.raises(DeviceError, match=f"another worker .*{talk.process.pid}. is meas"):
                worker.claim_device(folder, "two")
        with worker.claim_device(folder, "one") as ours:
            assert talk.process.wait(10) == -signal.SIGKILL
            ours.seek(0)
            assert ours.read() == f"{os.getpid()} one".encode()
    worker.claim_device(folder, "two").close()  # whoever held it is gone
    (lock,) = folder.iterdir()
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
