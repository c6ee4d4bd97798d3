"""`ampere devices`: list, show, add, compare; what is wrong is one line, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.runner import answer, check_bad_line, last_line, layers_file, run
from fakes import plain_model
from libraries import a_fleet, a_profile

pytestmark = pytest.mark.usefixtures("fleet")


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library, a profile beside it, plain layers, and folders of which something is wrong."""
    monkeypatch.chdir(tmp_path)
    a_profile({"device": "pi"}).save("pi.ampere")
    layers_file(Path("layers.jsonl"), plain_model(20, 20))
    Path("bare").mkdir()
    Path("bad").mkdir()
    Path("bad/a.ampere").write_text("")
    Path("bad/b.ampere").write_text("{}")
    Path("page.html").write_text("mine")
    return a_fleet(Path("fleet"))


def test_list_names_every_file(fleet: Path) -> None:
    result = run("devices", "list", fleet)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "fleet: 3 profiles"
    assert any(line.startswith("unusable   broken.ampere: line 1: ") for line in lines)
    names = [each["name"] for each in answer(run("devices", "list", fleet, "--json"))["profiles"]]
    assert names == ["box", "laptop", "tx2"]


def test_show_says_all_about_one() -> None:
    result = run("devices", "show", "fleet", "laptop")
    assert result.stdout.startswith("laptop: 13 rows of 3 kinds of layers, joules measured")
    assert answer(run("devices", "show", "fleet", "tx2", "--json"))["metered"] == "simulated"


def test_add_says_what_it_added() -> None:
    result = run("devices", "add", "fleet", "pi.ampere", "--name", "pi-4")
    assert result.stdout.startswith(
        "added fleet/pi-4.ampere: pi, 13 rows, joules simulated; own error, leave one out: "
    )
    assert Path("fleet/pi-4.ampere").read_bytes() == Path("pi.ampere").read_bytes()
    again = run("devices", "add", "fleet", "pi.ampere")
    assert (again.exit_code, last_line(again)) == (
        1,
        "error: fleet/pi-4.ampere has all rows of pi.ampere already: nothing is to be added",
    )
    row = answer(run("devices", "add", "bare", "pi.ampere", "--json"))
    assert (row["name"], row["file"]) == ("pi", "bare/pi.ampere")


def test_compare_is_a_table_json_and_a_page() -> None:
    line = ("devices", "compare", "fleet", "--layers", "layers.jsonl")
    result = run(*line, "--html", "new.html", "--steps", "10")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("10 training steps of layers.jsonl by 3 profiles, estimated\n")
    assert last_line(result) == "wrote new.html: open it in a browser"
    assert Path("new.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    row = answer(run(*line, "--json"))
    assert [each["name"] for each in row["devices"]] == ["box", "laptop", "tx2"]
    assert [each["name"] for each in row["left_out"]] == ["broken"]


def test_compare_reads_a_model() -> None:
    result = run("devices", "compare", "fleet", "zoo:lenet5", "--batch-size", "8")
    assert result.exit_code == 1
    assert last_line(result).startswith("error: no profile of fleet covers the model: box ")


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("devices list none", 1, "none does not exist: name a folder of profiles"),
        ("devices list bare", 1, "bare has no profile (*.ampere): `ampere devices add`"),
        ("devices list pi.ampere", 1, "pi.ampere is no folder"),
        ("devices list bad", 1, "bad/a.ampere cannot be used: is empty"),
        ("devices show fleet tx3", 1, "fleet has no profile 'tx3': did you mean tx2?"),
        ("devices show fleet broken", 1, "fleet/broken.ampere cannot be used: line 1"),
        ("devices add none pi.ampere", 1, "none does not exist"),
        ("devices add fleet missing", 1, "missing does not exist"),
        ("devices add fleet fleet", 1, "fleet is a directory"),
        ("devices add fleet fleet/broken.ampere --name x", 1, "not a journal of ampere"),
        ("devices add fleet pi.ampere --name ../x", 1, "is no name for a profile"),
        ("devices add fleet pi.ampere --name tx2", 1, "fleet/tx2.ampere exists"),
        ("devices compare fleet", 2, "give either MODEL or --layers"),
        ("devices compare fleet zoo:lenet6", 1, "lenet5"),
        ("devices compare none zoo:lenet5", 1, "none does not exist"),
        ("devices compare fleet --layers none", 1, "none"),
        ("devices compare fleet --layers layers.jsonl --html page.html", 1, "page.html exists"),
        ("devices compare fleet --layers layers.jsonl --html no/a.html", 1, "cannot write"),
        ("devices compare fleet --layers layers.jsonl --optimizer adam", 2, "say themselves"),
        ("devices magic", 2, "magic"),
    ],
)
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)
    assert Path("page.html").read_text() == "mine"
    assert sorted(path.name for path in Path("fleet").iterdir()) == [
        *("box.ampere", "broken.ampere", "laptop.ampere", "tx2.ampere"),
    ]
