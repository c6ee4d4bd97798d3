"""What holds for all tests: one thread, no network, examples that a slow machine can bear."""

from __future__ import annotations

import functools
import gc
import hashlib
import itertools
import os
import pickle
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from hypothesis import HealthCheck, settings

# Networks this small only wait for each other's threads, for minutes on a busy machine. For torch
# that is imported later, and for worker processes.
os.environ["OMP_NUM_THREADS"] = "1"
# Some virtual machines show AMX and die of it ("Illegal instruction" at the first bfloat16 model).
# It is a bound: processors without AVX-512 are as they were.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

# Under nohup, or in the background of a script, these are ignored, and so they would be by every
# process that a test starts and then interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.platform != "win32":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

settings.register_profile(
    "ampere",
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ampere")

# The application is made of its functions at every command that a test gives it: 50 ms each time,
# as a user has it once.
typer.testing._get_command = functools.cache(typer.testing._get_command)

# What `ampere.keep_memory()` sets for processes that are started later, of which some tests count
# page faults.
KEEPING = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_"} - os.environ.keys()

LOCAL = ("127.0.0.1", "::1", "localhost")


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what stays till the end: modules, thousands of tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def memory_as_it_was() -> Iterator[None]:
    """Let nobody inherit that freed memory is kept."""
    yield
    for name in KEEPING:
        os.environ.pop(name, None)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Keep torch to one thread, if this test has it at all."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections to anywhere but this machine."""
    connect = socket.socket.connect

    def connect_here(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and address[0] not in LOCAL:
            raise PermissionError(f"a test wants to connect to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_here)


@pytest.fixture(scope="session", autouse=True)
def no_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep devices that live for several tests away from what the user has calibrated here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def fewer_draws() -> Iterator[None]:
    """A million candidates of a random search take a second, generations of many as long."""
    # numpy takes its threads from above
    from ampere.pruning.strategies import STRATEGIES, Evolution, Random

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STRATEGIES, "random", lambda: Random(20_000))
        patch.setitem(STRATEGIES, "evolution", lambda: Evolution(48, 16))
        yield


@pytest.fixture(scope="session", autouse=True)
def searched_once() -> Iterator[None]:
    """The search for a solution is most of a fit, and many tests fit the same rows.

    It is a function of arrays alone: what it found is what it would find again.
    """
    from ampere.estimators.processes import likelihood, sum_process

    search, known = sum_process.search, dict[bytes, Any]()

    @functools.wraps(search)
    def remembered(*given: Any, **named: Any) -> Any:
        asked = pickle.dumps((given, named, likelihood.FIT_ROWS))
        key = hashlib.sha256(asked).digest()
        if key not in known:
            known[key] = search(*given, **named)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sum_process, "search", remembered)
        yield


NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def own_config(
    no_user: None,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let each test calibrate for itself, and keep fits for itself.

    A folder is made only where a test wants one: among thousands that takes as long as a test.
    """
    if "tmp_path" in request.fixturenames:
        home: Path = request.getfixturevalue("tmp_path")
    else:
        home = tmp_path_factory.getbasetemp() / "homes" / str(next(NUMBERS))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home.with_name(f"{home.name}-cache")))
