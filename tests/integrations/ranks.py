"""Processes that train together: real ones, over gloo on this machine; each tells what it saw."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]


def run_ranks(module: str, *arguments: str, world: int = 2, timeout_s: float = 240) -> list[Any]:
    """`python -m integrations.MODULE ARGUMENTS` once for each rank; what each printed last."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launched = []
    for rank in range(world):
        names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_PORT": port}
        names |= {"LOCAL_WORLD_SIZE": world}
        environment = {
            **os.environ,
            "MASTER_ADDR": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
            **{name: str(value) for name, value in names.items()},
        }
        launched.append(
            subprocess.Popen(
                [sys.executable, "-m", f"integrations.{module}", *arguments],
                cwd=TESTS,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        told = [process.communicate(timeout=timeout_s) for process in launched]
    finally:
        for process in launched:
            process.kill()
            process.wait()
    for process, (_, errors) in zip(launched, told, strict=True):
        assert process.returncode == 0, errors
    return [{**json.loads(out.splitlines()[-1]), "said": errors} for out, errors in told]
