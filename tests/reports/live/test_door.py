"""Who may come in: names of this machine, and a token from elsewhere."""

from __future__ import annotations

import socket

import pytest

from ampere.errors import DataError
from ampere.reports.live.door import Door, token_of


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.9"])
def test_loopback_needs_no_token_but_one_of_its_names(host: str) -> None:
    door = Door.at(host)
    assert door.token is None and door.opens(None)
    for name in ("localhost", "LocalHost:8473", "127.0.0.1:1", "127.0.0.1", "[::1]:80", "[::1]"):
        assert door.knows(name), name
    own = socket.gethostname()
    for name in (
        None, "", "evil.example", "evil.example:8473", "localhost.evil.example", "192.0.2.7",
        "127.0.0.1.evil.example", "localhost:x", "localhost@evil.example", "0.0.0.0", f"{own}x",
        "[::1", "::1:evil", "local host", "127.1:8473",
    ):  # fmt: skip
        assert not door.knows(name), name
    assert door.url(5) == f"http://{door.address}:5/"


def test_elsewhere_a_token_is_needed() -> None:
    door = Door.at("0.0.0.0")
    assert door.token is not None and len(door.token) >= 32
    assert Door.at("0.0.0.0").token != door.token and door.token not in repr(door)
    assert door.opens(door.token)
    for wrong in (None, "", "x", door.token[:-1], door.token + "x", "é"):
        assert not door.opens(wrong)
    # Numbers cannot be given away by a name server; names are those of this machine.
    for name in ("192.0.2.7:8473", "localhost", socket.gethostname(), "[fe80::1]:5"):
        assert door.knows(name)
    assert not door.knows("evil.example")
    url = door.url(5)
    assert url.endswith(f":5/?token={door.token}") and "0.0.0.0" not in url
    assert "HttpOnly" in door.cookie(5)
    assert token_of(door.cookie(5), 5) == door.token
    assert token_of(door.cookie(5), 6) is None
    assert token_of("\x00;;=", 5) is None and token_of(None, 5) is None


def test_an_address_of_nowhere_is_refused() -> None:
    for host in ("no such host", "a" * 300, "256.1.1.1"):
        with pytest.raises(DataError, match="no address of this machine"):
            Door.at(host)
