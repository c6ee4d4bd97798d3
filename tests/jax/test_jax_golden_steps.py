"""One step of JAX from the same weights and data is torch's, for each operation and family."""

from __future__ import annotations

import pytest
from torch import nn

from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.core.workloads import Workload
from ampere.errors import ModelError
from ampere.zoo.families import family_names
from mnn.cases import CASES, Case
from programs.golden import errors, golden_step
from programs.networks import family_layers, layers_of

optax = pytest.importorskip(
    "optax", reason="JAX is not installed: pip install 'ampere-energy[jax]'"
)

RATE = 10.0  # a step so long that what is rounded away does not count
SMALL = {"lstm": {"embedding": 12, "hidden": 10}, "transformer": {"d_model": 16}}
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
]  # fmt: skip


class _First(nn.Module):
    """The first of what a module returns."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):  # type: ignore[no-untyped-def]
        return self.inner(x)[0]


def worst(layers: list[Layer]) -> float:
    from ampere.jax.engine import make_trainer

    golden = golden_step(layers)
    trainer = make_trainer(
        Workload(tuple(layers)),
        weights=golden.values,
        inputs=golden.data,
        targets=golden.targets,
        optimizer=optax.sgd(RATE),
    )
    trainer.step()
    return max(errors(golden, trainer.values(), RATE).values())


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
    error = worst(family_layers(name, Training(4), **SMALL.get(name, {})))
    print(f"{name}: {error:.1e}")
    assert error < 2e-5


def test_what_is_not_translated_is_refused_with_its_layer() -> None:
    case = Case("fold", "maps", lambda: nn.LPPool2d(2, 2))
    with pytest.raises(ModelError, match=r"JAX cannot train LPPool2d in layer 0, stem"):
        worst(layers_of(case.model(), case.inputs))
