"""Keras: a fit that stops inside its budget, and goes on from its folder.

    callback = EnergyGate(ampere.gate(budget="2Wh"), "checkpoint")
    first = callback.resume(model)        # 0 if there is nothing to go on from
    model.fit(x, y, epochs=10, initial_epoch=first, callbacks=[callback])

For Keras 3, whatever its backend. The folder holds weights, the optimiser's state, the epoch and
the joules that were spent. It takes the place of `BackupAndRestore`, which counts an epoch that was
stopped as complete. A resumed run begins the epoch anew in which it was stopped.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

try:
    import keras
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] != "keras":
        raise
    raise ModuleNotFoundError(
        "ampere.integrations.keras needs Keras: pip install 'ampere-energy[keras]'",
        name="keras",
    ) from None

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import read_whole, write_whole
from ampere.integrations.gated import Gated, GatedRun

WEIGHTS, STATE = "gate.weights.h5", "gate.json"


class EnergyGate(keras.callbacks.Callback):  # type: ignore[misc]  # Any, if not installed
    """Gates `model.fit`.

    Args:
        gate: What decides; without `steps`, those of Keras are taken where it knows them.
        folder: Where the run is saved.
        every_epoch: Save after each epoch, and not only when it is stopped: so it is known in time
            how much saving takes.
    """

    def __init__(
        self, gate: Gated, folder: str | os.PathLike[str], *, every_epoch: bool = True
    ) -> None:
        super().__init__()
        self._run = GatedRun(gate)
        self._folder = Path(folder)
        self._every_epoch = every_epoch
        self._batches = self._seen = 0  # of this fit before this epoch, and in it
        self._epoch = 0
        self._foreseen = False

    def resume(self, model: keras.Model) -> int:
        """Load what the folder holds, if anything; returns the epoch to go on with.

        Raises:
            DataError: What is there was not written by this callback.
        """
        path = self._folder / STATE
        if not path.exists():
            return 0
        fields = Fields(parse_json(read_whole(path)), str(path))
        epoch = fields.whole("epoch")
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        model.load_weights(self._folder / WEIGHTS)
        self._run.restore(fields.inner("gate").row)
        return epoch

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Begin to count."""
        self._batches, self._foreseen = 0, False
        self._run.begin()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """How many steps are to come is known with the first epoch, or after it."""
        self._epoch = epoch
        batches = self.params.get("steps") or self._seen
        if batches and not self._foreseen:
            self._foreseen = True
            left = batches * (self.params["epochs"] - epoch)
            self._run.foresee(self._steps(left), self._steps(self._batches))

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Count it if the optimiser made a step; save and stop where that has to be."""
        self._seen = batch + 1
        if not self._run.reach(self._steps(self._batches + self._seen)):
            return
        ended = self.params.get("steps") == self._seen
        if ended and self._epoch + 1 == self.params["epochs"]:
            return  # it would end anyway
        hint = f"go on with initial_epoch=callback.resume(model); it is saved in {self._folder}"
        self._run.stop(hint, lambda: self._write(self._epoch + ended))
        self.model.stop_training = True
        self.model._should_eval = lambda *of_the_epoch: False  # else it validates once more

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Joules into the logs, and so into the history; save if it was a whole epoch."""
        if logs is not None:
            logs.update(self._run.figures("spent_j", "forecast_j"))
        if not self._run.stopped:
            self._batches += self._seen
            if self._every_epoch:
                self._run.save(lambda: self._write(epoch + 1))

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Tell the end."""
        if "_should_eval" in vars(self.model):
            del self.model._should_eval
        self._run.end()

    def _write(self, epoch: int) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self._folder / f"new-{WEIGHTS}"
        self.model.save_weights(new, overwrite=True)
        os.replace(new, self._folder / WEIGHTS)
        state = {"epoch": epoch, "gate": self._run.state()}
        write_whole(self._folder / STATE, json.dumps(state, sort_keys=True) + "\n")

    def _steps(self, batches: int) -> int:
        """Of the optimiser, which may gather the gradients of several batches."""
        optimizer = self._model.optimizer  # `self.model` would fetch all weights from JAX
        return batches // (getattr(optimizer, "gradient_accumulation_steps", None) or 1)
