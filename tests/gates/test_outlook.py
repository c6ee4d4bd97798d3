"""Before the run: what a job will take, whether it may begin, and what would fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import ampere
from ampere.core.fingerprint import Fingerprint
from ampere.devices.memory import KEEPING
from ampere.errors import DataError, NotCovered, Refused
from ampere.gates.opening import Wish, _known, look_before
from ampere.gates.outlook import Decision, Outlook, Suggestion, look_ahead, prior_of
from ampere.gates.story import Part
from ampere.gates.suggestions import Asked
from ampere.gates.terms import Terms
from ampere.meters.base import Provenance
from ampere.meters.drivers.battery import capacity_j
from ampere.profiles.estimate import Estimate
from ampere.profiles.library import open_library
from fakes import plain_model
from gates.stories import start
from gates.worlds import HandMeter
from golden_files import agreed
from integrations.cases import known_profile
from libraries import a_fleet
from plain_rows import layer


def estimate(steps: int = 100, energy_j: float = 200.0, std: float = 0.05) -> Estimate:
    return Estimate((), energy_j, std * energy_j, 10.0, 0.5, steps=steps)


@pytest.mark.parametrize(
    ("budget_j", "decision"),
    [(400.0, Decision.ALLOW), (215.0, Decision.WARN), (120.0, Decision.REFUSE)],
)
def test_it_allows_warns_or_refuses(budget_j: float, decision: Decision) -> None:
    outlook = look_ahead(estimate(), Terms(budget_j=budget_j))
    assert outlook.decision is decision
    said: list[str] = []
    if decision is Decision.REFUSE:
        with pytest.raises(Refused, match="inside 120 J with a probability of"):
            outlook.enforce(False, said.append)
        outlook.enforce(True, said.append)
    else:
        outlook.enforce(False, said.append)
    assert len(said) == 1 and said[0].startswith("100 steps will take about")


def test_what_an_estimate_leaves_out_is_allowed_for() -> None:
    outlook = look_ahead(estimate(), Terms(budget_j=200.0))
    assert outlook.forecast.energy_j > 200.0
    low, high = outlook.interval
    assert low < 200.0 < high
    assert outlook.probability < 0.5


def test_without_a_budget_everything_is_allowed() -> None:
    outlook = look_ahead(estimate(), Terms())
    assert outlook.decision is Decision.ALLOW
    assert "budget" not in outlook.sentence


def test_what_is_not_covered_cannot_be_judged() -> None:
    with pytest.raises(NotCovered, match="does not cover mystery"):
        prior_of(replace(estimate(), uncovered=(layer("mystery"),)))


def job(steps: int = 1000) -> tuple[Asked, float]:
    profile = known_profile()
    asked = Asked("zoo:cnn5", None, profile.training, profile, ampere.Job(steps=steps))
    return asked, asked.estimate().energy_j


def ahead(share: float) -> Outlook:
    asked, energy_j = job()
    return look_before(asked, Wish(share * energy_j), Terms())


def test_a_job_that_fits_needs_no_suggestion() -> None:
    outlook = ahead(2.0)
    assert (outlook.decision, outlook.suggestions) == (Decision.ALLOW, ())


def test_what_would_fit_is_estimated_like_the_job() -> None:
    outlook = ahead(0.6)
    assert outlook.decision is Decision.REFUSE
    by_change = {each.change: each for each in outlook.suggestions}
    assert set(by_change) >= {"steps", "widths"}
    fewer = int(by_change["steps"].text.split(" ")[0].replace(",", ""))
    assert 300 < fewer < 600
    asked, energy_j = job(fewer)
    again = look_before(asked, Wish(0.6 * energy_j / fewer * 1000), Terms())
    assert again.decision is Decision.ALLOW
    assert "of 32" in by_change["widths"].text or " of " in by_change["widths"].text


def test_another_device_that_would_do(tmp_path: Path) -> None:
    library = open_library(a_fleet(tmp_path / "fleet"))
    profile = library.find("tx2").profile
    layers = plain_model(30)
    asked = Asked(layers, None, profile.training, profile, ampere.Job(steps=10), library)
    energy_j = asked.estimate().energy_j
    outlook = look_before(asked, Wish(0.6 * energy_j), Terms())
    devices = [each.text for each in outlook.suggestions if each.change == "device"]
    assert [text.split(" ")[0] for text in devices] == ["box"]  # a third; the laptop has two


WHOLE = ampere.Job(
    epochs=10, samples=1000, validation_samples=400, loading=ampere.Loading(0.01, 0.02)
)


def whole(job: ampere.Job = WHOLE) -> Asked:
    profile = known_profile()
    return Asked("zoo:cnn5", None, replace(profile.training, batch_size=10), profile, job)


def test_of_a_whole_job_its_validation_and_its_loading_are_foreseen() -> None:
    estimate = whole().estimate()
    prior = prior_of(estimate)
    assert prior.loading and prior.validation is not None
    assert prior.validation.every == 100
    total_j = prior.energy_j * (1000 + 10 * prior.validation.worth)
    assert total_j == pytest.approx(estimate.energy_j)
    outlook = look_ahead(estimate, Terms(budget_j=2 * total_j))
    assert outlook.forecast.energy_j == pytest.approx(total_j)
    assert outlook.sentence.endswith("with a probability of 100.0 %")
    assert "with loading and validation as told" in outlook.sentence
    spread = (outlook.interval[1] - outlook.interval[0]) / total_j
    told = (estimate.energy_j_interval[1] - estimate.energy_j_interval[0]) / total_j
    assert told < spread < 2 * told


def test_a_profile_that_knows_nothing_says_so() -> None:
    outlook = look_ahead(estimate(std=3.0), Terms(budget_j=10.0))
    assert outlook.is_blind
    assert "knows too little to tell" in outlook.sentence


def test_a_model_without_a_profile_is_watched_all_the_same() -> None:
    gate = ampere.gate("zoo:cnn5", budget="5J", meter=HandMeter(), steps=3, watch=print)
    assert gate.outlook is None
    training = ampere.Training(batch_size=10)
    job = ampere.gate("zoo:cnn5", budget="5J", meter=HandMeter(), job=WHOLE, training=training)
    assert job.total_steps == 1000


def test_of_a_whole_job_fewer_epochs_would_fit() -> None:
    energy_j = whole().estimate().energy_j
    outlook = look_before(whole(), Wish(0.6 * energy_j), Terms())
    assert outlook.terms.steps == 1000
    (shorter,) = [each for each in outlook.suggestions if each.change == "epochs"]
    assert shorter.text.endswith("epochs instead of 10")
    assert 0.3 * energy_j < (shorter.energy_j or 0) < 0.6 * energy_j


def test_ranks_have_gates_of_their_own() -> None:
    with pytest.raises(DataError, match="leave ranks out"):
        whole(ampere.Job(steps=10, ranks=2))


def test_the_page_of_an_outlook() -> None:
    known = replace(estimate(1000, 100.0), device="laptop", provenance=Provenance.MODELLED)
    suggestions = (
        Suggestion("steps", "454 steps instead of 1,000", 52.5),
        Suggestion("widths", "narrower layers (conv1.out 26 of 32; `ampere prune`)"),
    )
    terms = Terms(budget_j=60.0, budget="60 J")
    outlook = look_ahead(replace(known, warnings=("two threads are crowded",)), terms, suggestions)
    text = f"{outlook!r}\n"
    assert text == agreed("outlook.txt", text)
    row = outlook.to_json()
    assert row["decision"] == "refuse"
    assert row["estimate"]["steps"] == 1000


def test_the_verb_knows_before_and_watches_during(tmp_path: Path) -> None:
    _, energy_j = job(100)
    meter, said = HandMeter(), []
    gate = ampere.gate(
        "zoo:cnn5",
        profile=known_profile(),
        steps=100,
        budget=f"{2 * energy_j} J",
        meter=meter,
        run=tmp_path / "run",
        watch=said.append,
        carbon="100g/kWh",
        price="0.30EUR/kWh",
    )
    assert gate.outlook is not None and gate.outlook.decision is Decision.ALLOW
    with gate:
        for _ in gate.steps(range(100)):
            meter.energy_j += energy_j / 100
    status = gate.status
    assert status is not None
    assert status.spent_gco2e == pytest.approx(energy_j / 3.6e6 * 100)
    assert status.spent_cost == pytest.approx(energy_j / 3.6e6 * 0.3)
    assert (tmp_path / "run" / "gate.jsonl").exists()
    assert [text for text in said if "the estimate counts for less" in text]  # another meter's


def test_a_job_that_will_not_fit_does_not_begin() -> None:
    _, energy_j = job(100)
    gate = ampere.gate(
        "zoo:cnn5", profile=known_profile(), steps=100, budget=0.3 * energy_j, meter=HandMeter()
    )
    with pytest.raises(Refused, match="What would fit"):
        gate.start()
    assert gate.step_count == 0


def test_a_share_is_of_what_was_estimated() -> None:
    gate = ampere.gate(
        "zoo:cnn5", profile=known_profile(), steps=100, budget="150%", meter=HandMeter()
    )
    _, energy_j = job(100)
    assert gate.terms.budget_j == pytest.approx(1.5 * energy_j)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"budget": "5 kilos"}, "is no budget"),
        ({"budget": 0}, "budget"),
        ({"budget": "1EUR"}, "--price"),
        ({"budget": "1kgCO2e"}, "--carbon"),
        ({"budget": "2J/step"}, "length"),
        ({"budget": "50%"}, "what the full model takes"),
        ({"budget": "5J", "profile": "x.ampere"}, "give the model, too"),
        ({"budget": "5J", "job": WHOLE}, "give training="),
        ({"budget": "5J", "job": WHOLE, "steps": 5}, "leave steps and epochs out"),
        ({"budget": "5J", "sinks": ("pigeon",), "run": "r"}, "no sink named 'pigeon'"),
    ],
)
def test_words_that_cannot_be(
    words: dict[str, object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=said):
        ampere.gate(meter=HandMeter(), **words)  # type: ignore[arg-type]


def test_what_a_battery_holds(tmp_path: Path) -> None:
    for name, files in {
        "BAT0": {"type": "Battery", "energy_full": "50000000"},
        "BAT1": {"type": "Battery", "charge_full": "2000000", "voltage_min_design": "10000000"},
        "AC": {"type": "Mains", "online": "1"},
    }.items():
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
    assert capacity_j(str(tmp_path)) == pytest.approx(3600 * (50 + 20))
    assert capacity_j(str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    ("identity", "environment", "told"),
    [
        ({"freed_memory": "kept"}, {}, True),
        ({"freed_memory": "kept"}, KEEPING, False),
        ({"freed_memory": "kept", "accelerator": "cuda"}, {}, False),
        ({"freed_memory": "as the system does"}, {}, False),
        ({}, {}, False),
    ],
)
def test_a_process_that_gives_memory_back_is_told_what_that_takes(
    identity: dict[str, str],
    environment: dict[str, str],
    told: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in KEEPING:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    known = known_profile()
    header = replace(known.header, fingerprint=Fingerprint(identity))
    said: list[str] = []
    ampere.gate(
        "zoo:cnn5",
        profile=replace(known, header=header),
        steps=10,
        meter=HandMeter(),
        watch=said.append,
    )
    assert any("ampere.keep_memory()" in text for text in said) is told


def test_a_long_name_of_a_layer_is_cut_before_it_is_told(tmp_path: Path) -> None:
    """The story of a run would be refused when it is read."""
    said = known_profile().estimate("zoo:cnn5")
    first, *rest = said.lines
    longer = replace(first, layer=replace(first.layer, name="x" * 201))
    begun = _known(start(), Wish(), replace(said, lines=(longer, *rest)), None)
    assert len(begun.layers[0].name) == 200
    assert Part.read(begun.layers[0].to_json(), "it") == begun.layers[0]
