"""A profile remembers what its model was fed: nobody has to say it again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from torch import nn

import ampere
from ampere.core.inputs import parse_inputs
from ampere.errors import AmpereError, ModelError

FEW = ampere.Strategy(max_measurements=8)
QUICK = ampere.Training(batch_size=4)
NETS = """
from torch import nn


class Net(nn.Sequential):
    def __init__(self, width=8):
        super().__init__(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))


class Other(Net):
    pass
"""


class Net(nn.Sequential):
    def __init__(self, width: int = 8) -> None:
        super().__init__(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ampere.Profile:
    """Of a class in the user's file, which does not say its input; it was read from a file."""
    monkeypatch.chdir(tmp_path)
    Path("nets.py").write_text(NETS)
    device = ampere.open_device("simulated:xavier")
    ampere.profile(
        "nets.py:Net", (6,), path="p.ampere", device=device, training=QUICK, strategy=FEW
    )
    return ampere.Profile.load("p.ampere")


def test_it_is_asked_without_an_input(profile: ampere.Profile) -> None:
    said = profile.estimate("nets.py:Net(width=5)", (6,)).energy_j
    assert profile.estimate("nets.py:Net(width=5)").energy_j == said
    assert profile.estimate(Net(5)).energy_j == said
    assert profile.tabulate("nets.py:Net").names == ("0.out",)
    assert "made for   nets.py:Net, fed 6" in repr(profile)


def test_it_goes_on_and_is_pruned_without_an_input(profile: ampere.Profile) -> None:
    device = ampere.open_device("simulated:xavier")
    more = ampere.profile(
        "nets.py:Net", path="p.ampere", device=device, strategy=replace(FEW, max_measurements=9)
    )
    assert len(more.measurements) >= len(profile.measurements)
    assert ampere.prune(Net(8), profile=more, budget="120%").limit_j > 0
    again = ampere.after_steps(more, Net(7), device=ampere.open_device("simulated:xavier"))
    assert len(again.measurements) > len(more.measurements)


def test_other_models_say_their_own(profile: ampere.Profile) -> None:
    for model in ("nets.py:Other", nn.Linear(6, 3)):
        with pytest.raises(ModelError, match="input") as caught:
            profile.estimate(model)
        assert "--" not in str(caught.value)  # whoever calls from Python has no flags
    assert profile.input_for("nets.py:Net(width=3)") == parse_inputs("6")
    assert profile.input_for("zoo:lenet5") is profile.input_for("other.py:Net") is None


def test_a_model_of_the_zoo_with_another_input_makes_tables(tmp_path: Path) -> None:
    path = tmp_path / "z.ampere"
    ampere.profile("zoo:cnn5", "3x34x34", path=path, training=QUICK, strategy=FEW,
                   device=ampere.open_device("simulated:xavier"))  # fmt: skip
    tables = ampere.Profile.load(path).tabulate()
    (joules,) = tables.estimate_many([tables.largest])
    whole = ampere.Profile.load(path).estimate("zoo:cnn5")
    assert whole.uncovered == ()
    assert joules == pytest.approx(whole.energy_j, rel=1e-9)


def test_a_profile_that_does_not_remember_asks_for_it(profile: ampere.Profile) -> None:
    older = replace(profile, header=replace(profile.header, input=None))
    with pytest.raises(AmpereError, match=r"does not say its input: give input, e\.g\. 3x32x32"):
        older.tabulate("nets.py:Net")
