"""A device whose worker says whatever it likes: a script that answers requests with given bytes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ampere.core.workloads import Settings
from ampere.devices.worker_device import WorkerDevice

# `ID` in an answer is the id of its request. After `end` it exits with 255, as a cut line does.
SCRIPT = """
import json, sys
answers = json.load(open(sys.argv[1]))
for line in sys.stdin:
    request = json.loads(line)
    with open(sys.argv[1] + ".asked", "a") as log:
        log.write(line)
    said = bytes.fromhex(answers[request["do"]])
    if said == b"end":
        sys.exit(255)
    sys.stdout.buffer.write(said.replace(b"ID", str(request["id"]).encode()))
    sys.stdout.flush()
"""

METER = {"name": "cpu", "settings": {"idle_w": 2.5}}
HONEST: Mapping[str, dict[str, Any]] = {
    "open": {
        "framework": "torch 2.1",
        "freed_memory": "kept",
        "threads": 1,
        "provenance": "modelled",
        "meter": METER,
        "resolution": {"energy_j": 1.0, "period_s": 2.0},
    },
    "describe": {"identity": {"machine": "abacus"}, "conditions": {"host": "lab"}},
    "load": {"handle": 1},
    "burst": {
        "energy_j": 2.0,
        "time_s": 0.5,
        "resolution": {"energy_j": 0.25, "period_s": 0.5},
    },
    "unload": {},
}


def line(row: Mapping[str, Any]) -> bytes:
    """An answer as the worker sends it."""
    return b'{"id": ID, ' + json.dumps(row).encode()[1:] + b"\n" if row else b'{"id": ID}\n'


def changed(do: str, **changes: Any) -> bytes:
    """The honest answer to a request, but for some fields; None leaves one out."""
    row = {**HONEST[do], **changes}
    return line({key: value for key, value in row.items() if value is not None})


class HostileDevice(WorkerDevice):
    """Its worker is the script; what it is not told to say, it says as an honest one."""

    def __init__(
        self, folder: Path, meter: str = "cpu", patience_s: float = 20.0, **said: bytes
    ) -> None:
        super().__init__(Settings(threads=1), meter, patience_s=patience_s)
        self.file = folder / "answers.json"
        self.script = folder / "worker.py"
        self.script.write_text(SCRIPT)
        honest = {do: line(row) for do, row in HONEST.items()}
        self.file.write_text(json.dumps({do: raw.hex() for do, raw in {**honest, **said}.items()}))

    def _command(self) -> Sequence[str]:
        return [sys.executable, "-I", "-S", "-u", str(self.script), str(self.file)]

    def _why_lost(self, code: int | None, complaint: str) -> str | None:
        return "the line is dead" if code == 255 else None

    def asked(self, do: str) -> list[dict[str, Any]]:
        """The requests of this kind that its workers got."""
        lines = self.file.with_name(self.file.name + ".asked").read_text().splitlines()
        return [row for row in map(json.loads, lines) if row["do"] == do]
