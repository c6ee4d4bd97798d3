"""Everything that reads what others wrote, fed with what nobody would write; hours: `make fuzz`."""

from __future__ import annotations

import os
import time

import pytest

from security.fuzzing.fuzz import corpus_of, fuzz, in_a_folder_of_its_own, try_input
from security.fuzzing.targets import TARGETS, Target

SECONDS = 4.0


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_valid_inputs_are_read(target: Target) -> None:
    with in_a_folder_of_its_own():
        for data in target.seeds():
            assert try_input(target.run, data, slow=True) is None or target.name == "answers"


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_what_was_found_once_is_read_or_refused(target: Target) -> None:
    with in_a_folder_of_its_own():
        target.seeds()
        for data in corpus_of(target.name):
            try_input(target.run, data, slow=True)


def test_nothing_breaks() -> None:
    seed = int(os.environ.get("AMPERE_FUZZ_SEED", time.time()))
    tally = fuzz(SECONDS, seed, [], keep=None)
    assert not tally.broken, f"seed {seed}: {tally}"
