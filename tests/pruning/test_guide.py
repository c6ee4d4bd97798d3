"""Guides: what candidates cost, and what that stays under."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ampere.errors import DataError
from ampere.profiles.tables.family_tables import FamilyTables
from ampere.pruning.guide import EnergyGuide, FlopsGuide
from pruning.spaces import make_tables


@pytest.fixture(scope="module")
def tables() -> FamilyTables:
    return make_tables()


def test_guides_of_a_profile(tables: FamilyTables) -> None:
    widths = np.array([[24, 16], [5, 3]])
    mean, std = tables.estimate_many(widths), tables.std(widths)
    assert EnergyGuide(tables).bound(widths).tolist() == mean.tolist()
    sure = EnergyGuide(tables, 0.9)
    assert sure.cost(widths).tolist() == mean.tolist()
    assert sure.bound(widths) == pytest.approx(mean * np.exp(1.2815515655446004 * std / mean))
    share = EnergyGuide(tables, 0.9, of_whole=True).bound(widths)
    assert (mean < share).all()
    assert share[0] < sure.bound(widths)[0]  # what is off for both alike does not count
    assert sure.describe(1.5e-3) == "1.50 mJ"
    flops = FlopsGuide(tables)
    assert flops.cost(widths).tolist() == [6 * (24 + 24 * 16 + 16), 6 * (5 + 15 + 3)]
    assert flops.bound(widths).tolist() == flops.cost(widths).tolist()
    assert flops.describe(7.43e8) == "743 MFLOP"


def test_the_deviation_is_not_computed_where_nobody_asks_for_it(
    tables: FamilyTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FamilyTables, "std", None)
    assert EnergyGuide(tables, 0.5).bound(np.array([[5, 3]])).shape == (1,)


@pytest.mark.parametrize("confidence", [0.49, 1.0, -1.0, math.nan])
def test_a_confidence_is_at_least_a_half(tables: FamilyTables, confidence: float) -> None:
    with pytest.raises(DataError, match="confidence"):
        EnergyGuide(tables, confidence)
