"""What users install: wheel and sdist, in an environment that has no checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy
import pytest

import ampere
import ampere_energy
from pages import blocks

ROOT = Path(ampere.__file__).parents[2]
AS_WRITTEN = 'ampere.profile("zoo:lenet5", path="lenet5.ampere")'
CHEAP = """ampere.profile(
    "zoo:lenet5",
    path="lenet5.ampere",
    device=ampere.open_device("simulated:xavier"),
    strategy=ampere.Strategy(max_measurements=5),
)"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment in which the wheel is installed, beside libraries of this one."""

    folder: Path

    @property
    def site(self) -> Path:
        (found,) = self.folder.glob("lib/python*/site-packages")
        return found

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        program, *rest = command
        return subprocess.run(
            [str(self.folder / "bin" / program), *rest],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=environment,
        )


def example(home: Path) -> str:
    """README's own, on a device that nobody waits for; it must not find the checkout."""
    (block,) = blocks(ROOT / "README.md", ("python",))
    assert AS_WRITTEN in block.text
    alone = f"assert ampere.__file__.startswith({str(home)!r}), ampere.__file__\n"
    return block.text.replace(AS_WRITTEN, CHEAP) + alone


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


def build(source: Path, folder: Path, *options: str) -> Path:
    """What is built of a folder of code, in another folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *options]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def clean(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    environment = Environment(folder)
    install(environment, built)
    for path in Path(numpy.__file__).parents[1].iterdir():  # libraries, but not the checkout
        if not path.name.startswith(("ampere", "_editable", "__")) and path.suffix != ".pth":
            (environment.site / path.name).symlink_to(path)
    return environment


def install(environment: Environment, built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    command = [sys.executable, "-m", "pip", "--python", str(environment.folder / "bin" / "python")]
    command += ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*command, "--force-reinstall", str(wheel)], check=True)


def install_theirs(environment: Environment) -> None:
    """The files of the other project: it needs libraries that few have."""
    (environment.site / "ampere").mkdir(exist_ok=True)
    (environment.site / "ampere" / "__init__.py").write_text("from .base_battery import *\n")
    (environment.site / "ampere" / ampere_energy.THEIRS).write_text("import no_such_library\n")


def test_both_hold_what_is_ours_and_nothing_else(built: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    assert wheel.name == f"ampere_energy-{ampere.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"ampere_energy-{ampere.__version__}.dist-info/METADATA").decode()
    assert {name.split("/")[0].split("-")[0] for name in names} == {
        "ampere", "ampere_energy.py", "ampere_energy",
    }  # fmt: skip
    assert {"ampere/py.typed", "ampere_energy.py"} <= names
    assert "License-Expression: MIT" in metadata
    code = {f"ampere/{path.relative_to(ROOT / 'src/ampere')}" for path in python_files()}
    assert code <= names
    with tarfile.open(sdist) as archive:
        folders = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert "src" in folders and not {"tests", "docs", "benchmarks", "paper"} & folders


def python_files() -> list[Path]:
    return list((ROOT / "src" / "ampere").rglob("*.py"))


def test_the_wheel_alone_is_enough(clean: Environment) -> None:
    said = clean.run("ampere", "--help")
    assert (said.returncode, said.stderr) == (0, "")
    assert "profile" in said.stdout
    check_example(clean)


def check_example(environment: Environment) -> None:
    done = environment.run("python", "-c", example(environment.folder))
    assert done.returncode == 0, done.stderr
    assert "2,000 training steps" in done.stdout and "simulated" in done.stdout
    (environment.folder / "lenet5.ampere").unlink()


def test_the_sdist_makes_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    again = build(unpacked, tmp_path / "dist", "--target", "wheel") / wheel.name
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(again) as theirs:
        assert {each.filename: each.CRC for each in ours.infolist()} == {
            each.filename: each.CRC for each in theirs.infolist()
        }


@pytest.mark.slow  # it fetches PyTorch
def test_pip_finds_all_that_wheel_and_sdist_need(built: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path)], check=True)
    environment = Environment(tmp_path)
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    pip = ("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    bounds = ("--constraint", str(ROOT / "constraints.txt"))
    for wanted in ((f"{wheel}[torch]", *bounds), ("--force-reinstall", "--no-deps", str(sdist))):
        done = environment.run(*pip, *wanted)
        assert done.returncode == 0, done.stderr
        check_example(environment)


def test_a_project_of_the_same_name_that_came_later_is_told_in_a_line(
    clean: Environment, built: Path
) -> None:
    """The last one here: it leaves nothing that works."""
    install_theirs(clean)
    said = clean.run("ampere", "--version")
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.splitlines() == [
        "error: another project named ampere (battery models) has overwritten ampere-energy:"
        f" {ampere_energy.REMEDY}"
    ]
    install(clean, built)  # now ours is the later one
    said = clean.run("ampere", "--version")
    assert (said.returncode, said.stdout) == (0, f"ampere {ampere.__version__}\n")
    assert said.stderr.splitlines() == [f"warning: {ampere_energy.SHARED}"]
    (clean.site / "ampere" / "__init__.py").unlink()
    for path in clean.site.glob("ampere"):
        path.rename(path.with_name("gone"))
    said = clean.run("ampere", "--version")
    assert (said.returncode, len(said.stderr.splitlines())) == (1, 1)
    assert "installed in part only" in said.stderr
