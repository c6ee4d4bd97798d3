"""A device behind a real sshd on this machine: profiled over it, cut off from it, and resumed.

The sshd and everything that it runs live in a folder of their own: a home, a calibration of the
meter `cpu`, and an ampere that ends whoever imports it, so that only the one in the archive works.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ampere
from ampere.acquisition.isolator import Isolator
from ampere.acquisition.progress import Event
from ampere.acquisition.strategy import Strategy
from ampere.core.boundary.fields import Fields
from ampere.core.boundary.trust import as_data
from ampere.core.fingerprint import local_fingerprint
from ampere.core.program.widths import Widths
from ampere.core.training import Training
from ampere.core.workloads import ModelSpec, Settings, Workload
from ampere.devices import ssh, worker_device
from ampere.devices.ssh import SshDevice
from ampere.errors import DeviceError, MeasurementFailed
from ampere.meters.registry import choose_meter, meter_classes
from ampere.records.journal import read_journal
from ampere.records.measurement import Measurement
from fakes import VARIANT, exact
from frameworks.fake_runtime import STAND_IN
from processes import BESIDE_OTHERS, until

SSHD = shutil.which("sshd", path=f"/usr/sbin:/usr/local/sbin:{os.environ.get('PATH', '')}")

pytestmark = [
    pytest.mark.skipif(SSHD is None, reason="openssh-server is not installed: make setup-system"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks processes up as on Linux"),
]

SESSION = """#!/bin/sh
cd {home} || exit 1
export HOME={home} TMPDIR={home} XDG_CONFIG_HOME={home}/.config PYTHONPATH={decoy}
export OMP_NUM_THREADS=1 FAR_AWAY=1
exec sh -c "$SSH_ORIGINAL_COMMAND"
"""

SSHD_CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
AuthorizedKeysFile {folder}/user_key.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
ForceCommand {folder}/session
"""

SSH_CONFIG = """
Host target nobody stranger
    HostName 127.0.0.1
Host nowhere
    HostName nowhere..invalid
Host target nobody nowhere
    IdentityFile {folder}/user_key
Host nobody
    Port {closed}
Host stranger
    IdentityFile {folder}/other_key
Host *
    Port {port}
    User {user}
    IdentitiesOnly yes
    IdentityAgent none
    UserKnownHostsFile {folder}/known_hosts
    StrictHostKeyChecking no
"""

MODEL = """
import os
from torch import nn

if "FAR_AWAY" in os.environ:
    raise RuntimeError("the user's code is not on the device")

def net():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

net.input = "4"
"""

CALIBRATED = {"idle_w": 3.5, "active_w": 1.5}
QUICK = replace(BESIDE_OTHERS, burst_s=0.005, warmup_s=0.0, min_rounds=2, max_rounds=2)
CORNERS = Strategy(method="paper", max_points=2)  # asks for the bounds of every kind, no more


class Server:
    """An sshd of our own on loopback, and the configuration that leads `ssh` to it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        decoy = folder / "decoy" / "ampere"
        for each in (decoy, self.home / ".config" / "ampere"):
            each.mkdir(parents=True)
        (decoy / "__init__.py").write_text("raise SystemExit('the wrong ampere')")
        calibration = {**CALIBRATED, "error": None, "against": "a plug", "when": "2026-01-01"}
        (self.home / ".config" / "ampere" / "cpu.json").write_text(json.dumps(calibration))
        self.script("home/python", f'exec {sys.executable} "$@"')
        self.script("home/torchless", f'exec {sys.executable} -I -S "$@"')
        self.script("home/light", f"exec {shlex.join(STAND_IN)}")  # is soon there again
        self.script("session", "")
        (folder / "session").write_text(SESSION.format(home=self.home, decoy=decoy.parent))
        for key in ("host_key", "user_key", "other_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(command, check=True)
        self.port, closed = free_port(), free_port()
        self.config = str(folder / "ssh_config")
        user = pwd.getpwuid(os.getuid()).pw_name
        given = {"folder": folder, "port": self.port, "closed": closed, "user": user}
        Path(self.config).write_text(SSH_CONFIG.format(**given))
        self._write_sshd_config(SSHD_CONFIG.format(**given))
        self.process: subprocess.Popen[bytes] | None = None
        self.devices: list[SshDevice] = []

    def _write_sshd_config(self, text: str) -> None:
        """From 9.8 on sshd locks out whoever's connections crash, which is what we are here for."""
        path = self.folder / "sshd_config"
        for more in ("PerSourcePenalties no\n", ""):
            path.write_text(text + more)
            if self._sshd("-t", stderr=subprocess.DEVNULL).wait() == 0:
                return
        raise AssertionError(f"sshd refuses {path}")

    def _sshd(self, *options: str, stderr: Any) -> subprocess.Popen[bytes]:
        assert SSHD is not None
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        command = [SSHD, *options, "-f", str(self.folder / "sshd_config")]
        return subprocess.Popen(command, stderr=stderr)

    def script(self, name: str, line: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def start(self) -> None:
        with (self.folder / "log").open("a") as log:
            self.process = self._sshd("-D", "-e", stderr=log)
        until(lambda: accepts(self.port), "sshd does not listen")

    def stop(self) -> None:
        """End sshd and all that it started, whatever state that is in."""
        if self.process is not None:
            for pid in descendants(self.process.pid):
                kill(pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
            self.process = None

    def connections(self) -> list[int]:
        """The processes of sshd that hold connections."""
        assert self.process is not None
        return [p for p in descendants(self.process.pid) if command_of(p)[0].startswith("sshd")]

    def cut(self) -> None:
        """Break every connection; sshd still listens."""
        for pid in self.connections():
            kill(pid, signal.SIGKILL)

    @property
    def worker(self) -> int:
        """The worker that runs there."""
        assert self.process is not None
        (pid,) = (p for p in descendants(self.process.pid) if command_of(p)[1:2] == ["-u"])
        return pid

    def device(self, host: str = "target", **given: Any) -> SshDevice:
        """A device by this name; those before it let go, since a worker is there alone."""
        for each in self.devices:
            each.close()
        given = {"python": "~/python", "config": self.config, **given}
        self.devices.append(SshDevice(host, Settings(threads=1), **given))
        return self.devices[-1]


class Proxy:
    """A network between ssh and its sshd, which can be cut after so many bytes from there."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._left: int | None = None  # bytes that still come through
        self._closing = True
        self.cuts = 0
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, after: int, closing: bool) -> None:
        """Let so many bytes through from there, then close the connection, or fall silent."""
        self._closing, self._left = closing, after

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                far = socket.create_connection(self._target)
                threading.Thread(target=self._send, args=(near, far), daemon=True).start()
                threading.Thread(target=self._bring, args=(far, near), daemon=True).start()

    def _send(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := near.recv(1 << 16):
                far.sendall(data)
        hang_up(near, far)

    def _bring(self, far: socket.socket, near: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(1 << 16):
                if self._left is not None:
                    near.sendall(data[: self._left])
                    self._left = self._left - len(data) if len(data) < self._left else 0
                    if self._left == 0:
                        self._left = None
                        self.cuts += 1
                        if not self._closing:  # as when the Wi-Fi goes: neither end is told
                            return
                        break
                else:
                    near.sendall(data)
        hang_up(near, far)


def hang_up(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [each for child in map(int, children) for each in (child, *descendants(child))]


def command_of(pid: int) -> list[str]:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        line = ""
    command = line.rstrip("\0").split("\0")
    return [Path(command[0]).name, *command[1:]]


def kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("sshd"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def device(server: Server) -> Iterator[SshDevice]:
    """One for the tests that leave it fit for the next; its meter is chosen there."""
    with server.device() as device:
        yield device


@pytest.fixture(scope="module")
def light(server: Server) -> Iterator[SshDevice]:
    """One whose worker is soon there again."""
    with server.device(python="~/light") as device:
        yield device


@pytest.fixture(scope="module")
def watchful(server: Server) -> Iterator[SshDevice]:
    """One that notices within seconds when nothing is heard of the far side."""
    with pytest.MonkeyPatch.context() as patch:
        alive = ("-oServerAliveInterval=1", "-oServerAliveCountMax=1")
        patch.setattr(ssh, "OPTIONS", (*ssh.OPTIONS[:3], *alive))
        device = server.device(meter="cpu", python="~/light")
    with device:
        yield device


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "models.py"
    path.write_text(MODEL)
    return f"{path}:net"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three more tries, and short pauses."""
    monkeypatch.setattr(worker_device, "RECONNECT_S", (0.1, 0.3, 0.5))


def on_burst(device: SshDevice, condition: Callable[[], bool], action: Callable[[], None]) -> None:
    """Does something right before the first request for a burst once the condition holds."""
    real, done = device._exchange, False

    def exchange(patience_s: float, **request: Any) -> Fields:
        nonlocal done
        if request["do"] == "burst" and not done and condition():
            done = True
            action()
        return real(patience_s, **request)

    device._exchange = exchange


Names = list[tuple[tuple[str, Widths], ...]]


def names(rows: list[Measurement]) -> Names:
    return [tuple((layer.kind.name, layer.widths) for layer in row.layers) for row in rows]


def expected(model: str) -> Names:
    """The networks that a profile asks for when nothing goes wrong."""
    from ampere.frameworks.models import plan_variants
    from ampere.pytorch.models import read

    profiler = Isolator(plan_variants(read(model)), CORNERS)
    rows = []
    while not profiler.should_stop:
        for variant in profiler.ask(4):
            rows.append(exact(variant.layers))
            profiler.tell(rows[-1])
    assert len(rows) == 4  # two last, two first
    return names(rows)


def assert_complete(path: Path, model: str) -> None:
    """All that was expected is there, once; the last two are those that it came back to."""
    _, rows = read_journal(path)
    assert Counter(names(rows[:-2])) == Counter(expected(model))
    assert set(names(rows[-2:])) < set(names(rows[:-2]))
    assert len(set(names(rows[-2:]))) == 2
    assert [row.failed for row in rows] == [None] * len(rows)
    assert all(row.energy_j_per_step > 0 and row.time_s_per_step > 0 for row in rows)


def test_the_fingerprint_and_the_meter_are_those_of_the_far_side(
    device: SshDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = local_fingerprint({}).identity
    monkeypatch.setattr(platform, "machine", lambda: "abacus")  # here
    identity = device.fingerprint.identity
    assert there.items() <= identity.items()
    assert identity["threads"] == "1"
    assert identity["framework"].startswith("torch 2")
    best = choose_meter()
    assert device.meter["name"] == best
    assert device.provenance is meter_classes()[best].provenance
    if best == "cpu":
        assert device.meter["settings"] == CALIBRATED


def test_joules_and_seconds(device: SshDevice) -> None:
    loaded = device.load(VARIANT)
    burst = device.burst(loaded.handle, 5)
    assert burst.steps == 5
    assert 0 < burst.time_s < 60 and 0 < burst.energy_j < 600
    (features,) = loaded.features
    assert features.parameter_bytes == 4 * (8 * 3 + 3)
    device.unload(loaded.handle)


def test_a_model_by_name_is_sent_as_its_layers(device: SshDevice, model: str) -> None:
    loaded = device.load(Workload(model=ModelSpec(model, training=Training(2))))
    assert device.burst(loaded.handle, 2).energy_j > 0
    assert len(loaded.features) == 2
    device.unload(loaded.handle)


def test_a_crash_of_the_worker_fails_one_workload_and_not_the_connection(
    light: SshDevice, server: Server
) -> None:
    kept, bad = light.load(VARIANT), light.load(VARIANT)
    os.kill(server.worker, signal.SIGKILL)  # of which ssh itself would say 255, as of a lost line
    with pytest.raises(MeasurementFailed, match="killed, most likely for lack of memory"):
        light.burst(bad.handle, 3)
    assert light.burst(kept.handle, 3).energy_j > 0


def test_the_worker_is_sent_once(light: SshDevice, server: Server) -> None:
    light.load(VARIANT)
    (file,) = (server.home / ".cache" / "ampere").glob("*.pyz")
    before = file.stat()
    server.device()._command()
    after = file.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_worker_that_arrives_in_part_is_not_kept(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ssh.run_tool

    def cut_off(command: Any, patience_s: float, data: bytes) -> Any:
        return run(command, patience_s, data[:1000])

    monkeypatch.setattr(ssh, "FOLDER", ".cache/other")
    with monkeypatch.context() as patch:
        patch.setattr(ssh, "run_tool", cut_off)
        with pytest.raises(DeviceError, match="target cannot be sent the worker"):
            server.device()._command()
    assert list((server.home / ".cache" / "other").iterdir()) == []
    server.device()._command()
    (file,) = (server.home / ".cache" / "other").iterdir()
    assert file.read_bytes() == ssh.worker_archive()[1]


@pytest.mark.usefixtures("quick")
def test_a_profile_goes_on_after_its_connection_was_cut(
    server: Server, watchful: SshDevice, model: str, tmp_path: Path
) -> None:
    path, seen = tmp_path / "cut.ampere", list[Event]()
    orphans = []

    def cut_in_mid_burst() -> None:
        worker = server.worker
        orphans.append(worker)
        os.kill(worker, signal.SIGSTOP)  # so that it cannot answer first

        def cut() -> None:
            server.cut()
            kill(worker, signal.SIGCONT)

        threading.Timer(0.3, cut).start()

    on_burst(watchful, lambda: bool(seen) and seen[-1].done >= 2, cut_in_mid_burst)
    profile = ampere.profile(
        model, path=path, device=watchful, strategy=CORNERS, effort=QUICK, watch=seen.append
    )
    assert profile.header.fingerprint == watchful.fingerprint
    assert profile.header.provenance.value == "modelled"
    assert as_data(profile.header.meter) == {"name": "cpu", "settings": CALIBRATED}
    assert server.worker not in orphans
    assert len(orphans) == 1
    until(lambda: not runs(orphans[0]), "the worker outlived its connection")
    assert_complete(path, model)


@pytest.mark.usefixtures("quick")
def test_a_silent_connection_is_given_up_and_its_worker_ended(
    server: Server, watchful: SshDevice
) -> None:
    """As when the Wi-Fi goes: the far side does not know, and would wait for hours."""
    loaded = watchful.load(VARIANT)
    orphan, frozen = server.worker, server.connections()
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert watchful.burst(loaded.handle, 3).energy_j > 0
        assert not runs(orphan)
    finally:
        for pid in frozen:
            kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("after", "closing"), [pytest.param(60, True, marks=pytest.mark.slow), (20, False)]
)
@pytest.mark.usefixtures("quick")
def test_a_network_that_is_cut_in_mid_answer_costs_nothing(
    server: Server,
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    after: int,
    closing: bool,
) -> None:
    """An answer takes some 150 bytes on the way; of these only the first arrive."""
    alive = ("-oServerAliveInterval=1", "-oServerAliveCountMax=1")
    monkeypatch.setattr(ssh, "OPTIONS", (*ssh.OPTIONS[:3], *alive))
    with contextlib.closing(Proxy(server.port)) as proxy:
        config = tmp_path / "config"
        config.write_text(f"Host target\n    Port {proxy.port}\nHost *\nInclude {server.config}\n")
        path, seen = tmp_path / "cut.ampere", list[Event]()
        with server.device(meter="cpu", python="~/light", config=str(config)) as device:
            on_burst(
                device,
                lambda: bool(seen) and seen[-1].done >= 2,
                lambda: proxy.cut(after, closing),
            )
            ampere.profile(
                model, path=path, device=device, strategy=CORNERS, effort=QUICK, watch=seen.append
            )
        assert proxy.cuts == 1
        assert proxy.connections == 3  # to send the worker, to run it, and to run the next one
    assert_complete(path, model)
    _, rows = read_journal(path)
    assert all(len(row.bursts["energy_j"]) == QUICK.max_rounds for row in rows)


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_profile_whose_device_is_gone_is_resumed_by_the_same_call(
    server: Server, model: str, tmp_path: Path
) -> None:
    path, seen = tmp_path / "gone.ampere", list[Event]()

    def call(device: SshDevice) -> None:
        ampere.profile(
            model, path=path, device=device, strategy=CORNERS, effort=QUICK, watch=seen.append
        )

    try:
        with server.device(meter="cpu") as device:
            on_burst(device, lambda: bool(seen) and seen[-1].done >= 2, server.stop)
            with pytest.raises(DeviceError, match=r"Connection refused.*, and stays so; ") as told:
                call(device)
    finally:
        server.start()
    assert "\n" not in str(told.value)
    assert "the same command goes on from there" in str(told.value)
    _, kept = read_journal(path)
    assert len(kept) == 2
    with server.device(meter="cpu") as device:
        call(device)
    assert read_journal(path)[1][:2] == kept
    assert_complete(path, model)


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("nobody", "Connection refused"),
        ("stranger", "Permission denied"),
        ("nowhere", "Could not resolve"),
    ],
)
def test_a_device_that_cannot_be_reached_is_told_in_a_line(
    server: Server, host: str, reason: str
) -> None:
    with (
        server.device(host) as device,
        pytest.raises(DeviceError, match=f"{host} cannot be reached by ssh: .*({reason})") as told,
    ):
        _ = device.fingerprint
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("python", "reason"),
    [
        ("/no/such/python", "cannot start: .*exit code 127 .*not found"),
        ("~/torchless", "cannot use torch .*No module named 'torch'.*: install it there"),
    ],
)
def test_a_python_that_does_not_do_is_told_in_a_line(
    server: Server, python: str, reason: str
) -> None:
    with server.device(python=python) as device, pytest.raises(DeviceError, match=reason) as told:
        device.load(VARIANT)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("host", ["", "-oProxyCommand=touch"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(DeviceError, match="is no host"):
        SshDevice(host)
