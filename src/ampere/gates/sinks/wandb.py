"""Weights & Biases: the numbers of a run, offline unless asked otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ampere.gates.sinks.base import facts, in_run, numbers
from ampere.gates.story import End, Start, Status


class WandbSink:
    """The run that is active, which stays open; else one of its own, offline in RUN/wandb.

    `wandb sync` sends it later; `wandb:mode=online` sends it as it goes on.
    """

    name: ClassVar[str] = "wandb"
    library: ClassVar[str] = "Weights & Biases"

    def __init__(self, run: Path | None, project: str = "ampere", mode: str = "offline") -> None:
        import wandb

        self._own = wandb.run is None
        self._run: Any = wandb.run
        if self._own:
            folder = in_run(run, "wandb").parent
            self._settings = {"project": project, "mode": mode, "dir": str(folder)}

    def start(self, start: Start) -> None:
        """The facts, as its configuration."""
        import wandb

        if self._own:
            quiet = wandb.Settings(silent=True, console="off")
            self._run = wandb.init(name=start.name or None, settings=quiet, **self._settings)
        self._run.define_metric("ampere/step", hidden=True)
        self._run.define_metric("ampere/*", step_metric="ampere/step")
        known = {name: value for name, value in facts(start).items() if value not in (None, "")}
        self._run.config.update({"ampere": known}, allow_val_change=True)

    def status(self, status: Status) -> None:
        """One row, over the step of the training."""
        self._log(numbers(status), status.step)

    def end(self, end: End) -> None:
        """The last row, why it ended, and its own run is closed."""
        self._log({"spent_j": end.spent_j}, end.step)
        self._run.summary["ampere/end"] = end.reason.value
        if self._own:
            self._run.finish()

    def _log(self, values: dict[str, float], step: int) -> None:
        """In somebody else's run the row waits for his: a step of ours would be ahead of it."""
        row = {f"ampere/{name}": value for name, value in values.items()}
        self._run.log({**row, "ampere/step": step}, commit=self._own)
