"""Figures: what must be on them is on them, and drawing leaves no trace."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ampere.errors import DataError
from ampere.meters.base import Provenance
from ampere.pruning.search import GUIDES
from ampere_paper.figures import style
from ampere_paper.figures.training import LABELS, LOOKS, _apart, _smoothed, draw_study
from ampere_paper.study.case_study import FULL
from ampere_paper.study.study import Contender, Curve, Study

matplotlib = pytest.importorskip("matplotlib")
MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def made_up(provenance: Provenance = Provenance.MODELLED, turns: int = 40) -> Study:
    steps = tuple(range(50, 50 * turns + 1, 50))

    def contender(name: str, joules: float) -> Contender:
        loss = tuple(2 / (1 + s / 300) for s in steps)
        accuracy = tuple(1 - each / 2 for each in loss)
        energy_j, time_s = (tuple(k * s for s in steps) for k in (joules, 0.01))
        return Contender(
            Curve(name, steps, loss, accuracy, energy_j, time_s), 9, 9.0, {}, joules, 0.1, 0.5, 0.9
        )

    models = (contender("full", 10.0), contender("energy", 4.9), contender("flops", 5.6))
    return Study(
        "zoo:cnn5", "celeba", "50%", 5.0 * steps[-1], models, 10, "sgd", 0.01, "random", 0.9, 0,
        provenance, "xavier", "2026-01-02T03:04:05+00:00",
    )  # fmt: skip


def texts_of(study: Study, path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is written on a figure; letters as letters, not as paths."""
    monkeypatch.setitem(style.STYLE, "svg.fonttype", "none")
    draw_study(study, path)
    found = re.findall(r"<text[^>]*>(.*?)</text>", path.read_text(), re.DOTALL)
    return "\n".join(re.sub(r"<[^>]+>", " ", each) for each in found)


@pytest.mark.parametrize("kind", MAGIC)
def test_the_suffix_decides_and_the_same_study_is_the_same_file(tmp_path: Path, kind: str) -> None:
    files = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for file in files:
        draw_study(made_up(), str(file))
    first, second = (file.read_bytes() for file in files)
    assert first.startswith(MAGIC[kind])
    assert first == second
    assert len(first) > 5000


def test_what_is_written_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = texts_of(made_up(), tmp_path / "a.svg", monkeypatch)
    for text in ("full model", "energy-guided", "FLOPs-guided", "budget 50%: 10.0 kJ", "49.0 %",
                 "56.0 %", "100.0 %", "iterations", "energy (kJ)", "accuracy (%)", "xavier",
                 "zoo:cnn5 on celeba", "2026-01-02"):  # fmt: skip
        assert text in said, text


@pytest.mark.parametrize(
    "provenance", [Provenance.COUNTER, Provenance.MODELLED, Provenance.SIMULATED]
)
def test_only_hardware_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provenance: Provenance
) -> None:
    said = texts_of(made_up(provenance), tmp_path / "a.svg", monkeypatch).split()
    measured = provenance.metered == "measured"
    assert said.count(provenance.metered) >= 1
    assert measured or "measured" not in " ".join(said).replace("not measured", "")


def test_one_turn_and_odd_names_can_be_drawn(tmp_path: Path) -> None:
    odd = replace(made_up(turns=1), model="a$b^{c$\x1b[31m" + "x" * 300, data="_%&<")
    draw_study(odd, tmp_path / "a.png")
    draw_study(odd, tmp_path / "a.svg")


def test_a_tiny_budget_is_on_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(made_up(), limit_j=1.0)
    assert "budget 50%: 1.00 J" in texts_of(small, tmp_path / "a.svg", monkeypatch)


def settings() -> dict[str, Any]:
    return dict(matplotlib.rcParams.copy())  # to look at the backend itself would choose one


def test_nothing_outside_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    was = settings()
    draw_study(made_up(), tmp_path / "plain.png")
    assert settings() == was
    with matplotlib.rc_context({"lines.linewidth": 9.0, "text.usetex": True}):
        mine = settings()
        draw_study(made_up(), tmp_path / "mine.png")
        assert settings() == mine != was
    assert "matplotlib.pyplot" not in sys.modules
    assert (tmp_path / "mine.png").read_bytes() == (tmp_path / "plain.png").read_bytes()


@pytest.mark.parametrize("name", ["study", "study.jpg", "study.png.txt"])
def test_other_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"name it with \.png, \.svg, \.pdf at its end"):
        draw_study(made_up(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot write .*a\.png: No such file"):
        draw_study(made_up(), tmp_path / "none" / "a.png")


def test_without_matplotlib_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DataError, match=r"pip install ampere-paper"):
        draw_study(made_up(), tmp_path / "a.png")


def test_every_model_of_a_study_has_a_look_of_its_own() -> None:
    assert set(LOOKS) == set(LABELS) == {FULL, *GUIDES}
    assert len({look["color"] for look in LOOKS.values()}) == len(LOOKS)


def test_smoothing_keeps_straight_lines_and_both_ends() -> None:
    line = [0.5 * x for x in range(50)]
    assert list(_smoothed(line)) == pytest.approx(line)
    assert list(_smoothed([1.0, 5.0, 2.0])) == [1.0, 5.0, 2.0]
    spike = _smoothed([0.0] * 10 + [3.0] + [0.0] * 9)
    assert list(spike[8:13]) == pytest.approx([0, 1, 1, 1, 0])


def test_labels_keep_apart() -> None:
    assert _apart([10.0, 1.0, 1.5], 1.0) == [10.0, 1.0, 2.0]
    assert _apart([5.0, 5.0, 5.0], 1.0) == [5.0, 6.0, 7.0]
    assert _apart([], 1.0) == []
