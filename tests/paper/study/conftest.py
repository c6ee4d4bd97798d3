"""A study keeps freed memory, and has what it starts keep it too: other tests start afresh."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ampere.devices.memory import KEEPING

GIVEN = KEEPING.keys() & os.environ.keys()  # by whoever runs the tests


@pytest.fixture(autouse=True)
def forgotten_afterwards() -> Iterator[None]:
    yield
    for name in KEEPING.keys() - GIVEN:
        os.environ.pop(name, None)
