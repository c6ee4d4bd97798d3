"""Comparison: one model over devices; what differs is named, what is not known is not ranked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ampere
from ampere.core.layers import LayerKind, Role
from ampere.errors import NotCovered
from ampere.estimators.base import Cost, Line
from ampere.meters.base import Provenance
from ampere.profiles.collection.cards import Card
from ampere.profiles.collection.comparison import (
    Comparison,
    LeftOut,
    Standing,
    compare_devices,
)
from ampere.profiles.estimate import Estimate
from ampere.profiles.library import Entry, open_library
from fakes import plain_layer, plain_model
from golden_files import agreed
from libraries import a_fleet, a_profile

ATTENTION = LayerKind("hidden attention", Role.HIDDEN, "attention")
MODEL = plain_model(20, 20)
STRANGER = (*MODEL, plain_layer(ATTENTION, in_=8, out=8))


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return a_fleet(Path("fleet"))


def test_least_joules_come_first_and_each_is_what_its_profile_says(fleet: Path) -> None:
    library = open_library(fleet)
    found = compare_devices(library, MODEL, steps=10)
    assert [standing.card.name for standing in found.standings] == ["box", "laptop", "tx2"]
    for standing in found.standings:
        alone = library.find(standing.card.name).profile.estimate(MODEL, steps=10)
        assert standing.estimate.energy_j == pytest.approx(alone.energy_j)
        assert standing.estimate.energy_j_interval == pytest.approx(alone.energy_j_interval)
        assert standing.remarks == ()
    ratio = found.standings[2].estimate.energy_j / found.standings[0].estimate.energy_j
    assert ratio == pytest.approx(3.0, rel=1e-3)


def standing(entry: Entry, energy_j: float, share: float, time_s: float | None) -> Standing:
    """What a device says, without a fit."""
    costs = [Cost(part * energy_j, 0.1) for part in (0.25, 0.5, 0.25)]
    lines = [
        Line(layer, cost, borrowed=entry.name == "tx2", extrapolated=entry.name == "box")
        for layer, cost in zip(MODEL, costs, strict=True)
    ]
    time_std = None if time_s is None else share * time_s
    total = (energy_j, share * energy_j, time_s, time_std)
    return Standing(Card(entry), Estimate(tuple(lines), *total, warnings=("old",)), MODEL)


def test_what_is_printed(fleet: Path) -> None:
    box, laptop, tx2 = open_library(fleet).entries
    found = Comparison(
        model="zoo:lenet5",
        training=ampere.Training(),
        steps=1000,
        standings=(
            standing(laptop, 12.5, 0.05, 3.0),
            standing(box, 41.0, 0.1, None),
            standing(tx2, 300.0, 2.0, 75.0),
        ),
        left_out=(LeftOut("gpu", "a gpu", "covers no layer of it; it was made for zoo:har"),),
        presumed=True,
    )
    text = repr(found)
    assert text == agreed("comparison.txt", text)


def test_meters_runtimes_and_twins_are_named(fleet: Path) -> None:
    a_profile({"device": "simulated tx2"}, factor=4.0).save(fleet / "tx2-again.ampere")
    notes = compare_devices(open_library(fleet), MODEL).notes
    assert notes == (
        "joules are not of one kind: modelled by the meter cpu (box); measured (counter) by the"
        " meter rapl (laptop); simulated (tx2, tx2-again); what is in them may differ, too",
        "runtimes differ: torch 2.13.0, 1 thread (box); torch 2.13.0, 2 threads (laptop)",
        "tx2, tx2-again are of one device in the same settings",
    )


def test_devices_of_one_kind_need_no_note(tmp_path: Path) -> None:
    for name in ("tx2", "xavier"):
        a_profile({"device": f"simulated {name}"}).save(tmp_path / f"{name}.ampere")
    assert compare_devices(open_library(tmp_path), MODEL).notes == ()


def test_meters_of_one_provenance_but_another_name_are_told(tmp_path: Path) -> None:
    for name in ("rapl", "nvml"):
        profile = a_profile({"device": name}, provenance=Provenance.COUNTER, meter=name)
        profile.save(tmp_path / f"{name}.ampere")
    (note,) = compare_devices(open_library(tmp_path), MODEL).notes
    assert "measured (counter) by the meter nvml (nvml)" in note


def test_a_sum_that_lacks_layers_is_not_ranked(fleet: Path) -> None:
    known = [(*plain_model(width), STRANGER[-1]) for width in (4, 8, 16, 32, 64)]
    a_profile({"device": "gpu"}, factor=9.0, models=known).save(fleet / "gpu.ampere")
    found = compare_devices(open_library(fleet), (STRANGER[0], *STRANGER[2:]))
    assert [standing.card.name for standing in found.standings] == ["gpu"]
    reasons = {each.name: each.reason for each in found.left_out}
    assert reasons["tx2"] == (
        "does not cover 1 of 3 layers (hidden attention); it was made for zoo:lenet5"
    )
    assert reasons["broken"].startswith("its file cannot be used: line 1")
    assert set(reasons) == {"box", "broken", "laptop", "tx2"}


def test_a_model_that_nobody_covers_is_one_error(fleet: Path) -> None:
    with pytest.raises(NotCovered) as caught:
        compare_devices(open_library(fleet), STRANGER[-1:])
    assert str(caught.value) == (
        "no profile of fleet covers the model: box covers no layer of it; it was made for"
        " zoo:lenet5; neither do 2 others; profile it on a device first, with `ampere profile`"
    )


def test_json_is_plain_data(fleet: Path) -> None:
    row = json.loads(json.dumps(compare_devices(open_library(fleet), MODEL).to_json()))
    assert [each["metered"] for each in row["devices"]] == ["modelled", "measured", "simulated"]
    assert row["devices"][1]["runtime"] == ["torch 2.13.0", "2 threads"]
    low, high = row["devices"][0]["energy_j_interval"]
    assert low < row["devices"][0]["energy_j"] < high
    assert [each["name"] for each in row["left_out"]] == ["broken"]


def test_all_are_asked_for_the_same_training(tmp_path: Path) -> None:
    """The one of most profiles, and whoever was profiled otherwise says so."""
    for name, batch in (("a", 10), ("b", 10), ("c", 32)):
        training = ampere.Training(batch_size=batch)
        nets = [
            ampere.read_layers(f"zoo:har(hidden=[{width}])", training=training)
            for width in (8, 16, 32, 64, 128)
        ]
        a_profile({"device": name}, models=nets).save(tmp_path / f"{name}.ampere")
    found = compare_devices(open_library(tmp_path), "zoo:har(hidden=[24])")
    assert found.training is not None
    assert found.training.batch_size == 10
    assert found.setting == "batches of 10, sgd, float32; as most profiles were"
    remarks = {standing.card.name: standing.remarks for standing in found.standings}
    assert remarks["a"] == remarks["b"] == ()
    assert remarks["c"][-1] == "profiled with batches of 32, sgd, float32"
    assert remarks["c"][0].startswith("borrowed: ")
    asked = compare_devices(
        open_library(tmp_path), "zoo:har", training=ampere.Training(batch_size=32)
    )
    assert asked.setting == "batches of 32, sgd, float32"
