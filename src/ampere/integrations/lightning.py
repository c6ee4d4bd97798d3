"""Lightning: a fit that stops inside its budget, and goes on from its checkpoint.

    gate = ampere.gate(model, (3, 32, 32), budget="2Wh", profile="laptop.ampere")
    trainer = L.Trainer(max_epochs=10, callbacks=[EnergyGate(gate)])
    trainer.fit(module, loader)

Stopped, it says which checkpoint to give as `ckpt_path`: in it are the joules that were spent.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] != "lightning":
        raise
    raise ModuleNotFoundError(
        "ampere.integrations.lightning needs Lightning: pip install 'ampere-energy[lightning]'",
        name="lightning",
    ) from None

from ampere.gates.story import Reason
from ampere.integrations.gated import Gated, GatedRun

FILE = "ampere-stop.ckpt"


class EnergyGate(Callback):  # type: ignore[misc]  # Any, where Lightning is not installed
    """Gates `trainer.fit`; put it last among the callbacks, so that it saves what they did.

    Args:
        gate: What decides; without `steps`, the trainer's are taken.
        checkpoint: Where the run is saved when it is stopped: a file. By default one named
            `ampere-stop.ckpt` beside the trainer's own checkpoints.
    """

    def __init__(self, gate: Gated, checkpoint: str | os.PathLike[str] | None = None) -> None:
        self._run = GatedRun(gate)
        self._path = None if checkpoint is None else Path(checkpoint)
        self._changed = ExitStack()  # puts back what was changed of the trainer

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin to count: validation that comes before training is a part of the job."""
        self._run.begin()
        self._save = trainer.save_checkpoint
        self._change(trainer, "save_checkpoint", self._save_metered)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Now it is known which step comes next, and how many."""
        total, at = _steps(trainer, pl_module), trainer.global_step
        self._run.foresee(None if total is None else total - at, at)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, *of_the_batch: Any
    ) -> None:
        """Count it if the optimiser made a step; save and stop where that has to be."""
        stop = self._run.reach(trainer.global_step)
        if figures := self._run.figures():
            for logger in trainer.loggers:
                logger.log_metrics(figures, step=trainer.global_step)
        if stop and trainer.global_step != _steps(trainer, pl_module):  # it would end anyway
            self._stop(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """An epoch that was stopped has not ended: nobody shall save, judge or schedule by it.

        Raises:
            StopIteration: It was stopped; Lightning's own way to leave its loops.
        """
        if self._run.stopped:
            raise StopIteration

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Tell that it failed."""
        self._end(Reason.FAILED)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Tell the end."""
        if stage == "fit":
            self._end(None)

    def state_dict(self) -> dict[str, Any]:
        """For the trainer's checkpoints."""
        return dict(self._run.state())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """From the trainer's checkpoint."""
        self._run.restore(state_dict)

    def _stop(self, trainer: Trainer) -> None:
        path = self._path or _folder(trainer) / FILE
        hint = f"go on with trainer.fit(..., ckpt_path={str(path)!r})"
        self._run.stop(hint, lambda: self._save(path))
        trainer.should_stop = True
        # Else it would validate once more, or not stop before these many epochs or steps.
        self._change(trainer, "limit_val_batches", 0)
        self._change(trainer.fit_loop, "min_epochs", 0)
        self._change(trainer.fit_loop.epoch_loop, "min_steps", None)

    def _end(self, reason: Reason | None) -> None:
        self._changed.close()
        self._run.end(reason)

    def _save_metered(self, *args: Any, **settings: Any) -> None:
        with self._run.saving():
            self._save(*args, **settings)

    def _change(self, owner: Any, name: str, value: Any) -> None:
        self._changed.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)


def _steps(trainer: Trainer, module: LightningModule) -> int | None:
    """Of the optimisers in the whole fit, as `global_step` counts them; None if nobody knows."""
    if not module.automatic_optimization:  # it may step several optimisers a batch, or none
        return trainer.max_steps if trainer.max_steps > 0 else None
    steps = trainer.estimated_stepping_batches
    return int(steps) if steps < float("inf") else None


def _folder(trainer: Trainer) -> Path:
    own = getattr(trainer.checkpoint_callback, "dirpath", None)
    return Path(own or trainer.default_root_dir)
