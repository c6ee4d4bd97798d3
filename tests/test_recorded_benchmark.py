"""The benchmark on published energies, with data sets of a few rows in the published layout."""

from __future__ import annotations

import csv
import importlib
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ampere.layers import Role
from ampere.meters.meter import Provenance

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
recorded: Any = importlib.import_module("recorded")

CONV = {"in_channels": 4, "out_channels": 8, "k_size": 3, "stride": 1, "side_length": 8}
LINEAR = {"input_size": 16, "output_size": 32}


def write(folder: Path, name: str, rows: list[dict[str, object]]) -> None:
    with (folder / name).open("w", newline="") as file:
        columns = list(dict.fromkeys(column for row in rows for column in row))
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Every joule follows from sizes, but for faults."""
    layers: list[dict[str, object]] = []
    joules: list[dict[str, object]] = []
    for i in range(12):
        arch, convs, width = f"net{i}", 1 + i % 4, 8 * (1 + i % 3)
        row = {"arch": arch, "k": 3, "h": 4, "cin": width, "cout": width}
        macs = 144 * width**2
        layers.append({**row, "kind": "conv", "count": convs, "macs": macs})
        layers.append({**row, "kind": "dense", "k": 1, "h": 1, "count": 1, "macs": width**2})
        for factor in (0.99, 1.01):
            energy = factor * (10 + convs * macs / 1e4)
            joules.append({"arch": arch, "train_energy_J_per_step": energy})
    joules.append({"arch": "net0", "train_energy_J_per_step": 0.0})
    write(tmp_path, "ecnas_layers.csv", layers)
    write(tmp_path, "ecnas_train.csv", joules)

    run: dict[str, object] = {"data_size": 128, "epochs": 10, "batch_size": 32}
    mlps = [
        {**run, "n_hidden_linear": depth, "hidden_size": width, "energy_J": energy * factor}
        for depth, width in itertools.product((1, 2, 3, 7), (16, 32, 48, 256))
        for factor in (0.98, 1.02)
        for energy in [100 + depth * width**2 / 100]
    ]
    other = {"epochs": 50, "n_hidden_linear": 1, "hidden_size": 16, "energy_J": 900.0}
    write(tmp_path, "broadwell_mlp_train.csv", [*mlps, {**run, **other}])

    isolated: list[dict[str, object]] = []
    for i in range(16):
        sizes: dict[str, object] = {"batch": 10 + i, "cin": 4 + i % 5, "cout": 8, "valid": 1}
        sizes |= {"fwd_J": 1.0 + i % 5, "bwd_J": 2.0}
        isolated.append({**sizes, "kind": "conv", "side": 9.0, "k": 3.0, "stride": 2.0})
        isolated.append({**sizes, "kind": "linear"})
    isolated += [{**isolated[1], "valid": 0}, {**isolated[1], "bwd_J": 0.0}]
    isolated.append({**isolated[0], "kind": "pool", "bwd_J": 0.0})
    write(tmp_path, "raptorlake_layers_train.csv", isolated)

    swept: list[dict[str, object]] = []
    for value, repeat in itertools.product(range(1, 9), range(2)):
        values = {"data_size": 100, "batch_size": 40, "epochs": value, "value": value}
        energy = 50 + value + repeat / 10
        swept.append({**values, **CONV, "kind": "cnn", "varied": "epochs", "energy_J": energy})
        if value < 4:
            linear = {"kind": "linear", "varied": "epochs", "energy_J": energy}
            swept.append({**values, **LINEAR, **linear})
    write(tmp_path, "cpu_sweeps_train.csv", swept)
    return tmp_path


def test_networks_are_sums_of_layers_and_repeats_are_averaged(folder: Path) -> None:
    data = recorded.ecnas(folder)
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
    assert row.energy_j_per_step == pytest.approx(10 + 2 * 144 * 16**2 / 1e4)
    assert row.repeats == 2
    assert row.spread == pytest.approx(0.01 * 2**0.5)
    assert row.provenance is Provenance.RECORDED


def test_mlps_of_one_setting_and_one_grid(folder: Path) -> None:
    data = recorded.broadwell(folder)
    cells = {(row.layers[0].count, row.layers[0].widths["width"]) for row in data.rows}
    assert cells == set(itertools.product((1, 2, 3, 7), (16, 32, 48)))
    assert max(row.energy_j_per_step for row in data.rows) < 900
    ((known, asked),) = recorded.by_depth(data, (1, 3), 0.03).splits
    assert len(known) == 4
    assert len(asked) == 8


def test_faults_of_the_meter_are_rejected(folder: Path) -> None:
    linear = recorded.raptorlake(folder, "linear")
    assert (len(linear.rows), linear.rejected, linear.repeat) == (16, 2, None)
    (layer,) = recorded.raptorlake(folder, "conv").rows[1].layers
    assert layer.features.flops == 2 * (2 * 11 * 5 * 8 * 9 * 4**2)  # forward, weights' gradient
    assert layer.kind.attributes == {"side": 9, "k": 3, "stride": 2, "batch": 11}


def test_sweeps_are_in_order_and_differ_in_one_setting(folder: Path) -> None:
    conv, linear = recorded.sweeps(folder)
    assert [row.layers[0].kind.attributes["epochs"] for row in conv.rows] == list(range(1, 9))
    assert conv.rows[0].energy_j_per_step == pytest.approx(51.05)
    assert dict(linear.rows[0].layers[0].widths) == {"in": 16, "out": 32}
    assert linear.rows[0].layers[0].features.parameter_bytes == 4 * 3 * 16 * 32  # 3 steps
    assert len(recorded.alternating([conv, linear]).splits) == 1  # the other one is too short


def test_runs_as_a_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "recorded.json"
    docs = importlib.import_module("machine").DOCS
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
