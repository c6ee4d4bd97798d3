"""skorch: a fit that stops inside its budget, and goes on from its folder.

    callback = EnergyGate(ampere.gate(budget="2Wh"), "checkpoint")
    net = NeuralNetClassifier(Module, max_epochs=10, callbacks=[callback])
    net.partial_fit(X, y, epochs=callback.resume(net))   # all of them, if there is nothing there

The folder holds parameters, the optimiser's state, the history of whole epochs and the joules that
were spent. A resumed run begins the epoch anew in which it was stopped.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from skorch.callbacks import Callback
    from skorch.history import History
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] != "skorch":
        raise
    raise ModuleNotFoundError(
        "ampere.integrations.skorch needs skorch: pip install 'ampere-energy[skorch]'",
        name="skorch",
    ) from None

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import read_whole, write_whole
from ampere.integrations.gated import Gated, GatedRun

if TYPE_CHECKING:
    from skorch import NeuralNet

PARAMETERS, OPTIMIZER, HISTORY, STATE = "params.pt", "optimizer.pt", "history.json", "gate.json"


class EnergyGate(Callback):  # type: ignore[misc]  # Any, where skorch is not installed
    """Gates `net.fit` and `net.partial_fit`; put it last among the callbacks.

    Args:
        gate: What decides; without `steps`, they are counted by the batches of an epoch.
        folder: Where the run is saved when it is stopped.
    """

    def __init__(self, gate: Gated, folder: str | os.PathLike[str]) -> None:
        self.gate = gate
        self.folder = folder
        self._run = GatedRun(gate)
        self._steps = self._epochs = self._asked = 0
        self._counting: Any = None

    def resume(self, net: NeuralNet) -> int:
        """Load what the folder holds, if anything; returns how many epochs are left.

        Raises:
            DataError: What is there was not written by this callback.
        """
        path = Path(self.folder) / STATE
        if not net.initialized_:
            net.initialize()
        if path.exists():
            fields = Fields(parse_json(read_whole(path)), str(path))
            net.load_params(**self._files(), f_history=self._file(HISTORY))
            self._run.restore(fields.inner("gate").row)
        self._asked = max(0, int(net.max_epochs) - len(net.history))
        return self._asked

    def on_train_begin(self, net: NeuralNet, **data: Any) -> None:
        """Begin to count the steps that the optimiser really makes."""
        self._steps = self._epochs = 0
        self._run.begin()
        optimizer = getattr(net.optimizer_, "optimizer", net.optimizer_)  # inside Accelerate's
        self._counting = optimizer.register_step_post_hook(self._count)

    def on_epoch_begin(self, net: NeuralNet, dataset_train: Any = None, **data: Any) -> None:
        """Foresee as many steps as there are batches, and after an epoch as many as it had."""
        left = (self._asked or int(net.max_epochs)) - self._epochs
        if self._epochs:
            self._run.foresee(left * self._steps // self._epochs, self._steps)
            return
        try:
            batches = len(net.get_iterator(dataset_train, training=True))
        except TypeError:  # a stream has no length
            return
        self._run.foresee(left * batches)

    def on_batch_end(self, net: NeuralNet, training: bool = True, **batch: Any) -> None:
        """Save and stop where that has to be; batches of validation are no steps.

        Raises:
            KeyboardInterrupt: It has to stop; skorch ends a fit by it, and in no other way.
        """
        if training and self._run.reach(self._steps):
            hint = f"go on with epochs=callback.resume(net); it is saved in {self.folder}"
            self._run.stop(hint, lambda: self._write(net))
            raise KeyboardInterrupt

    def on_epoch_end(self, net: NeuralNet, **data: Any) -> None:
        """Joules into the history."""
        self._epochs += 1
        for name, value in self._run.figures("spent_j", "forecast_j").items():
            net.history.record(name.replace("/", "_"), value)

    def on_train_end(self, net: NeuralNet, **data: Any) -> None:
        """Tell the end."""
        self._counting.remove()
        self._asked = 0
        self._run.end()

    def _count(self, *of_the_step: Any) -> None:
        self._steps += 1

    def _write(self, net: NeuralNet) -> None:
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        net.save_params(**self._files())
        History(net.history[:-1]).to_file(self._file(HISTORY))  # the last is of a part of an epoch
        state = {"gate": self._run.state()}
        write_whole(self._file(STATE), json.dumps(state, sort_keys=True) + "\n")

    def _files(self) -> dict[str, str]:
        return {"f_params": self._file(PARAMETERS), "f_optimizer": self._file(OPTIMIZER)}

    def _file(self, name: str) -> str:
        return str(Path(self.folder) / name)
