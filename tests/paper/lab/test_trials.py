"""Trials, made of the journals that docs/ keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ampere.core.layers import network_identity
from ampere.errors import NotCovered
from ampere_paper.lab.benches import BENCHES
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.plans import FULL
from ampere_paper.lab.trials import trial_of, trials_of

from ..small import KEPT, data_of


@pytest.fixture(scope="module")
def lab() -> Iterator[Laboratory]:
    with Laboratory(KEPT, FULL.on(["tx2"]), refit=True) as opened:
        yield opened


@pytest.mark.slow
def test_a_trial_scores_as_the_kept_data_say(lab: Laboratory) -> None:
    (trial,) = trials_of(lab, ["lstm"])
    (row,) = [
        row for row in data_of(KEPT, "fig8") if (row["bench"], row["family"]) == ("tx2", "lstm")
    ]
    score = trial.score()
    assert list(score) == list(row)
    for key in ("bench", "title", "family", "provenance", "models", "measurements"):
        assert score[key] == row[key]
    assert score["mape"]["repeat"] == row["mape"]["repeat"]  # no fit has a part in it
    assert score["mape"]["flops"] == pytest.approx(row["mape"]["flops"])
    assert trial.mape(trial.profile.fit) == pytest.approx(score["mape"]["additive"])


@pytest.mark.slow
def test_members_that_were_profiled_are_not_unseen(lab: Laboratory) -> None:
    trial = trial_of(lab, BENCHES["tx2"], "lstm")
    profiled = {network_identity(row.layers) for row in trial.networks}
    assert profiled.isdisjoint(network_identity(layers) for layers, _ in trial.unseen)
    assert [energy_j for _, energy_j in trial.unseen] == [
        result.energy_j for result in trial.evaluation.results
    ]


@pytest.mark.slow
def test_a_trial_is_made_once(lab: Laboratory) -> None:
    assert trial_of(lab, BENCHES["tx2"], "lstm") is trial_of(lab, BENCHES["tx2"], "lstm")


def test_a_family_that_no_bench_has(lab: Laboratory) -> None:
    with pytest.raises(NotCovered, match="none of these devices has resnet in its plan"):
        trials_of(lab, ["resnet"])
