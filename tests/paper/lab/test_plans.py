"""Plans: every bench, every family."""

from __future__ import annotations

import pytest

from ampere_paper.lab.benches import BENCHES
from ampere_paper.lab.plans import FULL, QUICK, SIX, Plan


@pytest.mark.parametrize("plan", [FULL, QUICK])
def test_plans_cover_every_bench_and_every_family(plan: Plan) -> None:
    assert [bench.name for bench in plan.benches] == list(BENCHES)
    assert {family for sizes in plan.sizes.values() for family in sizes.families} == set(SIX)
    assert any(sizes.tests for sizes in plan.sizes.values())
    assert any(sizes.iterations for sizes in plan.sizes.values())
    for bench in plan.benches:  # a study trains in this process
        assert not (bench.simulated and plan.sizes[bench.name].iterations)
