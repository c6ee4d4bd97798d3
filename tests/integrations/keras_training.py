"""What `test_keras` runs in processes of their own, one for each backend."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import torch

from ampere.gates.story import Reason
from ampere.integrations.keras import EnergyGate
from integrations.gating import Machine, check_stopped

BATCHES, EPOCHS = 10, 5
DATA = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)


class Costing(keras.callbacks.Callback):
    """Batches cost joules; what is compiled cannot ask for them itself."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.validations = 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.machine.work()

    def on_test_begin(self, logs: Any = None) -> None:
        self.validations += 1


def model_of(accumulated: int | None = None) -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(gradient_accumulation_steps=accumulated)
    model.compile(optimizer, "mse")
    return model


def fit(model: keras.Model, data: Any, *callbacks: Any, **settings: Any) -> Any:
    how = {"epochs": EPOCHS, "verbose": 0, **settings}
    if isinstance(data, np.ndarray):
        how |= {"y": data.sum(1), "batch_size": 10, "validation_data": (data, data.sum(1))}
    return model.fit(data, callbacks=list(callbacks), **how)


def resumed(folder: Path) -> None:
    first, second = Machine(), Machine()
    model, costs = model_of(), Costing(first)
    callback = EnergyGate(first.gate(27), folder / "stopped")
    assert callback.resume(model) == 0
    fit(model, DATA, costs, callback)
    check_stopped(first, 27)
    assert first.heard.statuses[-1].steps == BATCHES * EPOCHS
    assert costs.validations == 2  # of the two whole epochs
    assert "_should_eval" not in vars(model)
    weights = model.get_weights()

    again, costs = model_of(), Costing(second)
    callback = EnergyGate(second.gate(100), folder / "stopped")
    epoch = callback.resume(again)
    assert epoch == 2
    assert all(np.array_equal(a, b) for a, b in zip(weights, again.get_weights(), strict=True))
    assert int(again.optimizer.iterations) == first.end.step
    history = fit(again, DATA, costs, callback, initial_epoch=epoch)
    assert second.heard.starts[0].spent_j == first.end.spent_j
    assert second.end.reason is Reason.FINISHED
    assert second.spent_j == (EPOCHS - epoch) * BATCHES  # the third epoch anew
    assert second.end.spent_j == first.spent_j + second.spent_j
    assert second.end.step == second.heard.statuses[-1].steps
    assert costs.validations == EPOCHS - epoch
    assert history.history["ampere/simulated/spent_j"][-1] > first.spent_j


def accumulated(folder: Path) -> None:
    machine = Machine()
    gate = machine.gate(None)
    fit(model_of(4), DATA, Costing(machine), EnergyGate(gate, folder))
    assert gate.step_count == gate.total_steps == BATCHES * EPOCHS // 4
    assert machine.end.reason is Reason.FINISHED


class Stream(torch.utils.data.IterableDataset[Any]):
    """Rows of which nobody says how many there are."""

    def __iter__(self) -> Any:
        return ((row, row.sum()) for row in DATA)


def streamed(folder: Path) -> None:
    """How long an epoch is, is known after the first one; what cannot be written is told."""
    machine = Machine()
    gate = machine.gate(None)
    (folder / "file").write_text("")
    data = torch.utils.data.DataLoader(Stream(), batch_size=10)
    fit(model_of(), data, Costing(machine), EnergyGate(gate, folder / "file"))
    assert gate.step_count == gate.total_steps == BATCHES * EPOCHS
    assert machine.end.reason is Reason.FINISHED


if __name__ == "__main__":
    cases = {each.__name__: each for each in (resumed, accumulated, streamed)}
    cases[sys.argv[1]](Path(sys.argv[2]))
    print(keras.backend.backend(), sys.argv[1], "ok")
