"""Hugging Face: a Trainer that stops inside its budget, and goes on from its checkpoint.

    gate = ampere.gate(budget="2Wh")
    trainer = Trainer(model, args, train_dataset=data)
    trainer.add_callback(EnergyGate(gate, log=trainer.log))
    trainer.train()

Stopped, it has saved a checkpoint: `trainer.train(resume_from_checkpoint=True)` goes on from there,
with the joules that were spent.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

try:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.trainer_callback import ExportableState
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] != "transformers":
        raise
    raise ModuleNotFoundError(
        "ampere.integrations.huggingface needs transformers: pip install"
        " 'ampere-energy[huggingface]'",
        name="transformers",
    ) from None

from ampere.core.types import Json
from ampere.errors import DataError
from ampere.integrations.gated import Gated, GatedRun


class EnergyGate(TrainerCallback, ExportableState):  # type: ignore[misc]  # Any, if not installed
    """Gates `trainer.train`.

    Args:
        gate: What decides; without `steps`, the trainer's are taken.
        log: `trainer.log`, for joules among what is logged.
    """

    def __init__(
        self, gate: Gated | None = None, log: Callable[[dict[str, float]], None] | None = None
    ) -> None:
        self._run = None if gate is None else GatedRun(gate)
        self._log = log
        self._saving = ExitStack()

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: Any,
    ) -> None:
        """Begin to count, or go on with what the checkpoint says."""
        run = self._gated
        if state.global_step:
            run.restore(_saved(state, type(self).__name__))
        # A checkpoint from before there was a gate knows no such callback, and saving would fail.
        state.stateful_callbacks.setdefault(type(self).__name__, self.state())
        run.begin()
        run.foresee(state.max_steps - state.global_step, state.global_step)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: Any,
    ) -> None:
        """Count a step of the optimiser; save and stop where that has to be."""
        stop = self._gated.reach(state.global_step)
        if control.should_log and self._log is not None:
            if figures := self._gated.figures():
                self._log(figures)
            control.should_log = True  # logging takes it for done
        if stop and not control.should_training_stop:  # it may have come to its end
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            self._gated.stop(f"go on with trainer.train(resume_from_checkpoint={str(folder)!r})")
            control.should_training_stop = control.should_save = True
            control.should_evaluate = False
        self._expect(control.should_save and not control.should_evaluate)

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: Any,
    ) -> None:
        """What follows is saving, if anything."""
        self._expect(control.should_save)

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: Any,
    ) -> None:
        """It has saved."""
        self._saving.close()

    def on_epoch_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: Any,
    ) -> None:
        """An epoch that was stopped is neither evaluated nor saved once more."""
        if self._gated.stopped:
            control.should_evaluate = control.should_save = False
        self._expect(control.should_save and not control.should_evaluate)

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **others: Any,
    ) -> None:
        """Tell the end."""
        self._saving.close()
        self._gated.end()

    def state(self) -> dict[str, Any]:
        """For the trainer's checkpoints."""
        return {"args": {}, "attributes": {"gate_state": self._gated.state()}}

    @property
    def _gated(self) -> GatedRun:
        if self._run is None:
            raise DataError(
                "EnergyGate has no gate: pass one; restore_callback_states_from_checkpoint=True"
                " takes it away, and is not needed: a gate finds its state by itself"
            )
        return self._run

    def _expect(self, saves: bool) -> None:
        """The next thing that happens is saving, until `on_save`."""
        self._saving.close()
        if saves:
            self._saving.enter_context(self._gated.saving())


def _saved(state: TrainerState, name: str) -> dict[str, Json]:
    """What `EnergyGate.state` told when the checkpoint was written."""
    kept = state.stateful_callbacks.get(name) or {}
    first = kept[0] if isinstance(kept, list) else kept
    return dict(first.get("attributes", {}).get("gate_state", {}))
