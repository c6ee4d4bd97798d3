"""What is said of an estimate that hardly is one."""

from __future__ import annotations

import pytest

from ampere.estimators.base import Cost, Prediction
from ampere.profiles.cautions import cautions


@pytest.mark.parametrize(("std", "told"), [(0.9, False), (1.1, True)])
def test_an_interval_that_says_nothing_is_called_so(std: float, told: bool) -> None:
    texts = cautions(Prediction((), Cost(1.0, std)))
    assert any("knows too little" in text for text in texts) is told
