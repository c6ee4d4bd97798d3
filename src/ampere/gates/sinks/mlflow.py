"""MLflow: the numbers of a run as metrics, its facts as tags (`mlflow-skinny` is enough)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

from ampere.gates.sinks.base import facts, in_run, numbers, seconds
from ampere.gates.story import End, Reason, Start, Status

_FOLDERS = "MLFLOW_ALLOW_FILE_STORE"
_ENDS = {Reason.FAILED: "FAILED", Reason.REFUSED: "KILLED", Reason.BUDGET: "KILLED"}


class MlflowSink:
    """The run that is active, which stays open; else one of its own, kept in RUN/mlruns.

    Where `mlflow.set_tracking_uri`, `MLFLOW_TRACKING_URI` or the setting `uri` says another place,
    it is kept there.
    """

    name: ClassVar[str] = "mlflow"
    library: ClassVar[str] = "MLflow"

    def __init__(self, run: Path | None, uri: str = "", experiment: str = "ampere") -> None:
        import mlflow

        active = None if uri else mlflow.active_run()
        if not uri and (active or mlflow.is_tracking_uri_set()):
            uri = mlflow.get_tracking_uri()
        self._uri = uri or in_run(run, "mlruns").absolute().as_uri()
        self._experiment = experiment
        self._own = active is None
        self._client: Any = None
        self._id: str = "" if active is None else active.info.run_id

    def start(self, start: Start) -> None:
        """The facts as tags, of a run of its own if none is active."""
        self._client = _client(self._uri)
        if self._own:
            known = self._client.get_experiment_by_name(self._experiment)
            home = known.experiment_id if known else None
            home = home or self._client.create_experiment(self._experiment)
            self._id = self._client.create_run(home, run_name=start.name or None).info.run_id
        for name, value in facts(start).items():
            if value not in (None, ""):
                self._client.set_tag(self._id, f"ampere.{name}", value)

    def status(self, status: Status) -> None:
        """Metrics, at the step."""
        self._log(numbers(status), status.step, status.time)

    def end(self, end: End) -> None:
        """The last metric, why it ended, and its own run is closed."""
        self._log({"spent_j": end.spent_j}, end.step, end.time)
        self._client.set_tag(self._id, "ampere.end", end.reason.value)
        if self._own:
            self._client.set_terminated(self._id, _ENDS.get(end.reason, "FINISHED"))

    def _log(self, values: dict[str, float], step: int, time: str) -> None:
        from mlflow.entities import Metric

        when_ms = round(1000 * seconds(time))
        metrics = [Metric(f"ampere.{name}", value, when_ms, step) for name, value in values.items()]
        self._client.log_batch(self._id, metrics=metrics)


def _client(uri: str) -> Any:
    """Folders are all that `mlflow-skinny` can write by itself; newer ones want to be told so."""
    import mlflow

    asked = os.environ.get(_FOLDERS)
    if uri.startswith("file:"):
        os.environ[_FOLDERS] = "true"
    try:
        return mlflow.MlflowClient(uri)
    finally:
        os.environ.pop(_FOLDERS, None)
        if asked is not None:
            os.environ[_FOLDERS] = asked
