"""Packages that not everybody has: `make test-integrations` brings an environment with them."""

from __future__ import annotations

import socket
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def unplugged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks a server for something fails."""

    def refuse(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX:
            pytest.fail(f"something wants to talk to {address}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
