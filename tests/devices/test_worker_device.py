"""What becomes of requests when a worker hangs, babbles, dies or is cut off: exactly that."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any, ClassVar

import pytest

import ampere.meters.registry
from ampere.core.workloads import Settings, Workload
from ampere.devices import worker_device
from ampere.devices.base import Burst, Device
from ampere.devices.worker_device import WorkerDevice
from ampere.errors import (
    AmpereError,
    DeviceError,
    MeasurementFailed,
    MeterError,
    MeterFault,
    ModelError,
)
from ampere.meters.base import Provenance, Resolution
from ampere.meters.drivers.fake import FakeMeter

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals as on Linux and macOS")

# Speaks as the worker does, and does what the stage of a workload says. What it answers to `open`
# is in a file; a file `refuse` cuts every line to it.
WORKER = """
import json, os, sys, time

folder = sys.argv[1]
stages = {}

def path(name):
    return os.path.join(folder, name)

def say(row):
    print(json.dumps({"id": request["id"], **row}), flush=True)

def once(name):
    if os.path.exists(path(name)):
        return False
    open(path(name), "w").close()
    return True

def burst(stage, steps):
    word, _, rest = stage.partition(":")
    time_s = 0.001 * steps
    if word == "slow":
        time_s = 0.05 * steps
        time.sleep(time_s)
    if word == "hangs":
        time.sleep(600)
    if word == "says":
        print(rest, flush=True)
    if word == "exits":
        sys.stderr.write("warning: hot\\nit broke\\n")
        os._exit(int(rest))
    if word == "killed":
        os.kill(os.getpid(), int(rest))
    if word == "drops" and once("dropped"):
        os._exit(255)
    if word == "torn" and once("torn"):
        os.write(1, b'{"energy_j": 1')
        os._exit(255)
    if word == "errs":
        return {"error": rest, "message": "so it is"}
    if rest == "coarse" and steps < 5:
        return {"error": "MeterFault", "message": "meter did not move"}
    if outside:
        return {"time_s": time_s}
    resolution = {"energy_j": 0.25, "period_s": 0.5}
    return {"energy_j": 2.0 * steps, "time_s": time_s, "resolution": resolution}

for line in sys.stdin:
    with open(path("requests"), "a") as log:
        log.write(line)
    request = json.loads(line)
    do = request["do"]
    if do == "open":
        if os.path.exists(path("refuse")):
            sys.stderr.write("no route to host\\n")
            os._exit(255)
        if os.path.exists(path("absent")):
            sys.stderr.write("sh: nopython: not found\\n")
            os._exit(127)
        outside = request["meter"] is None
        with open(path("opened")) as file:
            say(json.load(file))
    elif do == "describe":
        with open(path("machine")) as file:
            say({"identity": json.load(file), "conditions": {"host": "lab"}})
    elif do == "load":
        stage = request["workload"]["stage"]
        if stage == "unbuildable":
            say({"error": "ModelError", "message": "no such layer"})
            continue
        stages[len(stages) + 1] = stage
        say({"handle": len(stages)})
    elif do == "burst":
        say(burst(stages[request["handle"]], request["steps"]))
    else:
        say({})
"""

OPENED = {
    "framework": "torch 2.1",
    "freed_memory": "kept",
    "threads": 1,
    "provenance": "modelled",
    "meter": {"name": "cpu", "settings": {"idle_w": 2.5}},
    "resolution": {"energy_j": 1.0, "period_s": 2.0},
}
GOOD = Workload(stage="good")


class Scripted(WorkerDevice):
    """A device whose worker is the script, reached by a line that ends with 255 when it is cut."""

    def __init__(self, folder: Path, meter: str = "cpu", **given: Any) -> None:
        super().__init__(Settings(threads=1), meter, **given)
        self._folder = folder

    def _command(self) -> Sequence[str]:
        script = [str(self._folder / "worker.py"), str(self._folder)]
        return [sys.executable, "-I", "-S", "-u", *script]

    def _why_lost(self, code: int | None, complaint: str) -> str | None:
        return f"the line is dead ({complaint})" if code == 255 else None


class Plug(FakeMeter):
    """Outside: it moves by three joules from one reading to the next."""

    name: ClassVar[str] = "plug"
    summary: ClassVar[str] = "a plug"
    outside: ClassVar[bool] = True
    resolution = Resolution(energy_j=0.5, period_s=2.0)
    opened: ClassVar[list[Plug]] = []

    def __init__(self, step_j: float = 3.0, step_s: float = 0.1) -> None:
        super().__init__(step_j, step_s)
        self.closed = False
        self.opened.append(self)

    def close(self) -> None:
        self.closed = True


class Stage:
    """The folder that a scripted worker lives in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "worker.py").write_text(WORKER)
        self.opens(OPENED)
        self.is_machine({"machine": "abacus"})
        (folder / "requests").touch()

    def opens(self, answer: dict[str, Any]) -> None:
        (self.folder / "opened").write_text(json.dumps(answer))

    def is_machine(self, identity: dict[str, str]) -> None:
        (self.folder / "machine").write_text(json.dumps(identity))

    def requests(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "requests").read_text().splitlines()]

    def asked(self) -> list[str]:
        """What was asked for, a burst with its steps."""
        return [f"{row['do']} {row.get('steps', '')}".strip() for row in self.requests()]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


Make = Callable[..., Scripted]


@pytest.fixture
def make(stage: Stage) -> Iterator[Make]:
    """Makes devices on the stage, and closes them."""
    made: list[Scripted] = []

    def device(meter: str = "cpu", **given: Any) -> Scripted:
        made.append(Scripted(stage.folder, meter, **given))
        return made[-1]

    yield device
    for each in made:
        each.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two more tries, and no pauses."""
    monkeypatch.setattr(worker_device, "RECONNECT_S", (0.0, 0.0))


@pytest.fixture
def plugs(monkeypatch: pytest.MonkeyPatch) -> list[Plug]:
    """The plugs that are opened; the meter is registered as `plug`."""
    entries = EntryPoints([EntryPoint("plug", f"{__name__}:Plug", "ampere.meters")])
    monkeypatch.setattr(ampere.meters.registry, "entry_points", lambda: entries)
    monkeypatch.setattr(Plug, "opened", [])
    return Plug.opened


def kill_worker(device: Scripted) -> None:
    assert device._process is not None
    os.kill(device._process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, device._process.pid, os.WEXITED | os.WNOWAIT)


def test_answers_become_bursts_and_the_meter_is_the_one_chosen_there(
    stage: Stage, make: Make
) -> None:
    scripted = make("auto", meter_settings={})
    device: Device = scripted
    loaded = device.load(GOOD)
    assert device.burst(loaded.handle, 4) == Burst(4, 8.0, 0.004)
    assert device.provenance is Provenance.MODELLED
    assert device.meter == OPENED["meter"]
    assert device.fingerprint.identity == {
        "machine": "abacus",
        "accelerator": "cpu",
        "compile": "False",
        "tf32": "False",
        "onednn": "True",
        "threads": "1",
        "framework": "torch 2.1",
        "freed_memory": "kept",
        "meter": "cpu:idle_w=2.5",
    }
    assert device.fingerprint.conditions == {"host": "lab"}
    kill_worker(scripted)
    with pytest.raises(MeasurementFailed):
        device.burst(loaded.handle, 1)
    device.burst(loaded.handle, 1)
    first, second = (row["meter"] for row in stage.requests() if row["do"] == "open")
    assert first == second == {"name": "auto", "settings": {}}  # the user's words, whatever it says


def test_how_finely_the_meter_tells_is_passed_on(stage: Stage, make: Make) -> None:
    device = make()
    assert device.resolution == Resolution(energy_j=1.0, period_s=2.0)  # what is documented
    loaded = device.load(GOOD)
    device.burst(loaded.handle, 1)
    assert device.resolution == Resolution(energy_j=0.25, period_s=0.5)  # what it has shown
    stage.opens({**OPENED, "resolution": {"energy_j": 3.0, "period_s": 4.0}})
    kill_worker(device)
    with pytest.raises(MeasurementFailed):
        device.burst(loaded.handle, 1)
    device.burst(loaded.handle, 1)  # no other device for that


def test_a_hung_worker_is_ended_and_the_next_one_works(make: Make) -> None:
    device = make(patience_s=0.6)
    kept, bad = device.load(GOOD), device.load(Workload(stage="hangs"))
    assert device._process is not None
    pid = device._process.pid
    with pytest.raises(MeasurementFailed, match=r"^it hung: no answer within 1 s$"):
        device.burst(bad.handle, 5)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert device.burst(kept.handle, 3).energy_j == 6.0


def test_patience_grows_with_the_steps_asked_for(make: Make) -> None:
    device = make(patience_s=0.5)
    slow = device.load(Workload(stage="slow")).handle
    device.burst(slow, 1)  # 0.05 s: from now on it is known
    assert device.burst(slow, 16).steps == 16  # 0.8 s
    unknown = device.load(Workload(stage="slow")).handle
    with pytest.raises(MeasurementFailed, match="it hung"):
        device.burst(unknown, 16)


def test_patience_grows_though_the_meter_faults(make: Make) -> None:
    device = make(patience_s=0.5)
    slow = device.load(Workload(stage="slow:coarse")).handle
    with pytest.raises(MeterFault):
        device.burst(slow, 1)
    assert device.burst(slow, 16).steps == 16


@pytest.mark.parametrize("line", ["hello", "5", "[]", '{"energy_j": 1', "null", "\N{SNOWMAN}"])
def test_a_line_that_is_no_answer_does_not_shift_those_after_it(make: Make, line: str) -> None:
    device = make()
    kept, bad = device.load(GOOD), device.load(Workload(stage=f"says:{line}"))
    with pytest.raises(DeviceError, match=r"the worker said .* which is no answer") as caught:
        device.burst(bad.handle, 2)
    assert "\n" not in str(caught.value)
    assert device.burst(kept.handle, 7) == Burst(7, 14.0, 0.007)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("exits:3", r"^the worker process ended with exit code 3 \(it broke\)$"),
        ("exits:0", "exit code 0"),
        (f"killed:{signal.SIGKILL:d}", "^it was killed, most likely for lack of memory$"),
        (f"killed:{signal.SIGSEGV:d}", "^it crashed with SIGSEGV$"),
        ("exits:137", "^it was killed, most likely for lack of memory$"),
        ("exits:134", "^it crashed with SIGABRT$"),
    ],
)
def test_death_in_a_burst_fails_that_workload_alone(make: Make, how: str, reason: str) -> None:
    device = make()
    kept, bad = device.load(GOOD), device.load(Workload(stage=how))
    with pytest.raises(MeasurementFailed, match=reason):
        device.burst(bad.handle, 2)
    assert device.burst(kept.handle, 3) == Burst(3, 6.0, 0.003)
    device.unload(bad.handle)
    device.unload(kept.handle)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("MeterFault", MeterFault),
        ("MeterError", MeterError),
        ("DeviceError", DeviceError),
        ("no such error", MeasurementFailed),
        ("__name__", MeasurementFailed),
    ],
)
def test_errors_keep_their_type(make: Make, name: str, error: type[AmpereError]) -> None:
    device = make()
    with pytest.raises(error, match=r"^so it is$") as caught:
        device.burst(device.load(Workload(stage=f"errs:{name}")).handle, 1)
    assert type(caught.value) is error
    with pytest.raises(ModelError, match="no such layer"):
        device.load(Workload(stage="unbuildable"))


def test_what_a_lost_worker_had_loaded_is_warmed_up_again(stage: Stage, make: Make) -> None:
    device = make()
    loaded = device.load(Workload(stage="good:coarse"))
    device.burst(loaded.handle, 5)
    kill_worker(device)
    with pytest.raises(MeasurementFailed):
        device.burst(loaded.handle, 5)
    # The step to warm up is too short for the meter: that is no fault of the burst.
    assert device.burst(loaded.handle, 5).energy_j == 10.0
    assert stage.asked()[-3:] == ["load", "burst 1", "burst 5"]


@pytest.mark.parametrize("how", ["drops", "torn"])
@pytest.mark.usefixtures("quick")
def test_a_lost_connection_is_made_again_and_nothing_counts_twice(
    stage: Stage, make: Make, how: str
) -> None:
    device = make()
    other, loaded = device.load(GOOD), device.load(Workload(stage=how))
    assert device.burst(loaded.handle, 6) == Burst(6, 12.0, 0.006)
    assert device.burst(other.handle, 2) == Burst(2, 4.0, 0.002)
    start = ["open", "describe"]
    assert stage.asked() == [
        *(*start, "load", "load", "burst 6"),  # never answered
        *(*start, "load", "burst 1", "burst 6"),
        *("load", "burst 1", "burst 2"),  # the other one, when it is asked for
    ]


@pytest.mark.usefixtures("quick")
def test_a_connection_that_stays_lost_is_told_in_a_line(stage: Stage, make: Make) -> None:
    device = make()
    loaded = device.load(Workload(stage="drops"))
    (stage.folder / "refuse").touch()
    with pytest.raises(
        DeviceError, match=r"the line is dead .*no route to host.* stays so"
    ) as lost:
        device.burst(loaded.handle, 2)
    assert type(lost.value) is DeviceError
    assert "\n" not in str(lost.value)
    assert stage.asked().count("open") == 3  # the first, and two tries
    (stage.folder / "refuse").unlink()
    assert device.burst(loaded.handle, 2).energy_j == 4.0


def test_a_connection_that_never_held_is_not_waited_for(
    stage: Stage, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_device, "RECONNECT_S", (60.0,))
    (stage.folder / "refuse").touch()
    start = time.monotonic()
    with pytest.raises(DeviceError, match="the line is dead"):
        make().load(GOOD)
    with pytest.raises(DeviceError, match="the line is dead"):
        _ = make().provenance
    assert time.monotonic() - start < 30


@pytest.mark.usefixtures("quick")
def test_what_is_known_needs_no_connection(stage: Stage, make: Make) -> None:
    device = make()
    device.burst(device.load(GOOD).handle, 1)
    kill_worker(device)
    (stage.folder / "refuse").touch()
    device.unload(1)  # went with the worker
    assert device.provenance is Provenance.MODELLED
    assert device.meter == OPENED["meter"]
    assert device.resolution == Resolution(energy_j=0.25, period_s=0.5)


def test_the_fingerprint_outlives_a_worker(make: Make) -> None:
    device = make()
    before = device.fingerprint
    kill_worker(device)
    assert device.fingerprint == before


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("framework", "torch 2.2"),
        ("threads", 2),
        ("provenance", "counter"),
        ("meter", {"name": "cpu", "settings": {"idle_w": 9.0}}),
        ("identity", None),
    ],
)
@pytest.mark.usefixtures("quick")
def test_a_device_that_comes_back_as_another_is_refused(
    stage: Stage, make: Make, key: str, value: object
) -> None:
    device = make()
    loaded = device.load(Workload(stage="drops"))
    if key == "identity":
        stage.is_machine({"machine": "another"})
    else:
        stage.opens({**OPENED, key: value})
    with pytest.raises(DeviceError, match=f"came back with another {key}: begin a new profile"):
        device.burst(loaded.handle, 2)
    assert device._process is None


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ("MeterError", MeterError, "^no permission$"),
        ("MeasurementFailed", DeviceError, "cannot start: no permission"),
    ],
)
def test_a_worker_that_cannot_open_is_not_left_half_open(
    stage: Stage, make: Make, answer: str, error: type[AmpereError], message: str
) -> None:
    device = make()
    stage.opens({"error": answer, "message": "no permission"})
    for _ in range(2):
        with pytest.raises(error, match=message):
            device.load(GOOD)
        assert device._process is None
    stage.opens(OPENED)
    loaded = device.load(GOOD)
    kill_worker(device)
    stage.opens({"error": answer, "message": "no permission"})
    with pytest.raises(MeasurementFailed):
        device.burst(loaded.handle, 1)
    with pytest.raises(error, match=message):
        device.burst(loaded.handle, 1)
    stage.opens(OPENED)
    assert device.burst(loaded.handle, 1).energy_j == 2.0


def test_an_absent_python_is_told_as_the_shell_tells_it(stage: Stage, make: Make) -> None:
    (stage.folder / "absent").touch()
    with pytest.raises(DeviceError, match=r"cannot start: .*127 \(sh: nopython: not found\)"):
        make().load(GOOD)


def test_a_command_that_cannot_be_run(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "_command", lambda self: ["/no/such/command"])
    with pytest.raises(DeviceError, match="/no/such/command cannot be run: No such file"):
        make().load(GOOD)


def test_outside_meters_are_read_on_this_side(stage: Stage, make: Make, plugs: list[Plug]) -> None:
    device = make("plug")
    loaded = device.load(GOOD)
    burst = device.burst(loaded.handle, 4)
    assert burst == Burst(4, 3.0, 0.004)  # its joules, the worker's seconds
    assert device.provenance is Provenance.SIMULATED
    assert device.meter == {"name": "plug", "settings": {}}
    assert device.fingerprint.identity["meter"] == "plug"
    assert [row["meter"] for row in stage.requests() if row["do"] == "open"] == [None]
    kill_worker(device)
    with pytest.raises(MeasurementFailed):
        device.burst(loaded.handle, 4)
    assert device.burst(loaded.handle, 4).energy_j == 3.0
    (plug,) = plugs  # one for all workers
    assert not plug.closed


def test_outside_meters_are_closed_with_the_device_and_opened_again(
    make: Make, plugs: list[Plug]
) -> None:
    device = make("plug")
    loaded = device.load(GOOD)
    device.close()
    assert plugs[0].closed
    assert device.resolution == Plug.resolution
    assert device.provenance is Provenance.SIMULATED
    assert device.burst(loaded.handle, 1).energy_j == 3.0
    assert [plug.closed for plug in plugs] == [True, False]


def test_settings_and_faults_of_outside_meters(make: Make, plugs: list[Plug]) -> None:
    device = make("plug", meter_settings={"step_j": 0.0, "step_s": 0.1})
    assert device.fingerprint.identity["meter"] == "plug:step_j=0,step_s=0.1"
    loaded = device.load(GOOD)
    with pytest.raises(MeterFault, match="did not move"):
        device.burst(loaded.handle, 1)
    plugs[0].advance(1.0, 0.1)
    with pytest.raises(MeterError, match="its settings are"):
        make("plug", meter_settings={"volts": 230.0}).load(GOOD)


def test_an_outside_meter_tells_no_finer_than_its_readings_are_apart(
    make: Make, plugs: list[Plug]
) -> None:
    near = make("plug")
    assert near.resolution == Plug.resolution
    near.burst(near.load(GOOD).handle, 1)  # 0.1 s apart, for 0.001 s
    assert near.resolution == Plug.resolution
    far = make("plug", meter_settings={"step_s": 9.0})
    loaded = far.load(GOOD)
    for _ in range(3):
        far.burst(loaded.handle, 1000)  # 9 s apart, for 1 s
    assert far.resolution == Resolution(Plug.resolution.energy_j, period_s=8.0)


def test_a_worker_far_away_knows_its_master_and_one_here_need_not(
    stage: Stage, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = make()
    loaded = device.load(GOOD)
    kill_worker(device)
    with pytest.raises(MeasurementFailed):
        device.burst(loaded.handle, 1)
    device.burst(loaded.handle, 1)
    make().load(GOOD)
    monkeypatch.setattr(Scripted, "alone", False)
    make().load(GOOD)
    first, again, other, here = (r["master"] for r in stage.requests() if r["do"] == "open")
    assert first == again != other != here == ""
    assert first and other
