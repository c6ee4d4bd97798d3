"""How long a run will take."""

from __future__ import annotations

from ampere_paper.experiments import choose
from ampere_paper.forecast import expected_s
from ampere_paper.lab.plans import FULL


def test_time_is_expected_where_it_is_spent() -> None:
    expected = expected_s(FULL, choose(["fig6", "fig7", "fig8"]))
    assert expected["fig6"] < 120  # nobody waits for simulated devices
    assert expected["fig7"] > 600  # the 5-layer CNNs of this machine
    assert expected_s(FULL, choose(["table1"]))["table1"] > expected["fig8"] > 600


def test_what_is_known_takes_no_time() -> None:
    names = ["fig2", "fig8"]
    assert sum(expected_s(FULL, choose(names), names).values()) < 10
