"""One style for all figures, and nothing outside is changed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ampere.errors import DataError
from ampere_paper.figures.style import (
    STYLE,
    add_caption,
    new_figure,
    refuse_other_suffixes,
    save,
    styled,
)

matplotlib = pytest.importorskip("matplotlib")


def test_the_style_holds_only_inside() -> None:
    before = dict(matplotlib.rcParams)
    with styled():
        assert matplotlib.rcParams["axes.labelcolor"] == STYLE["axes.labelcolor"]
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DataError, match="pip install ampere-paper"), styled():
        pass


@pytest.mark.parametrize("name", ["a.svg", "a.PDF", "a.png"])
def test_the_same_figure_is_the_same_file(tmp_path: Path, name: str) -> None:
    written = []
    for folder in ("first", "second"):
        path = tmp_path / folder / name
        path.parent.mkdir()
        with styled():
            figure = new_figure(2.0, 1.0)
            figure.subplots().plot([0, 1], [1, 0])
            add_caption(figure, "Joules are modelled.")
            save(figure, path)
        written.append(path.read_bytes())
    assert written[0] == written[1] != b""


def test_captions_are_as_wide_as_the_figure_and_print_only_letters() -> None:
    text = "so many words " * 20 + "\x1b[31m"
    lines = []
    for width_in in (3.5, 7.0):
        figure = new_figure(width_in, 1.0)
        add_caption(figure, text)
        caption = figure.get_supxlabel()
        assert "\x1b" not in caption
        lines.append(len(caption.splitlines()))
    assert lines == [4, 2]


@pytest.mark.parametrize("name", ["study", "study.txt", "study.json"])
def test_other_suffixes_are_refused_before_anything_is_drawn(name: str) -> None:
    with pytest.raises(DataError, match=f"{name} is no figure: name it with .png, .svg, .pdf"):
        refuse_other_suffixes(name)


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with styled(), pytest.raises(DataError, match=r"cannot write .*No such file"):
        save(new_figure(1.0, 1.0), tmp_path / "absent" / "a.svg")
