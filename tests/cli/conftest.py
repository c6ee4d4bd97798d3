"""What commands are given: a user's file, profiles, and a device whose costs are known."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

import ampere
from ampere.acquisition import loop
from ampere.cli import options
from ampere.core.layers import Features
from ampere.core.workloads import Workload
from ampere.estimators.base import Cost
from fakes import LAST, FakeDevice, exact, plain_layer, plain_model

NET = """
import torch
from torch import nn

print("loading the model")  # must not end up in front of the answer


class Net(nn.Sequential):
    input = "4"

    def __init__(self, width=6):
        super().__init__(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))


class Norm(nn.Sequential):
    input = "4"

    def __init__(self):
        super().__init__(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


class Frozen(Net):
    def __init__(self):
        super().__init__()
        self[0].requires_grad_(False)


def raises():
    raise RuntimeError("first line\\nsecond line")


def three():
    return 3


raises.input = three.input = "4"
"""


@pytest.fixture(autouse=True)
def few_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """What each member of a family does is counted, which takes longer than all else here."""
    monkeypatch.setattr(loop, "make_prober", functools.partial(loop.make_prober, pool=8))


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's file, in the present directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """A profile of plain layers."""
    path = tmp_path / "told.ampere"
    ends = [(plain_layer(LAST, in_=width),) for width in (1, 20, 40, 64)]
    models = [plain_model(width) for width in (1, 20, 40, 64)]
    models += [plain_model(a, b) for a in (1, 32, 64) for b in (1, 32, 64)]
    ampere.fit([exact(layers) for layers in (*ends, *models)], device="pi").save(path)
    return path


class ModelDevice(FakeDevice):
    """A fake that also runs models by name, which it knows nothing of."""

    def _once(self, workload: Workload) -> Cost:
        return super()._once(workload) if workload.model is None else Cost(0.02, 0.0, 0.005, 0.0)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """What every command measures on."""
    fake = ModelDevice(noise=0.01, features=lambda layer: Features(flops=1e3))
    monkeypatch.setattr(options.Machine, "open", lambda machine, model=None: fake)
    return fake


@pytest.fixture
def files(net: Path, told: Path) -> None:
    """Files of which something is wrong, in the present directory."""
    header, first, second, *_ = told.read_text().splitlines()
    Path("empty").write_text("")
    Path("numbers").write_text("1\n2\n")
    Path("failed").write_text(f"{header}\n")
    Path("newer").write_text(header.replace('"ampere_journal":1', '"ampere_journal":99') + "\n")
    Path("corrupt").write_text("\n".join([header, first, second[:40], second]) + "\n")
