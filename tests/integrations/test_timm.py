"""Architectures of timm by name: exact sums, and a worker that trains one."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("timm") is None:
    pytest.skip("pip install 'ampere-energy[timm]'", allow_module_level=True)

from ampere.core.training import Training
from ampere.core.workloads import ModelSpec, Settings, Workload
from ampere.devices.local import LocalDevice
from ampere.errors import ModelError
from ampere.frameworks.models import layers_of
from ampere.pytorch.runtime.loader import load_model

from .counting import counts_of_layers, counts_of_whole


@pytest.mark.parametrize(
    ("name", "input"),
    [
        ("timm:resnet50", "3x224x224"),
        ("timm:resnet50.a1_in1k(num_classes=10)", "3x224x224"),
        ("timm:vit_tiny_patch16_224(img_size=64)", "3x64x64"),
        ("timm:convnext_atto", "3x224x224"),
        ("timm:mobilenetv3_small_100(in_chans=1)", "1x224x224"),
        ("timm:test_efficientnet", "3x160x160"),
    ],
)
def test_sums_are_exact(name: str, input: str) -> None:
    assert str(load_model(name, hollow=True)[1]) == input
    assert counts_of_layers(name) == counts_of_whole(name)


def test_wrong_names() -> None:
    with pytest.raises(ModelError, match=r"no model 'resnet5O': did you mean resnet5"):
        load_model("timm:resnet5O")
    with pytest.raises(ModelError, match=r"timm:resnet50\.a1_in2k: Invalid pretrained tag"):
        load_model("timm:resnet50.a1_in2k")


def test_a_worker_builds_it_by_its_name() -> None:
    spec = ModelSpec("timm:test_resnet", "3x32x32", Training(2))
    device = LocalDevice(Settings(threads=1), meter="cpu")
    try:
        loaded = device.load(Workload(model=spec))
        assert device.burst(loaded.handle, 2).time_s > 0
        again = device.load(Workload(layers_of(spec)))
        assert device.burst(again.handle, 2).time_s > 0
    finally:
        device.close()
