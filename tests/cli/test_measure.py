"""`ampere measure`: a model itself under the meter."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampere.core.workloads import ModelSpec, Workload
from ampere.records.measurement import Measurement
from cli.runner import answer, check_bad_line, last_line, run
from fakes import FakeDevice


def test_measure(net: Path, device: FakeDevice) -> None:
    row = answer(run("measure", "net.py:Net", "--json"))
    wanted = {"energy_j_per_step", "idle_j_per_step", "time_s_per_step", "spread", "repeats"}
    assert wanted | {"provenance", "device", "device_name"} <= set(row)
    assert Measurement.from_json(row).energy_j_per_step == pytest.approx(0.02, rel=0.02)
    text = run("measure", "net.py:Net").stdout
    assert text.startswith("net.py:Net: 2")
    assert "joules are simulated, not measured" in text


def test_a_model_that_cannot_be_metered_is_an_error(net: Path, device: FakeDevice) -> None:
    model = Workload(model=ModelSpec("net.py:Net"))
    device._fails_to_load = [model]
    result = run("measure", "net.py:Net")
    assert (result.exit_code, result.stdout) == (1, "")
    assert last_line(result) == "error: the model could not be metered: out of memory"


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("measure net.py:Net --loss net.py:raises", 1, "is called with what the model returns"),
        ("measure net.py:Net --device simulated:xavier --meter cpu", 1, "leave yours out"),
        ("measure net.py:Net --precision 0", 2, "no share between 0 and 1"),
        ("measure", 2, "give either MODEL or --loader"),
        ("measure net.py:Net --loader net.py:three", 2, "leave MODEL and training out"),
        ("measure --loader net.py:three --device simulated:xavier", 2, "--device local"),
        ("measure --loader net.py:three --meter nvml", 1, "no joules of the processor"),
        ("measure --loader net.py:three --accept-busy", 1, "it must return a DataLoader"),
    ],
)
@pytest.mark.usefixtures("files")
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)


LOADER = """
import time

from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        end = time.process_time() + 0.004
        while time.process_time() < end:
            pass
        return i


def make_loader():
    return DataLoader(Slow(), batch_size=4, num_workers=1, persistent_workers=True)
"""


def test_the_joules_of_a_loaders_workers_are_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow_data.py").write_text(LOADER)
    line = ("measure", "--loader", "slow_data.py:make_loader", "--accept-busy", "--quick", "--json")
    row = answer(run(*line, "--meter", "cpu:idle_w=1,active_w=1", "--threads", 1))
    assert (row["workers"], row["samples_per_batch"], row["provenance"]) == (1, 4, "modelled")
    # 4 samples of 4 ms in a process that is not the training's
    assert row["energy_j_per_batch"] - row["idle_j_per_batch"] >= 0.9 * 4 * 0.004
    assert row["idle_j_per_batch"] == pytest.approx(row["time_s_per_batch"], rel=0.2)
