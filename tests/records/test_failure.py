"""Failures: a cause to decide by, from errors by their type and from rows by a key."""

from __future__ import annotations

import pytest

from ampere.errors import (
    AmpereError,
    Crashed,
    DataError,
    Hung,
    MeasurementFailed,
    MeterError,
    MeterFault,
    ModelError,
    OutOfMemory,
)
from ampere.records.failure import Cause, Failure


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OutOfMemory, Cause.MEMORY),
        (Crashed, Cause.CRASH),
        (Hung, Cause.HANG),
        (ModelError, Cause.MODEL),
        (MeterError, Cause.METER),
        (MeterFault, Cause.METER),
        (MeasurementFailed, Cause.OTHER),
    ],
)
def test_the_type_of_an_error_is_the_cause(error: type[AmpereError], cause: Cause) -> None:
    failure = Failure.of(error("no memory of that"))  # words decide nothing
    assert failure == Failure("no memory of that", cause)
    assert str(failure) == "no memory of that"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("out of memory", Cause.MEMORY),
        ("it was killed, most likely for lack of memory", Cause.MEMORY),
        ("RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried", Cause.MEMORY),
        ("it crashed with SIGSEGV", Cause.OTHER),
    ],
)
def test_rows_without_a_cause_are_read_by_their_text(text: str, cause: Cause) -> None:
    assert Failure.from_json(text) == Failure(text, cause)


@pytest.mark.parametrize("cause", Cause)
def test_a_cause_that_is_given_is_taken_whatever_the_text_says(cause: Cause) -> None:
    assert Failure.from_json("out of memory", cause.value).cause is cause


@pytest.mark.parametrize("cause", ["cosmic rays", 5, ["memory"], {}])
def test_an_unknown_cause_is_refused_with_those_that_are_known(cause: object) -> None:
    with pytest.raises(DataError, match=r"cause .* is unknown: use one of memory, crash") as caught:
        Failure.from_json("it broke", cause)
    assert "\n" not in str(caught.value)
