"""Models of flax.nnx in other types than float32: read, rebuilt and trained in them throughout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ampere.core.layers import structure_of
from ampere.core.program.terms import DType
from ampere.core.training import Training
from ampere.core.variants import plan, tell_apart
from ampere.core.workloads import ModelSpec, Workload
from ampere.errors import ModelError
from ampere.frameworks.models import read

nnx = pytest.importorskip("flax.nnx", reason="needs JAX: pip install 'ampere-energy[jax]'")

from ampere.jax.engine import make_trainer  # noqa: E402
from ampere.jax.reader import READER  # noqa: E402
from ampere.jax.runtime.modules import in_dtype  # noqa: E402
from nnx_models import MODELS, make  # noqa: E402

HALF = Training(4, dtype="bfloat16")


class Simple(nnx.Module):
    """A cell that flax builds for float32 unless it is told otherwise."""

    def __init__(self, rngs: Any) -> None:
        self.rnn = nnx.RNN(nnx.SimpleCell(5, 6, rngs=rngs), rngs=rngs)
        self.head = nnx.Linear(6, 3, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.head(self.rnn(x)[:, -1])


# "looped" begins with zeros of its own, which are float32, and goes on with them.
@pytest.mark.parametrize("name", [name for name in MODELS if name != "looped"])
def test_layers_hold_and_compute_in_the_type_that_is_asked_for(name: str) -> None:
    layers = read(make(name), MODELS[name][1], HALF)
    assert all(" bfloat16 " in layer.kind.name for layer in layers)
    program = READER.build(layers)
    assert {held.dtype for held in program.held if not held.buffer} == {"bfloat16"}
    assert {each.dtype for each in program.inputs} <= {"bfloat16", "int32"}
    calls = [call for layer in layers for call in structure_of(layer.kind).calls]
    told = [c.arguments["dtype"] for c in calls if "dtype" in c.arguments and c.is_module]
    assert set(told) == {DType("bfloat16")}
    full = read(make(name), MODELS[name][1], Training(4))
    assert [layer.widths for layer in layers] == [layer.widths for layer in full]
    assert all(
        half.features.parameter_bytes == (whole.features.parameter_bytes or 0) / 2
        for half, whole in zip(layers, full, strict=True)
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("model", ["recurrent", "simple"])
def test_recurrent_cells_are_trained_in_half_precision(model: str, dtype: str) -> None:
    made = nnx.eval_shape(lambda: Simple(nnx.Rngs(0))) if model == "simple" else make(model)
    layers = read(made, "7x5", Training(4, dtype=dtype))
    trainer = make_trainer(Workload(layers))
    for _ in range(3):
        trainer.step()
    assert trainer._step._cache_size() == 1
    assert {str(trainer.values()[key].dtype) for key in trainer._updated} == {dtype}


def test_so_are_the_variants_of_their_kinds() -> None:
    layers = read(make("recurrent"), "7x5", HALF)
    variants = tell_apart(layers, plan(layers, READER))
    make_trainer(Workload(variants[-1].layers)).step()


OWN = """
from flax import nnx
from nnx_models import MODELS
def residual(): return MODELS["residual"][0](rngs=nnx.Rngs(0))
"""


def test_the_model_itself_is_trained_so_too(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    spec = ModelSpec(f"{tmp_path}/own.py:residual", MODELS["residual"][1], HALF)
    trainer = make_trainer(Workload(model=spec))
    trainer.step()
    values = trainer.values()
    assert {str(values[key].dtype) for key in trainer._updated} == {"bfloat16"}
    assert all(np.isfinite(values[key].astype(np.float32)).all() for key in trainer._updated)


def test_a_model_that_is_of_the_type_stays_as_it_is() -> None:
    model = make("residual")
    assert in_dtype(model, "float32") is model
    plain, asked = (
        read(make("residual"), MODELS["residual"][1], Training(4, dtype=dtype))
        for dtype in (None, "float32")
    )
    assert [a.kind.name for a in plain] == [b.kind.name for b in asked]


@pytest.mark.parametrize("of", ["torch", "flax"])
def test_what_jax_does_not_compute_in_is_refused(of: str) -> None:
    training = Training(4, dtype="float64")
    with pytest.raises(ModelError, match="JAX computes in 32 bits here: use --dtype float32"):
        if of == "flax":
            read(make("residual"), MODELS["residual"][1], training)
        else:
            make_trainer(Workload(read("zoo:lenet5", training=training)))


@pytest.mark.parametrize("name", ["lenet5", "lstm"])
def test_models_of_torch_are_translated_in_half_precision(name: str) -> None:
    trainer = make_trainer(Workload(read(f"zoo:{name}", training=HALF)))
    trainer.step()
    assert {str(trainer.values()[key].dtype) for key in trainer._updated} == {"bfloat16"}
