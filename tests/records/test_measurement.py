import json
import math
import re
from dataclasses import fields, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.boundary.fields import parse_json
from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.errors import DataError
from ampere.meters.base import Provenance
from ampere.records.failure import Cause, Failure
from ampere.records.measurement import STAGES, Measurement, utc_now

DOCS = Path(__file__).parents[2] / "docs" / "journal.md"
MINIMAL = {"layers": [{"kind": "conv", "widths": {"in": 3, "out": 8}}], "energy_j_per_step": 0.5}

names = st.text(min_size=1, max_size=8)
at_least_0 = st.floats(0, 1e6)
above_0 = st.floats(1e-9, 1e9)
layers = st.builds(
    Layer,
    names,
    st.builds(
        LayerKind,
        names,
        st.sampled_from(Role),
        names,
        st.dictionaries(names, st.integers(-(10**30), 10**30) | st.text(max_size=4), max_size=3),
    ),
    st.builds(Widths, st.dictionaries(names, st.integers(1, 10**6), max_size=3)),
    st.builds(Features, st.none() | at_least_0, st.none() | at_least_0, st.none() | at_least_0),
    st.none(),
    st.integers(1, 100),
)
measurements = st.builds(
    Measurement,
    st.lists(layers, min_size=1, max_size=3).map(tuple),
    above_0,
    st.none() | above_0,
    st.none() | at_least_0,
    at_least_0,
    st.integers(1, 1000),
    st.text(max_size=8),
    st.sampled_from(Provenance),
    st.datetimes().map(datetime.isoformat),
    st.sampled_from(STAGES),
    st.none(),
    at_least_0,
    st.dictionaries(names, st.lists(at_least_0, max_size=3), max_size=2),
    st.floats(0, 100),
    st.text(max_size=8),
)
failures = st.builds(
    Measurement,
    st.lists(layers, min_size=1, max_size=3).map(tuple),
    provenance=st.sampled_from(Provenance),
    failed=st.builds(Failure, names, st.sampled_from(Cause)),
    cost_s=at_least_0,
)


def refusal(row):
    with pytest.raises(DataError) as caught:
        Measurement.from_json(row)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@given(measurements | failures)
def test_round_trip(measurement):
    row = measurement.to_json()
    text = json.dumps(row, allow_nan=False)
    back = Measurement.from_json(parse_json(text))
    assert back.to_json() == row
    assert back.bursts == measurement.bursts
    assert back == measurement


def test_a_row_is_lean_but_always_states_its_provenance():
    row = Measurement.from_json(MINIMAL).to_json()
    assert row.keys() == {"layers", "energy_j_per_step", "provenance"}


def test_a_minimal_row_of_another_tool_is_enough():
    measurement = Measurement.from_json({**MINIMAL, "colour": "green", "spread": None})
    assert measurement.energy_j_per_step == 0.5
    assert measurement.time_s_per_step is None
    assert math.isnan(measurement.time_s)  # as arrays want it
    assert measurement.provenance is Provenance.EXTERNAL
    (layer,) = measurement.layers
    assert (layer.kind.name, layer.widths) == ("conv", {"in": 3, "out": 8})


@pytest.mark.parametrize("name", ["energy_j_per_step", "time_s_per_step"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 0, -1.5, "0.5", True, [1], 10**400])
def test_impossible_joules_and_seconds_are_refused_by_name_and_value(name, value):
    text = refusal({**MINIMAL, name: value})
    assert name in text
    assert str(value)[:70] in text


@pytest.mark.parametrize("name", ["idle_j_per_step", "spread", "cost_s"])
@pytest.mark.parametrize("value", [math.nan, -0.1, "a"])
def test_other_numbers_may_be_zero_but_not_impossible(name, value):
    assert getattr(Measurement.from_json({**MINIMAL, name: 0}), name) == 0.0
    assert name in refusal({**MINIMAL, name: value})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"layers": []}, "layers"),
        ({"layers": None}, "layers"),
        ({"layers": {"kind": "conv"}}, "layers"),
        ({"layers": ["conv"]}, "layers[0] must be an object"),
        ({"layers": [{"kind": "conv", "widths": {"in": math.inf}}]}, "layers[0].widths.in"),
        ({"layers": [{"kind": "conv", "features": {"flops": math.nan}}]}, "flops"),
        ({"layers": [{"kind": "conv", "count": 2.9}]}, "layers[0].count must be a whole number"),
        ({"layers": [{"kind": "conv", "attributes": {"a": 1e999}}]}, "layers[0].attributes.a"),
        ({"layers": [{"kind": "conv", "widths": {"in": 1e30}}]}, "layers[0].widths.in"),
        ({"repeats": 10**400}, "repeats must be a whole number"),
        ({"energy_j_per_step": 1e308}, "at most 1e+15"),
        ({"bursts": {"steps": 0}}, "bursts.steps"),
        ({"bursts": {"drift": [1.0, 0.0]}}, "bursts.drift[1] must be a number above"),
        ({"energy_j_per_step": None}, "energy_j_per_step is missing"),
        ({"repeats": 0}, "repeats"),
        ({"repeats": 2.5}, "repeats"),
        ({"stage": "sideways"}, "step, forward, backward, update"),
        ({"device": 7}, "device"),
        ({"bursts": [1]}, "bursts"),
        ({"failed": True}, "failed"),
        ({"energy_j_per_step": None, "failed": "it broke", "cause": "cosmic rays"}, "cause"),
        ({"failed": "out of memory"}, "out of memory"),
        ({"provenance": "guessed"}, "guessed"),
    ],
)
def test_what_cannot_be_true_is_refused_by_name(change, named):
    assert named in refusal({**MINIMAL, **change})


@pytest.mark.parametrize("value", ["guessed", 3, ["counter"]])
def test_an_unknown_provenance_is_answered_with_the_known_ones(value):
    text = refusal({**MINIMAL, "provenance": value})
    assert all(known.value in text for known in Provenance)


@pytest.mark.parametrize("row", [None, 3, "text", [MINIMAL]])
def test_a_row_is_an_object(row):
    assert "row" in refusal(row)


@pytest.mark.parametrize("change", [{"energy_j_per_step": math.nan}, {"time_s_per_step": math.inf}])
def test_what_could_not_be_read_back_is_not_written(change):
    with pytest.raises(DataError, match=next(iter(change))):
        replace(Measurement.from_json(MINIMAL), **change).to_json()


def test_a_failure_is_written_without_numbers():
    row = Measurement(
        Measurement.from_json(MINIMAL).layers, 1.0, 2.0, failed=Failure("hung")
    ).to_json()
    assert (row["failed"], row["cause"]) == ("hung", "other")
    assert row.keys().isdisjoint({"energy_j_per_step", "time_s_per_step"})


def test_a_lost_reading_among_the_bursts_is_null():
    bursts = {"energy_j": (1.0, math.nan), "drift": [math.inf, 1.0]}
    row = replace(Measurement.from_json(MINIMAL), bursts=bursts).to_json()
    assert row["bursts"] == {"energy_j": [1.0, None], "drift": [None, 1.0]}


def test_now_is_utc():
    assert datetime.fromisoformat(utc_now()).utcoffset() == timedelta(0)


CALLS = [
    {"op": "linear", "widths": {"in": 8, "out": 8}, "features": [128.0, 64.5, 32]},
    {"op": "update", "attributes": {"by": "adam"}, "features": [0, 64, None], "count": 2.5},
]


def test_calls_that_layers_repeat_are_told_once():
    layers = [
        {"kind": "a", "work": CALLS},
        {"kind": "b"},
        {"kind": "c", "work": [*CALLS[1:], CALLS[0]]},
    ]
    row = Measurement.from_json({"layers": layers, "energy_j_per_step": 1.0})
    written = row.to_json()
    assert written["calls"] == CALLS
    assert [layer.get("work") for layer in written["layers"]] == [[0, 1], None, [1, 0]]
    again = Measurement.from_json(written)
    assert [layer.work for layer in again.layers] == [layer.work for layer in row.layers]
    assert "calls" not in Measurement.from_json(MINIMAL).to_json()


@pytest.mark.parametrize("number", [2, -1, True, 0.0])
def test_a_number_that_is_no_call_of_the_row_is_refused(number):
    layers = [{"kind": "a", "work": [number]}]
    with pytest.raises(DataError, match=r"layers\[0\]\.work\[0\]"):
        Measurement.from_json({"layers": layers, "energy_j_per_step": 1.0, "calls": CALLS})


def test_whole_numbers_are_written_without_a_point():
    bursts = {"switches": [0.0, 2.0], "time_s": [0.5]}
    row = replace(Measurement.from_json(MINIMAL), bursts=bursts).to_json()
    assert json.dumps(row["bursts"]) == '{"switches": [0, 2], "time_s": [0.5]}'


def documented(section):
    text = DOCS.read_text(encoding="utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", text.partition("\n### ")[0], re.M)


def test_the_documentation_names_every_field():
    names = [f.name for f in fields(Measurement)]
    names.insert(1 + names.index("failed"), "cause")  # `failed` is its text
    assert documented("Fields of a row") == [*names, "calls"]  # of its layers, told once
    (layer,) = Measurement.from_json(MINIMAL).layers
    assert set(documented("Fields of a layer")) == {*layer.to_json(), "work"}


def test_the_rows_of_the_documentation_are_rows():
    blocks = re.findall(r"```json\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    minimal, full, failed = (parse_json(block) for block in blocks[:3])
    assert len(Measurement.from_json(minimal).layers) == 2
    assert Measurement.from_json(full).to_json() == full
    assert Measurement.from_json(failed).failed == Failure("out of memory", Cause.MEMORY)
    text = DOCS.read_text(encoding="utf-8")
    values = [each.value for enum in (Provenance, Cause) for each in enum]
    assert all(f"`{name}`" in text for name in [*STAGES, *values])


@pytest.mark.parametrize(
    "bursts",
    [
        {"drift": 5},
        {"energy_j": ["x"], "steps": 2},
        {"steps": "a"},
        {"faults": "many"},
        {"at": [True]},
        {"outlier": {}},
    ],
)
def test_raw_data_that_nobody_can_read_are_refused_before_they_are_written(bursts):
    row = {"layers": [{"kind": "x"}], "energy_j_per_step": 1.0, "bursts": bursts}
    with pytest.raises(DataError, match=next(iter(bursts))):
        Measurement.from_json(row)
