"""Published energies and the benchmark on them, with data sets of a few rows in their layout."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from ampere.core.layers import Role
from ampere.meters.base import Provenance
from ampere_paper.published import cases, datasets
from published import write_all

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
recorded: Any = importlib.import_module("recorded")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Every joule follows from sizes, but for faults."""
    return write_all(tmp_path)


def test_networks_are_sums_of_layers_and_repeats_are_averaged(folder: Path) -> None:
    data = datasets.ecnas(folder)
    assert len(data.rows) == 12
    assert data.rejected == 1
    assert data.repeat == pytest.approx(0.01)
    row = data.rows[1]
    conv, dense = row.layers
    assert (conv.count, dict(conv.widths), conv.kind.attributes) == (
        2, {"in": 16, "out": 16}, {"k": 3, "side": 4},
    )  # fmt: skip
    assert conv.features.flops == 6 * 256 * 144 * 16**2
    assert (conv.kind.role, dense.kind.role) == (Role.HIDDEN, Role.LAST)
    assert row.energy_j == pytest.approx(10 + 2 * 144 * 16**2 / 1e4)
    assert row.repeats == 2
    assert row.spread == pytest.approx(0.01 * 2**0.5)
    assert row.provenance is Provenance.RECORDED


def test_mlps_of_one_setting_and_one_grid(folder: Path) -> None:
    data = datasets.broadwell(folder)
    cells = {(row.layers[0].count, row.layers[0].widths["width"]) for row in data.rows}
    assert cells == set(itertools.product((1, 2, 3, 7), (16, 32, 48)))
    assert max(row.energy_j for row in data.rows) < 900
    ((known, asked),) = cases.by_depth(data, (1, 3), 0.03).splits
    assert len(known) == 4
    assert len(asked) == 8


def test_faults_of_the_meter_are_rejected(folder: Path) -> None:
    linear = datasets.raptorlake(folder, "linear")
    assert (len(linear.rows), linear.rejected, linear.repeat) == (16, 2, None)
    (layer,) = datasets.raptorlake(folder, "conv").rows[1].layers
    assert layer.features.flops == 2 * (2 * 11 * 5 * 8 * 9 * 4**2)  # forward, weights' gradient
    assert layer.kind.attributes == {"side": 9, "k": 3, "stride": 2, "batch": 11}


def test_sweeps_are_in_order_and_differ_in_one_setting(folder: Path) -> None:
    conv, linear = datasets.sweeps(folder)
    assert [row.layers[0].kind.attributes["epochs"] for row in conv.rows] == list(range(1, 9))
    assert conv.rows[0].energy_j_per_step == pytest.approx(51.05)
    assert dict(linear.rows[0].layers[0].widths) == {"in": 16, "out": 32}
    assert linear.rows[0].layers[0].features.parameter_bytes == 4 * 3 * 16 * 32  # 3 steps
    assert len(cases.alternating([conv, linear]).splits) == 1  # the other one is too short


def test_runs_as_a_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "recorded.json"
    docs = importlib.import_module("machine").DOCS / "published.md"
    before = docs.read_bytes()
    recorded.main(["--data", str(folder), "--seeds", "1", "--no-docs", "--out", str(out)])
    assert docs.read_bytes() == before
    found = json.loads(out.read_text())
    assert str(folder) not in out.read_text()
    assert sum(each["rejected"] for each in found["sets"]) == 3
    rows = {(row["case"].split(",")[0], row["method"]): row for row in found["rows"]}
    assert len(found["rows"]) == 21
    assert rows["EC-NAS", "additive"]["mape"] < 0.05
    assert rows["1 sweeps of one setting", "additive"]["mape"] < 0.02
    printed = capsys.readouterr().out
    assert "PedramBakh/EC-NAS-Bench" in printed
    assert "| Raptorlake linear | 16 |  | 2 |" in printed


def test_a_folder_without_the_data_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        recorded.main(["--data", str(tmp_path), "--no-docs"])
    assert "ecnas_train.csv" in capsys.readouterr().err


def test_seconds_stand_beside_the_rows(tmp_path: Path) -> None:
    data = datasets.ecnas(write_all(tmp_path, timed=True))
    assert len(data.times_s) == len(data.rows)
    # 3 epochs after the first one are 30 steps, so all 4 are 40.
    joules = [row.energy_j for row in data.rows]
    assert list(data.times_s) == pytest.approx([energy_j / 40 for energy_j in joules])
    assert not any(math.isfinite(row.time_s) for row in data.rows)
    assert set(datasets.broadwell(tmp_path).times_s) == {None}
