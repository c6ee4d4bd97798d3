"""`ampere estimate A B C`: one table, and what cannot be estimated is named beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ampere
from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.errors import NotCovered
from ampere.profiles.lineup import Lineup
from cli.runner import answer, check_bad_line, run
from fakes import exact
from golden_files import agreed

NARROW, WIDE = "net.py:Net(width=3)", "net.py:Net(width=6)"


@pytest.fixture
def profile(net: Path) -> Path:
    """What a fake device taught of the user's net."""
    rows = [exact(ampere.read_layers(f"{net}:Net(width={width})")) for width in (1, 3, 6)]
    rows += [exact(row.layers[1:]) for row in rows]
    path = net.parent / "net.ampere"
    ampere.fit(rows, device="pi").save(path)
    return path


def table_of(text: str) -> list[str]:
    """The lines of the table on a page."""
    return text.split("\n\n")[1].splitlines()


def test_several_are_a_table_of_totals(profile: Path) -> None:
    result = run("estimate", WIDE, NARROW, "--profile", profile, "--steps", 2000)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == agreed("estimate_several.txt", result.stdout)
    assert max(map(len, table_of(result.stdout))) <= 80


def test_as_json_they_are_what_each_alone_says(profile: Path) -> None:
    line = ("--profile", profile, "--steps", 7, "--json")
    both = answer(run("estimate", NARROW, WIDE, *line))
    alone = [answer(run("estimate", model, *line)) for model in (NARROW, WIDE)]
    assert [row.pop("model") for row in both] == [NARROW, WIDE]
    assert both == alone


def test_one_that_cannot_be_is_named_and_the_others_are_shown(profile: Path) -> None:
    line = ("estimate", NARROW, "net.py:raises", "absent.py:Net", WIDE, "--profile", profile)
    result = run(*line)
    assert result.exit_code == 1
    assert result.stdout.startswith("2 models, 1 training step each\n")
    errors = [text for text in result.stderr.splitlines() if text.startswith("error: ")]
    assert [name in text for name, text in zip(("raises", "absent.py"), errors, strict=True)]
    assert "Traceback" not in result.stderr
    done = run(*line, "--json")
    assert done.exit_code == 1
    rows = json.loads(done.stdout)
    assert [row["model"] for row in rows] == [NARROW, "net.py:raises", "absent.py:Net", WIDE]
    assert ["error" in row for row in rows] == [False, True, True, False]


def test_one_that_is_not_covered_is_named(profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    estimate = ampere.Profile.estimate

    def covers_only_wide(self: ampere.Profile, model: str, *rest: Any, **more: Any) -> Any:
        if model != WIDE:
            raise NotCovered("none of its layers")
        return estimate(self, model, *rest, **more)

    monkeypatch.setattr(ampere.Profile, "estimate", covers_only_wide)
    result = run("estimate", NARROW, WIDE, "--profile", profile)
    assert (result.exit_code, WIDE in result.stdout) == (1, True)
    errors = [text for text in result.stderr.splitlines() if text.startswith("error: ")]
    assert len(errors) == 1
    assert f"covers no layer of {NARROW}: " in errors[0]
    assert "profile this model first" in errors[0]
    nothing = run("estimate", NARROW, "net.py:Norm", "--profile", profile)
    assert (nothing.exit_code, nothing.stdout) == (1, "")


def test_one_that_is_covered_in_part_is_not_compared(profile: Path) -> None:
    whole = ampere.Profile.load(profile).estimate(WIDE)
    odd = Layer("odd", LayerKind("hidden odd", Role.HIDDEN, "odd"), Widths({"in": 3}))
    part = replace(whole, uncovered=(odd,), warnings=("not in the total: odd", *whole.warnings))
    *_, last = table_of(repr(Lineup((("whole", whole), ("part", part)))))
    assert last.endswith(" in part")
    text = repr(Lineup((("part", part), ("whole", whole))))
    assert table_of(text)[-1].endswith(" unknown")
    assert "warning    part: not in the total: odd" in text


def test_the_same_twice_is_asked_once_and_still_a_table(profile: Path) -> None:
    result = run("estimate", WIDE, WIDE, "--profile", profile)
    assert (result.exit_code, result.stdout.startswith("1 model, ")) == (0, True)


def test_battery_and_rates_have_a_line_for_each(profile: Path) -> None:
    options = ("--battery-wh", 15, "--carbon", "France", "--price", "0.30EUR/kWh")
    text = run("estimate", NARROW, WIDE, "--profile", profile, *options).stdout
    for name in ("battery", "carbon", "cost"):
        assert [line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")] == [
            f"{NARROW}:",
            f"{WIDE}:",
        ]


def test_a_long_name_is_shortened_in_its_middle(profile: Path) -> None:
    folder = profile.parent / ("long" * 20)
    folder.mkdir()
    (folder / "net.py").write_text((profile.parent / "net.py").read_text())
    long = f"{folder.name}/net.py:Net(width=3)"
    result = run("estimate", long, WIDE, "--profile", profile)
    assert result.exit_code == 0, result.stderr
    assert max(map(len, table_of(result.stdout))) <= 80
    assert "…" in result.stdout


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("estimate a b --profile told.ampere --layers net.py", "either MODEL or --layers"),
        ("estimate a b --profile told.ampere --after-steps 9", "it learns of one alone"),
        ("estimate a b", "--profile FILE is missing"),
        ("estimate net.py:Net --profile told.ampere --input 3,64,64", "write 3x64x64 for one"),
        ("layers net.py:Net --input 28,28", "or '28, 28' for 2"),
    ],
)
@pytest.mark.usefixtures("files")
def test_a_line_that_cannot_be_read_says_so(line: str, says: str) -> None:
    check_bad_line(line, 2, says)


def test_inputs_with_blanks_are_several_as_ever(net: Path) -> None:
    net.write_text(
        "from torch import nn\n\n\nclass Two(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.fc = nn.Linear(4, 3)\n\n"
        "    def forward(self, a, b):\n        return self.fc(a + b)\n"
    )
    result = run("layers", "net.py:Two", "--input", "4, 4")
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize("name", ["AdamW", "ADAMW", " adamw "])
def test_an_optimizer_is_itself_whatever_its_letters(name: str, net: Path) -> None:
    rows = answer(run("layers", "net.py:Net", "--optimizer", name, "--json"))
    assert rows == answer(run("layers", "net.py:Net", "--optimizer", "adamw", "--json"))


def test_an_optimizer_that_is_none_is_refused(net: Path) -> None:
    check_bad_line("layers net.py:Net --optimizer Lion", 1, "unknown optimizer 'lion'")


def test_an_interval_that_says_nothing_does_not_choose_the_unit(profile: Path) -> None:
    sure = ampere.Profile.load(profile).estimate(WIDE, steps=2000)
    unsure = replace(sure, energy_j_std=3 * sure.energy_j)
    head, _, first, second = table_of(repr(Lineup((("sure", sure), ("unsure", unsure)))))
    assert table_of(repr(Lineup((("sure", sure),))))[0].split() == head.split()
    assert first.split()[1] == second.split()[1] == f"{sure.energy_j:.3f}"
    assert second.count("J") == 2  # both ends of its interval have their units
