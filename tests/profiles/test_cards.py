"""Cards: what a profile is said to be, and what is not said because nobody knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ampere.core.layers import LayerKind
from ampere.core.training import Training
from ampere.errors import ContradictoryRows
from ampere.meters.base import Provenance
from ampere.profiles.collection.cards import Card, grouped_names, long_error, short_error
from ampere.profiles.leave_one_out import Validation
from ampere.profiles.library import Entry
from ampere.profiles.profile import Profile
from libraries import MODELS, TORCH, a_profile


def card(profile: Profile, name: str = "one") -> Card:
    return Card(Entry(name, Path(f"{name}.ampere"), profile))


def trained(profile: Profile, *attributes: dict[str, object]) -> Profile:
    """The profile, its rows trained in turns like this."""
    rows = []
    for number, row in enumerate(profile.measurements):
        held = attributes[number % len(attributes)]
        layers = tuple(
            replace(
                layer,
                kind=LayerKind(
                    f"{layer.kind.name} {held}", layer.kind.role, layer.kind.operation, held
                ),
            )
            for layer in row.layers
        )
        rows.append(replace(row, layers=layers))
    return replace(profile, measurements=tuple(rows))


@pytest.mark.parametrize("provenance", Provenance)
def test_joules_are_called_what_they_are(provenance: Provenance) -> None:
    shown = card(a_profile({"device": "pi"}, provenance=provenance))
    if provenance.metered == "measured":
        assert shown.joules == f"measured ({provenance.value})"
    else:
        assert shown.joules == provenance.value
    assert shown.metered == provenance.metered


def test_the_device_is_hardware_and_the_runtime_what_runs_on_it() -> None:
    identity = {"processor": "Core i7", "cores": "4", **TORCH, "threads": "1", "compile": "True"}
    shown = card(a_profile({**identity, "accelerator": "cuda", "onednn": "False"}))
    assert shown.device == "Core i7, 4 cores, cuda"
    assert shown.framework == ("torch 2.13.0", "1 thread", "compiled", "without oneDNN")


def test_what_nobody_knows_is_not_said() -> None:
    shown = card(a_profile({}, provenance=Provenance.COUNTER, meter="rapl", made_for=None))
    assert (shown.device, shown.runtime, shown.made_for) == ("unknown", "runtime unknown", "")
    assert card(a_profile({})).runtime == "nothing ran, it is simulated"


def test_a_survey_was_made_for_any_model() -> None:
    family = a_profile({"device": "pi"})
    rows = tuple(replace(row, by_calls=True) for row in family.measurements)
    assert card(family).made_for == "zoo:lenet5"
    assert card(replace(family, measurements=rows)).made_for == "any model"


def test_trainings_are_told_the_most_frequent_first() -> None:
    small, large = {"batch": 8, "optimizer": "sgd"}, {"batch": 32, "optimizer": "adam"}
    half = {"batch": 4, "optimizer": "sgd", "dtype": "bfloat16"}
    shown = card(trained(a_profile({"device": "pi"}), small, large, large))
    assert shown.trainings == (Training(32, "adam"), Training(8, "sgd"))
    assert "batches of 32, adam, float32; batches of 8, sgd, float32" in shown.runtime
    every = [{"batch": batch, "optimizer": "sgd"} for batch in (1, 2, 3)]
    assert card(trained(a_profile({"device": "pi"}), half, *every)).runtime.endswith("; and others")


def test_rows_of_other_devices_are_named() -> None:
    profile = a_profile({"device": "pi"})
    first, *others = profile.measurements
    mixed = replace(profile, measurements=(replace(first, device="tx2"), *others))
    assert card(mixed).device == "pi, mixed with 1 other device"


def test_the_own_error_is_known_or_it_is_said_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = a_profile({"device": "pi"})
    error = card(profile).own_error()
    assert isinstance(error, Validation)
    assert len(error) == len(MODELS)
    assert 0.5 < error.mape < 10  # rows are 1 % off, in turns
    assert short_error(error) == f"{error.mape:.1f} %"
    assert f"mean of {len(MODELS)} networks, leave one out" in long_error(error)
    assert card(profile).own_error(most_rows=3) == "not asked for: many rows"
    assert card(replace(profile, measurements=profile.measurements[:3])).own_error() == (
        "too few rows"
    )

    def contradict(self: Profile) -> None:
        raise ContradictoryRows("rows contradict each other")

    monkeypatch.setattr(Profile, "fit", property(contradict))
    assert card(profile).own_error() == "cannot be fitted: rows contradict each other"
    assert short_error("cannot be fitted: rows contradict each other") == "cannot be fitted"
    assert card(profile).to_json()["leave_one_out"] is None


def test_texts_stand_once_with_whom_they_are_told_of() -> None:
    cards = [card(a_profile({"device": name}), name) for name in ("a", "b", "c")]
    groups = grouped_names(cards, lambda each: "odd" if each.name == "b" else "even")
    assert groups == [("even", ("a", "c")), ("odd", ("b",))]
