"""`--like-devices`: a new device borrows from others; what is wrong is one line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from cli.runner import answer, check_bad_line, layers_file, run
from fakes import plain_model
from libraries import MODELS, a_fleet, a_profile

pytestmark = pytest.mark.usefixtures("fleet")
LAYERS = ("estimate", "--layers", "layers.jsonl")


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two devices to borrow from, a new one with three rows, and what does not go with them."""
    monkeypatch.chdir(tmp_path)
    Path("fleet").mkdir()
    a_profile({"device": "xavier"}).save("fleet/xavier.ampere")
    a_profile({"device": "tx2"}, factor=3.0).save("fleet/tx2.ampere")
    a_profile({"device": "nano"}, factor=5.0, models=MODELS[:3]).save("nano.ampere")
    a_fleet(Path("mixed"))
    layers_file(Path("layers.jsonl"), plain_model(20, 30))
    Path("bare").mkdir()
    Path("own").mkdir()
    Path("own/nano.ampere").write_bytes(Path("nano.ampere").read_bytes())


def test_a_profile_with_others(tmp_path: Path) -> None:
    row = answer(run(*LAYERS, "--profile", "nano.ampere", "--like-devices", "fleet", "--json"))
    assert set(row["borrowed"]) == {"xavier", "tx2"}
    xavier = answer(run(*LAYERS, "--profile", "fleet/xavier.ampere", "--json"))
    assert "borrowed" not in xavier
    assert row["energy_j"] == pytest.approx(5 * xavier["energy_j"], rel=0.05)
    text = run(*LAYERS, "--profile", "nano.ampere", "--like-devices", "fleet").stdout
    assert "\nborrowed   " in text and "xavier" in text and "tx2" in text


def test_others_alone() -> None:
    files = "fleet/xavier.ampere,fleet/tx2.ampere"
    result = run(*LAYERS, "--like-devices", files, "--steps", "10", "--json")
    row = answer(result)
    assert "warning: no row is of this device" in result.stderr
    assert row["steps"] == 10 and math.fsum(row["borrowed"].values()) == pytest.approx(1.0)
    low, high = row["energy_j_interval"]
    each = [
        10 * answer(run(*LAYERS, "--profile", f"fleet/{name}.ampere", "--json"))["energy_j"]
        for name in ("xavier", "tx2")
    ]
    assert low < min(each) < row["energy_j"] < max(each) < high


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ("", 2, "--profile FILE is missing"),
        ("--like-devices fleet --method paper", 2, "--profile FILE is missing"),
        ("--like-devices fleet --profile nano.ampere --method paper", 2, "only the additive"),
        ("--like-devices bare", 1, "bare has no profile (*.ampere)"),
        ("--like-devices ,", 1, "names no profile"),
        ("--like-devices none.ampere", 1, "none.ampere: it cannot be read"),
        ("--like-devices layers.jsonl", 1, "layers.jsonl"),
        ("--like-devices mixed", 1, "joules of box are modelled, of laptop measured"),
        ("--like-devices nano.ampere --profile nano.ampere", 1, "is the profile itself"),
        ("--like-devices own --profile nano.ampere", 1, "has rows of the profile itself"),
        ("--like-devices own --profile own/nano.ampere", 1, "has no other profile than"),
    ],
)
def test_bad_input_is_one_line(options: str, code: int, says: str) -> None:
    check_bad_line(f"estimate --layers layers.jsonl {options}", code, says)
