"""Accelerate: a loop of one's own, stopped by its budget and resumed; one process and two."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("accelerate") is None:
    pytest.skip("pip install 'ampere-energy[accelerate]'", allow_module_level=True)

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState

from ampere.gates.story import Reason
from ampere.integrations.accelerate import EnergyGate

from .gating import Machine, check_resumed, check_stopped
from .ranks import run_ranks

STEPS, ACCUMULATED = 40, 2


@pytest.fixture(autouse=True)
def fresh_state() -> Any:
    """What Accelerate knows of this process, it keeps for the next test."""
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    yield
    AcceleratorState._reset_state(True)
    GradientState._reset_state()


def train(machine: Machine, budget_j: float, folder: Path) -> int:
    """The steps that it has made so far, in both parts."""
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACCUMULATED)
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    model, optimizer = accelerator.prepare(model, optimizer)
    source = machine.gate(budget_j, steps=STEPS)
    gate = EnergyGate(source, accelerator)
    if folder.exists():
        accelerator.load_state(str(folder))
    with gate:
        while source.step_count < STEPS:
            with accelerator.accumulate(model):
                machine.work(0.5, 0.25)
                accelerator.backward(model(torch.randn(2, 4)).square().mean())
                optimizer.step()
                optimizer.zero_grad()
            if not gate.step():
                gate.save(folder)
                break
    state = optimizer.optimizer.state_dict()["state"][0]
    assert int(state["step"]) == source.step_count
    return source.step_count


def test_stopped_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = Machine(), Machine()
    made = train(first, 15.0, tmp_path / "stopped")
    check_stopped(first, 15.0)
    assert made == first.spent_j  # two batches of half a joule are a step
    assert "ampere: go on with accelerator.load_state(" in capsys.readouterr().err
    assert train(second, 80.0, tmp_path / "stopped") == STEPS
    check_resumed(first, second, STEPS)


def test_a_failed_loop_says_so() -> None:
    machine = Machine()
    gate = EnergyGate(machine.gate(10.0), Accelerator(cpu=True))
    with pytest.raises(ZeroDivisionError), gate:
        gate.step()
        raise ZeroDivisionError
    assert machine.end.reason is Reason.FAILED


def test_two_processes_stop_at_the_same_step_and_go_on(tmp_path: Path) -> None:
    first, second = run_ranks("framework_ranks", "accelerate", str(tmp_path))
    assert first["made"] == second["made"]
    assert first["weights"] == second["weights"]
    assert 0.8 * 15 <= first["made"][0] <= 15
    assert first["made"][1] == STEPS
    assert first["ends"] == [first["made"][0], float(STEPS)]
    assert second["ends"] == []
