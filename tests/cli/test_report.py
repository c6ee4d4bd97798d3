"""`ampere report`: a profile as a page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli.runner import answer, check_bad_line, last_line, run


@pytest.mark.parametrize("method", ["additive", "paper"])
def test_report_writes_a_page_and_its_charts(told: Path, tmp_path: Path, method: str) -> None:
    page, figures = tmp_path / "report.html", tmp_path / "figures"
    line = ("report", told, "-o", page, "--figures", figures, "--method", method)
    found = answer(run(*line, "--json"))
    assert found["page"] == str(page)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sorted(found["figures"]) == sorted(str(each) for each in figures.iterdir())
    again = run(*line)
    assert (again.exit_code, last_line(again)) == (
        1,
        f"error: {page} exists: choose another name, or remove it first",
    )


def test_report_says_what_it_wrote(told: Path, tmp_path: Path) -> None:
    result = run("report", told, "-o", tmp_path / "a.html")
    assert result.stdout == f"wrote {tmp_path / 'a.html'}: open it in a browser\n"
    result = run("report", told, "--figures", tmp_path / "figures")
    assert result.stdout.splitlines()[0] == f"wrote {tmp_path / 'figures' / 'layers.svg'}"


def test_report_needs_no_torch(told: Path, tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from ampere.cli import main\n"
        f"sys.argv = ['ampere', 'report', {str(told)!r}, '-o', {str(tmp_path / 'a.html')!r}]\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("report missing -o a.html", 1, "does not exist"),
        ("report . -o a.html", 1, "is a directory"),
        ("report net.py -o a.html", 1, "not JSON"),
        ("report failed -o a.html", 1, "nothing to report"),
        ("report told.ampere", 2, "-o FILE"),
        ("report told.ampere -o net.py", 1, "net.py exists"),
        ("report told.ampere -o none/a.html", 1, "cannot write"),
        ("report told.ampere -o a.html --model zoo:lenet6", 1, "lenet5"),
        ("report told.ampere -o a.html --method magic", 2, "not one of"),
    ],
)
@pytest.mark.usefixtures("files")
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)
