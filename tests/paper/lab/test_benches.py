"""Benches and groups of them, by name."""

from __future__ import annotations

import pytest

from ampere.errors import DataError
from ampere_paper.lab.benches import BENCHES, bench_names


def test_benches_and_groups_by_name() -> None:
    assert bench_names([]) == list(BENCHES)
    assert bench_names(["xavier", "threads1"]) == ["threads1", "xavier"]
    assert bench_names(["simulated"]) == ["iphone", "oppo", "server", "tx2", "xavier"]
    assert bench_names(["local", "tx2"]) == ["threads1", "threads2", "no-onednn", "tx2"]
    with pytest.raises(DataError, match="unknown device 'pixel': use local, simulated, threads1"):
        bench_names(["pixel"])
