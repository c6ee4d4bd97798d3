"""Answers of a worker that is broken, or somebody else's: one line says so, and nothing hangs."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import pytest

from ampere.core.workloads import IDLE, REFERENCE
from ampere.devices import worker_process
from ampere.devices.worker_process import LONGEST, NoAnswer, WorkerProcess
from ampere.errors import AmpereError, DeviceError, MeasurementFailed, MeterError, MeterFault
from devices.hostile import HostileDevice, changed, line

MANY = {f"k{i}": "v" for i in range(300)}
DEEP = b"[" * 100_000
BURST = b'{"id": ID, "energy_j": 2.0, "time_s": 0.5, "resolution": {"energy_j": 0, "period_s": 0}}'


def meter(name: object = "cpu", **settings: object) -> dict[str, object]:
    return {"name": name, "settings": settings}


def failed(error: object, message: object = "so it is") -> bytes:
    return line({"error": error, "message": message})


LINES = {
    "an empty line": b"\n",
    "words": b"hello\n",
    "null": b"null\n",
    "a number": b"5\n",
    "a list": b"[ID]\n",
    "half an object": b'{"id": ID, "energy_j"\n',
    "an answer and more": BURST + b" {}\n",
    "no UTF-8": b'{"id": ID, "framework": "\xff\xfe"}\n',
    "UTF-16": BURST.decode().encode("utf-16") + b"\n",
    "zeros": b"\0" * 1000 + b"\n",
    "a deep list": DEEP + b"\n",
    "a deep object": b'{"a":' * 100_000 + b"\n",
    "a deep list inside": b'{"id": ID, "energy_j": ' + DEEP + b"\n",
    "no id": BURST.replace(b'"id": ID, ', b"") + b"\n",
    "another id": BURST.replace(b"ID", b"ID0") + b"\n",
    "an id before": BURST.replace(b"ID", b"0") + b"\n",
    "an id below zero": BURST.replace(b"ID", b"-ID") + b"\n",
    "an id in quotes": BURST.replace(b"ID", b'"ID"') + b"\n",
    "true for an id": BURST.replace(b"ID", b"true") + b"\n",
    "an id in a list": BURST.replace(b"ID", b"[ID]") + b"\n",
    "a line of 10 MB": b"x" * 10_000_000 + b"\n",
    "a line of 10 MB without an end": b"x" * 10_000_000,
    "an answer after 10 MB of nothing": b" " * 10_000_000 + BURST + b"\n",
    "an answer before 10 MB of nothing": BURST + b" " * 10_000_000 + b"\n",
    "an object of 2 MB": line({"energy_j": 2.0, "time_s": 0.5, "x": "x" * 2_000_000}),
    "two answers": 2 * (BURST + b"\n"),
    "a thousand answers": 1000 * (BURST + b"\n"),
}

NUMBERS = {
    "NaN": BURST.replace(b"2.0", b"NaN"),
    "Infinity": BURST.replace(b"2.0", b"Infinity"),
    "too large for a float": BURST.replace(b"2.0", b"1e999"),
    "400 digits": BURST.replace(b"2.0", b"1" * 400),
    "10,000 digits": BURST.replace(b"2.0", b"1" * 10_000),
    "no joules": BURST.replace(b"2.0", b"0"),
    "negative joules": BURST.replace(b"2.0", b"-1"),
    "hardly any joules": BURST.replace(b"2.0", b"1e-320"),
    "absurd joules": BURST.replace(b"2.0", b"1e300"),
    "joules in quotes": BURST.replace(b"2.0", b'"2.0"'),
    "true joules": BURST.replace(b"2.0", b"true"),
    "joules left out": BURST.replace(b"energy_j", b"energy", 1),
    "no seconds": BURST.replace(b"0.5", b"0"),
    "negative seconds": BURST.replace(b"0.5", b"-0.5"),
    "hardly any seconds": BURST.replace(b"0.5", b"1e-300"),
    "absurd seconds": BURST.replace(b"0.5", b"1e300"),
    "seconds left out": BURST.replace(b"time_s", b"time"),
    "seconds in a list": BURST.replace(b"0.5", b"[0.5]"),
}

FIELDS = {
    "no resolution": ("burst", changed("burst", resolution=None)),
    "a list of resolutions": ("burst", changed("burst", resolution=[1, 2])),
    "a negative resolution": (
        "burst",
        changed("burst", resolution={"energy_j": -1, "period_s": 0}),
    ),
    "an absurd resolution": (
        "burst",
        changed("burst", resolution={"energy_j": 0, "period_s": 1e9}),
    ),
    "a negative handle": ("load", changed("load", handle=-1)),
    "half a handle": ("load", changed("load", handle=1.5)),
    "a handle in quotes": ("load", changed("load", handle="1")),
    "a handle without measure": ("load", changed("load", handle=10**40)),
    "true for a handle": ("load", changed("load", handle=True)),
    "no handle": ("load", changed("load", handle=None)),
    "no framework": ("open", changed("open", framework=None)),
    "a number for a framework": ("open", changed("open", framework=2.1)),
    "a framework of 500 kB": ("open", changed("open", framework="t" * 500_000)),
    "half a surrogate pair": ("open", changed("open", framework="torch \ud800")),
    "no threads": ("open", changed("open", threads=0)),
    "half a thread": ("open", changed("open", threads=1.5)),
    "a billion threads": ("open", changed("open", threads=10**9)),
    "no provenance": ("open", changed("open", provenance=None)),
    "a provenance of its own": ("open", changed("open", provenance="measured")),
    "a list of provenances": ("open", changed("open", provenance=["counter"])),
    "no meter": ("open", changed("open", meter=None)),
    "a meter in words": ("open", changed("open", meter="cpu")),
    "a number for a meter": ("open", changed("open", meter=meter(5))),
    "another meter": ("open", changed("open", meter=meter("iphone", command="touch canary"))),
    "a meter without settings": ("open", changed("open", meter={"name": "cpu"})),
    "settings in settings": ("open", changed("open", meter=meter(idle_w={"w": 1}))),
    "a list of settings": ("open", changed("open", meter={"name": "cpu", "settings": ["idle_w"]})),
    "300 settings": ("open", changed("open", meter=meter(**MANY))),
    "no identity": ("describe", changed("describe", identity=None)),
    "an identity in words": ("describe", changed("describe", identity="abacus")),
    "an identity of 300 words": ("describe", changed("describe", identity=MANY)),
    "an identity of 50 kB": ("describe", changed("describe", identity={"machine": "m" * 50_000})),
    "an identity that is no text": ("describe", changed("describe", identity={"\ud800": "a"})),
    "a list of conditions": ("describe", changed("describe", conditions=["hot"])),
}

ERRORS = {
    "SystemExit": failed("SystemExit"),
    "__class__": failed("__class__"),
    "BaseException": failed("BaseException"),
    "KeyboardInterrupt": failed("KeyboardInterrupt"),
    "JournalError": failed("JournalError"),
    "NoAnswer": failed("NoAnswer"),
    "no name": failed(""),
    "a number for a name": failed(5),
    "a list of names": failed(["MeterFault"]),
    "a name of 50 kB": failed("E" * 50_000),
    "no message": failed("MeterFault", None),
    "a message of 500 kB": failed("MeterFault", "m" * 500_000),
    "a number for a message": failed("MeterFault", 5),
    "half a surrogate pair": failed("MeterFault", "\ud800"),
    "a message that steers": failed(
        "MeterFault", "\x1b[2J\x1b]0;owned\x07\r\nerror: all is well\0"
    ),
    "a message of lines": failed("MeasurementFailed", "one\ntwo\u2028three"),
}

CASES = [
    *((f"burst: {name}", "burst", said) for name, said in LINES.items()),
    *((f"open: {name}", "open", said) for name, said in LINES.items() if "two" not in name),
    *((name, "burst", said + b"\n") for name, said in NUMBERS.items()),
    *((name, do, said) for name, (do, said) in FIELDS.items()),
    *((f"error: {name}", "burst", said) for name, said in ERRORS.items()),
]


def use(device: HostileDevice) -> None:
    """What measuring asks of a device."""
    _ = device.fingerprint
    loaded = device.load(IDLE)
    for steps in (1, 4):
        device.burst(loaded.handle, steps)


@pytest.mark.parametrize(("do", "said"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_an_answer_that_cannot_be_is_told_in_a_line(tmp_path: Path, do: str, said: bytes) -> None:
    with HostileDevice(tmp_path, **{do: said}) as device:
        with pytest.raises((DeviceError, MeasurementFailed, MeterFault)) as caught:
            use(device)
        assert isinstance(caught.value, MeterFault) or type(caught.value) in (
            DeviceError,
            MeasurementFailed,
        )
    assert str(caught.value).isprintable()
    assert 0 < len(str(caught.value)) <= 1100


def test_an_honest_one_is_believed(tmp_path: Path) -> None:
    with HostileDevice(tmp_path) as device:
        use(device)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ("no joules", MeterFault),
        ("negative joules", MeterFault),
        ("too large for a float", MeterFault),
        ("no seconds", MeterFault),
        ("joules in quotes", DeviceError),
        ("NaN", DeviceError),  # no JSON
    ],
)
def test_joules_that_cannot_be_true_are_the_meters_fault(
    tmp_path: Path, raw: str, error: type[AmpereError]
) -> None:
    with (
        HostileDevice(tmp_path, burst=NUMBERS[raw] + b"\n") as device,
        pytest.raises(error) as told,
    ):
        use(device)
    assert type(told.value) is error


def test_a_handle_is_one_workloads_alone(tmp_path: Path) -> None:
    with HostileDevice(tmp_path) as device:
        device.load(IDLE)
        with pytest.raises(DeviceError, match="handle must be that of no other workload, not 1"):
            device.load(REFERENCE)


def test_nobody_is_waited_for_because_of_what_he_says(tmp_path: Path) -> None:
    said = changed("burst", time_s=1e7, energy_j=1e7)
    with HostileDevice(tmp_path, burst=said) as device:
        loaded = device.load(IDLE)
        device.burst(loaded.handle, 1)
        assert device._pace_s[loaded.handle] < 10


SAYS = """
import json, os, sys, time
request = json.loads(sys.stdin.readline())
"""


def ask(script: str, patience_s: float = 20.0, **request: object) -> AmpereError:
    """What becomes of a request to a script."""
    process = WorkerProcess([sys.executable, "-I", "-S", "-u", "-c", script])
    try:
        with pytest.raises((AmpereError, NoAnswer)) as caught:
            process.ask(patience_s, request)
        assert process.ended
        error = caught.value
        return error.as_failure() if isinstance(error, NoAnswer) else error
    finally:
        process.end()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("while True: os.write(1, b'x' * 65536)", "more than 1048576 bytes in a line"),
        ("while True: os.write(1, b'{\"id\": 7}\\n' * 6000)", "which is no answer to request 1"),
        ("while True: os.write(1, b'.'); time.sleep(0.01)", "it hung"),
        ("os.close(1); time.sleep(60)", "it hung"),
    ],
)
def test_a_flood_and_a_trickle_have_an_end(
    script: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "END_S", 0.5)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start_s = time.monotonic()
    assert reason in str(ask(SAYS + script, 1.0))
    assert time.monotonic() - start_s < 15
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 50_000


def test_who_does_not_read_requests_holds_nobody_up() -> None:
    start_s = time.monotonic()
    failure = ask("import time; time.sleep(60)", 0.5, workload="x" * 1_000_000)
    assert "it hung" in str(failure)
    assert time.monotonic() - start_s < 10


def test_complaints_are_kept_to_their_last_line() -> None:
    flood = "for _ in range(300): os.write(2, b'y' * 99999 + b'\\n')\n"
    failure = ask(SAYS + flood + "sys.exit('\\x1b[31mit broke')")
    assert (
        str(failure)
        == "the worker process ended with exit code 1 (\N{REPLACEMENT CHARACTER}[31mit broke)"
    )


def test_a_line_of_just_the_limit_is_an_answer() -> None:
    pad = LONGEST - len(json.dumps({"id": 1, "pad": ""})) - 1
    script = f"print(json.dumps({{'id': 1, 'pad': 'x' * {pad}}}), flush=True); sys.stdin.read()"
    process = WorkerProcess([sys.executable, "-I", "-S", "-u", "-c", SAYS + script])
    try:
        assert len(process.ask(20.0, {}).text("pad", most=LONGEST)) == pad
    finally:
        process.end()


def test_a_meter_may_say_that_it_fails(tmp_path: Path) -> None:
    with (
        HostileDevice(tmp_path, open=failed("MeterError", "no permission")) as device,
        pytest.raises(MeterError, match=r"^no permission$"),
    ):
        use(device)
