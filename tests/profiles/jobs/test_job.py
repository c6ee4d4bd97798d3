"""Jobs: how many steps and batches they are, and what a loader's file says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.errors import DataError
from ampere.meters.base import Provenance
from ampere.profiles.jobs.job import Count, Job, Loading, read_loading

ROW = {
    "energy_j_per_batch": 0.2,
    "time_s_per_batch": 0.05,
    "idle_j_per_batch": 0.1,
    "error": 0.1,
    "workers": 2,
    "samples_per_batch": 32,
    "provenance": "modelled",
    "device_name": "vm",
}


@pytest.mark.parametrize(
    ("job", "count"),
    [
        (Job(steps=7), Count(7, 7, 0)),
        (Job(steps=7, accumulate=4), Count(7, 28, 0)),
        (Job(epochs=3, samples=95), Count(30, 30, 0)),
        (Job(epochs=3, samples=95, accumulate=4), Count(9, 30, 0)),
        (Job(epochs=3, samples=95, validation_samples=21), Count(30, 30, 9, validations=3)),
        (Job(steps=7, validation_samples=20, validations=5), Count(7, 7, 10, validations=5)),
        (Job(epochs=1, samples=100, ranks=3), Count(4, 4, 0, ranks=3)),
        (
            Job(epochs=2, samples=80, validation_samples=40, ranks=4),
            Count(4, 4, 2, ranks=4, validations=2),
        ),
    ],
)
def test_a_job_is_counted_for_each_rank(job: Job, count: Count) -> None:
    assert job.count(10) == count


@given(
    samples=st.integers(1, 10_000),
    epochs=st.integers(1, 9),
    accumulate=st.integers(1, 9),
    ranks=st.integers(1, 9),
    batch=st.integers(1, 99),
)
def test_every_sample_is_in_a_batch_and_every_batch_in_a_step(
    samples: int, epochs: int, accumulate: int, ranks: int, batch: int
) -> None:
    job = Job(epochs=epochs, samples=samples, accumulate=accumulate, ranks=ranks)
    count = job.count(batch)
    assert count.batches * batch * ranks >= epochs * samples
    assert count.steps * accumulate >= count.batches >= count.steps


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "give one of them"),
        ({"steps": 1, "epochs": 1, "samples": 1}, "give one of them"),
        ({"epochs": 1}, "go together"),
        ({"steps": 1, "accumulate": 0}, "accumulate of 0 is no job"),
        ({"steps": 1, "accumulate": True}, "accumulate of True is no job"),
        ({"steps": 1, "ranks": 10**7}, "ranks of 10000000 is no job"),
        ({"steps": 1, "validations": 2}, "validations need validation_samples"),
        ({"steps": 1, "validation_samples": 2}, "say how often it is validated"),
    ],
)
def test_a_job_that_cannot_be_is_refused(arguments: dict[str, int], says: str) -> None:
    with pytest.raises(DataError, match=says):
        Job(**arguments)  # type: ignore[arg-type]


def test_more_batches_than_anybody_runs_are_refused() -> None:
    with pytest.raises(DataError, match="batches, more than"):
        Job(epochs=10**9, samples=10**9).count(1)


def test_a_loader_that_was_metered_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "loader.json"
    path.write_text(json.dumps(ROW))
    modelled = Provenance.MODELLED
    assert read_loading(path) == Loading(0.05, 0.2, 0.1, 0.1, 2, 32, "vm", modelled)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"energy_j_per_batch": -1}, "energy_j_per_batch must be"),
        ({"time_s_per_batch": None}, "time_s_per_batch"),
        ({"provenance": "guessed"}, "provenance must be one of"),
        ({"workers": 0.5}, "workers must be a whole number"),
    ],
)
def test_a_file_of_something_else_is_refused_in_one_line(
    changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "loader.json"
    path.write_text(json.dumps({**ROW, **changes}))
    with pytest.raises(DataError, match=says) as error:
        read_loading(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)
    assert "ampere measure --loader" in str(error.value)


@pytest.mark.parametrize(("time_s", "energy_j"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0)])
def test_loading_that_cannot_be_is_refused(time_s: float, energy_j: float) -> None:
    with pytest.raises(DataError, match="cannot be"):
        Loading(time_s, energy_j)


def test_batches_of_another_size_take_in_proportion() -> None:
    loading = Loading(0.5, 2.0, idle_j=1.0, samples=32).of_batch(16)
    assert (loading.time_s, loading.energy_j, loading.idle_j) == (0.25, 1.0, 0.5)
    assert Loading(0.5).of_batch(16) == Loading(0.5)
