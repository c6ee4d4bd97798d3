"""A worker that is spoken to by hand, a JSON line each."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any


class Talk:
    """A worker process of its own, which ends with the conversation."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.asked = 0

    def send(self, **request: Any) -> None:
        """Put a request to it, without waiting for the answer."""
        assert self.process.stdin is not None
        self.asked += 1
        self.process.stdin.write(json.dumps({"id": self.asked, **request}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """What it says next, to what it was asked last."""
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert answer.pop("id") == self.asked
        return answer

    def ask(self, **request: Any) -> dict[str, Any]:
        """Put a request to it, and wait for the answer."""
        self.send(**request)
        return self.answer()

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *exception: object) -> None:
        with self.process:
            self.process.kill()
