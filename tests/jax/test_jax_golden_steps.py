"""One step of JAX from the same weights and data is torch's, for each operation and family.

That of MNN is, too (`tests/mnn`); where it is installed beside JAX, all three are compared.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.core.workloads import Settings, Workload
from ampere.errors import ModelError
from ampere.programs.program import Key
from ampere.zoo.families import family_names
from mnn.cases import CASES, SMALL_FAMILIES, Case, Own
from programs.golden import Golden, errors, golden_step
from programs.networks import family_layers, layers_of

optax = pytest.importorskip(
    "optax", reason="JAX is not installed: pip install 'ampere-energy[jax]'"
)

RATE = 10.0  # a step so long that what is rounded away does not count
MORE = [
    ("GRU", "tokens", lambda: _First(nn.GRU(8, 6, batch_first=True))),
    ("RNN", "tokens", lambda: _First(nn.RNN(8, 6, batch_first=True, nonlinearity="relu"))),
    ("two-layer LSTM both ways", "tokens",
     lambda: _First(nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True))),
    ("grouped convolution", "maps", lambda: nn.Conv2d(4, 6, 3, groups=2)),
    ("dilated convolution", "maps", lambda: nn.Conv2d(4, 6, 3, dilation=2, stride=2)),
    ("padded maximum", "maps", lambda: nn.MaxPool2d(3, stride=2, padding=1)),
    ("InstanceNorm", "maps", lambda: nn.InstanceNorm2d(4, affine=True)),
    ("GroupNorm", "maps", lambda: nn.GroupNorm(2, 4)),
    ("ELU", "rows", nn.ELU),
    ("nearest", "maps", lambda: nn.Upsample(scale_factor=2)),
    ("threshold", "rows", lambda: nn.Softplus(threshold=0.1)),
    ("addmm", "rows", lambda: Own((8, 8), lambda x, w: torch.addmm(x, x, w, beta=0.5, alpha=2))),
]  # fmt: skip


class _First(nn.Module):
    """The first of what a module returns."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.inner(x)[0]


def by_jax(golden: Golden, layers: Sequence[Layer]) -> Mapping[Key, Any]:
    from ampere.jax.engine import make_trainer

    trainer = make_trainer(
        Workload(tuple(layers)),
        weights=golden.values,
        inputs=golden.data,
        targets=golden.targets,
        optimizer=optax.sgd(RATE),
    )
    trainer.step()
    return trainer.values()


def by_mnn(golden: Golden) -> Mapping[Key, Any]:
    from ampere.mnn.engine import RUNTIME
    from ampere.mnn.trainer import MnnTrainer

    RUNTIME.apply(Settings(threads=1))
    trainer = MnnTrainer(golden.program, golden.values, golden.data, golden.targets, RATE)
    trainer.step()
    return trainer.values()


def furthest(golden: Golden, after: Mapping[Key, Any]) -> float:
    return max(errors(golden, after, RATE).values())


def worst(layers: list[Layer]) -> float:
    golden = golden_step(layers)
    return furthest(golden, by_jax(golden, layers))


@functools.cache
def family_step(name: str) -> tuple[Golden, Mapping[Key, Any]]:
    """Torch's step of a family, and JAX's."""
    layers = family_layers(name, Training(4), **SMALL_FAMILIES.get(name, {}))
    golden = golden_step(layers)
    return golden, by_jax(golden, layers)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_operation_is_trained_as_by_torch(case: Case) -> None:
    error = worst(layers_of(case.model(), case.inputs))
    print(f"{case.name}: {error:.1e}")
    assert error < (1e-4 if "Norm" in case.name else 2e-5)  # of few numbers, there


@pytest.mark.parametrize(("name", "over", "make"), MORE, ids=[name for name, *_ in MORE])
def test_so_is_what_mnn_refuses(name: str, over: str, make: type[nn.Module]) -> None:
    case = Case(name, over, make)
    assert worst(layers_of(case.model(), case.inputs)) < 2e-5


@pytest.mark.parametrize("name", family_names())
def test_a_family_is_trained_as_by_torch(name: str) -> None:
    error = furthest(*family_step(name))
    print(f"{name}: {error:.1e}")
    assert error < 2e-5


@pytest.mark.parametrize("name", family_names())
def test_a_family_is_trained_alike_by_all_three(name: str) -> None:
    pytest.importorskip("MNN", reason="MNN is not installed: pip install 'ampere-energy[mnn]'")
    golden, jax_after = family_step(name)
    mnn_after = by_mnn(golden)
    mnn_moved = {
        key: (golden.values[key].astype(float) - mnn_after[key]) / RATE for key in golden.gradients
    }
    between = furthest(replace(golden, gradients=mnn_moved), jax_after)
    print(f"{name}: MNN from torch {furthest(golden, mnn_after):.1e}, from JAX {between:.1e}")
    tolerance = 2e-3 if name == "transformer" else 2e-5  # by MNN's GELU
    assert furthest(golden, mnn_after) < tolerance
    assert between < tolerance


REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    ("maps", lambda: nn.LPPool2d(2, 2), "LPPool2d in layer 0, stem"),
    ("maps", lambda: nn.MaxPool2d(3, dilation=2), "MaxPool2d in layer 0, stem: .* has no gradient"),
    ("maps", lambda: nn.AvgPool2d(2, divisor_override=3), "divisor_override is not"),
    ("maps", lambda: lambda x: F.avg_pool2d(x, 2, 2, 0, False, True, 3), "divisor_override is not"),
    ("rows", lambda: lambda x: x * torch.div(x, 3, rounding_mode="floor"), "torch.div in layer 0"),
]


@pytest.mark.parametrize(("over", "make", "why"), REFUSED, ids=[why for *_, why in REFUSED])
def test_what_is_not_translated_is_refused_with_its_layer(over: str, make: Any, why: str) -> None:
    case = Case("refused", over, make)
    with pytest.raises(ModelError, match=f"JAX cannot train .*{why}"):
        worst(layers_of(case.model(), case.inputs))
