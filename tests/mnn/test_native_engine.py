"""The native worker with MNN itself: linked with the engine inside the wheel, and run.

The wheel exports the engine's symbols but has no headers: `declarations.hpp` stands for them. What
a phone gets is built against MNN's own headers, which were not at hand.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from ampere.core.description import describe
from ampere.core.layers import Layer
from programs.networks import family_layers, layers_of

NATIVE = Path(__file__).parents[2] / "native"
DECLARATIONS = Path(__file__).with_name("declarations.hpp")
HEADERS = """MNN/expr/Executor.hpp MNN/expr/ExecutorScope.hpp MNN/expr/ExprCreator.hpp
    MNN/expr/Module.hpp MNN/Interpreter.hpp NN.hpp OpGrad.hpp ParameterOptimizer.hpp"""
# The wheel was compiled for the older strings of libstdc++.
FLAGS = "-D_GLIBCXX_USE_CXX11_ABI=0"

pytest.importorskip("MNN", reason="MNN is not installed: pip install 'ampere-energy[mnn]'")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="links with a wheel of Linux"),
    pytest.mark.skipif(
        not (shutil.which("cmake") and shutil.which("c++")),
        reason="the native worker is compiled: install cmake and a C++ compiler",
    ),
    pytest.mark.skipif(
        not sysconfig.get_config_var("Py_ENABLE_SHARED"),
        reason="the wheel is an extension: it is linked with libpython, which is not shared here",
    ),
]


def lay_out(place: Path) -> None:
    """The wheel as a directory of MNN: its library, what that loads, and headers."""
    found = importlib.util.find_spec("_mnncengine")
    assert found is not None and found.origin is not None
    engine = Path(found.origin)
    (place / "libMNN.so").symlink_to(engine)
    (place / "mnn.libs").symlink_to(engine.parent / "mnn.libs")
    for name in HEADERS.split():
        header = place / "include" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(f'#include "{DECLARATIONS}"\n')


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("mnn")
    lay_out(place)
    build, libraries = place / "build", sysconfig.get_config_var("LIBDIR")
    python = f"-lpython{sysconfig.get_config_var('LDVERSION')}"
    link = f"-L{libraries} -Wl,-rpath,{libraries} -Wl,--no-as-needed {python}"
    options = [f"-DCMAKE_CXX_FLAGS={FLAGS}", f"-DCMAKE_EXE_LINKER_FLAGS={link}"]
    for command in (
        ["cmake", "-S", str(NATIVE), "-B", str(build), f"-DMNN_DIR={place}", *options],
        ["cmake", "--build", str(build)],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return str(build / "ampere-worker")


def ask(worker: str, *requests: dict[str, Any]) -> list[dict[str, Any]]:
    opening = {"do": "open", "settings": {"runtime": "mnn", "threads": 1}}
    lines = [json.dumps({**request, "id": k}) for k, request in enumerate([opening, *requests])]
    done = subprocess.run([worker], input="\n".join(lines), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers[0]["framework"] == f"mnn {version('MNN')}"
    return answers[1:]


def loading(layers: list[Layer]) -> dict[str, Any]:
    return {"do": "load", "workload": {"stage": "step", "network": describe(layers)}}


@pytest.mark.parametrize(
    ("family", "arguments"),
    [("lenet5", {}), ("cnn5", {"channels": [4, 4, 8, 8]}), ("resnet", {"widths": [4, 4, 8]})],
)
def test_classifiers_of_maps_are_trained(
    worker: str, family: str, arguments: dict[str, Any]
) -> None:
    loaded, burst = ask(
        worker,
        loading(family_layers(family, **arguments)),
        {"do": "burst", "handle": 1, "steps": 3},
    )
    assert loaded["handle"] == 1
    assert burst["time_s"] > 0 and burst["evidence"]["cpu_s"] > 0


def test_more_channels_take_longer(worker: str) -> None:
    """An optimiser that changes nothing, or steps that are put off, would take no time at all."""
    few, many = (family_layers("cnn5", channels=[size] * 4) for size in (2, 32))
    *_, small, large = ask(
        worker,
        loading(few),
        loading(many),
        {"do": "burst", "handle": 1, "steps": 5},
        {"do": "burst", "handle": 2, "steps": 5},
    )
    assert large["evidence"]["cpu_s"] > 2 * small["evidence"]["cpu_s"]


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        (lambda: family_layers("lstm"), "it is not fed one tensor of float32"),
        (lambda: family_layers("har"), "Conv1d in call 0: the native worker does not know it"),
    ],
)
def test_what_it_cannot_train_is_one_line(worker: str, layers: Any, reason: str) -> None:
    (refused,) = ask(worker, loading(layers()))
    assert refused["error"] == "ModelError" and reason in refused["message"]


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Conv2d(16, 8, 3, groups=2), "Conv2d in call 0: its groups get wrong gradients"),
        (nn.Conv2d(16, 8, 3, groups=8), "Conv2d in call 0: its groups get wrong gradients"),
        (nn.Conv2d(16, 8, 3, padding=1, padding_mode="reflect"), "it does not pad with zeros"),
        (nn.Conv2d(16, 8, 3, padding="same"), "Conv2d in call 0: its padding is a word"),
        (
            nn.Sequential(nn.Conv2d(16, 8, 3), nn.MaxPool2d(2, padding=1)),
            "MaxPool2d in call 1: its gradients are wrong where a pool is padded",
        ),
        (
            nn.Sequential(nn.Conv2d(16, 8, 3), nn.BatchNorm2d(8, affine=False)),
            "BatchNorm2d in call 1: it has no scale, or keeps no statistics",
        ),
        (
            nn.Sequential(nn.Conv2d(16, 8, 3), nn.BatchNorm2d(8, track_running_stats=False)),
            "BatchNorm2d in call 1: it has no scale, or keeps no statistics",
        ),
    ],
)
def test_what_mnn_would_train_wrongly_is_refused(
    worker: str, module: nn.Module, reason: str
) -> None:
    model = nn.Sequential(module, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
    (refused,) = ask(worker, loading(layers_of(model, "16x8x8")))
    assert refused["error"] == "ModelError" and reason in refused["message"]
