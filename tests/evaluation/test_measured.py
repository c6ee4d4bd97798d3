"""Measured: joules of one sitting or of several, and how far another look may be from that."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core import units
from ampere.core.fingerprint import Fingerprint
from ampere.core.types import Json
from ampere.evaluation.measured import Measured
from ampere.meters.base import Provenance
from ampere.profiles.doubts import MARKED
from ampere.records.measurement import REACH, Measurement, utc
from ampere.records.repeats import USUAL, Repeats
from ampere.sittings.measure import measure
from fakes import FakeDevice, plain_model, total
from sittings.devices import JOBS, NOMINAL

LAYERS = plain_model(4, 8)
HERE = Fingerprint({"processor": "Fast 9000", "cores": "2", "threads": "1"}, {"host": "vm"})
CHECKED = Repeats(0.02, 0.01, 18, 75.0, "2026-11-17T09:00:00+00:00")


def row(energy_j: float = 2.0, sitting: str = "a", **more: Json) -> Measurement:
    """Of 16 bursts that scatter by 4 %: their mean is known to 1 %."""
    number = ord(sitting) - ord("a")
    plain = Measurement(
        LAYERS,
        energy_j,
        0.5,
        0.25,
        spread=0.04,
        repeats=16,
        sitting=sitting,
        when=utc(1_770_000_000.0 + 180 * number),
        device=HERE.id,
        provenance=Provenance.COUNTER,
        cost_s=1.0,
        bursts={"steps": 3, "energy_j": [energy_j] * 16},
    )
    return replace(plain, **more)


def test_one_sitting_is_what_its_row_says() -> None:
    found = Measured.of([row()], HERE, "lenet")
    assert (found.energy_j, found.time_s, found.idle_j, found.spread) == (2.0, 0.5, 0.25, 0.04)
    assert found.provenance is Provenance.COUNTER
    assert found.doubts == []


def test_one_sitting_alone_is_as_unsure_as_usual() -> None:
    found = Measured.of([row()], HERE)
    assert found.repeats.between is None
    assert found.error == pytest.approx(math.hypot(0.01, USUAL))
    low_j, high_j = found.energy_j_interval
    assert (low_j, high_j) == pytest.approx(
        (2.0 * math.exp(-REACH * found.error), 2.0 * math.exp(REACH * found.error))
    )


def test_what_the_last_check_found_counts_for_one_sitting() -> None:
    found = Measured.of([row()], HERE, checked=CHECKED)
    assert found.repeats == CHECKED
    assert found.error == pytest.approx(math.hypot(0.01, CHECKED.error))
    again = f"again within {units.seconds(75.0)}: 1.0 %, by the check of 2026-11-17"
    assert again in repr(found)


def test_its_own_sittings_count_before_the_check() -> None:
    found = Measured.of([row(2.0), row(2.2, "b")], HERE, checked=CHECKED)
    assert found.repeats.between == pytest.approx(math.log(1.1) / math.sqrt(2))
    assert found.repeats.apart_s == 180.0
    assert found.energy_j == pytest.approx(2.1)
    assert f"again within {units.seconds(180.0)}: 6.7 %" in repr(found)
    assert "by the check" not in repr(found)


def test_several_sittings_are_averaged() -> None:
    rows = [row(2.0), row(2.1, "b", time_s_per_step=0.7, spread=0.08), row(2.2, "c")]
    found = Measured.of(rows, HERE)
    assert found.energy_j == pytest.approx(2.1)
    assert found.time_s == pytest.approx((0.5 + 0.7 + 0.5) / 3)
    assert found.spread == pytest.approx((0.04 + 0.08 + 0.04) / 3)
    bursts = math.sqrt((0.01**2 + 0.02**2 + 0.01**2) / 3)
    assert found.error == pytest.approx(math.hypot(bursts, found.repeats.error) / math.sqrt(3))


def test_more_sittings_are_surer() -> None:
    errors = [
        Measured.of([row(2.0, chr(97 + i)) for i in range(n)], HERE).error for n in (1, 2, 4, 8)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / math.sqrt(8)


def test_rows_of_one_sitting_are_no_sittings_of_their_own() -> None:
    found = Measured.of([row(2.0), row(2.2)], HERE, checked=CHECKED)
    assert found.repeats == CHECKED


def test_work_of_others_can_only_have_added() -> None:
    """So the interval reaches down for it, not up."""
    sure, doubted = (Measured.of([row(doubt=doubt)], HERE) for doubt in (0.0, 0.3))
    assert doubted.energy_j_interval[1] == sure.energy_j_interval[1]
    low_j = 2.0 * math.exp(-REACH * math.hypot(sure.error, 0.3))
    assert doubted.energy_j_interval[0] == pytest.approx(low_j)


def test_such_a_doubt_does_not_become_less_by_repeating() -> None:
    """Others were there each time."""
    rows = [row(2.0, chr(97 + i), doubt=0.4) for i in range(9)]
    low_j, _ = Measured.of(rows, HERE).energy_j_interval
    assert low_j <= 2.0 * math.exp(-REACH * 0.4)
    one_of_them = Measured.of([row(), row(2.0, "b", doubt=0.4)], HERE).energy_j_interval[0]
    assert one_of_them <= 2.0 * math.exp(-REACH * 0.4)


@given(
    st.lists(
        st.tuples(st.floats(1e-3, 1e3), st.floats(0.0, 0.5), st.floats(0.0, 1.0)),
        min_size=1,
        max_size=6,
    )
)
def test_the_interval_is_around_what_was_found(every: list[tuple[float, float, float]]) -> None:
    rows = [
        row(energy_j, chr(97 + i), spread=spread, doubt=doubt)
        for i, (energy_j, spread, doubt) in enumerate(every)
    ]
    found = Measured.of(rows, HERE)
    low_j, high_j = found.energy_j_interval
    assert 0 < low_j <= found.energy_j <= high_j < math.inf
    assert min(e for e, _, _ in every) <= found.energy_j * (1 + 1e-9)


def test_an_idle_power_that_nobody_knows_is_unknown() -> None:
    found = Measured.of([row(idle_j_per_step=None)], HERE)
    assert found.idle_j is None
    assert found.to_json()["idle_j_per_step"] is None
    half = Measured.of([row(idle_j_per_step=None), row(2.0, "b")], HERE)
    assert half.idle_j == 0.25


# --- as it is told --------------------------------------------------------------------------------


def test_one_sitting_is_a_row_that_can_be_told() -> None:
    found = Measured.of([row(doubt=0.1)], HERE)
    told = json.loads(json.dumps(found.to_json(), allow_nan=False))
    again = Measurement.from_json(told)
    assert (again.layers, again.energy_j_per_step, again.sitting) == (LAYERS, 2.0, "a")
    assert (again.spread, again.repeats, again.doubt) == (0.04, 16, 0.1)
    assert again.provenance is Provenance.COUNTER


def test_as_data_it_says_where_it_lies_and_how_it_is_known() -> None:
    told = Measured.of([row(2.0), row(2.2, "b")], HERE).to_json()
    low_j, high_j = told["energy_j_interval"]
    assert low_j < 2.1 < high_j
    assert told["energy_j_per_step"] == pytest.approx(2.1)
    assert told["sittings"] == 2
    assert told["between_sittings"] == pytest.approx(math.log(1.1) / math.sqrt(2))
    assert told["warnings"] == []
    alone = Measured.of([row()], HERE).to_json()
    assert (alone["sittings"], alone["between_sittings"]) == (1, None)


@pytest.mark.parametrize("mark", list(MARKED))
def test_what_was_not_as_it_should_be_is_told(mark: str) -> None:
    marked = replace(row(), bursts={**row().bursts, "marks": [mark]})
    found = Measured.of([marked], HERE)
    assert found.doubts == [MARKED[mark]]
    assert f"warning    {MARKED[mark]}" in repr(found)
    assert found.to_json()["warnings"] == [MARKED[mark]]
    twice = Measured.of([marked, row(2.0, "b"), row(2.0, "c")], HERE)
    assert twice.doubts == [f"1 of 3 rows: {MARKED[mark]}"]


def test_threads_that_share_a_core_are_told() -> None:
    crowded = Fingerprint({**HERE.identity, "threads": "4"}, HERE.conditions)
    (text,) = Measured.of([row()], crowded).doubts
    assert "4 threads share 2 cores" in text


def test_it_shows_itself() -> None:
    text = repr(Measured.of([row()], HERE, "zoo:lenet5"))
    assert text.startswith("zoo:lenet5: 2.00 J and 500 ms a training step")
    for part in (
        "16 bursts agree to 4.0 %",
        "again in some minutes: not known here, 10.0 % is assumed (`ampere check` finds out)",
        "250 mJ of it the device takes anyway",
        "joules are measured by a hardware counter",
        "vm, Fast 9000, 2 cores, 1 thread",
        "data loading, validation",
    ):
        assert part in text


def test_a_name_is_text_and_no_more() -> None:
    hostile = "<b>\x1b[2J"
    found = Measured.of([row()], HERE, hostile)
    assert "\x1b" not in repr(found)
    page = found._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;" in page


def test_a_network_that_was_measured_has_its_truth_in_it() -> None:
    device = FakeDevice(noise=0.02, seed=1)
    rows = [measure(device, JOBS[:1], NOMINAL)[0] for _ in range(3)]
    found = Measured.of(rows, device.fingerprint)
    low_j, high_j = found.energy_j_interval
    assert low_j < total(JOBS[0][1]).energy_j < high_j
    assert found.repeats.degrees == 2
    assert found.error < USUAL
