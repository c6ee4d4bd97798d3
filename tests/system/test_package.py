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

ROOT = Path(ampere.__file__).parents[2]
EXAMPLE = """
import ampere

profile = ampere.profile(
    "zoo:lenet5",
    path="lenet5.ampere",
    device=ampere.open_device("simulated:xavier"),
    strategy=ampere.Strategy(max_measurements=5),
)
estimate = profile.estimate("zoo:lenet5(channels=[3, 8])", steps=2000, battery_wh=15)
print(estimate)
assert ampere.__file__.startswith({home!r}), ampere.__file__
"""


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


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
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
    done = clean.run("python", "-c", EXAMPLE.format(home=str(clean.folder)))
    assert done.returncode == 0, done.stderr
    assert "simulated" in done.stdout


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
