"""Sinks of trackers, with the libraries themselves: what was told can be read there again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ampere.errors import DataError
from ampere.gates.sinks.registry import open_sink
from ampere.gates.story import Reason
from gates.stories import end, start, status, story, tell

LAST = {"spent_j": 360.0, "forecast_j_low": 600.0, "forecast_j_high": 650.0, "budget_j": 1000.0}


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tell(open_sink("tensorboard", tmp_path), story())
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    spent = board.Scalars("ampere/spent_j")
    assert [(each.step, each.value) for each in spent[:2]] == [(10, 36.0), (20, 72.0)]
    for name, value in LAST.items():
        assert board.Scalars(f"ampere/{name}")[-1].value == value
    (run,) = board.Tensors("ampere/run")
    assert b"joules are modelled from CPU time, not measured" in run.tensor_proto.string_val[0]
    (ended,) = board.Tensors("ampere/end")
    assert ended.tensor_proto.string_val == [b"finished"]


class TestMlflow:
    @pytest.fixture(autouse=True)
    def mlflow(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # for the test's own looks
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
        return pytest.importorskip("mlflow")

    def test_a_run_of_its_own(self, tmp_path: Path, mlflow: Any) -> None:
        tell(open_sink("mlflow:experiment=frugal", tmp_path), story())
        client = mlflow.MlflowClient((tmp_path / "mlruns").as_uri())
        home = client.get_experiment_by_name("frugal").experiment_id
        (run,) = client.search_runs([home])
        assert run.info.status == "FINISHED"
        for name, value in LAST.items():
            assert run.data.metrics[f"ampere.{name}"] == value
        spent = client.get_metric_history(run.info.run_id, "ampere.spent_j")
        assert [each.step for each in spent] == [*range(10, 101, 10), 100]
        assert run.data.tags["ampere.provenance"] == "modelled"
        assert run.data.tags["ampere.end"] == "finished"

    def test_the_run_that_is_active_stays_open(
        self, tmp_path: Path, mlflow: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "theirs").as_uri())
        with mlflow.start_run() as active:
            tell(open_sink("mlflow", None), [start(), status(1), end(Reason.BUDGET)])
            assert mlflow.active_run() is not None
            found = mlflow.MlflowClient().get_run(active.info.run_id)
            assert found.info.status == "RUNNING"
            assert found.data.metrics["ampere.spent_j"] == 360.0

    def test_a_place_that_cannot_be_is_an_error_that_the_gate_can_say(self, tmp_path: Path) -> None:
        (tmp_path / "mlruns").write_text("")
        with pytest.raises(Exception, match="mlruns"):
            open_sink("mlflow", tmp_path).start(start())


class TestWandb:
    """In processes of their own: the one that writes for it lives as long as they do."""

    def run(self, folder: Path, *lines: str) -> None:
        pytest.importorskip("wandb")
        code = [
            "import wandb",
            "from ampere.gates.sinks.registry import open_sink",
            "from gates.stories import end, start, status, story, tell",
            *lines,
        ]
        folders = {
            place: str(folder / "wandb-home")
            for place in ("WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR")
        }
        path = os.pathsep.join(each for each in sys.path if each)
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(code)],
            cwd=folder,
            env={**os.environ, **folders, "WANDB_ERROR_REPORTING": "false", "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr

    def test_a_run_of_its_own_offline(self, tmp_path: Path) -> None:
        self.run(tmp_path, "tell(open_sink('wandb', 'run'), story())", "assert wandb.run is None")
        (kept,) = (tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb")
        data = kept.read_bytes()
        for name in (b"ampere/spent_j", b"ampere/forecast_j_high", b"modelled", b"finished"):
            assert name in data

    def test_the_run_that_is_active_keeps_its_own_steps(self, tmp_path: Path) -> None:
        self.run(
            tmp_path,
            "with wandb.init(mode='offline', project='theirs') as run:",
            "    sink = open_sink('wandb', None)",
            "    tell(sink, [start(), status(1)])",
            "    run.log({'loss': 0.5}, step=0)",
            "    tell(sink, [end()])",
            "    assert wandb.run is run",
            "    assert run.summary['ampere/end'] == 'finished'",
            "    run.log({'loss': 0.4}, step=1)",
            "    assert run.step == 1",
        )


def test_opentelemetry(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    with pytest.raises(DataError, match="set a MeterProvider"):
        open_sink("opentelemetry", tmp_path)
    reader = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider([reader]))  # once in a process
    tell(open_sink("opentelemetry", None), [start(spent_j=10.0), status(1), status(2), end()])
    told = json.loads(reader.get_metrics_data().to_json())
    (scope,) = told["resource_metrics"][0]["scope_metrics"]
    found = {metric["name"]: metric for metric in scope["metrics"]}
    assert found["hw.energy"]["unit"] == "J"
    (point,) = found["hw.energy"]["data"]["data_points"]
    assert point["value"] == pytest.approx(350.0)  # since this process began
    assert found["hw.energy"]["data"]["is_monotonic"]
    attributes = point["attributes"]
    assert (attributes["hw.id"], attributes["hw.type"]) == ("cpu", "cpu")
    assert attributes["ampere.provenance"] == "modelled"
    assert found["hw.power"]["data"]["data_points"][0]["value"] == 6.0
    assert found["ampere.forecast.high"]["data"]["data_points"][0]["value"] == 650.0


def test_no_tracker_is_loaded_until_it_is_opened() -> None:
    code = (
        "import sys; from ampere.gates.sinks.registry import sink_names; sink_names();"
        "print([each for each in ('tensorboard', 'mlflow', 'wandb', 'opentelemetry', 'torch')"
        " if each in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
