"""What a loader took: shown, as JSON, and as part of a job."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from ampere.core.fingerprint import Fingerprint
from ampere.evaluation.measured_loader import MeasuredLoader
from ampere.meters.base import Provenance
from ampere.profiles.jobs.job import Loading
from ampere.records.repeats import USUAL
from ampere.sittings.loading import LoaderBursts

BURSTS = LoaderBursts(0.04, 0.01, 1.5, 0.02, 4, 200, 2, 32)
MEASURED = MeasuredLoader(
    "data.py:make", BURSTS, Fingerprint({"device": "vm"}), Provenance.MODELLED, "2026-11-18"
)


def test_what_json_says_is_read_back_as_the_loading_of_a_job() -> None:
    row = json.loads(json.dumps(MEASURED.to_json()))
    assert Loading.from_json(row) == MEASURED.loading
    assert row["idle_j_per_batch"] == pytest.approx(0.015)
    assert row["error"] == pytest.approx(math.hypot(0.01, USUAL))
    low, high = row["energy_j_interval"]
    assert low < 0.04 < high


def test_the_page_says_whose_joules_these_are() -> None:
    text = repr(MEASURED)
    assert text.startswith("data.py:make: 40.0 mJ and 10.0 ms a batch of 32 samples")
    assert "2 workers, with their joules" in text
    assert "joules are modelled from CPU time, not measured" in text
    alone = repr(replace(MEASURED, bursts=replace(BURSTS, workers=0, samples=None)))
    assert "a batch\n" in alone and "the training process loads by itself" in alone


def test_others_that_were_accepted_are_doubt() -> None:
    busy = replace(MEASURED, bursts=replace(BURSTS, busy=0.5))
    assert busy.error > 0.5 > MEASURED.error
    assert "others used 50.0 %" in busy.to_json()["warnings"][0]
    assert MEASURED.to_json()["warnings"] == []
