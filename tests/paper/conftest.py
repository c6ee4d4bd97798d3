"""What holds for all tests of the paper's experiments."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ampere_paper.figures import style


@pytest.fixture(scope="session", autouse=True)
def hurried() -> Iterator[None]:
    """Fine pictures take time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "DPI", 60)
        yield
