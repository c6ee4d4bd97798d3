"""What tests of frameworks run as each of several processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from integrations.gating import Machine

STEPS = 40


def accelerate(folder: Path) -> dict[str, Any]:
    from accelerate import Accelerator

    from ampere.integrations.accelerate import EnergyGate

    made, ends, weights = [], [], []
    for budget_j in (15.0, 80.0):
        machine = Machine()
        accelerator = Accelerator(cpu=True)
        torch.manual_seed(0)
        model, optimizer = accelerator.prepare(layer := torch.nn.Linear(4, 1), sgd(layer))
        gate = EnergyGate(machine.gate(budget_j, steps=STEPS), accelerator)
        done = made[-1] if made else 0
        if done:
            accelerator.load_state(str(folder / "stopped"))
        with gate:
            while done < STEPS:
                machine.work()
                accelerator.backward(model(torch.randn(2, 4)).square().mean())
                optimizer.step()
                optimizer.zero_grad()
                done += 1
                if not gate.step():
                    gate.save(folder / "stopped")
                    break
        made.append(done)
        weights.append(accelerator.unwrap_model(model).weight.tolist())
        ends += [end.spent_j for end in machine.heard.ends]
        accelerator.free_memory()
        accelerator._custom_objects.clear()
    return {"made": made, "ends": ends, "weights": weights}


def sgd(layer: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(layer.parameters(), lr=0.01)


class Model(torch.nn.Module):
    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.machine = machine

    def forward(self, x: Any, labels: Any) -> Any:
        self.machine.work()
        out = self.layer(x)
        return {"loss": (out - labels).square().mean(), "logits": out}


def huggingface(folder: Path) -> dict[str, Any]:
    import transformers.trainer
    from transformers import Trainer, TrainingArguments

    from ampere.integrations.huggingface import EnergyGate

    transformers.trainer.is_datasets_available = lambda: False  # type: ignore[attr-defined]
    rows = [{"x": torch.full((4,), float(i)), "labels": torch.zeros(1)} for i in range(2 * STEPS)]
    made, ends = [], []
    for budget_j in (15.0, 80.0):
        machine = Machine()
        arguments = TrainingArguments(
            output_dir=str(folder),
            per_device_train_batch_size=1,
            num_train_epochs=1,
            save_strategy="no",
            use_cpu=True,
            ddp_backend="gloo",
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(Model(machine), arguments, train_dataset=rows)
        trainer.add_callback(EnergyGate(machine.gate(budget_j), log=trainer.log))
        trainer.train(resume_from_checkpoint=bool(made))
        made.append(trainer.state.global_step)
        ends += [end.spent_j for end in machine.heard.ends]
    return {"made": made, "ends": ends}


def lightning(folder: Path) -> dict[str, Any]:
    from lightning.pytorch import LightningModule, Trainer
    from torch.utils.data import DataLoader, TensorDataset

    from ampere.integrations.lightning import FILE, EnergyGate

    class Module(LightningModule):
        def __init__(self, machine: Machine) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)
            self.machine = machine

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            self.machine.work()
            return self.layer(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return sgd(self)

    made, ends = [], []
    for budget_j in (15.0, 80.0):
        machine = Machine()
        trainer = Trainer(
            accelerator="cpu",
            devices=2,
            strategy="ddp",
            max_epochs=1,
            default_root_dir=folder,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            logger=False,
            callbacks=[EnergyGate(machine.gate(budget_j))],
        )
        data = DataLoader(TensorDataset(torch.randn(2 * STEPS, 4)), batch_size=1)
        trainer.fit(Module(machine), data, ckpt_path=folder / FILE if made else None)
        made.append(trainer.global_step)
        ends += [end.spent_j for end in machine.heard.ends]
    return {"made": made, "ends": ends}


if __name__ == "__main__":
    cases = {each.__name__: each for each in (accelerate, huggingface, lightning)}
    seen = cases[sys.argv[1]](Path(sys.argv[2]))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    print(json.dumps(seen))
