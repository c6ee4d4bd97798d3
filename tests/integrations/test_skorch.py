"""skorch: a tiny model that is really trained, stopped by its budget, and resumed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("skorch") is None:
    pytest.skip("pip install 'ampere-energy[skorch]'", allow_module_level=True)

import numpy as np
import torch
from skorch import NeuralNetRegressor
from skorch.callbacks import Checkpoint

from ampere.gates.story import Reason
from ampere.integrations.skorch import EnergyGate

from .gating import Machine, check_stopped

BATCHES, EPOCHS = 8, 5  # of 10 batches two are for validation


class Layer(torch.nn.Module):
    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.machine = machine
        self.evaluated = 0

    def forward(self, rows: Any) -> Any:
        if self.training:
            self.machine.work()
        else:
            self.evaluated += 1
        return self.layer(rows)


DATA = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
TARGET = DATA.sum(1, keepdims=True)


def net_of(machine: Machine, *callbacks: Any, kind: Any = NeuralNetRegressor, **settings: Any):
    return kind(
        Layer,
        module__machine=machine,
        max_epochs=EPOCHS,
        batch_size=10,
        optimizer=torch.optim.Adam,
        callbacks=list(callbacks),
        verbose=0,
        **settings,
    )


def test_stopped_and_resumed(tmp_path: Path) -> None:
    first, second = Machine(), Machine()
    callback = EnergyGate(first.gate(21), tmp_path / "stopped")
    net = net_of(first, Checkpoint(dirname=str(tmp_path / "own")), callback)
    assert callback.resume(net) == EPOCHS
    net.partial_fit(DATA, TARGET, epochs=callback.resume(net))
    check_stopped(first, 21)
    assert first.heard.statuses[-1].steps == BATCHES * EPOCHS
    assert net.module_.evaluated == 2 * 2  # of the two whole epochs

    callback = EnergyGate(second.gate(80), tmp_path / "stopped")
    net = net_of(second, callback)
    left = callback.resume(net)
    assert (left, len(net.history)) == (EPOCHS - 2, 2)
    state = net.optimizer_.state_dict()["state"][0]
    assert state["step"] == first.spent_j
    net.partial_fit(DATA, TARGET, epochs=left)
    assert second.heard.starts[0].spent_j == first.end.spent_j
    assert second.end.reason is Reason.FINISHED
    assert second.spent_j == left * BATCHES  # the third epoch anew
    assert second.end.spent_j == first.spent_j + second.spent_j
    assert second.end.step == second.heard.statuses[-1].steps == second.end.spent_j
    assert len(net.history) == EPOCHS
    assert net.history[-1, "ampere_simulated_spent_j"] > first.spent_j


def test_accumulated_batches_are_no_steps(tmp_path: Path) -> None:
    class Accumulating(NeuralNetRegressor):
        def train_step(self, batch: Any, **params: Any) -> Any:
            step = self.train_step_single(batch, **params)
            if len(self.history[-1]["batches"]) % 4 == 0:
                self.optimizer_.step()
                self.optimizer_.zero_grad()
            return step

    machine = Machine()
    gate = machine.gate(None)
    net_of(machine, EnergyGate(gate, tmp_path), kind=Accumulating).fit(DATA, TARGET)
    assert gate.step_count == gate.total_steps == EPOCHS * BATCHES / 4
    assert machine.end.reason is Reason.FINISHED


def test_where_it_cannot_be_saved_it_stops_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine()
    (tmp_path / "file").write_text("")
    net_of(machine, EnergyGate(machine.gate(21), tmp_path / "file")).fit(DATA, TARGET)
    check_stopped(machine, 21)
    assert "ampere: the run could not be saved: " in capsys.readouterr().err
