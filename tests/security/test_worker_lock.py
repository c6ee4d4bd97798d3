"""The lock on a device: no link is followed, and only what the kernel names is ended."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from ampere.core import lock
from ampere.devices import worker
from ampere.errors import DeviceError
from devices.talk import Talk
from frameworks.fake_runtime import STAND_IN
from processes import runs, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="locks as Linux lists them")

HOLD = """
import os, sys
from io import FileIO
from ampere.core.lock import lock_file
file = FileIO(sys.argv[1], "r+")
lock_file(file)
file.truncate(0)
file.write(sys.argv[2].replace("PID", str(os.getpid())).encode())
if len(sys.argv) > 3:
    os.setuid(int(sys.argv[3]))
print("held", flush=True)
sys.stdin.read()
"""
NOBODY = 65534


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "WAIT_S", 0.3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the lock lies."""
    worker.claim_device(tmp_path / "own", "anybody").close()
    (found,) = (tmp_path / "own").iterdir()
    return found


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file that somebody wants us to write to."""
    file = tmp_path / "victim"
    file.write_text("precious")
    yield file
    assert file.read_text() == "precious"


@pytest.fixture
def bystander() -> Iterator[int]:
    """A process that somebody wants us to end."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        assert runs(process.pid)
        process.kill()


def hold(path: Path, text: str, *user: str) -> subprocess.Popen[str]:
    """A process that has locked the file and written this into it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), text, *user],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def check_refused(path: Path, reason: str) -> None:
    with pytest.raises(DeviceError, match=reason) as told:
        worker.claim_device(path.parent, "me")
    assert "\n" not in str(told.value)


def test_a_link_in_its_place_is_not_followed(path: Path, victim: Path) -> None:
    path.unlink()
    path.symlink_to(victim)
    check_refused(path, "cannot be locked .*symbolic links.*: delete it")
    path.unlink()
    path.symlink_to(victim.with_name("new"))
    check_refused(path, "cannot be locked")
    assert not victim.with_name("new").exists()


def test_nor_is_a_second_name_of_a_file(path: Path, victim: Path) -> None:
    path.unlink()
    os.link(victim, path)
    check_refused(path, "no file of this user's alone")


def test_nor_is_what_is_no_file(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)
    check_refused(path, "no file of this user's alone")
    path.unlink()
    path.mkdir()
    check_refused(path, "cannot be locked")


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_file_of_somebody_else_is_refused(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)
    check_refused(path, "no file of this user's alone")


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path, victim: Path) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    (shared / f"ampere-worker-{os.getuid()}.lock").symlink_to(victim)
    places = {"HOME": str(tmp_path), "TMPDIR": str(shared)}
    with Talk(STAND_IN, {**os.environ, **places}) as talk:
        assert "threads" in talk.ask(do="open", meter=None, settings={}, master="me")
        (own,) = (tmp_path / ".cache" / "ampere").iterdir()
        assert own.read_text() == f"{talk.process.pid} me"
        assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert len(list(shared.iterdir())) == 1


def test_a_number_in_the_file_ends_nobody(path: Path, bystander: int) -> None:
    with hold(path, f"{bystander} me") as holder:
        check_refused(path, rf"another worker of ampere \(pid {holder.pid}\) is measuring")
        assert holder.poll() is None
        holder.kill()
    path.write_text(f"{bystander} me")  # and nobody holds it
    with worker.claim_device(path.parent, "me"):
        assert path.read_text() == f"{os.getpid()} me"


@pytest.mark.parametrize("text", ["PID you", "PID", "me", "", "PID me and you", "-1 me", "0 me"])
def test_who_has_another_master_is_left_alone(path: Path, text: str) -> None:
    with hold(path, text) as holder:
        check_refused(path, "is measuring on this device: wait until it is done, or end it")
        assert holder.poll() is None
        holder.kill()


def test_who_has_the_same_master_is_ended(path: Path) -> None:
    with hold(path, "PID me") as holder, worker.claim_device(path.parent, "me"):
        until(lambda: holder.poll() is not None, "it was not ended")


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
def test_a_process_of_another_user_is_left_alone(path: Path) -> None:
    with hold(path, "PID me", str(NOBODY)) as holder:
        check_refused(path, "is measuring on this device")
        assert holder.poll() is None
        holder.kill()


def test_where_the_kernel_does_not_tell_nobody_is_ended(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "lock_holder", lambda file: None)
    with hold(path, "PID me") as holder:
        check_refused(path, "another worker of ampere is measuring on this device")
        assert holder.poll() is None
        holder.kill()


def test_a_process_of_another_container_is_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = path.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    listed = f"1: FLOCK  ADVISORY  WRITE 0 {device} 0 EOF\n"  # to kill 0 is to kill ourselves
    monkeypatch.setattr(lock.Path, "read_text", lambda self: listed)
    with FileIO(path, "r+") as file:
        assert lock.lock_holder(file) is None
