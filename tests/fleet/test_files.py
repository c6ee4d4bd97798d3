"""fleet.toml and jobs.toml: what people write becomes nouns, and mistakes become one line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ampere.core.training import Training
from ampere.errors import LONGEST, DataError
from ampere.fleet.files.jobs import read_jobs
from ampere.fleet.files.members import read_fleet
from ampere.fleet.member import Battery, Charging, Fleet, Span
from ampere.fleet.task import Task
from ampere.profiles.jobs.job import Job, Loading
from cli.runner import layers_file
from fakes import plain_model
from libraries import a_profile

BIG = "zoo:cnn5(channels=[9999, 64, 128, 128])"
PI = """
[[member]]
name = "pi"
profile = "profiles/pi.ampere"
"""
FLEET = """
[defaults]
reserve = "10%"
carbon = "56g/kWh"

[[member]]
name = "pi"
profile = "profiles/pi.ampere"
battery = "20Wh"
charge = "80%"
idle_w = 1.5
slots = 2
available = ["0h-8h", "20h-"]
charging = [{from = "2h", to = "4h", power_w = 10}, {to = "30min", power_w = 5}]
price = "hours.csv"

[[member]]
name = "laptop"
profile = "profiles/pi.ampere"
battery = "mains"
carbon = "FR"
"""
JOBS = """
[defaults]
deadline = "6h"
steps = 1000

[[job]]
name = "digits"
model = "zoo:lenet5(channels=[6, 12])"
earliest = "1h 30min"
members = ["pi", "laptop"]
chunk_steps = 500
priority = 2
shrink = "50%"
batch_size = 32
optimizer = "adam"
input = "1x28x28"

[[job]]
name = "epochs"
layers = "model.jsonl"
epochs = 3
samples = 100
validation_samples = 10
accumulate = 2
data_s_per_batch = 0.02
deadline = "2d"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with profiles, of which the present one is another."""
    home = tmp_path / "home"
    (home / "profiles").mkdir(parents=True)
    a_profile({"device": "pi"}).save(home / "profiles" / "pi.ampere")
    layers_file(home / "model.jsonl", plain_model(4, 8))
    (home / "hours.csv").write_text("hour,EUR/kWh\n0,0.1\n12,0.3\n")
    (home / "net.py").write_text("raise SystemExit('it ran')")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return home


def fleet_of(here: Path, text: str) -> Fleet:
    (here / "fleet.toml").write_text(text, encoding="utf-8")
    return read_fleet(here / "fleet.toml")


def jobs_of(here: Path, text: str, fleet: str = FLEET, load_models: bool = False) -> list[Task]:
    (here / "jobs.toml").write_text(text, encoding="utf-8")
    return read_jobs(here / "jobs.toml", fleet_of(here, fleet), load_models=load_models)


def test_a_fleet_is_read(here: Path) -> None:
    pi, laptop = fleet_of(here, FLEET)
    assert pi.battery == Battery(0.8 * 72_000, 72_000, 7_200)
    assert pi.charging == (Charging(Span(7200, 14400), 10), Charging(Span(0, 1800), 5))
    assert pi.available == (Span(0, 28800), Span(72000, math.inf))
    assert (pi.idle_w, pi.slots) == (1.5, 2)
    assert pi.carbon is not None and pi.carbon.per_kwh == 56
    assert pi.price is not None and pi.price.unit == "EUR" and pi.price.hours is not None
    assert (laptop.battery, laptop.slots, laptop.available) == (None, 1, (Span(0.0),))
    assert laptop.carbon is not None and laptop.carbon.place == "France"


def test_members_with_one_profile_share_it(here: Path) -> None:
    """What is wrong with it is wrong for both: a plan must know."""
    pi, laptop = fleet_of(here, FLEET)
    assert pi.profile is laptop.profile


def test_a_battery_is_full_unless_it_says_more(here: Path) -> None:
    (pi,) = fleet_of(here, PI + 'battery = "72 kJ"')
    assert pi.battery == Battery(72_000, 72_000, 0)
    (pi,) = fleet_of(here, PI + 'battery = "20Wh"\ncharge = "0 %"\nreserve = "1Wh"')
    assert pi.battery == Battery(0, 72_000, 3600)


BEGINS = "2026-11-18T22:30:00Z"  # 23:30 in Berlin
NIGHT = """
[defaults]
zone = "Europe/Berlin"

[[member]]
name = "pi"
profile = "profiles/pi.ampere"
battery = "20Wh"
charging = [
    {from = 22:00:00, to = 06:00:00, power_w = 10},
    {from = 2026-11-19T12:00:00, to = 13:00:00, power_w = 5},
]
available = ["0h-1h", {from = 08:00:00, to = 20:00:00}, {from = 2026-11-20T00:00:00+05:00}]
"""


def test_times_of_day_are_the_next_ones_of_a_zone(here: Path) -> None:
    (here / "fleet.toml").write_text(NIGHT)
    (pi,) = read_fleet(here / "fleet.toml", begins=BEGINS)
    hours = [(each.span.start_s / 3600, each.span.end_s / 3600) for each in pi.charging]
    assert hours == [(0.0, 6.5), (12.5, 13.5)]  # it is being charged when the plan begins
    spans = [(span.start_s / 3600, span.end_s / 3600) for span in pi.available]
    assert spans == [(0.0, 1.0), (8.5, 20.5), (20.5, math.inf)]


SPANS = [
    ("06:00:00", "{from = 22:00:00, to = 06:00:00}", (16, 24)),  # the night is over
    ("05:59:59", "{from = 22:00:00, to = 06:00:00}", (0, 1 / 3600)),
    ("22:00:00", "{from = 22:00:00, to = 06:00:00}", (0, 8)),
    ("06:00:00", "{from = 06:00:00, to = 06:00:00}", (0, 24)),
    ("12:00:00", "{from = 08:00:00, to = '2d'}", (20, 48)),
    ("06:00:00", "{to = 06:00:00}", (0, 24)),
    ("06:00:00", "{from = '2h', to = 06:00:00}", (2, 24)),
    ("06:00:00", "{from = 2026-11-19T06:00:00, to = 06:00:00}", (24, 48)),
]


@pytest.mark.parametrize(("begins", "window", "hours"), SPANS)
def test_the_window_of_a_time_of_day(
    here: Path, begins: str, window: str, hours: tuple[float, float]
) -> None:
    (here / "fleet.toml").write_text(f"{PI}\nzone = 'UTC'\navailable = [{window}]")
    (pi,) = read_fleet(here / "fleet.toml", begins=f"2026-11-18T{begins}Z")
    (span,) = pi.available
    assert (span.start_s, span.end_s) == (3600 * hours[0], 3600 * hours[1])


def test_deadlines_may_be_moments(here: Path) -> None:
    text = A + (
        "steps = 1\nearliest = 2026-11-18T00:00:00+01:00\ndeadline = 2026-11-19T06:00:00+01:00\n"
    )
    (here / "jobs.toml").write_text(text)
    (job,) = read_jobs(here / "jobs.toml", fleet_of(here, FLEET), begins=BEGINS)
    assert (job.earliest_s, job.deadline_s) == (0.0, 6.5 * 3600)


def test_jobs_are_read(here: Path) -> None:
    digits, epochs = jobs_of(here, JOBS)
    assert digits.model == "zoo:lenet5(channels=[6, 12])"
    assert digits.job == Job(steps=1000)
    assert digits.training == Training(32, "adam")
    assert str(digits.input) == "1x28x28"
    assert (digits.earliest_s, digits.deadline_s) == (5400, 21600)
    assert digits.members == ("pi", "laptop")
    assert (digits.chunk_steps, digits.priority, digits.shrink) == (500, 2, 0.5)
    assert epochs.model == plain_model(4, 8)
    assert epochs.job == Job(
        epochs=3, samples=100, validation_samples=10, accumulate=2, loading=Loading(0.02)
    )
    assert (epochs.training, epochs.members, epochs.deadline_s) == (None, (), 172800)


def test_training_that_is_not_said_is_as_in_the_profiles(here: Path) -> None:
    from integrations.cases import known_profile

    known_profile().save(here / "profiles" / "cnn.ampere")
    other = PI.replace('"pi"', '"cnn"').replace("/pi", "/cnn")
    line = '[[job]]\nname = "a"\nmodel = "zoo:cnn5"\nsteps = 9\n'
    (job,) = jobs_of(here, line + 'optimizer = "adam"', fleet=other)
    assert job.training == known_profile().training.but(optimizer="adam")
    (job,) = jobs_of(here, line, fleet=PI + other)
    assert job.training is None
    if known_profile().training != Training():
        with pytest.raises(DataError, match="say both batch_size and optimizer"):
            jobs_of(here, line + 'optimizer = "adam"', fleet=PI + other)


@pytest.mark.parametrize("model", ["net.py:Net", "json:loads", "hf:./folder", BIG])
def test_a_file_chooses_no_code(here: Path, model: str) -> None:
    text = f'[[job]]\nname = "a"\nsteps = 1\nmodel = "{model}"\n'
    with pytest.raises(DataError, match=r"jobs.toml: job a: model: loading .* --load-models"):
        jobs_of(here, text)
    (job,) = jobs_of(here, text, load_models=True)  # nor does reading it run any
    assert str(job.model).endswith(model.removeprefix("hf:./"))
    if model == "net.py:Net":
        assert job.model == f"{here}/net.py:Net"  # beside the file that names it


@pytest.mark.parametrize("model", ["timm:resnet18", "hf:bert(sequence=128)", "zoo:cnn5"])
def test_public_models_have_names(here: Path, model: str) -> None:
    (job,) = jobs_of(here, f'[[job]]\nname = "a"\nsteps = 1\nmodel = "{model}"\n')
    assert job.model == model


MISTAKEN_FLEETS = [
    (PI.replace("[[member]]", "[member]") * 2, "twice (at line 6, column 8)): write [[member]]"),
    (PI.replace('"pi"', "pi"), "(at line 3, column 8)): texts stand between quotes"),
    ("", "it has no member: write [[member]] above each of them"),
    ("a = ", "not TOML (Invalid value (at end of document))"),
    ("[[member]]", "member 1: name is missing"),
    (PI.replace("[[member]]", "[member]"), "write [[member]] above each member"),
    (PI.replace("[[member]]", "[[members]]"), "members is not known: is it member?"),
    (PI.replace('"pi"', "3"), "member 1: name must be a text, not 3"),
    (PI.replace('"pi"', '"\\u001b[31m"'), "member 1: name must be a name that can be read"),
    (PI + PI, "there are two members of the name pi"),
    ('[[member]]\nname = "pi"', "member pi: profile is missing"),
    (PI + 'batery = "20Wh"', "member pi: batery is not known: is it battery?"),
    ("[defaults]\nslotz = 2" + PI, "defaults.slotz is not known: is it slots?"),
    (PI.replace("profiles/", "/etc/"), "profile: '/etc/pi.ampere' is no file beside this one"),
    (PI.replace("profiles/", "../"), "profile: '../pi.ampere' is no file beside this one"),
    (PI.replace("/pi.", "/tx."), "profile: there is no file"),
    (PI.replace("profiles/pi.ampere", "net.py"), "member pi: profile: "),
    (PI + 'battery = "5000mAh"', "battery must be what it holds, such as 20Wh"),
    (PI + "battery = 20", "battery must be what it holds"),
    (PI + 'battery = "50%"', "battery must be what it holds"),
    (PI + 'battery = "0Wh"', "battery must be what it holds"),
    (PI + 'charge = "80%"', "battery is missing"),
    (PI + 'battery = "20Wh"\ncharge = "120%"', "cannot hold 86400 J"),
    (PI + 'battery = "20Wh"\ncharge = "2J/step"', "charge must be a share or an energy"),
    (PI + 'battery = "20Wh"\ncharge = 0.8', "charge must be a share or an energy"),
    (PI + 'battery = "20Wh"\nreserve = "100%"', "leaves nothing of a battery"),
    (PI + "idle_w = -1", "idle_w must be a number from 0"),
    (PI + "idle_w = nan", "idle_w must be a number from 0"),
    (PI + "slots = 0", "slots must be a whole number from 1"),
    (PI + 'available = "0h-8h"', "available must be a list"),
    (PI + "available = []", "it is never there"),
    (PI + 'available = ["8h-2h"]', "available[0]: from 28800.0 s to 7200.0 s is no span"),
    (PI + 'available = ["8h"]', "available[0]: '8h' is no span of time: write it as 2h-4h"),
    (PI + 'available = ["8-10"]', "available[0]: '8' is no time: write it as 90 s"),
    (PI + 'battery = "9Wh"\ncharging = [{from = "2h", power_w = 1}]', "charging[0].to is missing"),
    (PI + 'battery = "9Wh"\ncharging = [{to = "2h"}]', "charging[0].power_w is missing"),
    (PI + 'battery = "9Wh"\ncharging = [{to = 2}]', "to must be a time such as 6h"),
    (PI + 'battery = "9Wh"\ncharging = [{to = "2h", w = 1}]', "w is not known"),
    (PI + "available = [{from = 22:00:00}]", "available[0].from: 22:00:00 has no offset"),
    (PI + "available = [{to = 2001-01-01T00:00:00Z}]", "available[0].to has passed: it is"),
    (PI + "available = [{till = 2}]", "till is not known: there are from, to"),
    (PI + 'carbon = "Frnace"', "carbon: 'Frnace' is no country and no carbon intensity (is it Fra"),
    (PI + 'carbon = "none.csv"', "carbon: there is no file"),
    (PI + 'carbon = "../hours.csv"', "is no file beside this one"),
    (PI + 'price = "cheap"', "price: 'cheap' is no price of a kilowatt-hour"),
    (PI + "price = 0.3", "price must be a rate such as FR"),
]


@pytest.mark.parametrize(("text", "says"), MISTAKEN_FLEETS)
def test_what_is_wrong_with_a_fleet_is_one_line(here: Path, text: str, says: str) -> None:
    with pytest.raises(DataError) as refusal:
        fleet_of(here, text)
    check_line(str(refusal.value), here / "fleet.toml", says)


A = '[[job]]\nname = "a"\nmodel = "zoo:lenet5"\n'
MISTAKEN_JOBS = [
    ("[[task]]", "task is not known: there are job, defaults"),
    (A, "job a: how long is it trained? give steps, or epochs and samples"),
    (A + "steps = 1\nepochs = 2", "a job is as long as its steps or its epochs"),
    (A + "epochs = 2", "epochs and samples go together"),
    (A + "steps = 1.5", "steps must be a whole number from 1"),
    (A + "steps = 1\nvalidation_samples = 2", "say how often it is validated"),
    (A + "steps = 1\ndeadlin = 2", "deadlin is not known: is it deadline?"),
    (A + "steps = 1\ndeadline = 6", "deadline must be a time such as 6h or 30min"),
    (A + 'steps = 1\ndeadline = "6 hours"', "deadline: '6 hours' is no time"),
    (A + 'steps = 1\ndeadline = "1e9 d"', "deadline must be a time within ninety years"),
    (A + "steps = 1\ndeadline = 2026-11-18", "or a moment such as 2026-11-19T06:00:00+01:00"),
    (A + "steps = 1\ndeadline = 2026-11-18T06:00:00", "2026-11-18T06:00:00 has no offset"),
    (A + "steps = 1\ndeadline = 06:00:00", "deadline: 06:00:00 has no offset"),
    (
        A + "steps = 1\ndeadline = 2001-11-18T06:00:00Z",
        "deadline has passed: it is",
    ),
    (A + "steps = 1\nearliest = 9999-11-18T06:00:00Z", "earliest must be a time within ninety"),
    (A + 'steps = 1\nzone = "Mars/Base"', "zone: 'Mars/Base' is no zone that is known here"),
    (A + 'steps = 1\nzone = "../../etc/passwd"', "is no zone that is known here"),
    (
        A + 'steps = 1\ndeadline = "1h"\nearliest = "2h"',
        "of 1 h is not after its earliest start (2 h)",
    ),
    (A + 'steps = 1\nmembers = ["po"]', "there is no member po in the fleet: it has pi, laptop"),
    (A + "steps = 1\nmembers = [1]", "members[0] must be the name of a member"),
    (A + "steps = 1\nmembers = []", "leave it out for all"),
    (A + "steps = 1\nchunk_steps = 0", "chunk_steps must be a whole number from 1"),
    (A + "steps = 1\npriority = 0", "priority must be a number above 0"),
    (A + 'steps = 1\nshrink = "150%"', "shrink is a share between 0 and 1"),
    (A + 'steps = 1\nshrink = "5Wh"', "shrink must be a share such as 50% or 0.5"),
    (A + 'steps = 1\ninput = "large"', "input: 'large' is no input"),
    (A + "steps = 1\nbatch_size = 0", "batch_size must be a whole number from 1"),
    (A + 'steps = 1\nloss = "own.py:loss"', "loss must be one of auto"),
    (A + 'steps = 1\nlayers = "model.jsonl"', "it has a model and layers: give one of them"),
    (A + "steps = 1\ndata_j_per_batch = 1", "data_s_per_batch is missing"),
    (A.replace("zoo:lenet5", "lenet5") + "steps = 1", "model: 'lenet5' names no model"),
    (A.replace("zoo:lenet5", "a.py:f(__import__(0))") + "steps = 1", "cannot read the arguments"),
    (A.replace("lenet5", "lenet6") + "steps = 1", "model: the zoo has no 'lenet6'; it has lenet5"),
    (A.replace("lenet5", "lenet5(width=3)") + "steps = 1", "has no argument 'width'; it takes"),
    ('[[job]]\nname = "a"\nsteps = 1', "model is missing"),
    ('[[job]]\nname = "a"\nsteps = 1\nlayers = "hours.csv"', "layers: "),
    ('[[job]]\nname = "a"\nlayers = "model.jsonl"\nsteps = 1\namp = true', "leave amp out"),
    (A + "steps = 1\n" + A + "steps = 2", "there are two jobs of the name a"),
]


@pytest.mark.parametrize(("text", "says"), MISTAKEN_JOBS)
def test_what_is_wrong_with_jobs_is_one_line(here: Path, text: str, says: str) -> None:
    with pytest.raises(DataError) as refusal:
        jobs_of(here, text)
    check_line(str(refusal.value), here / "jobs.toml", says)


def check_line(said: str, path: Path, says: str) -> None:
    assert says in said
    assert said.startswith(f"{path}: ")
    assert said.count(str(path)) == 1 and "\n" not in said and len(said) < LONGEST


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"fleet\.toml cannot be read: No such file"):
        read_fleet(tmp_path / "fleet.toml")
