"""Files of sysfs: a number or a name, else one line that says what to do."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ampere.errors import MeterError, MeterFault
from ampere.meters.sysfs import read_number, read_text


@pytest.mark.parametrize(("content", "number"), [("42\n", 42), ("-7", -7), (" 0 \n", 0)])
def test_a_whole_number_is_read(tmp_path: Path, content: str, number: int) -> None:
    (tmp_path / "energy_uj").write_text(content)
    assert read_number(tmp_path / "energy_uj") == number


@pytest.mark.parametrize("content", ["", "4.2", "1e3", "0x10", "1" * 21, "on\noff"])
def test_what_is_no_number_is_shown_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "energy_uj").write_text(content)
    with pytest.raises(MeterError, match="not a number; choose another meter") as caught:
        read_number(tmp_path / "energy_uj")
    assert "\n" not in str(caught.value)


def test_names_of_several_lines_become_one(tmp_path: Path) -> None:
    (tmp_path / "name").write_bytes(b" power\n meter\xff \n")
    assert read_text(tmp_path / "name") == "power meter\ufffd"


def test_an_absent_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MeterError, match="does not exist; choose another meter"):
        read_text(tmp_path / "absent")


@pytest.mark.parametrize(
    ("grant", "command"),
    [(None, "`sudo chmod o+r /sys/x`"), (Path("/sys/*/x"), "`sudo chmod o+r /sys/*/x`")],
)
def test_a_forbidden_file_names_the_command_that_allows_it(
    monkeypatch: pytest.MonkeyPatch, grant: Path | None, command: str
) -> None:
    def refuse(*arguments: object, **options: object) -> str:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(MeterError, match="no permission to read") as caught:
        read_text(Path("/sys/x"), grant)
    assert command in str(caught.value)


def test_a_busy_bus_is_a_fault_that_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*arguments: object, **options: object) -> str:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(Path, "read_text", busy)
    with pytest.raises(MeterFault, match=r"cannot be read now \(Device or resource busy\)"):
        read_text(Path("/sys/x"))
