"""Sweeps of a linear layer, made of the journals that docs/ keeps."""

from __future__ import annotations

import numpy as np
import pytest

from ampere.meters.base import Provenance
from ampere_paper.experiments.fig4 import BATCH, SIDE
from ampere_paper.lab.benches import BENCHES
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.plans import FULL
from ampere_paper.lab.sweeps import CHANNELS, Sweep, sweep

from ..small import KEPT, data_of


@pytest.fixture(scope="module")
def swept() -> Sweep:
    with Laboratory(KEPT, FULL.on(["oppo"]), refit=True) as lab:
        return sweep(lab, BENCHES["oppo"], SIDE, BATCH)


def test_it_takes_what_the_kept_data_say(swept: Sweep) -> None:
    (row,) = [row for row in data_of(KEPT, "fig4") if row["bench"] == "oppo"]
    assert list(swept.widths) == row["widths"]
    assert swept.energy_j.tolist() == row["energy_j"]
    assert swept.provenance is Provenance.SIMULATED


def test_widths_go_from_one_to_all_channels_and_scale_from_0_to_1(swept: Sweep) -> None:
    assert (swept.widths[0], swept.widths[-1]) == (1, CHANNELS)
    assert swept.at(np.array([1, CHANNELS])).tolist() == [[0.0], [1.0]]
    assert swept.flops.tolist() == sorted(swept.flops) and swept.flops[0] > 0


def test_a_process_goes_through_the_chosen_rows(swept: Sweep) -> None:
    last = len(swept.widths) - 1
    chosen = [0, last // 2, last]
    process = swept.fit(chosen)
    assert process.x.tolist() == swept.at(np.array([swept.widths[i] for i in chosen])).tolist()
    mean, _ = process.predict(process.x)
    assert mean == pytest.approx(swept.energy_j[chosen], rel=0.1)
