"""Published energies, with data sets of a few rows in their layout."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import pytest

from ampere.core.layers import Role
from ampere.errors import DataError
from ampere.meters.base import Provenance
from ampere_paper.published import board, cases, datasets, ecnas, gpus, intel
from published import board_row, write_all, write_more

RUN = board_row("mlp 1x8", "sgd", 1.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Every joule follows from sizes, but for faults."""
    return write_more(write_all(tmp_path))


def test_networks_are_sums_of_layers_and_repeats_are_averaged(folder: Path) -> None:
    data = ecnas.read(folder)
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
    data = intel.broadwell(folder)
    cells = {(row.layers[0].count, row.layers[0].widths["width"]) for row in data.rows}
    assert cells == set(itertools.product((1, 2, 3, 7), (16, 32, 48)))
    assert max(row.energy_j for row in data.rows) < 900


def test_faults_of_the_meter_are_rejected(folder: Path) -> None:
    linear = intel.raptorlake(folder, "linear")
    assert (len(linear.rows), linear.rejected, linear.repeat) == (16, 2, None)
    (layer,) = intel.raptorlake(folder, "conv").rows[1].layers
    assert layer.features.flops == 2 * (2 * 11 * 5 * 8 * 9 * 4**2)  # forward, weights' gradient
    assert layer.kind.attributes == {"side": 9, "k": 3, "stride": 2, "batch": 11}


def test_sweeps_are_in_order_and_differ_in_one_setting(folder: Path) -> None:
    conv, linear = intel.sweeps(folder)
    assert [row.layers[0].kind.attributes["epochs"] for row in conv.rows] == list(range(1, 9))
    assert conv.rows[0].energy_j_per_step == pytest.approx(51.05)
    assert dict(linear.rows[0].layers[0].widths) == {"in": 16, "out": 32}
    assert linear.rows[0].layers[0].features.parameter_bytes == 4 * 3 * 16 * 32  # 3 steps
    assert len(cases.alternating([conv, linear]).splits) == 1  # the other one is too short


def test_seconds_stand_beside_the_rows(tmp_path: Path) -> None:
    data = ecnas.read(write_all(tmp_path, timed=True))
    assert len(data.times_s) == len(data.rows)
    # 3 epochs after the first one are 30 steps, so all 4 are 40.
    joules = [row.energy_j for row in data.rows]
    assert list(data.times_s) == pytest.approx([energy_j / 40 for energy_j in joules])
    assert not any(math.isfinite(row.time_s) for row in data.rows)
    assert set(intel.broadwell(tmp_path).times_s) == {None}


def test_settings_of_the_board_are_averaged_and_keep_their_names(folder: Path) -> None:
    data = board.read(folder)
    assert (len(data.rows), len(data.tags), data.rejected) == (12, 12, 1)
    assert data.repeat == pytest.approx(0.02)
    row, tags = data.rows[3], data.tags[3]
    assert tags == {"arch": "mlp 2x8", "network": "mlp", "optimiser": "Adam and kin", "batch": "16"}
    assert [layer.count for layer in row.layers] == [1, 2, 1]
    assert row.energy_j == pytest.approx(5 + 2 * 64e6 * 2 / 1e8)
    assert (row.repeats, row.provenance) == (2, Provenance.RECORDED)
    assert not math.isfinite(row.time_s)


def test_an_optimiser_that_nobody_knows_is_its_own_family() -> None:
    assert [board.family_of(name) for name in ("rprop", "rmsprop", "lion")] == [
        "plain", "scaled", "lion",
    ]  # fmt: skip


def test_a_data_set_for_each_gpu(folder: Path) -> None:
    first, second = gpus.read(folder)
    assert (first.name, second.name) == ("GPU linear, k80", "GPU linear, V100")
    assert (len(first.rows), first.rejected, second.rejected) == (12, 0, 1)
    row = second.rows[0]
    assert row.time_s_per_step is None  # seconds stand for joules, and only once
    assert row.energy_j == pytest.approx(1e-4 + 1e-9 * 64 * 64 * 8)
    assert first.repeat == pytest.approx(0.05 * (2 / math.pi) ** 0.5)
    assert set(map(str, first.tags)) == {"{'GPU': 'k80'}"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: not JSON"),
        ("[]", "line 2: a row is an object"),
        (json.dumps({"energy_j_per_step": 1.0}), "line 2: layers is missing"),
        (json.dumps({**RUN, "arch": 3}), "line 2: arch must be a text"),
    ],
)
def test_lines_that_are_no_rows_are_named(folder: Path, line: str, said: str) -> None:
    file = folder / board.FILE
    file.write_text(f"{json.dumps(RUN)}\n{line}\n")
    with pytest.raises(DataError, match="line 2:") as refused:
        board.read(folder)
    assert f"{file} {said}" in str(refused.value)


def test_missing_files_are_one_line(folder: Path) -> None:
    (folder / gpus.FILE).unlink()
    datasets.refuse_incomplete(folder)  # `ampere reproduce` does not look at it
    with pytest.raises(DataError, match=r"has no gpu_linear_train_time.jsonl: name the folder"):
        datasets.refuse_incomplete(folder, datasets.ALL_FILES)


def test_pools_are_forward_alone(folder: Path) -> None:
    data = intel.raptorlake_pools(folder)
    assert (len(data.rows), data.rejected) == (1, 0)
    (layer,) = data.rows[0].layers
    side, k, stride, batch = (
        layer.kind.attributes[name] for name in ("side", "k", "stride", "batch")
    )
    windows = ((side - k) // stride + 1) ** 2
    assert layer.features.flops == batch * layer.widths["channels"] * windows * k**2
    assert layer.features.parameter_bytes == 0
