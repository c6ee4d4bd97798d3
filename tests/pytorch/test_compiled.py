"""What `torch.compile` made of a model is read, cut and trained as the model itself."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from ampere.core.training import Training
from ampere.core.workloads import ModelSpec, Settings, Workload
from ampere.pytorch.models import make_slimmer, read
from ampere.pytorch.runtime.loader import load_model
from ampere.pytorch.runtime.trainer import make_trainer
from ampere.pytorch.runtime.wrappers import unwrapped

INPUT = (3, 8, 8)
pytestmark = pytest.mark.filterwarnings("ignore:the model is wrapped in torch.compile")


def small() -> nn.Sequential:
    torch.manual_seed(0)
    block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), block, nn.Flatten(), nn.Linear(8 * 64, 10)
    )


def refuse(*args: object) -> None:
    """In the place of a compiler, which takes half a minute: nothing may be compiled."""
    raise AssertionError("it was compiled")


compiled = partial(torch.compile, backend=refuse)


def test_compiling_would_be_noticed() -> None:
    with pytest.raises(Exception, match="it was compiled"):
        compiled(small())(torch.zeros(1, *INPUT))


def test_a_compiled_model_has_the_layers_of_the_model() -> None:
    model = small()
    assert read(compiled(model), INPUT) == read(model, INPUT)


def test_a_model_that_is_compiled_in_place_too() -> None:
    model, plain = small(), read(small(), INPUT)
    model.compile(backend=refuse)
    before = model.__dict__.get("_compiled_call_impl")
    assert read(model, INPUT) == plain
    assert model.__dict__.get("_compiled_call_impl") is before


def test_a_part_that_is_compiled_is_read_as_it_was_written() -> None:
    model, plain = small(), read(small(), INPUT)
    model[2] = compiled(model[2])
    layers = read(model, INPUT)
    assert [layer.kind for layer in layers] == [layer.kind for layer in plain]
    assert [layer.name for layer in layers] == ["0", "2._orig_mod.0", "4"]


def test_a_compiled_model_is_cut_as_the_model() -> None:
    model = small()
    slim = make_slimmer(compiled(model), INPUT).slim({"0.out": 4})
    expected = make_slimmer(model, INPUT).slim({"0.out": 4})
    assert type(slim.model) is nn.Sequential and not slim.rebuilt
    state, wanted = slim.model.state_dict(), expected.model.state_dict()
    assert state.keys() == wanted.keys()
    assert all(torch.equal(state[name], wanted[name]) for name in wanted)


def test_a_factory_may_return_a_compiled_model(tmp_path: Path) -> None:
    code = tmp_path / "made.py"
    code.write_text(
        "import torch\nfrom torch import nn\n\n"
        "def refuse(*args):\n    raise AssertionError('it was compiled')\n\n"
        "def net():\n    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))\n"
        "    return torch.compile(model, backend=refuse)\n\n"
        "net.input = '4'\nready = net()\nready.input = '4'\n"
    )
    for name in ("net", "ready"):
        assert type(load_model(f"{code}:{name}")[0]) is nn.Sequential
    # what is metered runs as the device's settings say, which do not say that it is compiled
    workload = Workload((), ModelSpec(f"{code}:net", None, Training(2)))
    make_trainer(workload, Settings()).step()


def test_what_is_not_compiled_is_itself() -> None:
    model = small()
    assert unwrapped(model) is model
    assert unwrapped(compiled(model)) is model
