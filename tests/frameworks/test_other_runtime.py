"""A runtime that is not torch, all the way: worker, profile, estimate, evaluation.

Its costs are known, so what comes out is compared with what must.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ampere import _api
from ampere.acquisition.exchange import ask, tell
from ampere.acquisition.strategy import Strategy
from ampere.core.fingerprint import Fingerprint
from ampere.core.training import Training
from ampere.core.workloads import REFERENCE, ModelSpec, Workload
from ampere.errors import DeviceError, FingerprintError, ModelError
from ampere.evaluation.evaluation import Evaluation
from ampere.frameworks.models import read
from ampere.frameworks.runtimes import RUNTIMES
from ampere.profiles.profile import Profile
from ampere.records.journal import read_journal
from ampere.records.measurement import Measurement
from ampere.reports.profile_page import report
from ampere.sittings.effort import Effort
from fakes import FakeDevice, exact, plain_model

from .contract import as_dialect
from .fake_runtime import ENTRY, NAME, POWER_W, FakeRuntimeDevice, known_j, known_s

QUICK = Effort(0.005, 0.0, 3, 4, 0.1, accept_busy=True, patience_s=0.0)
NET = """
from torch import nn
def net(width=24): return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))
def soft(): return nn.Sequential(nn.Linear(4, 8), nn.Softmax(dim=-1), nn.Linear(8, 3))
net.input = soft.input = "4"
"""


@pytest.fixture(autouse=True, scope="module")
def fake() -> Iterator[None]:
    RUNTIMES[NAME] = ENTRY
    yield
    del RUNTIMES[NAME]


@pytest.fixture(scope="module")
def device(fake: None) -> Iterator[FakeRuntimeDevice]:
    with FakeRuntimeDevice() as opened:
        yield opened


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a small model of torch."""
    path = tmp_path_factory.mktemp("models") / "net.py"
    path.write_text(NET)
    return f"{path}:net"


@pytest.fixture(scope="module")
def profile_path(
    device: FakeRuntimeDevice, net: str, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("profiles") / "fake.ampere"
    strategy = Strategy(max_measurements=16)
    _api.profile(net, path=path, device=device, strategy=strategy, effort=QUICK, pause_s=0.0)
    return path


def test_the_worker_trains_layers_and_models_by_name(device: FakeRuntimeDevice, net: str) -> None:
    """A model of torch is sent as layers: its own code is nothing to another runtime."""
    layers = read(net)
    for workload in (Workload(layers), Workload(model=ModelSpec(net))):
        loaded = device.load(workload)
        burst = device.burst(loaded.handle, 50)
        assert burst.energy_j / 50 == pytest.approx(known_j(layers), rel=1e-3)
        assert burst.time_s / 50 == pytest.approx(known_s(layers), rel=1e-3)
        assert loaded.features[0].flops == layers[0].features.flops
        device.unload(loaded.handle)


def test_the_fingerprint_names_the_runtime_and_no_option_of_torch(
    device: FakeRuntimeDevice,
) -> None:
    identity = device.fingerprint.identity
    assert (identity["runtime"], identity["framework"]) == ("fake", "fake 1.0")
    assert not {"compile", "tf32", "onednn"} & set(identity)


def test_a_stage_that_it_has_not_is_said(device: FakeRuntimeDevice, net: str) -> None:
    with pytest.raises(DeviceError, match="the runtime fake has no stage 'forward': it has step"):
        device.load(Workload(read(net), stage="forward"))


def test_a_profile_and_its_estimates_are_of_the_runtime(profile_path: Path, net: str) -> None:
    profile = Profile.load(profile_path)
    assert profile.runtime == NAME
    assert "fake trained them" in repr(profile)
    estimate = profile.estimate(f"{net}(width=15)")
    layers = read(f"{net}(width=15)")
    assert estimate.energy_j == pytest.approx(known_j(layers), rel=0.05)
    assert (estimate.runtime, estimate.translated) == (NAME, True)
    assert estimate.to_json()["runtime"] == NAME
    assert "what fake takes to train ampere's translation of the model" in repr(estimate)
    assert estimate.for_steps(10).runtime == NAME
    assert "They are of training by fake." in report(profile).lead


def test_a_metered_model_says_who_trained_it(device: FakeRuntimeDevice, net: str) -> None:
    measured = _api.measure(net, device=device, effort=QUICK)
    assert measured.energy_j == pytest.approx(known_j(read(net)), rel=1e-3)
    assert "what fake takes to train ampere's translation of the model" in repr(measured)


def test_estimates_of_torch_say_nothing_new(tmp_path: Path) -> None:
    profile = tell(tmp_path / "torch.ampere", [exact(plain_model(n)) for n in (4, 8, 16, 32)])
    estimate = profile.estimate(plain_model(8))
    assert profile.runtime == "torch"
    assert "runtime" not in estimate.to_json()
    assert "runtime" not in repr(estimate) + repr(profile)


def test_evaluation_does_without_stages(
    profile_path: Path, net: str, device: FakeRuntimeDevice
) -> None:
    found = _api.evaluate(net, path=profile_path, device=device, models=3, effort=QUICK)
    assert isinstance(found, Evaluation)
    assert "neuralpower" not in found.methods
    assert found.left_out == ("neuralpower: the runtime fake has no stages to meter alone",)
    assert "left out" in repr(found)
    assert found.to_json()["left_out"]
    error = found.mape("additive")
    assert error is not None
    assert error < 5
    for result in found.results:
        assert result.energy_j == pytest.approx(POWER_W * result.time_s, rel=1e-3)


def test_a_profile_of_one_runtime_takes_no_rows_of_another(profile_path: Path, net: str) -> None:
    before = profile_path.read_bytes()
    refused = pytest.raises(FingerprintError, match="runtime is torch here, fake there")
    with refused:
        _api.profile(net, path=profile_path, device=FakeDevice(), effort=QUICK)
    assert profile_path.read_bytes() == before


def test_what_it_cannot_train_is_refused_before_anything_is_written(
    device: FakeRuntimeDevice, net: str, tmp_path: Path
) -> None:
    path = tmp_path / "soft.ampere"
    with pytest.raises(ModelError, match=r"fake cannot train Softmax \(layer 0\)"):
        _api.profile(net.replace(":net", ":soft"), path=path, device=device, effort=QUICK)
    assert not path.exists()


@pytest.mark.parametrize("verb", ["measure", "after_steps"])
def test_it_is_named_before_anybody_waits_for_a_quiet_machine(
    verb: str,
    device: FakeRuntimeDevice,
    net: str,
    profile_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def waits(*_: object, **__: object) -> None:
        raise AssertionError("the machine is watched first")

    for name in ("take_reference", "reference_of"):
        monkeypatch.setattr(_api, name, waits)
    soft = net.replace(":net", ":soft")
    with pytest.raises(ModelError, match=r"fake cannot train Softmax \(layer 0\)"):
        if verb == "measure":
            _api.measure(soft, device=device)
        else:
            _api.after_steps(Profile.load(profile_path), soft, device=device)


def test_layers_of_another_dialect_are_refused_by_the_device(device: FakeRuntimeDevice) -> None:
    layers = tuple(as_dialect(layer, "jax") for layer in REFERENCE.layers)
    with pytest.raises(ModelError, match="a layer of jax, which the runtime fake cannot train"):
        device.load(Workload(layers))


def test_asked_and_told_profiles_know_the_runtime(tmp_path: Path, net: str) -> None:
    path = tmp_path / "phone.ampere"
    asked = ask(path, 2, net, device="phone", runtime=NAME)
    header, _ = read_journal(path)
    assert header.fingerprint == Fingerprint({"device": "phone", "runtime": "fake"})
    rows = [
        Measurement(each.layers, known_j(each.layers), known_s(each.layers), device="phone")
        for each in asked
    ]
    assert tell(path, rows[:1]).runtime == NAME  # nothing said
    with pytest.raises(
        FingerprintError, match="rows are of the runtime torch, the profile of fake"
    ):
        tell(path, rows[1:], runtime="torch")
    assert len(tell(path, rows[1:], runtime=NAME).measurements) == 2


def test_a_told_profile_is_begun_with_its_runtime(tmp_path: Path) -> None:
    rows = [exact(plain_model(n)) for n in (4, 8)]
    tell(tmp_path / "new.ampere", rows, runtime=NAME)
    profile = Profile.load(tmp_path / "new.ampere")
    assert profile.header.fingerprint == Fingerprint({"device": "told", "runtime": "fake"})
    assert not profile.estimate(profile.measurements[0].layers).translated  # rows do not tell
    with pytest.raises(DeviceError, match="unknown runtime 'tf'"):
        tell(tmp_path / "other.ampere", rows, runtime="tf")


def test_the_training_of_a_profile_goes_on_as_it_was(profile_path: Path) -> None:
    assert Profile.load(profile_path).training == Training()
