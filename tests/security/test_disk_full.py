"""A full disk: what is written is whole or not there, what was worked for is kept, work goes on."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import ampere
from ampere.cli.app import app
from ampere.core.boundary.files import is_part, write_whole, writing_folder
from ampere.core.layers import Layer
from ampere.errors import DataError
from ampere.estimators.base import Cost
from ampere_paper.experiments import EXPERIMENTS
from ampere_paper.reproduction import reproduce
from fakes import exact
from paper.small import ONE, data_of
from reported import made_up

NET = """
from torch import nn


def net(width=24):
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))


net.input = "4"
"""
FILES = {"model.py", "model.safetensors", "original.py", "widths.json"}  # of a pruned model


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@contextlib.contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """The system itself refuses to write more, to whoever tries."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Disk:
    """A disk that is full from some moment on: nothing reaches it any more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
        self.left = left
        self.sync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, file: int) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.sync(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def refusal(*arguments: str) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, SystemExit), result.exc_info
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = [each for each in result.stderr.splitlines() if each.startswith("error: ")]
    return line


def parts() -> list[Path]:
    return [path for path in Path().rglob(".*") if is_part(path)]


# --- pages and charts ----------------------------------------------------------------------------


@pytest.fixture
def no_dots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts as SVG only: PNG takes time."""
    monkeypatch.setattr("ampere.reports.html.png", lambda svg: None)


@pytest.mark.usefixtures("no_dots")
@pytest.mark.parametrize("line", ["-o page.html", "--figures charts", "-o page.html --figures x"])
def test_a_page_that_has_no_room_blocks_no_other(line: str) -> None:
    made_up(whole=4).save("p.ampere")
    run("report", "p.ampere", "-o", "once.html")  # the fit is kept from now on
    before = sorted(os.listdir())
    with no_file_larger_than(3000):
        assert "File too large" in refusal("report", "p.ampere", *line.split())
    left = [path for path in Path().rglob("*") if path.is_file() and path.parent != Path()]
    assert (left, parts()) == ([], [])
    assert {*os.listdir()} - {"charts", "x", "config"} == {*before} - {"config"}
    assert run("report", "p.ampere", *line.split()).exit_code == 0


@pytest.mark.usefixtures("no_dots")
def test_charts_do_not_stay_if_their_page_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up(whole=4).save("p.ampere")

    def full(*_: object) -> None:
        raise DataError("cannot write page.html: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ampere.reports.html.Report.save", full)
        refusal("report", "p.ampere", "-o", "page.html", "--figures", "charts")
    assert os.listdir("charts") == []


# --- pruned models -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that can be cut, and a profile of it."""
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "net.py").write_text(NET)
    spec = f"{folder}/net.py:net"
    nets = [ampere.read_layers(f"{spec}(width={width})") for width in (1, 6, 12, 18, 24)]

    def cost(layer: Layer) -> Cost:
        return Cost(1e-3 * sum(layer.widths.values()), 0.0, 1e-4, 0.0)

    rows = [exact(layers, cost) for layers in (*nets, *(each[1:] for each in nets))]
    ampere.fit(rows, device="pi").save(folder / "net.ampere")
    ampere.Profile.load(folder / "net.ampere", keep_fit=True).fit  # noqa: B018
    return folder


@pytest.fixture
def wide(profiled: Path, tmp_path: Path) -> list[str]:
    """A command that cuts it."""
    shutil.copytree(profiled, tmp_path, dirs_exist_ok=True)
    return ["prune", "net.py:net", "--profile", "net.ampere", "--budget", "50%", "-o", "half"]


def test_a_full_disk_does_not_lose_a_pruned_model(
    wide: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    whole = writing_folder

    def full(path: Path, last: str) -> Any:
        if spare not in path.parents:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(path, last)

    with monkeypatch.context() as patch:
        patch.setattr("ampere.pruning.result.writing_folder", full)
        line = refusal(*wide)
    (kept,) = spare.iterdir()
    assert line == (
        "error: cannot write half: No space left on device; the model is in"
        f" {kept} instead: move it from there"
    )
    assert set(os.listdir(kept)) == FILES
    assert not Path("half").exists()


def test_a_disk_that_is_full_everywhere(wide: list[str]) -> None:
    with no_file_larger_than(100):
        line = refusal(*wide)
    assert line.startswith("error: cannot write half: ")
    assert "nor can it be kept elsewhere: cannot write " in line
    assert not Path("half").exists() and parts() == []
    assert run(*wide).exit_code == 0


def test_room_is_looked_for_before_the_work(
    wide: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr("ampere.pruning.result.shutil.disk_usage", lambda _: usage)
    monkeypatch.setattr("ampere.pruning.prune.make_judge", lambda *_: pytest.fail("it began"))
    assert "the disk has room for 0.0 MB: make room" in refusal(*wide)


def test_a_folder_that_is_there_stays_the_same_one(wide: list[str]) -> None:
    Path("half").mkdir(mode=0o700)
    Path("link").symlink_to("half")
    Path("half/.ampere-0123.part").mkdir()  # of a run that was killed
    before = os.stat("half")
    assert run(*wide[:-1], "link").exit_code == 0
    after = os.stat("half")
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    files = {each for each in os.listdir("half") if not is_part(Path(each))}
    assert files == FILES
    assert "is there already" in refusal(*wide)


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_is_written_whole_or_not_at_all(there: bool) -> None:
    if there:
        Path("a").mkdir()
    with pytest.raises(KeyboardInterrupt), writing_folder("a", last="z") as draft:
        (draft / "z").write_text("half")
        raise KeyboardInterrupt
    assert os.listdir("." if not there else "a") == []
    with writing_folder("a", last="z") as draft:
        for name in "zxy":
            (draft / name).write_text(name)
        assert not there or os.listdir("a") == [draft.name]
    assert sorted(os.listdir("a")) == ["x", "y", "z"]


# --- what ampere calls by a name of its own ------------------------------------------------------


def test_a_name_of_ones_own_leads_nowhere() -> None:
    Path("precious").write_text("mine")
    Path("link").symlink_to("precious")
    os.mkfifo("pipe")
    for name in ("link", "pipe"):
        write_whole(name, "data", own=True)
        assert Path(name).read_text() == "data" and not Path(name).is_symlink()
    assert Path("precious").read_text() == "mine"


# --- the paper's results -------------------------------------------------------------------------


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fine pictures take time."""
    monkeypatch.setattr("ampere_paper.figures.style.DPI", 30)


@pytest.mark.usefixtures("coarse")
def test_a_run_goes_on_after_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        disk = Disk(patch, 10**6)
        (whole,) = reproduce("whole", ONE, ["fig5"]).outcomes
        writes = 10**6 - disk.left
    for number in (0, writes // 2, writes - 7, writes - 5, writes - 2):  # the last is of a folder
        folder = Path(f"out{number}")
        with monkeypatch.context() as patch:
            Disk(patch, number)
            with pytest.raises(DataError, match="No space left on device") as caught:
                reproduce(folder, ONE, ["fig5"])
        assert "\n" not in str(caught.value)
        assert [path for path in folder.rglob(".*") if is_part(path)] == []
        for path in folder.rglob("*.json"):
            json.loads(path.read_text())
        measured = {path: path.read_bytes() for path in folder.glob("journals/*.ampere")}
        assert not reproduce(folder, ONE, ["fig5"]).failed
        assert all(path.read_bytes().startswith(rows) for path, rows in measured.items())
        assert data_of(folder, "fig5")[0]["widths"] == whole.data[0]["widths"]


@pytest.mark.usefixtures("coarse")
def test_the_command_says_it_in_a_line() -> None:
    line = ["reproduce", "--quick", "--only", "fig5", "--device", "xavier", "-o", "out"]
    with no_file_larger_than(1500):
        said = refusal(*line)
    assert "File too large" in said
    assert run(*line).exit_code == 0


@pytest.mark.usefixtures("coarse")
def test_figures_stay_until_there_are_new_ones() -> None:
    from ampere_paper.results.folder import Results

    (whole,) = reproduce("whole", ONE, ["fig5"]).outcomes
    results = Results.open("whole")
    drawn = {path: path.read_bytes() for path in Path("whole/figures").iterdir()}
    with no_file_larger_than(1500), pytest.raises(DataError, match="File too large"):
        results.show(EXPERIMENTS["fig5"], whole.data)
    assert {path: path.read_bytes() for path in Path("whole/figures").iterdir()} == drawn
