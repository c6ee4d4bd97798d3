"""The benchmarks on published and on made-up energies, as a whole."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from published import write_all, write_more

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
recorded: Any = importlib.import_module("recorded")
bias: Any = importlib.import_module("bias")
DOCS = importlib.import_module("machine").DOCS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_more(write_all(tmp_path))


def test_recorded_runs_as_a_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "recorded.json"
    before = (DOCS / "published.md").read_bytes()
    recorded.main(["--data", str(folder), "--seeds", "1", "--no-docs", "--out", str(out)])
    assert (DOCS / "published.md").read_bytes() == before
    found = json.loads(out.read_text())
    assert str(folder) not in out.read_text()
    assert sum(each["rejected"] for each in found["sets"]) == 5
    rows = {(row["case"].split(",")[0], row["method"]): row for row in found["rows"]}
    assert len(found["rows"]) == 10 * 5
    assert rows["EC-NAS", "additive"]["mape"] < 0.05
    assert rows["1 sweeps of one setting", "additive"]["mape"] < 0.02
    assert rows["GPU linear", "additive"]["bar"] == 0.055
    printed = capsys.readouterr().out
    for source in ("PedramBakh/EC-NAS-Bench", "PowerEstimationNetworks", "CDECatapult"):
        assert source in printed
    assert "| Raptorlake linear | 16 |  | 2 |" in printed
    assert "| EC-NAS, any 6 of 12 | paper | 6 | 6 | does not apply |" in printed
    assert "| network: conv |" in printed
    assert "| GPU: k80 | 6 |" in printed


@pytest.mark.parametrize("missing", ["ecnas_train.csv", "board_train.jsonl"])
def test_a_folder_without_the_data_is_refused(
    missing: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / missing).unlink()
    with pytest.raises(SystemExit):
        recorded.main(["--data", str(folder), "--no-docs"])
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"has no {missing}: name the folder" in said


def test_what_misses_is_named() -> None:
    rows = [
        {"case": "a", "repeat": None, "method": method, "mape": mape}
        for method, mape in (("additive", 0.11), ("paper", None), ("roofline", 0.1))
    ]
    table = recorded.ratio_table(rows)
    assert "| a | – | 11.0 | 10.0 (roofline) | 1.10 | misses 1.03 |" in table
    rows[0]["mape"] = 0.102
    assert "misses" not in recorded.ratio_table(rows)


def test_bias_runs_as_a_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "bias.json"
    before = (DOCS / "accuracy.md").read_bytes()
    bias.main(["--sizes", "12", "--total", "24", "--no-docs", "--out", str(out)])
    assert (DOCS / "accuracy.md").read_bytes() == before
    one, many = json.loads(out.read_text())["rows"]
    assert (one["moments"], many["moments"], one["draws"]) == ("one", "many", 2)
    assert abs(many["bias"]) < 0.05
    assert "| one | 12 | 2 |" in capsys.readouterr().out


def test_made_up_rows_are_of_one_moment_or_of_many() -> None:
    assert len({row.when for row in bias.draw(5, 0, moments=False)}) == 1
    rows = bias.draw(5, 0, moments=True)
    assert len({row.timestamp for row in rows}) == 5
    ratios = [row.energy_j / bias.price(row.layers) for row in rows]
    assert all(0.85 < ratio < 1.15 for ratio in ratios)
