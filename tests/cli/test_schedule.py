"""`ampere schedule`: files in, a plan out; and its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ampere.fleet.plan import read_plan
from cli.runner import answer, check_bad_line, last_line, layers_file, run
from fakes import plain_model
from libraries import a_profile

FLEET = """
[[member]]
name = "pi"
profile = "pi.ampere"
battery = "2Wh"

[[member]]
name = "box"
profile = "box.ampere"
carbon = "56g/kWh"
"""
JOBS = """
[defaults]
layers = "model.jsonl"

[[job]]
name = "digits"
steps = 1000

[[job]]
name = "faces"
steps = 2000
"""
TOO_MUCH = '\n[[job]]\nname = "ages"\nsteps = 10_000_000\nmembers = ["pi"]\n'


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fleet of two, of which one takes three times as much."""
    monkeypatch.chdir(tmp_path)
    a_profile({"device": "simulated pi"}).save("pi.ampere")
    a_profile({"device": "simulated box"}, factor=3.0).save("box.ampere")
    layers_file(Path("model.jsonl"), plain_model(20, 30))
    Path("fleet.toml").write_text(FLEET)
    Path("jobs.toml").write_text(JOBS)
    Path("more.toml").write_text(JOBS + TOO_MUCH)
    Path("net.py").write_text("raise SystemExit('it ran')")
    Path("code.toml").write_text('[[job]]\nname = "a"\nmodel = "net.py:Net"\nsteps = 1\n')
    Path("empty.toml").touch()
    Path("noise.toml").write_bytes(b"\xff\xfe\x00")
    return tmp_path


def test_a_plan_is_printed_and_written() -> None:
    result = run("schedule", "fleet.toml", "jobs.toml", "-o", "plan.json")
    assert result.exit_code == 0, result.output
    plan = read_plan("plan.json")
    assert result.stdout == f"{plan!r}\n"
    assert {(each.job, each.member) for each in plan.assignments} == {
        ("digits", "pi"),
        ("faces", "pi"),
    }
    assert last_line(result).startswith("wrote plan.json: ")
    box = next(each for each in plan.standings if each.member == "box")
    assert [level.per_kwh for level in box.carbon] == [56.0]


def test_as_json_it_is_the_file(here: Path) -> None:
    found = answer(run("schedule", "fleet.toml", "jobs.toml", "-o", "plan.json", "--json"))
    assert found == json.loads(Path("plan.json").read_text())
    begins = "2026-05-01T08:00:00Z"
    again = answer(run("schedule", "fleet.toml", "jobs.toml", "--begins", begins, "--json"))
    assert again["begins"].startswith("2026-05-01T08:00:00")


def test_jobs_that_fit_nowhere_make_another_exit_code() -> None:
    result = run("schedule", "fleet.toml", "more.toml", "-o", "plan.json")
    assert result.exit_code == 3
    plan = read_plan("plan.json")
    assert [each.job for each in plan.unplaced] == ["ages"]
    assert {each.job for each in plan.assignments} == {"digits", "faces"}


def test_a_plan_is_replaced_and_nothing_else_is() -> None:
    for _ in range(2):
        assert run("schedule", "fleet.toml", "jobs.toml", "-o", "plan.json").exit_code == 0
    for other in ("jobs.toml", "pi.ampere", "net.py"):
        before = Path(other).read_bytes()
        check_bad_line(f"schedule fleet.toml jobs.toml -o {other}", 1, "exists, and is no plan")
        assert Path(other).read_bytes() == before


def test_objectives_may_be_weighed() -> None:
    weights = "energy=1, makespan=0.5"
    found = answer(run("schedule", "fleet.toml", "jobs.toml", "--objective", weights, "--json"))
    assert "energy" in found["objective"] and "makespan" in found["objective"]


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("schedule", 2, "FLEET"),
        ("schedule fleet.toml", 2, "JOBS"),
        ("schedule none.toml jobs.toml", 1, "none.toml cannot be read: No such file"),
        ("schedule . jobs.toml", 1, ". cannot be read: Is a directory"),
        ("schedule jobs.toml fleet.toml", 1, "jobs.toml: job is not known: there are member"),
        ("schedule fleet.toml empty.toml", 1, "empty.toml: it has no job"),
        ("schedule pi.ampere jobs.toml", 1, "pi.ampere: not TOML"),
        ("schedule fleet.toml code.toml", 1, "give --load-models if you trust this file"),
        ("schedule fleet.toml jobs.toml --confidence 90", 2, "no share between 0 and 1"),
        ("schedule fleet.toml jobs.toml --objective joules", 1, "'joules'"),
        ("schedule fleet.toml jobs.toml --objective energy=1,carbon", 2, "'carbon' is no weight"),
        ("schedule fleet.toml jobs.toml --objective energy=nan", 2, "is no weight"),
        ("schedule fleet.toml jobs.toml --objective carbon", 1, "pi"),
        ("schedule fleet.toml jobs.toml --begins tomorrow", 1, "'tomorrow' is no moment"),
        ("schedule fleet.toml jobs.toml -o none/plan.json", 1, "none is no folder"),
        ("schedule fleet.toml jobs.toml -o .", 1, ". is a folder"),
        ("schedule fleet.toml jobs.toml -o /proc/plan.json", 1, "cannot write /proc/plan.json"),
        ("schedule noise.toml jobs.toml", 1, "is not UTF-8 text: write [[member]] tables in TOML"),
    ],
)
def test_a_bad_line_is_said(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)


def test_a_plan_becomes_a_page() -> None:
    run("schedule", "fleet.toml", "more.toml", "-o", "plan.json")
    result = run("report", "plan.json", "-o", "plan.html")
    assert result.stdout == "wrote plan.html: open it in a browser\n"
    assert "A plan: 3 jobs on 2 devices" in Path("plan.html").read_text(encoding="utf-8")
    plan = json.loads(Path("plan.json").read_text())
    Path("sorted.json").write_text(json.dumps(plan, indent=2, sort_keys=True))
    assert run("report", "sorted.json", "-o", "sorted.html").exit_code == 0
    check_bad_line("report plan.json --figures charts", 2, "go with a profile: this is a plan")
    cut = Path("plan.json").read_text()[:-9]
    Path("cut.json").write_text(cut)
    check_bad_line("report cut.json -o cut.html", 1, "cut.json: not JSON")
    assert not Path("cut.html").exists()
    wanted = "jobs.toml is neither a profile nor a plan: give what `ampere profile` or"
    check_bad_line("report jobs.toml -o jobs.html", 1, wanted)
