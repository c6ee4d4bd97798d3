"""`ampere evaluate`: bad input; what it says of models is tested with profiles."""

from __future__ import annotations

import pytest

from cli.runner import check_bad_line


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("evaluate net.py:Net --profile told.ampere --loss absent.py:loss", 1, "cannot read"),
        ("evaluate net.py:Net --profile missing", 1, "does not exist"),
        ("evaluate net.py:Net --profile told.ampere --models 0", 2, "--models"),
    ],
)
@pytest.mark.usefixtures("files")
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)
