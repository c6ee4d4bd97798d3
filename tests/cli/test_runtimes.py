"""`ampere runtimes`, and `--runtime` where it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampere.frameworks.runtimes import RUNTIMES, Runtime, RuntimeEntry
from cli.runner import answer, check_bad_line, run


def _absent() -> Runtime:
    raise ModuleNotFoundError("No module named 'MNN'", name="MNN")


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """MNN, as where it is not installed."""
    entry = RuntimeEntry("mnn", _absent, ("no-such-distribution",))
    monkeypatch.setitem(RUNTIMES, "mnn", entry)


def test_a_line_for_each_with_what_to_install(absent: None) -> None:
    shown = run("runtimes").stdout
    assert "torch" in shown
    (line,) = (line for line in shown.splitlines() if line.startswith("mnn "))
    assert "not installed" in line
    assert "pip install 'ampere-energy[mnn]' or no-such-distribution" in line


def test_as_json_they_are_data(absent: None) -> None:
    rows = {row["name"]: row for row in answer(run("runtimes", "--json"))["runtimes"]}
    assert set(rows) == set(RUNTIMES)
    assert rows["torch"]["stages"] == ["step", "forward", "backward", "update"]
    assert rows["torch"]["version"]
    assert rows["mnn"]["version"] is None


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("measure zoo:lenet5 --runtime tf", 2, "'tf' is not one of torch, mnn, jax"),
        ("profile zoo:lenet5 --profile p --runtime mnn --compile", 1, "only torch has compile"),
        ("survey --profile p --runtime mnn --tf32", 1, "only torch has tf32"),
        ("check --runtime jax --no-onednn", 1, "only torch has onednn"),
        (
            "measure zoo:lenet5 --device simulated:xavier --runtime mnn",
            1,
            "a simulated device has a meter and settings of its own",
        ),
        ("ask zoo:lenet5 --profile p --runtime tf", 2, "'tf' is not one of"),
        ("tell --profile p rows.jsonl --runtime tf", 2, "'tf' is not one of"),
    ],
)
def test_what_cannot_be_is_one_line(
    line: str, code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_bad_line(line, code, says)
    assert not list(tmp_path.iterdir())
