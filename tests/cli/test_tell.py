"""`ampere tell`: rows that were measured elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.runner import answer, check_bad_line, last_line, run


@pytest.mark.parametrize(
    ("energy", "says"),
    [
        ("NaN", "NaN is not a number"),
        ("0", "above 1e-15"),
        ("-1", "above 1e-15"),
        ("1e999", "at most 1e+15"),
        ('"much"', "must be a number"),
    ],
)
def test_rows_that_cannot_be_true_are_not_told(told: Path, energy: str, says: str) -> None:
    before = told.read_bytes()
    rows = told.parent / "rows.jsonl"
    rows.write_text(f'{{"layers": [{{"kind": "k"}}], "energy_j_per_step": {energy}}}\n')
    result = run("tell", rows, "--profile", told)
    assert (result.exit_code, result.stdout) == (1, "")
    assert says in result.stderr
    assert told.read_bytes() == before


def test_faulty_readings_among_others_are_left_out_and_listed(told: Path) -> None:
    rows = told.parent / "rows.jsonl"
    lines = [
        f'{{"layers": [{{"kind": "k", "widths": {{"in": 9}}}}], "energy_j_per_step": {j}}}'
        for j in ("0.0012", "-3", "0")
    ]
    rows.write_text("\n".join(lines) + "\n")
    result = run("tell", rows, "--profile", told, "--any-device", "--json")
    assert answer(result)["told"] == 1
    assert "rows.jsonl line 2 is left out: energy_j_per_step must be a number" in result.stderr
    assert "rows.jsonl line 3 is left out" in result.stderr


def test_tell_adds_rows_and_makes_a_profile(tmp_path: Path) -> None:
    path, rows = tmp_path / "new.ampere", tmp_path / "rows.jsonl"
    rows.write_text('{"layers": [{"kind": "k"}], "energy_j_per_step": 0.5, "device": "phone"}\n')
    row = answer(run("tell", rows, "--profile", path, "--json"))
    assert (row["told"], row["measurements"], row["provenance"]) == (1, 1, "external")
    text = run("tell", "-", "--profile", path, input=rows.read_text()).stdout
    assert "2 measurements of 1 kind of layers" in text
    assert text.splitlines()[-1] == f"1 row added to {path}"
    rows.write_text(rows.read_text().replace("phone", "laptop"))
    refused = run("tell", rows, "--profile", path)
    assert refused.exit_code == 1
    assert "laptop" in last_line(refused)
    assert run("tell", rows, "--profile", path, "--any-device").exit_code == 0


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("tell rows --profile told.ampere", 1, "rows cannot be read"),
    ],
)
@pytest.mark.usefixtures("files")
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)
