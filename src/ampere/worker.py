"""The process that does the work: builds workloads, runs bursts of steps, reads the meter.

It speaks JSON lines on standard input and output, one answer a request, and ends with its input:

    {"do": "open", "meter": ..., "settings": ...}   -> {"framework": ..., "threads": ...}
    {"do": "load", "workload": ...}                 -> {"handle": 1, "features": [...]}
    {"do": "burst", "handle": 1, "steps": 20}       -> {"energy_j": ..., "time_s": ...}
    {"do": "unload", "handle": 1}                   -> {}

A crash, a hang or a lack of memory takes down this process and nothing else.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ampere.devices.device import Settings, Workload
from ampere.errors import AmpereError, MeterError
from ampere.meters import Meter, energy_between, open_meter

IDLE_STEP_S = 0.01


class Worker:
    """Answers requests; one method a request."""

    def __init__(self) -> None:
        self.meter: Meter | None = None
        self.settings = Settings()
        self.steps: dict[int, Callable[[], Any]] = {}

    def open(self, meter: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
        """Open the meter and put the settings into force."""
        from ampere.frameworks.torch.training import apply_settings

        self.settings = Settings(**settings)
        framework, threads = apply_settings(self.settings)
        self.meter = open_meter(meter["name"], **meter.get("settings", {}))
        return {
            "framework": framework,
            "threads": threads,
            "provenance": self.meter.read().provenance.value,
        }

    def load(self, workload: dict[str, Any]) -> dict[str, Any]:
        """Build a workload; its handle is how later requests name it."""
        handle = 1 + max(self.steps, default=0)
        wanted = Workload.from_json(workload)
        if wanted.stage == "idle":
            self.steps[handle] = lambda: time.sleep(IDLE_STEP_S)
            return {"handle": handle, "features": []}
        from ampere.frameworks.torch.counting import with_features
        from ampere.frameworks.torch.training import make_trainer

        stage = "step" if wanted.stage == "reference" else wanted.stage
        self.steps[handle] = make_trainer(wanted, self.settings).stage(stage)
        gc.unfreeze()  # cycles in what was unloaded since would otherwise stay for ever
        gc.collect()
        gc.freeze()  # what is loaded stays: later collections need not look at it
        features = [with_features(layer).features.to_json() for layer in wanted.layers]
        return {"handle": handle, "features": features}

    def burst(self, handle: int, steps: int) -> dict[str, Any]:
        """Run steps between two readings of the meter."""
        from ampere.frameworks.torch.training import synchronise

        if self.meter is None:
            raise MeterError("no meter is open")
        step = self.steps[handle]
        gc.disable()  # a collection inside a burst would be charged to whoever it hits
        try:
            synchronise(self.settings)
            before = self.meter.read()
            for _ in range(steps):
                step()
            synchronise(self.settings)
            after = self.meter.read()
        finally:
            gc.enable()
        energy_j, time_s = energy_between(before, after)
        return {"energy_j": energy_j, "time_s": time_s}

    def unload(self, handle: int) -> dict[str, Any]:
        """Forget a workload."""
        self.steps.pop(handle, None)
        return {}


def answer(worker: Worker, line: str) -> dict[str, Any]:
    """One request, one answer; whatever goes wrong becomes an answer too."""
    request = json.loads(line)
    try:
        action = getattr(worker, request.pop("do"))
        result: dict[str, Any] = action(**request)
        return result
    except AmpereError as error:
        return {"error": type(error).__name__, "message": str(error)}
    except MemoryError:
        return {"error": "MeasurementFailed", "message": "out of memory"}
    except Exception as error:
        text = (str(error).strip().splitlines() or [""])[0]
        return {"error": "MeasurementFailed", "message": f"{type(error).__name__}: {text}"}


def main() -> None:
    """Serve requests until standard input ends."""
    # Whatever a user's model prints must not end up between our answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    with contextlib.suppress(OSError):  # if memory runs out, this process is the one to go
        Path("/proc/self/oom_score_adj").write_text("1000")
    worker = Worker()
    for line in sys.stdin:
        answers.write(json.dumps(answer(worker, line)) + "\n")


if __name__ == "__main__":
    main()
