"""Freed memory is kept where it was asked for, in a process of its own and in those it starts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ampere.devices.memory import KEEPING

# A block beyond what glibc keeps by itself comes and goes; page faults of the last rounds.
FAULTS = """
import ctypes, resource, subprocess, sys
import ampere
told = ampere.keep_memory() if sys.argv[1:] == ["keep"] else ""

def step():
    bytearray(40 << 20)

for _ in range(5):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, told, flush=True)
if told:
    subprocess.run([sys.executable, "-c", sys.stdin.read()], check=True)
"""


def faults(*arguments: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, *arguments],
        input=FAULTS,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split("\n")


@pytest.mark.skipif(sys.platform != "linux", reason="what glibc does")
def test_freed_memory_is_kept_here_and_in_what_is_started_here() -> None:
    (given_back, _), (kept, then, _) = faults(), faults("keep")
    assert int(given_back) > 200  # 10,240 pages a step, or 20 huge ones
    assert kept.endswith(" kept") and int(kept.split()[0]) < 50
    assert int(then) < 50


@pytest.mark.skipif(sys.platform != "linux", reason="what glibc does")
def test_the_environment_says_the_same() -> None:
    (kept, _) = faults(**KEEPING)
    assert int(kept) < 50
