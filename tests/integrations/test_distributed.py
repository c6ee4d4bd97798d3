"""Several processes: one meters, all stop at the same step. Real processes, torch's gloo."""

from __future__ import annotations

from typing import Any

import pytest

from ampere.integrations.distributed import share

from .gating import Machine
from .ranks import run_ranks


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What two processes saw, which ran all cases one after the other."""
    return run_ranks("plain_ranks", str(tmp_path_factory.mktemp("ranks")))


def test_all_stop_at_the_same_step_and_go_on(ranks: list[Any]) -> None:
    first, second = (rank["stopped_and_resumed"] for rank in ranks)
    assert first["made"] == second["made"]
    assert 0.8 * 27 <= first["made"] <= 27
    assert first["weights"] == second["weights"]
    assert first["rest"] == second["rest"] == 60 - first["made"]
    assert first["ends"] == [first["made"], 60.0]  # the joules of both parts
    assert second["ends"] == []  # nobody metered there


def test_one_that_only_warns_stops_nobody(ranks: list[Any]) -> None:
    assert [rank["warned"]["made"] for rank in ranks] == [20, 20]


def test_where_one_cannot_start_nobody_does(ranks: list[Any]) -> None:
    first, second = (rank["refused"]["error"] for rank in ranks)
    assert first.startswith("the run is not started: ")
    assert second == f"rank 0 does not start: {first}"


def test_alone_it_is_the_gate_itself() -> None:
    gate = Machine().gate(10.0)
    assert share(gate) is gate
