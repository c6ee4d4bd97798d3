"""Lightning: a tiny model that is really trained, stopped by its budget, and resumed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("lightning") is None:
    pytest.skip("pip install 'ampere-energy[lightning]'", allow_module_level=True)

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

from ampere.errors import DataError
from ampere.gates.story import Reason
from ampere.integrations.lightning import FILE, EnergyGate

from .gating import Machine, check_resumed, check_stopped
from .ranks import run_ranks

pytestmark = [
    pytest.mark.filterwarnings("ignore::lightning.pytorch.utilities.warnings.PossibleUserWarning"),
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory:UserWarning"),
]
BATCHES = 10


class Module(LightningModule):
    """A linear layer whose steps cost joules, with a validation that may not be run at the end."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.layer = torch.nn.Linear(4, 1)
        self.trained = self.validated = 0

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.machine.work()
        self.trained += 1
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.validated += 1
        self.log("val_loss", self.layer(batch[0]).square().mean())

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters())
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": plateau, "monitor": "val_loss"},
        }


def loader(batches: int = BATCHES) -> Any:
    torch.manual_seed(0)
    return DataLoader(TensorDataset(torch.randn(2 * batches, 4)), batch_size=2)


def trainer(folder: Path, *callbacks: Any, **settings: Any) -> Trainer:
    how = {"max_epochs": 5, "logger": False, "num_sanity_val_steps": 0, **settings}
    return Trainer(
        accelerator="cpu",
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
        **how,
    )


def test_stopped_and_resumed(tmp_path: Path) -> None:
    first, second = Machine(), Machine()
    module = Module(first)
    saves = ModelCheckpoint(tmp_path, monitor="val_loss")
    fit = trainer(tmp_path, saves, EarlyStopping("val_loss"), EnergyGate(first.gate(27)))
    fit.fit(module, loader(), loader(2))
    check_stopped(first, 27)
    assert module.trained == first.spent_j
    assert first.heard.statuses[-1].steps == 5 * BATCHES
    assert module.validated == 2 * 2  # after the first and the second epoch, and no more
    assert {path.name for path in tmp_path.iterdir()} == {FILE, Path(saves.best_model_path).name}

    again = Module(second)
    saves = ModelCheckpoint(tmp_path, monitor="val_loss")
    fit = trainer(tmp_path, saves, EarlyStopping("val_loss"), EnergyGate(second.gate(80)))
    fit.fit(again, loader(), loader(2), ckpt_path=tmp_path / FILE)
    check_resumed(first, second, steps=5 * BATCHES)
    assert module.trained + again.trained == fit.global_step == 5 * BATCHES
    assert again.validated == 3 * 2


def test_stopped_in_the_first_epoch_before_any_validation(tmp_path: Path) -> None:
    machine = Machine()
    module = Module(machine)
    settings = {"min_epochs": 3, "min_steps": 40}
    fit = trainer(tmp_path, EarlyStopping("val_loss"), EnergyGate(machine.gate(7)), **settings)
    fit.fit(module, loader(), loader(2))
    check_stopped(machine, 7)
    assert module.validated == 0
    assert (fit.limit_val_batches, fit.min_epochs, fit.min_steps) == (1.0, 3, 40)  # as they were
    assert fit.save_checkpoint.__func__ is Trainer.save_checkpoint


def test_accumulated_batches_are_no_steps(tmp_path: Path) -> None:
    machine = Machine()
    gate = machine.gate(None)
    fit = trainer(tmp_path, EnergyGate(gate), max_epochs=2, accumulate_grad_batches=4)
    fit.fit(Module(machine), loader(), loader(2))
    assert gate.total_steps == gate.step_count == fit.global_step == 6  # 4 + 4 + 2 batches, twice
    assert machine.end.reason is Reason.FINISHED


def test_joules_are_logged_with_their_origin(tmp_path: Path) -> None:
    machine, logger = Machine(), CSVLogger(tmp_path)
    fit = trainer(tmp_path, EnergyGate(machine.gate(100)), logger=logger, max_epochs=1)
    fit.fit(Module(machine), loader(), loader(2))
    logger.save()
    assert "ampere/simulated/spent_j" in (Path(logger.log_dir) / "metrics.csv").read_text()


def test_checkpoints_of_the_trainer_are_kept_in_reserve(tmp_path: Path) -> None:
    machine = Machine()

    class Writing(Module):
        def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
            self.machine.work(4.0, 2.0)

    gate = machine.gate(40)
    fit = trainer(tmp_path, ModelCheckpoint(tmp_path, every_n_train_steps=5), EnergyGate(gate))
    fit.fit(Writing(machine), loader(), loader(2))
    check_stopped(machine, 40)  # what the last checkpoint took among it


def test_a_failed_fit_says_so_and_a_gate_serves_several(tmp_path: Path) -> None:
    machine = Machine()

    class Failing(Module):
        def on_train_epoch_end(self) -> None:
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        trainer(tmp_path, EnergyGate(machine.gate(40))).fit(Failing(machine), loader(), loader(2))
    assert machine.end.reason is Reason.FAILED

    machine = Machine()
    with machine.gate(40) as gate:
        callback = EnergyGate(gate)
        for _ in range(2):
            trainer(tmp_path, callback, max_epochs=1).fit(Module(machine), loader(), loader(2))
        assert gate.step_count == 2 * BATCHES
    assert machine.end.spent_j == 2 * BATCHES
    with pytest.raises(DataError, match="make another one"):
        trainer(tmp_path, callback, max_epochs=1).fit(Module(machine), loader(), loader(2))


def test_two_processes_stop_at_the_same_step_and_go_on(tmp_path: Path) -> None:
    first, second = run_ranks("framework_ranks", "lightning", str(tmp_path))
    assert first["made"] == second["made"]
    assert first["made"][1] == 40
    assert first["ends"] == [first["made"][0], 40.0]
    assert second["ends"] == []
