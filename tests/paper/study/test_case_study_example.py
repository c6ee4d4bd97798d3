"""The case study's script, run as a user would run it."""

import itertools
import math
import random
import runpy
import sys
from pathlib import Path

import pytest

from ampere.core.fingerprint import local_fingerprint
from ampere.core.workloads import Settings
from ampere.estimators.base import Cost
from ampere.meters.base import Provenance
from ampere.profiles.profile import Profile
from ampere.records.journal import Header
from ampere_paper.study.study import Study
from fakes import exact

SCRIPT = Path(__file__).parents[3] / "paper" / "examples" / "case_study.py"


def cnn5_profile(path):
    """As if zoo:cnn5 had been profiled here, on one thread."""
    import torch

    from ampere.acquisition.families import resampled
    from ampere.devices.memory import keep_memory
    from ampere.pytorch.models import read

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


@pytest.mark.slow
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

    monkeypatch.setattr("ampere_paper.study.case_study.study", interrupted)
    with pytest.raises(SystemExit, match=r"^interrupted: what was profiled is kept"):
        run_case_study(tmp_path, monkeypatch, [])


def run_case_study(folder, monkeypatch, given):
    """As a user would, in this process: to import everything anew takes longer than the study."""
    cnn5_profile(folder / "cnn5.ampere")
    monkeypatch.chdir(folder)
    script = str(SCRIPT)
    monkeypatch.setattr(sys, "argv", [script, "--profile", "cnn5.ampere", *given])
    runpy.run_path(script, run_name="__main__")
