"""Hugging Face: a tiny model that is really trained, stopped by its budget, and resumed."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("transformers") is None or find_spec("accelerate") is None:
    pytest.skip("pip install 'ampere-energy[huggingface]'", allow_module_level=True)

import torch
from transformers import Trainer, TrainingArguments

from ampere.errors import DataError
from ampere.gates.story import Reason
from ampere.integrations.huggingface import EnergyGate

from .gating import Machine, check_resumed, check_stopped
from .ranks import run_ranks

STEPS = 50
DATA = [{"x": torch.full((4,), float(i)), "labels": torch.zeros(1)} for i in range(20)]


@pytest.fixture(autouse=True)
def no_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder `tests/datasets` looks like a library of this name."""
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)


class Model(torch.nn.Module):
    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.machine = machine
        self.evaluated = 0

    def forward(self, x: Any, labels: Any) -> Any:
        if self.training:
            self.machine.work()
        else:
            self.evaluated += 1
        out = self.layer(x)
        return {"loss": (out - labels).square().mean(), "logits": out}


def trainer(folder: Path, model: Model, **settings: Any) -> Trainer:
    how: dict[str, Any] = {
        "num_train_epochs": 5,
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "logging_steps": 5,
        **settings,
    }
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=2,
        per_device_eval_batch_size=10,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        **how,
    )
    return Trainer(model, arguments, train_dataset=DATA, eval_dataset=DATA)


def gated(fit: Trainer, gate: Any) -> Trainer:
    fit.add_callback(EnergyGate(gate, log=fit.log))
    return fit


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_stopped_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = Machine(), Machine()
    model = Model(first)
    fit = gated(trainer(tmp_path, model), first.gate(27))
    fit.train()
    check_stopped(first, 27)
    stop = first.end.step
    assert first.heard.statuses[-1].steps == STEPS
    assert model.evaluated == 2 * 2  # after two whole epochs, and no more
    assert names(tmp_path) == {"checkpoint-10", "checkpoint-20", f"checkpoint-{stop}"}
    last = tmp_path / f"checkpoint-{stop}"
    assert f"go on with trainer.train(resume_from_checkpoint={str(last)!r})" in (
        capsys.readouterr().err
    )
    assert "ampere/simulated/spent_j" in json.dumps(fit.state.log_history)
    assert sum("loss" in row for row in fit.state.log_history) == stop // 5

    model = Model(second)
    fit = gated(trainer(tmp_path, model), second.gate(80))
    fit.train(resume_from_checkpoint=True)
    check_resumed(first, second, steps=STEPS)
    assert fit.state.global_step == STEPS
    assert model.evaluated == 3 * 2


def test_a_checkpoint_from_before_there_was_a_gate(tmp_path: Path) -> None:
    trainer(tmp_path, Model(Machine()), max_steps=10).train()
    machine = Machine()
    gate = machine.gate(100)
    gated(trainer(tmp_path, Model(machine)), gate).train(resume_from_checkpoint=True)
    assert gate.total_steps == gate.step_count == STEPS - 10
    assert machine.end.reason is Reason.FINISHED


def test_accumulated_batches_are_no_steps(tmp_path: Path) -> None:
    machine = Machine()
    gate = machine.gate(None)
    fit = trainer(tmp_path, Model(machine), gradient_accumulation_steps=2, save_strategy="no")
    gated(fit, gate).train()
    assert gate.total_steps == gate.step_count == fit.state.global_step == STEPS // 2
    assert names(tmp_path) <= {"runs"}


def test_saving_is_kept_in_reserve(tmp_path: Path) -> None:
    machine = Machine()

    class Dear(Trainer):
        def _save_checkpoint(self, *args: Any, **settings: Any) -> None:
            machine.work(4.0, 2.0)
            super()._save_checkpoint(*args, **settings)

        def evaluate(self, *args: Any, **settings: Any) -> Any:
            machine.work(3.0, 1.0)
            return super().evaluate(*args, **settings)

    plain = trainer(tmp_path, Model(machine), save_strategy="steps", save_steps=5)
    fit = Dear(plain.model, plain.args, train_dataset=DATA, eval_dataset=DATA)
    gate = machine.gate(60)
    gated(fit, gate).train()
    check_stopped(machine, 60)
    assert gate.state_dict()["reserve_j"] == 6.0  # 1.5 times, without what evaluation took


def test_what_takes_the_gate_away_is_told(tmp_path: Path) -> None:
    machine = Machine()
    gated(trainer(tmp_path, Model(machine)), machine.gate(27)).train()
    fit = trainer(tmp_path, Model(machine), restore_callback_states_from_checkpoint=True)
    with pytest.raises(DataError, match="restore_callback_states_from_checkpoint"):
        gated(fit, Machine().gate(80)).train(resume_from_checkpoint=True)


def test_two_processes_stop_at_the_same_step_and_go_on(tmp_path: Path) -> None:
    first, second = run_ranks("framework_ranks", "huggingface", str(tmp_path))
    assert first["made"] == second["made"]
    assert first["made"][1] == 40
    assert first["ends"] == [first["made"][0], 40.0]
    assert second["ends"] == []
