"""Part: what one of measuring.py runs and how much of it, what it keeps, says and shows."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ampere.core.types import Json
from measured.codes import Code

Keep = Callable[[Mapping[str, Json]], None]
TRIES = 3  # of what was refused because somebody else kept the machine busy
BEGAN_S = time.monotonic()


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    workloads: tuple[tuple[str, int], ...] = (
        ("zoo:lenet5", 1),
        ("zoo:cnn5", 1),
        ("zoo:lstm", 2),
        ("zoo:resnet", 1),
    )
    quiet: int = 3  # undisturbed runs before and after a workload's cells
    sittings: int = 10
    apart_s: float = 15.0
    calm: int = 100
    repeats: int = 4
    families: tuple[str, ...] = ("lenet5", "cnn5", "har", "lstm", "transformer", "resnet")
    times: int = 3
    networks: int = 12
    members: int = 6


QUICK = Scale((("zoo:lenet5", 1),), 1, 2, 1.0, 5, 2, ("lenet5",), 2, 6, 3)


def say(text: str) -> None:
    minutes, seconds = divmod(int(time.monotonic() - BEGAN_S), 60)
    sys.stderr.write(f"{minutes:3}:{seconds:02} {text}\n")


@dataclass(frozen=True)
class Part:
    """What is measured, and the table that is made of it."""

    run: Callable[[Scale, Mapping[str, Code], Keep], None]
    table: Callable[[Mapping[str, Any]], list[str]]
    needs_before: bool = True
