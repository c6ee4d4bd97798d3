"""Examples are run as a user would run them; those that measure are run elsewhere, or compiled."""

import ast
import itertools
import math
import py_compile
import random
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from ampere.devices.fingerprint import local_fingerprint
from ampere.fitting import Cost
from ampere.journal import Header
from ampere.meters import Provenance
from ampere.profiles import Profile
from ampere.studies import Study
from ampere.workloads import Settings
from fakes import exact

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_every_example_compiles(tmp_path):
    files = sorted(EXAMPLES.glob("*.py"))
    assert len(files) >= 3
    for file in files:
        py_compile.compile(str(file), cfile=str(tmp_path / "out.pyc"), doraise=True)


def test_the_runner_needs_pytorch_and_nothing_else():
    """It is run by test_asking; here, what it could import at all."""
    tree = ast.parse((EXAMPLES / "runner.py").read_text(), feature_version=(3, 7))
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for node in imports
        for alias in node.names
    }
    assert names - sys.stdlib_module_names == {"torch"}


def test_plain_data_needs_no_framework_and_finds_the_known_cost():
    code = (
        "import runpy, sys; sys.modules['torch'] = None;"
        f"runpy.run_path({str(EXAMPLES / '02_plain_data.py')!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    error = re.search(r"error ([+-][\d.]+)%", done.stdout)
    assert error is not None
    assert abs(float(error[1])) < 2
    assert "simulated, not measured" in done.stdout


def cnn5_profile(path):
    """As if zoo:cnn5 had been profiled here, on one thread."""
    import torch

    from ampere.families import resampled
    from ampere.frameworks.torch import read
    from ampere.worker import keep_memory

    def cost(layer):
        energy_j = 1e-4 + 1e-6 * math.prod(layer.widths.values())
        return Cost(energy_j, 0.0, energy_j / 4, 0.0)

    layers = read("zoo:cnn5")
    drawn = itertools.islice(resampled("cnn5", layers, random.Random(0)), 12)
    rows = [exact(each, cost) for each in (layers, *(network.layers for network in drawn))]
    settings = {**vars(Settings(threads=1)), "framework": f"torch {torch.__version__}"}
    settings["freed_memory"] = keep_memory()
    here = local_fingerprint({key: str(value) for key, value in settings.items()})
    Profile(tuple(rows), Header(here, {"name": "cpu"}, Provenance.SIMULATED)).save(path)


def test_the_case_study_prints_its_page_and_writes_a_figure(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    run_case_study(tmp_path, monkeypatch, ["--iterations", "8", "-o", "out/study"])
    found = Study.load(tmp_path / "out" / "study" / "study.json")
    assert repr(found) in capsys.readouterr().out
    assert [curve.steps for curve in found.curves] == [(5, 8)] * 3
    assert found.limit_j == pytest.approx(found.contenders[0].energy_j / 2)
    assert (tmp_path / "out" / "study" / "study.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("given", [["--data", "nothing"], ["--iterations", "0"]])
def test_the_case_study_says_what_is_wrong_in_one_line(tmp_path, monkeypatch, given):
    with pytest.raises(SystemExit, match=r"^error: .+$"):
        run_case_study(tmp_path, monkeypatch, given)


def test_an_interrupted_case_study_says_so_in_one_line(tmp_path, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("ampere.studying.study", interrupted)
    with pytest.raises(SystemExit, match=r"^interrupted: what was profiled is kept"):
        run_case_study(tmp_path, monkeypatch, [])


def run_case_study(folder, monkeypatch, given):
    """As a user would, in this process: to import everything anew takes longer than the study."""
    cnn5_profile(folder / "cnn5.ampere")
    monkeypatch.chdir(folder)
    script = str(EXAMPLES / "03_case_study.py")
    monkeypatch.setattr(sys, "argv", [script, "--profile", "cnn5.ampere", *given])
    runpy.run_path(script, run_name="__main__")
