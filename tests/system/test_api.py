"""The verbs of ampere from Python: what a model is fed and trained with reaches the device."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ampere
import own_losses
from ampere.acquisition import loop
from ampere.core.boundary.trust import ForeignText
from ampere.core.layers import Features, Role
from ampere.core.training import Training
from ampere.core.workloads import REFERENCE, ModelSpec, Workload
from ampere.errors import DataError, ModelError
from ampere.estimators.base import Cost
from ampere.meters.base import Provenance
from fakes import FakeDevice
from own_losses import average

AVERAGE = f"{Path(own_losses.__file__).resolve()}:average"


class AnyDevice(FakeDevice):
    """A fake that also runs models by name."""

    def _once(self, workload: Workload) -> Cost:
        return super()._once(workload) if workload.model is None else Cost(0.02, 0.0, 0.005, 0.0)


@pytest.fixture
def device() -> AnyDevice:
    return AnyDevice(noise=0.01, features=lambda layer: Features(flops=1e3))


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(
        "from torch import nn\n"
        "def net(): return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))\n"
    )
    return "net.py:net"


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


def losses(device: FakeDevice) -> set[str]:
    ends = [work.layers[-1].kind for work in device.seen if work.layers and work != REFERENCE]
    return {kind.attributes.get("loss", "auto") for kind in ends if kind.role is Role.LAST}


@pytest.mark.parametrize("input", ["4", 4, (4,), torch.zeros(2, 4), {"input": (4,)}])
def test_the_device_is_told_inputs_and_loss_of_a_model_by_name(
    device: AnyDevice, named: str, input: Any
) -> None:
    ampere.measure(named, input, device=device, training=Training(3, "adam", average))
    (spec,) = {work.model for work in device.seen if work.model}
    text = "input=4" if isinstance(input, dict) else "4"
    assert spec == ModelSpec(named, text, Training(3, "adam", AVERAGE))


def test_a_profile_keeps_the_loss_and_answers_for_it(
    device: AnyDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    strategy = ampere.Strategy(max_points=3)
    profile = ampere.profile(
        net(),
        (4,),
        path="p.ampere",
        device=device,
        strategy=strategy,
        training=Training(loss=average),
    )
    name = AVERAGE
    assert losses(device) == {name}
    assert profile.training == Training(10, "sgd", ForeignText(name))
    assert not profile.estimate(net(), (4,)).uncovered
    assert not profile.estimate(net(), (4,), training=Training(loss=average)).uncovered
    lines = profile.estimate(net(), (4,), training=Training(loss="mse")).lines
    (borrowed,) = (line.layer for line in lines if line.borrowed)
    assert borrowed.kind.role is Role.LAST
    with pytest.raises(DataError, match="a file must not choose what runs here: say it yourself"):
        ampere.profile(net(), (4,), path="p.ampere", device=device, strategy=strategy)
    again = Training(loss=average)
    ampere.profile(net(), (4,), path="p.ampere", device=device, strategy=strategy, training=again)
    assert losses(device) == {name}
    ampere.profile(
        net(), (4,), path="p.ampere", device=device, strategy=strategy, training=Training()
    )
    assert losses(device) == {name, "auto"}


def test_members_of_a_family_are_metered_with_the_loss_of_the_profile(
    device: AnyDevice, named: str
) -> None:
    strategy = ampere.Strategy(max_measurements=4)  # of six members, so that some are unseen
    ampere.profile(
        named, 4, path="p.ampere", device=device, strategy=strategy, training=Training(loss="mse")
    )
    found = ampere.evaluate(named, (4,), path="p.ampere", device=device, models=2)
    assert len(found.results) == 2
    assert losses(device) == {"mse"}


def test_a_loss_that_cannot_be_is_refused_before_anything_is_metered(
    device: AnyDevice, named: str
) -> None:
    wrong: list[Any] = ["magic", "absent.py:loss", lambda output: output.sum(), nn.MSELoss(), 3]
    for loss in wrong:
        with pytest.raises(ModelError) as caught:
            ampere.profile(net(), 4, path="p.ampere", device=device, training=Training(loss=loss))
        assert "\n" not in str(caught.value)
        with pytest.raises(ModelError):
            ampere.measure(named, 4, device=device, training=Training(loss=loss))
    assert not device.seen and not Path("p.ampere").exists()


def test_a_few_steps_of_the_model_itself_sharpen_its_estimate(tmp_path: Path) -> None:
    device = AnyDevice()
    profile = ampere.profile(
        net(), (4,), path=tmp_path / "p.ampere", device=device,
        strategy=ampere.Strategy(max_measurements=8),
    )  # fmt: skip
    other = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    before = profile.estimate(other, (4,))
    told = ampere.after_steps(profile, other, (4,), steps=10, device=device)
    after = told.estimate(other, (4,))
    assert after.energy_j_std < before.energy_j_std
    assert len(told.measurements) == len(profile.measurements) + 1
    row = told.measurements[-1]
    assert row.bursts["steps"] * len(row.bursts["energy_j"]) == 10
    kept = ampere.Profile.load(tmp_path / "p.ampere").measurements  # the file is as it was
    assert [row.to_json() for row in kept] == [row.to_json() for row in profile.measurements]
    assert len(kept) == 8 + 2  # and two of them again, at the end
    with pytest.raises(ampere.AmpereError, match="2 or more"):
        ampere.after_steps(profile, other, (4,), steps=1, device=device)
    with pytest.raises(ampere.AmpereError, match="method additive"):
        ampere.after_steps(replace(profile, method="paper"), other, (4,), device=device)


def test_steps_whose_seconds_alone_cannot_be_teach_their_joules(tmp_path: Path) -> None:
    device = AnyDevice()
    strategy = ampere.Strategy(max_measurements=10, tolerance=1e-9)
    wide = nn.Sequential(nn.Linear(4, 40), nn.ReLU(), nn.Linear(40, 3))
    profile = ampere.profile(
        wide, (4,), path=tmp_path / "p.ampere", device=device, strategy=strategy
    )

    class Slow(AnyDevice):
        def _once(self, workload: Workload) -> Cost:
            once = super()._once(workload)
            late = 1.0 if workload.stage == "reference" else 1000.0
            return replace(once, time_s=late * (once.time_s or 0.0))

    slow = Slow()
    slow.fingerprint = device.fingerprint
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing of it is discarded
        told = ampere.after_steps(profile, wide, (4,), steps=10, device=slow)
    assert len(told.measurements) == len(profile.measurements) + 1
    (fault,) = told.rejected
    assert fault.seconds_only and fault.row is told.measurements[-1]
    before, after = (each.estimate(wide, (4,)) for each in (profile, told))
    assert after.time_s == pytest.approx(before.time_s, rel=0.1)


def test_a_model_that_the_profile_gets_wrong_is_estimated_from_its_steps(tmp_path: Path) -> None:
    device = AnyDevice()
    strategy = ampere.Strategy(max_measurements=10, tolerance=1e-9)
    wide = nn.Sequential(nn.Linear(4, 40), nn.ReLU(), nn.Linear(40, 3))
    profile = ampere.profile(
        wide, (4,), path=tmp_path / "p.ampere", device=device, strategy=strategy
    )
    dear = AnyDevice(interaction=lambda layers: 5.0)  # now everything costs five times as much
    dear.fingerprint = device.fingerprint
    with pytest.warns(UserWarning, match="only its steps count"):
        told = ampere.after_steps(profile, wide, (4,), steps=10, device=dear)
    was = profile.estimate(wide, (4,)).energy_j
    assert told.estimate(wide, (4,)).energy_j == pytest.approx(5 * was, rel=0.2)


@pytest.mark.parametrize(
    ("provenance", "guide"),
    [(Provenance.SENSOR, "energy"), (Provenance.BATTERY, "time"), (Provenance.EXTERNAL, "time")],
)
def test_joules_that_come_late_do_not_guide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provenance: Provenance, guide: str
) -> None:
    device = AnyDevice()
    device.provenance = provenance
    guides: list[str] = []
    make_prober = loop.make_prober

    def noting(itself: Any, strategy: ampere.Strategy, *rest: Any, **named: Any) -> Any:
        guides.append(strategy.guide)
        return make_prober(itself, strategy, *rest, **named)

    monkeypatch.setattr(loop, "make_prober", noting)
    strategy = ampere.Strategy(max_measurements=5)
    ampere.profile(net(), (4,), path=tmp_path / "p", device=device, strategy=strategy)
    assert guides == [guide]


def test_a_simulated_device_is_profiled_from_its_name(tmp_path: Path) -> None:
    device = ampere.open_device("simulated:xavier")
    strategy = ampere.Strategy(max_measurements=6)
    profile = ampere.profile(net(), (4,), path=tmp_path / "p", device=device, strategy=strategy)
    assert profile.provenance is Provenance.SIMULATED
    assert not any(row.failed for row in profile.measurements)
    assert "not measured" in repr(profile.estimate(net(), (4,)))
