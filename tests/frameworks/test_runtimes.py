"""Who trains: the table of runtimes, and what torch and a runtime in plain Python have to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from torch import nn

from ampere.core.fingerprint import Fingerprint, refuse_to_mix, runtime_of
from ampere.core.inputs import Inputs, InputSpec
from ampere.core.workloads import REFERENCE, Settings
from ampere.devices.local import LocalDevice
from ampere.devices.registry import open_device
from ampere.devices.simulated import SimulatedDevice
from ampere.errors import DeviceError, FingerprintError, ModelError
from ampere.frameworks.models import with_features
from ampere.frameworks.runtimes import (
    RUNTIMES,
    RuntimeEntry,
    find_runtime,
    refuse_foreign,
    runtime_entry,
    stages_of,
)
from ampere.integrations.purses import SimulatedPurse
from ampere.integrations.station import Station
from ampere.pytorch.graph.model_reading import read_layers

from .contract import RuntimeContract, as_dialect
from .fake_runtime import ENTRY


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(RUNTIMES, "fake", ENTRY)
    yield


class TestTorch(RuntimeContract):
    name = "torch"
    models = ("zoo:lenet5", "zoo:lstm", "zoo:har")


MODEL = nn.Sequential(nn.Linear(4, 8), nn.Softmax(dim=-1), nn.Linear(8, 3))
SOFT, _ = read_layers(MODEL, Inputs((InputSpec((4,)),)))


class TestFake(RuntimeContract):
    name = "fake"
    untrainable = (SOFT, "Softmax")


def missing() -> RuntimeEntry:
    def load() -> object:
        raise ModuleNotFoundError("No module named 'absent'\nand more", name="absent")

    return RuntimeEntry("absent", load, ("absent", "more"))  # type: ignore[arg-type]


def test_a_runtime_that_is_not_installed_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(RUNTIMES, "absent", missing())
    with pytest.raises(DeviceError) as caught:
        find_runtime("absent")
    assert "cannot use absent (No module named 'absent')" in str(caught.value)
    assert "pip install 'ampere-energy[absent]' or absent more" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_runtime_that_nobody_knows_is_refused_with_the_names() -> None:
    with pytest.raises(DeviceError, match="unknown runtime 'tf': use one of torch, mnn, jax"):
        runtime_entry("tf")
    with pytest.raises(DeviceError, match="unknown runtime 'tf'"):
        LocalDevice(Settings(runtime="tf"))
    assert stages_of("tf") == ("step",)  # of a profile that a later version wrote


def test_a_simulated_device_has_no_other_runtime() -> None:
    with pytest.raises(DeviceError, match="settings of its own"):
        open_device("simulated:xavier", Settings(runtime="mnn"))


def test_what_is_installed_is_told_without_loading_it() -> None:
    (torch, mnn, jax) = (RUNTIMES[name].to_json() for name in ("torch", "mnn", "jax"))
    assert torch["version"]
    assert torch["remedy"] is None
    for row, extra in ((mnn, "mnn"), (jax, "jax")):
        assert (row["version"] is None) == (f"ampere-energy[{extra}]" in str(row["remedy"]))
        assert row["stages"] == ["step"]


def test_layers_of_jax_are_trained_by_jax_alone() -> None:
    layers = [as_dialect(layer, "jax") for layer in REFERENCE.layers]
    refuse_foreign(layers, "jax")
    for name in ("torch", "mnn", "fake"):
        with pytest.raises(ModelError, match="use --runtime jax"):
            refuse_foreign(layers, name)


def test_the_reference_does_what_its_features_say() -> None:
    for layer in REFERENCE.layers:
        counted = with_features(layer)
        assert counted.features.flops == layer.features.flops
        assert counted.features.parameter_bytes == layer.features.parameter_bytes
    first, last = (with_features(layer).features for layer in REFERENCE.layers)
    assert first.activation_bytes == REFERENCE.layers[0].features.activation_bytes
    assert last.activation_bytes == REFERENCE.layers[1].features.activation_bytes


def test_a_worker_of_a_fleet_trains_by_torch(tmp_path: Path) -> None:
    purse = SimulatedPurse(SimulatedDevice("xavier"))
    with pytest.raises(DeviceError, match="a worker of a fleet trains by torch, not by mnn"):
        Station("a", purse, tmp_path, settings=Settings(runtime="mnn"))


TORCHS = Fingerprint({"cores": "2", "framework": "torch 2.6", "compile": "False"})
FAKES = Fingerprint({"cores": "2", "framework": "fake 1.0", "runtime": "fake"})


def test_runtimes_do_not_mix_and_only_what_both_have_is_compared() -> None:
    assert (runtime_of(TORCHS), runtime_of(FAKES)) == ("torch", "fake")
    with pytest.raises(FingerprintError) as caught:
        refuse_to_mix(FAKES, TORCHS)
    assert "runtime is fake here, torch there; framework is fake 1.0 here" in str(caught.value)
    assert "compile" not in str(caught.value)
    assert str(caught.value).endswith(
        ": say --runtime torch (in Python runtime='torch'), or take another file"
    )


@pytest.mark.parametrize("changes", [{"compile": True}, {"tf32": True}, {"onednn": False}])
def test_options_of_torch_are_refused_for_others(changes: dict[str, bool]) -> None:
    with pytest.raises(DeviceError, match=f"only torch has {next(iter(changes))}"):
        Settings(runtime="mnn", **changes)  # type: ignore[arg-type]
