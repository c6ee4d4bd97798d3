"""Estimating: totals are the sum of their lines, and what is not covered is named."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.boundary.hours import Hours
from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.core.rates import Rate
from ampere.errors import DataError, NotCovered
from ampere.estimators.base import Cost, Layerwise, Line, Prediction
from ampere.estimators.encoding.encoder import STEP
from ampere.meters.base import Provenance
from ampere.profiles.estimate import Estimate, estimate
from ampere.profiles.profile import fit as fit_profile
from fakes import (
    FIRST,
    HIDDEN,
    LAST,
    exact,
    known_cost,
    plain_kind,
    plain_layer,
    plain_model,
    total,
)

STRANGE = plain_kind(Role.HIDDEN, "quantum")
TOP = 64


class KnownFit(Layerwise):
    """Knows the fake's costs up to 10 %, of all kinds but the strange one."""

    method = "known"

    def __init__(self, noise: float = 0.0) -> None:
        self.noise = noise

    def cost(self, layer: Layer) -> Cost:
        if layer.kind == STRANGE:
            raise NotCovered(f"{layer.kind.name} was never profiled")
        true = known_cost(Layer(layer.name, layer.kind, layer.widths))
        return Cost(true.energy_j, 0.1 * true.energy_j, true.time_s, 0.1 * true.time_s)

    def is_extrapolated(self, layer: Layer) -> bool:
        return max(layer.widths.values()) > TOP


class UntimedFit(KnownFit):
    """Was told joules only."""

    def cost(self, layer: Layer) -> Cost:
        cost = super().cost(layer)
        return Cost(cost.energy_j, cost.energy_j_std)


MODEL = plain_model(8, 16, 32)
widths = st.lists(st.integers(1, TOP), min_size=1, max_size=6)


def strict(row: Any) -> Any:
    """Through JSON as other tools read it: no NaN."""
    return json.loads(json.dumps(row, allow_nan=False))


@given(widths, st.integers(1, 10**6))
def test_lines_add_up(widths: list[int], steps: int) -> None:
    model = plain_model(*widths)
    result = estimate(model, KnownFit(), steps=steps)
    assert [line.layer for line in result.lines] == list(model)
    assert sum(line.cost.energy_j for line in result.lines) == pytest.approx(result.energy_j)
    assert sum(line.cost.time_s for line in result.lines) == pytest.approx(result.time_s)
    assert result.energy_j == pytest.approx(steps * total(model).energy_j)
    low, high = result.energy_j_interval
    assert 0 <= low < result.energy_j < high
    assert low * high == pytest.approx(result.energy_j**2)  # errors are those of a logarithm


@given(widths, st.integers(1, 1000), st.integers(1, 1000))
def test_steps_scale_everything(widths: list[int], first: int, second: int) -> None:
    once = estimate(plain_model(*widths), KnownFit(noise=0.03))
    there = once.for_steps(first).for_steps(second)
    for name in ("energy_j", "energy_j_std", "time_s", "time_s_std"):
        assert getattr(there, name) == pytest.approx(second * getattr(once, name))
    assert there.steps == second
    for one, many in zip(once.lines, there.lines, strict=True):
        assert many.cost.energy_j == pytest.approx(second * one.cost.energy_j)
        assert many.cost.time_s_std == pytest.approx(second * one.cost.time_s_std)


def test_no_steps_are_no_job() -> None:
    with pytest.raises(DataError, match="0 steps"):
        estimate(MODEL, KnownFit(), steps=0)


def test_what_is_not_covered_is_named_and_not_in_the_total() -> None:
    strange = Layer("blocks.3", STRANGE, Widths({"in": 8, "out": 8}))
    result = estimate([*MODEL, strange], KnownFit())
    assert result.uncovered == (strange,)
    assert strange not in [line.layer for line in result.lines]
    assert result.energy_j == pytest.approx(total(MODEL).energy_j)
    assert any("blocks.3" in warning for warning in result.warnings)
    assert result.to_json()["uncovered"] == [
        {"name": "blocks.3", "kind": STRANGE.name, "widths": {"in": 8, "out": 8}}
    ]


def test_a_model_of_which_nothing_is_covered_does_not_cost_nothing() -> None:
    with pytest.raises(NotCovered, match="covers none of 1 layer"):
        estimate([plain_layer(STRANGE, in_=8, out=8)], KnownFit())


def test_layers_beyond_the_profile_are_marked() -> None:
    result = estimate(plain_model(8, TOP + 1), KnownFit())
    assert [line.extrapolated for line in result.lines] == [False, True, True]
    assert any("extrapolated" in warning for warning in result.warnings)
    assert not estimate(MODEL, KnownFit()).warnings


class SumFit:
    """Knows a total better than its lines: joules, their deviation, and what of it is open."""

    method = "known"

    def __init__(
        self,
        *costs: tuple[float, float],
        std: float,
        flag: str = "",
        alike: bool = False,
        open_j: Sequence[float] | None = None,
    ) -> None:
        layers = [plain_layer(LAST, in_=8 if alike else i) for i in range(1, len(costs) + 1)]
        self.lines = [
            Line(layer, Cost(*cost))
            for layer, cost in zip([*layers[:-1], STEP], costs, strict=True)
        ]
        if flag:
            self.lines[0] = replace(self.lines[0], **{flag: True})
        self.std = std
        self.open_j = [std for _, std in costs] if open_j is None else open_j

    def predict(self, layers: Sequence[Layer]) -> Prediction:
        total_j = sum(line.cost.energy_j for line in self.lines)
        total = Cost(total_j, 0.5 * total_j)
        return Prediction(tuple(self.lines), total, (), self.std, (), tuple(self.open_j))


@pytest.mark.parametrize(
    ("fit", "unsettled"),
    [
        (SumFit((33, 37), (60, 37), (7, 1), std=3.0), [True, True, False]),
        (SumFit((33, 10), (60, 10), (7, 1), std=3.0), [False, False, False]),  # known well enough
        (SumFit((33, 37), (60, 37), (7, 1), std=60.0), [False, False, False]),  # nor is the total
        (SumFit((33, 37), (60, 37), (7, 1), std=45.0), [True, False, False]),
        (SumFit((1.9, 1.8), (90, 2), (8.1, 1), std=3.0), [False, False, False]),  # negligible
        (SumFit((2.1, 1.8), (90, 2), (7.9, 1), std=3.0), [True, False, False]),
        (SumFit((1.5, 1.3), (1.5, 1.3), (97, 3), std=3.0, alike=True), [True, True, False]),
        (SumFit((33, 10), (60, 10), (7, 5), std=3.0), [False, False, False]),  # a step alone
        (SumFit((33, 37), (60, 10), (7, 5), std=3.0), [True, False, True]),
        (SumFit((33, 37), (60, 37), (7, 1), std=3.0, flag="borrowed"), [False, True, False]),
        (SumFit((33, 37), (60, 37), (7, 1), std=3.0, flag="extrapolated"), [False, True, False]),
        (SumFit((33, 37), (60, 37), (7, 1), std=3.0, open_j=[]), [False, False, False]),
        (SumFit((33, 37), (60, 37), (7, 1), std=3.0, open_j=[3, 37, 1]), [False, True, False]),
    ],
)
def test_lines_whose_sum_is_known_better_are_unsettled(fit: SumFit, unsettled: list[bool]) -> None:
    result = estimate(MODEL, fit)
    assert [line.unsettled for line in result.for_steps(7).lines] == unsettled
    assert [row["unsettled"] for row in strict(result.to_json())["layers"]] == unsettled
    assert any("divide" in text for text in result.warnings) == any(unsettled)


def test_three_times_is_three_times_as_much_and_as_unsure() -> None:
    once = estimate([plain_layer(LAST, in_=8)], KnownFit())
    thrice = estimate([plain_layer(LAST, 3, in_=8)], KnownFit())
    listed = estimate([plain_layer(LAST, in_=8)] * 3, KnownFit())
    for result in (thrice, listed):
        assert result.energy_j == pytest.approx(3 * once.energy_j)
        assert result.energy_j_std == pytest.approx(3 * once.energy_j_std)
        assert result.time_s_std == pytest.approx(3 * once.time_s_std)


def test_errors_of_different_kinds_do_not_add_up_but_noise_is_on_top() -> None:
    first, last = plain_layer(FIRST, out=8), plain_layer(LAST, in_=8)
    one, other = (0.1 * known_cost(layer).energy_j for layer in (first, last))
    result = estimate([first, last], KnownFit())
    assert result.energy_j_std == pytest.approx(math.hypot(one, other))
    noisy = estimate([first, last], KnownFit(noise=0.2))
    assert noisy.energy_j_std == pytest.approx(math.hypot(one, other, 0.2 * result.energy_j))


def test_the_interval_holds_nine_of_ten() -> None:
    result = Estimate((), 100.0, 10.0, 1.0, 0.0)
    reach = math.exp(0.16449)
    assert result.energy_j_interval == pytest.approx((100 / reach, 100 * reach), rel=1e-4)
    low, high = Estimate((), 1.0, 10.0, 1.0, 0.0).energy_j_interval
    assert 0 < low < 1e-7 and 1e7 < high < math.inf


def test_the_papers_intervals_are_even_and_end_at_zero() -> None:
    result = Estimate((), 100.0, 10.0, 1.0, 0.0, method="paper")
    assert result.energy_j_interval == pytest.approx((100 - 16.449, 100 + 16.449), abs=1e-2)
    assert Estimate((), 1.0, 10.0, 1.0, 0.0, method="paper").energy_j_interval[0] == 0.0


def test_the_mean_over_a_job_is_surer_than_one_metering() -> None:
    result = Estimate((), 100.0, 10.0, 1.0, 0.0, energy_j_mean_std=5.0).for_steps(20)
    wide, narrow = result.energy_j_interval, result.energy_j_mean_interval
    assert wide[0] < narrow[0] < 2000 < narrow[1] < wide[1]
    assert narrow[1] == pytest.approx(2000 * math.exp(1.6449 * 0.05), rel=1e-4)
    assert Estimate((), 100.0, 10.0, 1.0, 0.0).energy_j_mean_interval == pytest.approx(
        Estimate((), 100.0, 10.0, 1.0, 0.0).energy_j_interval
    )


def test_the_share_of_a_battery() -> None:
    result = estimate(MODEL, KnownFit(), steps=10, battery_wh=2.0)
    assert result.battery_share == pytest.approx(10 * total(MODEL).energy_j / 7200)
    assert result.for_steps(20).battery_share == pytest.approx(20 * total(MODEL).energy_j / 7200)
    assert estimate(MODEL, KnownFit()).battery_share is None
    assert strict(result.to_json())["battery_share"] == result.battery_share


def test_the_json_that_the_command_line_promises() -> None:
    result = estimate(MODEL, KnownFit(), steps=3, device="a phone", provenance=Provenance.MODELLED)
    row = strict(result.to_json())
    promised = {
        "energy_j", "energy_j_interval", "time_s", "time_s_interval", "steps", "layers",
        "uncovered", "device", "provenance",
    }  # fmt: skip
    assert promised <= set(row)
    assert (row["steps"], row["device"], row["provenance"]) == (3, "a phone", "modelled")
    assert row["energy_j_interval"] == list(result.energy_j_interval)
    assert row["time_s_interval"] == list(result.time_s_interval)
    hidden = row["layers"][1]
    assert {"name", "kind", "role", "widths", "energy_j", "energy_j_std"} <= set(hidden)
    assert (hidden["kind"], hidden["role"]) == (HIDDEN.name, "hidden")
    assert hidden["widths"] == {"in": 8, "out": 16}
    assert sum(layer["energy_j"] for layer in row["layers"]) == pytest.approx(row["energy_j"])


def test_unknown_seconds_are_null() -> None:
    result = estimate(MODEL, UntimedFit())
    row = strict(result.to_json())
    assert row["energy_j"] == pytest.approx(total(MODEL).energy_j)
    assert row["time_s"] is None
    assert row["time_s_interval"] == [None, None]
    assert row["layers"][0]["time_s"] is None


def test_a_profile_estimates_with_its_own_noise_device_and_provenance() -> None:
    rows = [exact([plain_layer(LAST, in_=width)]) for width in (1, 20, 40, 64)]
    profile = fit_profile(rows, device="the lab's board")
    result = profile.estimate([plain_layer(LAST, in_=30)], steps=5)
    true = known_cost(plain_layer(LAST, in_=30))
    assert result.energy_j == pytest.approx(5 * true.energy_j, rel=0.02)
    assert (result.device, result.provenance) == ("the lab's board", Provenance.SIMULATED)
    assert result.method == "additive"


def test_estimating_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "from ampere.profiles.profile import fit\n"
        "from ampere.records.measurement import Measurement\n"
        "rows = [{'layers': [{'kind': 'conv', 'widths': {'in': w}}], 'energy_j_per_step': w}"
        " for w in (1, 2, 3)]\n"
        "profile = fit(map(Measurement.from_json, rows))\n"
        "result = profile.estimate(profile.measurements[0].layers)\n"
        "print(result.energy_j, len(repr(result)) > 40)\n"
        "sys.exit('torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    energy_j, printed = ran.stdout.split()
    assert float(energy_j) == pytest.approx(1.0, rel=0.05)
    assert printed == "True"


def test_kinds_are_known_by_name() -> None:
    renamed = LayerKind(LAST.name, Role.LAST, "something else")
    rows = [exact([plain_layer(LAST, in_=width)]) for width in (1, 64)]
    assert not fit_profile(rows).estimate([plain_layer(renamed, in_=30)]).uncovered


class TestRates:
    JOB = Estimate((), 3.6e6, 3.6e5, 7200.0, 0.0)  # a kWh in two hours

    def test_emissions_and_money_have_the_interval_of_the_joules(self) -> None:
        priced = self.JOB.at_rates(Rate(56.0, "gCO2e", "France"), Rate(0.3, "EUR"), 0.0)
        row = priced.to_json()
        low, high = (each / 3.6e6 for each in self.JOB.energy_j_interval)
        assert row["energy_wh"] == pytest.approx(1000.0)
        assert (row["gco2e"], row["cost"]) == (pytest.approx(56.0), pytest.approx(0.3))
        assert row["gco2e_interval"] == pytest.approx([56 * low, 56 * high])
        assert row["cost_interval"] == pytest.approx([0.3 * low, 0.3 * high])
        assert (row["carbon_g_per_kwh"], row["carbon_source"]) == (56.0, "France")
        assert (row["price_per_kwh"], row["currency"]) == (0.3, "EUR")
        assert "56.0 gCO2e (47.5 gCO2e to 66.0 gCO2e): 1.00 kWh at 56g/kWh (France)" in repr(priced)

    def test_watt_hours_stand_beside_joules_from_one_on(self) -> None:
        assert ": 3.60 MJ, 1.00 kWh (90 % interval " in repr(self.JOB)
        small = Estimate((), 3599.0, 360.0, 7200.0, 0.0)
        assert ": 3.60 kJ (90 % interval " in repr(small)

    def test_without_rates_nothing_is_said(self) -> None:
        row = self.JOB.at_rates(None, None, 0.0).to_json()
        assert {"gco2e", "cost", "currency", "carbon_g_per_kwh"}.isdisjoint(row)

    def test_a_price_below_0_turns_the_interval_around(self) -> None:
        low, high = self.JOB.at_rates(None, Rate(-0.1, "EUR"), 0.0).to_json()["cost_interval"]
        assert low < -0.1 < high < 0

    def test_hours_are_those_in_which_the_job_runs(self) -> None:
        hours = Hours((0.0, 3600.0), (3600.0, 7200.0), (100.0, 300.0), "gCO2e")
        carbon = Rate(hours.mean, "gCO2e", "grid.csv", hours=hours)
        assert self.JOB.at_rates(carbon, None, 0.0).to_json()["gco2e"] == pytest.approx(200.0)
        late = self.JOB.at_rates(carbon, None, 3600.0)
        assert late.to_json()["gco2e"] == pytest.approx(250.0)
        assert late.warnings == (
            "grid.csv does not tell 50.0 % of the job's hours: the mean of the file counts there",
        )

    def test_a_job_of_unknown_length_takes_the_mean(self) -> None:
        hours = Hours((0.0,), (3600.0,), (100.0,), "gCO2e")
        carbon = Rate(100.0, "gCO2e", "grid.csv", hours=hours)
        job = replace(self.JOB, time_s=None, time_s_std=None)
        assert job.at_rates(carbon, None, 0.0).to_json()["gco2e"] == pytest.approx(100.0)
