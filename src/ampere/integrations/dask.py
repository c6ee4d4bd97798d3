"""Dask: brings orders of a fleet to its workers, and answers back.

    ampere fleet up     scheduler                    ampere fleet join     worker, one slot each
                             ▲        one order for one worker, no other        ▲
    ampere fleet run    runner, logbook ────────────────────────────────────────┘

Dask is the road, not the driver: it neither chooses workers nor tries again. Its resources are
never used up, a task for a worker that is gone waits for ever, and one whose worker died is begun
from its first step elsewhere, until the fourth death. So every order names its worker, no other may
take it, nothing is retried, and what cannot run fails after a minute; the runner decides.

Dask unpickles what comes over its connections: beyond this machine it runs with TLS only, where
everybody has a certificate of yours.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import queue
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampere.errors import AmpereError, DataError, DeviceError
from ampere.fleet.runs.engine import EngineLost, Returned, WorkerLost
from ampere.fleet.runs.runner import Runner
from ampere.integrations.station import Station, introduce, occupy, run_order

PORT = 8786
CONNECT_S = 5.0
ANSWER_S = 60.0  # to fetch an answer, with its checkpoint
AGAIN_S = 1.0  # until a worker or a runner knocks once more
SETTINGS: Mapping[str, object] = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.no-workers-timeout": "60s",
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-ttl": "60s",
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.large-graph-warning-threshold": "2GB",
    "distributed.comm.timeouts.connect": f"{CONNECT_S:g}s",
    # Nothing but Dask's own protocol is spoken: no pages, no metrics.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
NO_PAGES = "127.0.0.1:0"  # where they would be: nobody can be told to have none
CERTIFICATES = (
    "openssl req -x509 -newkey rsa:3072 -nodes -days 365 -subj /CN=fleet"
    " -keyout DIR/key.pem -out DIR/cert.pem"
)


def _dask() -> Any:
    """The package, set as a fleet needs it.

    Raises:
        ModuleNotFoundError: It is not installed; the message says what brings it.
    """
    try:
        import dask
        import distributed
    except ModuleNotFoundError as error:
        if error.name not in ("dask", "distributed"):
            raise
        raise ModuleNotFoundError(
            "ampere.integrations.dask needs Dask: pip install 'ampere-energy[fleet]'",
            name="distributed",
        ) from None
    dask.config.set(SETTINGS)
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":  # what matters is told by us
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return distributed


@dataclass(frozen=True)
class Place:
    """Where a scheduler listens, and whom it lets in.

    Args:
        host: This machine, or one of its addresses.
        port: 0 takes any that is free.
        tls: A folder with `cert.pem` and `key.pem`, and `ca.pem` if the certificate is not its own
            authority.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    tls: Path | None = None

    def __post_init__(self) -> None:
        if self.tls is None and not _is_loopback(self.host):
            raise DataError(
                f"{self.host} is beyond this machine, where a fleet needs TLS: make certificates"
                f" ({CERTIFICATES}), copy DIR to every device, and give --tls DIR"
            )
        for path in self._files.values():
            if not Path(path).is_file():
                raise DataError(f"{path} is not there: make it with {CERTIFICATES}")

    @classmethod
    def parse(cls, text: str, tls: Path | None = None) -> Place:
        """Read `127.0.0.1:8786`, `tcp://host:port` or `tls://host:port`.

        Raises:
            DataError: It is no address, or beyond this machine without TLS.
        """
        scheme, mark, rest = text.strip().rpartition("://")
        host, colon, port = rest.rpartition(":")
        if not colon:
            host, port = rest, str(PORT)
        wrong = (mark and scheme not in ("tcp", "tls")) or not port.isdecimal() or not host
        if wrong or not 0 <= int(port) < 2**16:
            raise DataError(f"{text!r} is no address of a scheduler: write 127.0.0.1:{PORT}")
        if scheme == "tls" and tls is None:
            raise DataError(f"{text} needs --tls DIR, the folder of its certificates")
        return cls(host.strip("[]"), int(port), tls)

    @property
    def scheme(self) -> str:
        """How it is spoken with."""
        return "tcp" if self.tls is None else "tls"

    @property
    def address(self) -> str:
        """As Dask writes it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def _files(self) -> dict[str, str]:
        if self.tls is None:
            return {}
        own = self.tls / "cert.pem"
        authority = self.tls / "ca.pem"
        return {
            "ca": str(authority if authority.exists() else own),
            "cert": str(own),
            "key": str(self.tls / "key.pem"),
        }

    def security(self) -> Any:
        """What Dask needs to know about it."""
        distributed, files = _dask(), self._files
        if not files:
            return distributed.Security()
        sides = {
            f"tls_{side}_{what}": files[what]
            for side in ("client", "scheduler", "worker")
            for what in ("cert", "key")
        }
        return distributed.Security(tls_ca_file=files["ca"], require_encryption=True, **sides)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class DaskEngine:
    """Orders by way of a Dask scheduler.

    Args:
        place: Where it listens.

    Raises:
        EngineLost: Nobody is there.
    """

    def __init__(self, place: Place) -> None:
        distributed = _dask()
        self._back: queue.Queue[tuple[int, Any]] = queue.Queue()
        try:
            self._client = distributed.Client(
                place.address,
                security=place.security(),
                timeout=CONNECT_S,
                set_as_default=False,
            )
        except (OSError, TimeoutError) as error:
            raise EngineLost(f"no scheduler answers at {place.address}: {_line(error)}") from None

    def workers(self) -> Mapping[str, str]:
        """Names and addresses of those that are there."""
        try:
            known = self._client.sync(self._client.scheduler.identity)
        except Exception as error:  # Dask has a dozen words for it
            raise EngineLost(f"the scheduler is gone: {_line(error)}") from None
        return {
            str(worker["name"]): address
            for address, worker in known["workers"].items()
            if worker["status"] == "running"
        }

    def greet(self, address: str) -> object:
        """What a worker says of itself."""
        try:
            return self._client.run(introduce, workers=[address])[address]
        except (OSError, TimeoutError, KeyError) as error:
            raise WorkerLost(_line(error)) from None
        except AmpereError:
            raise
        except Exception as error:  # whatever a stranger's process answers
            if self._client.status != "running":
                raise EngineLost(f"the scheduler is gone: {_line(error)}") from None
            raise DataError(_line(error)) from None

    def submit(self, chunk: int, address: str, order: str, checkpoint: bytes | None) -> None:
        """Have a worker, and no other, run an order."""
        try:
            future = self._client.submit(
                run_order,
                order,
                checkpoint,
                key=f"ampere-{uuid.uuid4()}",
                workers=[address],
                allow_other_workers=False,
                retries=0,
                pure=False,
            )
        except Exception as error:  # Dask has a dozen words for it
            raise EngineLost(f"the scheduler is gone: {_line(error)}") from None
        future.add_done_callback(lambda done: self._back.put((chunk, done)))

    def wait(self, time_s: float) -> Sequence[Returned]:
        """What came back meanwhile, as soon as anything does."""
        returned = []
        with contextlib.suppress(queue.Empty):
            returned.append(self._fetch(*self._back.get(timeout=time_s)))
            while True:
                returned.append(self._fetch(*self._back.get_nowait()))
        return returned

    def _fetch(self, chunk: int, future: Any) -> Returned:
        if future.status in ("cancelled", "lost"):
            raise EngineLost("the scheduler is gone")
        try:
            text, weights = future.result(timeout=ANSWER_S)
            return Returned(chunk, text, bytes(weights))
        except Exception as error:  # whatever became of a worker
            if future.status in ("cancelled", "lost"):
                raise EngineLost("the scheduler is gone") from None
            died = type(error).__name__ in ("KilledWorker", "NoValidWorkerError")
            return Returned(chunk, lost="its worker died" if died else _line(error))

    def close(self) -> None:
        """Let go of the scheduler; workers stay."""
        with contextlib.suppress(Exception):
            self._client.close(timeout=CONNECT_S)

    def __enter__(self) -> DaskEngine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def run_fleet(
    runner: Runner,
    place: Place,
    *,
    patience_s: float = 60.0,
    say: Callable[[str], None] = lambda text: None,
) -> bool:
    """Run a runner's jobs by way of a scheduler that may come and go; True if all are done.

    Raises:
        EngineLost: The scheduler was gone for longer than anybody waits; nothing is lost.
    """
    until_s = time.monotonic() + patience_s
    while True:
        try:
            with DaskEngine(place) as engine:
                until_s = time.monotonic() + patience_s
                return runner.run(engine)
        except EngineLost as error:
            if time.monotonic() > until_s:
                raise EngineLost(
                    f"{error}; start it with `ampere fleet up`, then give the same command again"
                ) from None
            say(f"{error}; waiting for it")
            time.sleep(AGAIN_S)


def serve_scheduler(place: Place, ready: Callable[[str], None]) -> None:
    """Be the scheduler, until somebody ends it.

    Args:
        place: Where it listens.
        ready: Told its address as soon as it does.
    """
    distributed = _dask()

    async def serve() -> None:
        async with distributed.Scheduler(
            host=place.host,
            port=place.port,
            protocol=f"{place.scheme}://",
            security=place.security(),
            dashboard=False,
            dashboard_address=NO_PAGES,
        ) as scheduler:
            ready(scheduler.address)
            await scheduler.finished()

    try:
        asyncio.run(serve())
    except OSError as error:
        raise DeviceError(f"nobody can listen at {place.address}: {_line(error)}") from None


def serve_station(
    station: Station,
    place: Place,
    *,
    patience_s: float = 300.0,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Be the worker of a station, also when the scheduler comes and goes.

    Raises:
        DeviceError: No scheduler let it in for longer than it waits.
    """
    distributed = _dask()
    station.warm_up()
    occupy(station)
    told = ""
    until_s = time.monotonic() + patience_s
    while time.monotonic() < until_s:
        try:
            asyncio.run(_serve_once(distributed, station, place, say))
            told, until_s = "the scheduler is gone", time.monotonic() + patience_s
            say(f"{station.member}: {told}; waiting for it")
        except (OSError, TimeoutError, ValueError, RuntimeError) as error:
            if told != (told := _line(error)):
                say(
                    f"{station.member}: {place.address} does not let it in ({told}); it tries again"
                )
        time.sleep(AGAIN_S)
    raise DeviceError(f"no scheduler at {place.address} let {station.member} in: {told}")


async def _serve_once(
    distributed: Any, station: Station, place: Place, say: Callable[[str], None]
) -> None:
    async with distributed.Worker(
        place.address,
        name=station.member,
        nthreads=1,
        memory_limit=0,
        host=place.host if _is_loopback(place.host) else None,
        protocol=f"{place.scheme}://",
        security=place.security(),
        dashboard=False,
        dashboard_address=NO_PAGES,
        death_timeout=CONNECT_S,
        local_directory=str(station.folder),
    ) as worker:
        say(f"{station.member}: joined {place.address}")
        await worker.finished()


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
