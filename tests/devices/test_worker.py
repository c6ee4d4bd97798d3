"""The worker's answers: whatever goes wrong is told by the type of the error, not by its words."""

from __future__ import annotations

import json

import pytest

from ampere.devices.worker import Worker, answer
from ampere.errors import DeviceError, MeterFault, ModelError


class OutOfMemoryError(RuntimeError):
    """As torch calls it on GPUs."""


class Failing(Worker):
    """Every request for a description raises this."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def describe(self) -> dict[str, object]:
        raise self.error


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (MemoryError(), "OutOfMemory"),
        (OutOfMemoryError("CUDA has none left"), "OutOfMemory"),
        (RuntimeError("MPS backend out of memory (allocated: 5 GB)"), "OutOfMemory"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
            "OutOfMemory",
        ),
        (RuntimeError("CUDA error: an illegal memory access was found"), "MeasurementFailed"),
        (ValueError("sizes differ"), "MeasurementFailed"),
        (ModelError("no such layer"), "ModelError"),
        (MeterFault("it did not move"), "MeterFault"),
        (DeviceError("another worker is there"), "DeviceError"),
    ],
)
def test_errors_are_answered_by_their_type(error: Exception, name: str) -> None:
    told = answer(Failing(error), json.dumps({"do": "describe"}))
    assert told["error"] == name
    assert str(error).partition("\n")[0] in told["message"]


@pytest.mark.parametrize("text", ["two\nlines", "", "\n"])
def test_messages_are_one_line(text: str) -> None:
    told = answer(Failing(RuntimeError(text)), json.dumps({"do": "describe"}))
    assert "\n" not in told["message"]
    assert told["message"].startswith("RuntimeError: ")


def test_what_it_cannot_do_is_a_failure_and_not_the_end() -> None:
    worker = Worker()
    for do in ("dance", "__init__", "__class__", "steps", "meter"):
        told = answer(worker, json.dumps({"id": 5, "do": do}))
        assert (told["id"], told["error"]) == (5, "DeviceError")
    assert answer(worker, json.dumps({"id": 6, "do": "unload", "handle": 7})) == {"id": 6}


def test_messages_can_be_written_and_have_an_end() -> None:
    told = answer(Failing(ModelError("caf\udce9 " + "x" * 100_000)), json.dumps({"do": "describe"}))
    assert told["message"].startswith("caf? xxx")
    assert len(told["message"]) <= 1000
