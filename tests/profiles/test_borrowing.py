"""Borrowing: which profiles may lend to a new device, and what is said where they may not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ampere.errors import DataError, NotCovered
from ampere.estimators.additive import AdditiveFit
from ampere.meters.base import Provenance
from ampere.profiles.borrowing import estimate_unmeasured, make_lenders, read_entries
from ampere.profiles.profile import Profile
from fakes import plain_model
from libraries import MODELS, TORCH, a_fleet, a_profile
from surveyed import drawn, surveyed

ASKED = plain_model(20, 30)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two devices to borrow from, and a new one of six rows that is like the second."""
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    a_profile({"device": "xavier"}, factor=1.0).save(fleet / "xavier.ampere")
    a_profile({"device": "tx2"}, factor=3.0).save(fleet / "tx2.ampere")
    a_profile({"device": "nano"}, factor=5.0, models=MODELS[:3]).save(tmp_path / "nano.ampere")
    return tmp_path


def test_a_folder_or_files_with_commas(folder: Path) -> None:
    fleet = folder / "fleet"
    assert [each.name for each in read_entries(str(fleet))] == ["tx2", "xavier"]
    files = f"{fleet / 'xavier.ampere'}, {fleet / 'tx2.ampere'},"
    assert {each.name for each in read_entries(files)} == {"xavier", "tx2"}
    twice = f"{fleet},{fleet / 'tx2.ampere'}"
    assert len(read_entries(twice)) == 2


def test_the_profile_itself_may_lie_in_the_folder_but_not_be_named(folder: Path) -> None:
    own = folder / "fleet" / "tx2.ampere"
    assert [each.name for each in read_entries(str(folder / "fleet"), own)] == ["xavier"]
    with pytest.raises(DataError, match=r"tx2\.ampere is the profile itself"):
        read_entries(str(own), own)
    (folder / "fleet" / "xavier.ampere").unlink()
    with pytest.raises(DataError, match="has no other profile than"):
        read_entries(str(folder / "fleet"), own)


def test_a_profile_borrows_and_says_so(folder: Path) -> None:
    profile = Profile.load(folder / "nano.ampere", keep_fit=True)
    lenders = make_lenders(read_entries(str(folder / "fleet")), profile)
    borrowing = profile.borrowing(lenders)
    answer = borrowing.estimate(ASKED)
    assert set(answer.lent) == {"xavier", "tx2"}
    assert "borrowed" in repr(answer) and answer.to_json()["borrowed"] == dict(answer.lent)
    truth = 5 * Profile.load(folder / "fleet" / "xavier.ampere").estimate(ASKED).energy_j
    assert answer.energy_j == pytest.approx(truth, rel=0.05)
    assert "borrowed" not in profile.estimate(ASKED).to_json()


def test_what_was_kept_of_a_fit_belongs_to_its_lenders(folder: Path) -> None:
    def asked(*names: str) -> float:
        profile = Profile.load(folder / "nano.ampere", keep_fit=True)
        files = ",".join(str(folder / "fleet" / f"{name}.ampere") for name in names)
        lenders = make_lenders(read_entries(files), profile) if names else None
        return profile.borrowing(lenders).estimate(ASKED).energy_j

    first = [asked(), asked("tx2"), asked("tx2", "xavier")]
    assert len(set(first)) == 3
    assert [asked(), asked("tx2"), asked("xavier", "tx2")] == first


def test_tables_are_refused(folder: Path) -> None:
    profile = Profile.load(folder / "nano.ampere")
    borrowing = profile.borrowing(make_lenders(read_entries(str(folder / "fleet"))))
    fit = borrowing.fit
    assert isinstance(fit, AdditiveFit) and fit.encoder.lenders is not None
    with pytest.raises(DataError, match="has no tables"):
        borrowing.tabulate(ASKED)


def test_a_device_that_was_never_metered(folder: Path) -> None:
    answer = estimate_unmeasured(ASKED, read_entries(str(folder / "fleet")), steps=10)
    low, high = answer.energy_j_interval
    assert high > 5 * low
    assert answer.steps == 10 and answer.device == "not measured, taken to be like tx2, xavier"
    assert "no row is of this device" in answer.warnings[-1]
    assert sum(answer.lent.values()) == pytest.approx(1.0)


def test_strange_layers_are_not_covered(folder: Path) -> None:
    import priced_rows

    with pytest.raises(NotCovered, match="none of tx2, xavier covers"):
        estimate_unmeasured((priced_rows.pool(3),), read_entries(str(folder / "fleet")))


def test_joules_of_one_sort_only(tmp_path: Path) -> None:
    fleet = a_fleet(tmp_path / "mixed")
    with pytest.raises(DataError, match="joules of box are modelled, of laptop measured"):
        make_lenders(read_entries(str(fleet)))


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("framework", "jax 0.4", "ran with framework torch, other with jax"),
        ("compile", "True", "ran with compile False, other with True"),
    ],
)
def test_one_runtime_only(tmp_path: Path, key: str, value: str, says: str) -> None:
    a_profile({"processor": "A", **TORCH}).save(tmp_path / "one.ampere")
    a_profile({"processor": "B", **TORCH, key: value}).save(tmp_path / "other.ampere")
    entries = read_entries(f"{tmp_path / 'one.ampere'},{tmp_path / 'other.ampere'}")
    with pytest.raises(DataError, match=says):
        make_lenders(entries)


def test_another_version_of_a_runtime_will_do(tmp_path: Path) -> None:
    a_profile({"processor": "A", **TORCH}).save(tmp_path / "one.ampere")
    newer = {"processor": "B", **TORCH, "framework": "torch 2.99"}
    a_profile(newer).save(tmp_path / "other.ampere")
    assert len(make_lenders(read_entries(str(tmp_path))).each) == 2


def test_the_same_device_twice_is_no_other_device(folder: Path) -> None:
    nano = Profile.load(folder / "nano.ampere")
    a_profile({"device": "nano"}, factor=5.1).save(folder / "again.ampere")
    with pytest.raises(DataError, match=r"again.ampere is of the same device, nano"):
        make_lenders(read_entries(str(folder / "again.ampere")), nano)
    (folder / "copy.ampere").write_bytes((folder / "nano.ampere").read_bytes())
    with pytest.raises(DataError, match=r"copy.ampere has rows of the profile itself"):
        make_lenders(read_entries(str(folder / "copy.ampere")), nano)


def test_provenance_of_the_profile_counts_as_well(folder: Path) -> None:
    own = a_profile({"device": "pi"}, provenance=Provenance.COUNTER, factor=7.0)
    with pytest.raises(DataError, match="joules of tx2 are simulated, of the profile measured"):
        make_lenders(read_entries(str(folder / "fleet")), own)


def a_survey(device: str, rows: int = 4) -> Profile:
    """A profile of a device for any model; one with other rows is dearer."""
    told = [
        replace(surveyed(x, float(rows)), provenance=Provenance.SIMULATED) for x in drawn()[:rows]
    ]
    return replace(a_profile({"device": device}), measurements=tuple(told))


BESIDE = r"is a survey, and .* is of a family, whose layers are no calls: name surveys alone"


def test_layers_of_a_family_and_calls_of_a_survey_do_not_lend_to_each_other(folder: Path) -> None:
    a_survey("pi").save(folder / "pi.ampere")
    survey = read_entries(str(folder / "pi.ampere"))
    families = read_entries(str(folder / "fleet"))
    with pytest.raises(DataError, match=f"pi {BESIDE}"):
        make_lenders([*families, *survey])
    with pytest.raises(DataError, match=f"the profile {BESIDE}"):
        make_lenders(families, a_survey("tv"))
    with pytest.raises(DataError, match=f"pi {BESIDE}"):
        make_lenders(survey, Profile.load(folder / "nano.ampere"))
    with pytest.raises(DataError, match=f"what is measured here {BESIDE}"):
        make_lenders(families, by_calls=True)  # `ampere survey`, before the first row
    with pytest.raises(DataError, match=f"pi {BESIDE}"):
        make_lenders(survey, by_calls=False)  # `ampere profile`, likewise
    with pytest.raises(DataError, match=f"pi {BESIDE}"):
        estimate_unmeasured(ASKED, [*survey, *families])


def test_surveys_lend_to_a_survey_and_to_a_family_that_becomes_one(folder: Path) -> None:
    a_survey("pi", rows=3).save(folder / "pi.ampere")
    entries = read_entries(str(folder / "pi.ampere"))
    family = Profile.load(folder / "nano.ampere")
    assert [make_lenders(entries, own, by_calls=True).names for own in (None, family)] == [
        ("pi",),
        ("pi",),
    ]
    assert make_lenders(entries, a_survey("tv", rows=2)).names == ("pi",)
