"""Experiments by name, and what every one of them has."""

from __future__ import annotations

import pytest

from ampere_paper.experiments import EXPERIMENTS, choose
from ampere_paper.experiments.experiment import Experiment


def test_choosing_keeps_the_order() -> None:
    assert [each.name for each in choose(["table1", "fig2"])] == ["fig2", "table1"]


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_every_experiment_says_what_it_is(experiment: Experiment) -> None:
    assert experiment.title and experiment.claim.endswith(".")
    assert experiment.figures
    assert EXPERIMENTS[experiment.name] is experiment


def test_an_experiment_lacks_nothing() -> None:
    class Half(Experiment):
        def measure(self, lab: object) -> None: ...

    with pytest.raises(TypeError, match=r"draw.*sentence.*table"):
        Half()
