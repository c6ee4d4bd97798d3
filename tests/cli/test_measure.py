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
    ],
)
@pytest.mark.usefixtures("files")
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)
