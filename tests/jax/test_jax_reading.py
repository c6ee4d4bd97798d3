"""Models of flax.nnx as layers: exact cases, and checks against JAX itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ampere.core.choices import resize
from ampere.core.layers import Layer, Role, structure_of
from ampere.core.program.structure import Structure
from ampere.core.training import Training
from ampere.core.variants import plan, tell_apart
from ampere.core.workloads import ModelSpec, Workload
from ampere.errors import ModelError
from ampere.frameworks.models import framework_of, read, read_whole

nnx = pytest.importorskip("flax.nnx", reason="needs JAX: pip install 'ampere-energy[jax]'")
jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

from ampere.jax.engine import make_trainer  # noqa: E402
from ampere.jax.graph.counter import flops_of  # noqa: E402
from ampere.jax.reader import READER  # noqa: E402
from nnx_models import MODELS, make  # noqa: E402

SMALL = Training(4)


def layers_of(name: str, **arguments: Any) -> tuple[Layer, ...]:
    return read(make(name, **arguments), MODELS[name][1], SMALL)


def widths_of(layers: tuple[Layer, ...]) -> dict[str, dict[str, int]]:
    return {layer.name: dict(layer.widths) for layer in layers}


def test_a_residual_network_is_cut_between_its_blocks() -> None:
    layers = layers_of("residual")
    assert widths_of(layers) == {
        "stem": {"out": 8},
        "blocks.0": {"width": 8},
        "blocks.1": {"in": 8, "out": 16},
        "blocks.2": {"width": 16},
        "head": {"in": 16},
    }
    assert [layer.kind.role for layer in layers] == [Role.FIRST, *[Role.HIDDEN] * 3, Role.LAST]
    assert [layer.params for layer in layers] == [224, 1184, 3664, 4672, 170]
    stem = layers[0].kind
    assert (stem.attributes["height"], stem.attributes["width"]) == (16, 16)
    head = structure_of(layers[-1].kind)
    assert [call.op for call in head.calls] == ["lax.reduce_sum", "lax.div", "Linear"]


def test_equal_blocks_of_a_transformer_are_one_kind_and_the_last_norm_goes_with_the_head() -> None:
    layers = layers_of("transformer", layers=3)
    names = [layer.name for layer in layers]
    assert names[:3] == ["tokens", "layers.0.attention", "layers.0"]
    assert len({layer.kind.name for layer in layers}) == 4
    assert structure_of(layers[1].kind).multiples == {"width": 4}  # heads
    assert structure_of(layers[-1].kind).calls[0].op == "LayerNorm"
    (positions,) = [c for c in structure_of(layers[0].kind).calls if c.op == "parameter"]
    assert str(positions.arguments["shape"][1]) == "out"  # a bare parameter follows the width


def test_a_recurrent_model_and_the_position_that_its_head_takes() -> None:
    layers = layers_of("recurrent")
    assert widths_of(layers) == {
        "enter": {"out": 12},
        "rnn": {"in": 12, "out": 12},
        "head": {"in": 12},
    }
    (rnn,) = structure_of(layers[1].kind).calls
    assert (rnn.op, rnn.arguments["cell"]) == ("RNN", "GRUCell")


def test_a_cell_that_runs_in_a_loop_is_updated_once() -> None:
    layers = layers_of("looped")
    assert [layer.params for layer in layers] == [448, 0, 0, 0, 27]
    cells = [layer for layer in layers if layer.name.startswith("cell#")]
    for cell in cells:
        (call,) = [c for c in structure_of(cell.kind).calls if c.op == "LSTMCell"]
        assert "hi/kernel" in call.shared_parts


def test_several_inputs_reach_the_layers_that_read_them() -> None:
    layers = layers_of("two inputs")
    assert [layer.reads for layer in layers] == [
        ((-1, 0),), ((-1, 1),), ((1, 0), (0, 0)), ((2, 0),),
    ]  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_layers_are_plain_data_that_can_be_resized(name: str) -> None:
    layers = layers_of(name)
    for layer in layers:
        structure = structure_of(layer.kind)
        assert structure.dialect == "jax"
        assert Structure.from_json(json.loads(json.dumps(structure.to_json()))) == structure
    wide = {f"{layer.name}.{w}": 2 * n for layer in layers[:1] for w, n in layer.widths.items()}
    twice = resize(layers, wide)
    for layer in twice:
        made = READER.with_features(layer)
        assert (made.params or 0) > 0


@pytest.mark.parametrize("name", MODELS)
def test_each_kind_has_variants_that_can_be_trained(name: str) -> None:
    layers = layers_of(name)
    variants = tell_apart(layers, plan(layers, READER))
    assert {v.subject.kind.name for v in variants} >= {layer.kind.name for layer in layers}
    if name == "residual":
        make_trainer(Workload(variants[-1].layers)).step()


def xla_flops(module: Any, shape: tuple[int, ...]) -> tuple[float, float]:
    """What XLA counts of a module's training step, and what we count of the same program."""
    definition, parameters, rest = nnx.split(module, nnx.Param, ...)

    def loss(parameters: Any, x: Any, rest: Any) -> Any:
        return nnx.merge(definition, parameters, rest)(x)

    def step(parameters: Any, x: Any, rest: Any) -> Any:
        out, back = jax.vjp(lambda p, x: loss(p, x, rest), parameters, x)
        return back(out)

    given = (parameters, jax.ShapeDtypeStruct(shape, np.float32), rest)
    cost = jax.jit(step).lower(*given).cost_analysis()
    return float(cost["flops"]), float(flops_of(jax.make_jaxpr(step)(*given).jaxpr))


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (lambda r: nnx.Linear(64, 96, use_bias=False, rngs=r), (32, 64)),
        (lambda r: nnx.Conv(16, 24, (3, 3), use_bias=False, rngs=r), (4, 12, 12, 16)),
        (lambda r: nnx.Conv(16, 24, (5, 3), strides=2, use_bias=False, rngs=r), (4, 13, 12, 16)),
        (lambda r: nnx.Conv(16, 16, (3, 3), feature_group_count=16, use_bias=False, rngs=r),
         (4, 12, 12, 16)),
        (lambda r: nnx.Conv(16, 8, (3,), kernel_dilation=2, use_bias=False, rngs=r), (4, 20, 16)),
    ],
)  # fmt: skip
def test_flops_are_those_of_xla(module: Any, shape: tuple[int, ...]) -> None:
    theirs, ours = xla_flops(nnx.eval_shape(lambda: module(nnx.Rngs(0))), shape)
    assert ours == pytest.approx(theirs, rel=1e-6)


class Alone(nnx.Module):  # type: ignore[misc]
    """A module by itself, as a model."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self, x: Any) -> Any:
        return self.module(x)


@pytest.mark.parametrize(
    ("module", "entering"),
    [
        (lambda r: nnx.Linear(64, 96, use_bias=False, rngs=r), "64"),
        (lambda r: nnx.Conv(16, 24, (3, 3), use_bias=False, rngs=r), "12x12x16"),
        (lambda r: nnx.Conv(16, 24, (5, 3), strides=2, use_bias=False, rngs=r), "13x12x16"),
    ],
)
def test_bytes_are_those_that_xla_says_are_written_and_read(module: Any, entering: str) -> None:
    """Of one operation, which XLA has nothing to fuse with."""
    model = Alone(module(nnx.Rngs(0)))
    (layer,) = read(model, entering, SMALL)
    features = READER.with_features(layer).features
    shape = (SMALL.batch_size, *map(int, entering.split("x")))
    cost = jax.jit(model.module).lower(jax.ShapeDtypeStruct(shape, np.float32)).cost_analysis()
    assert features.activation_bytes == cost["bytes accessedout{}"]
    assert features.parameter_bytes == cost["bytes accessed1{}"]


def test_a_loop_counts_as_often_as_it_runs() -> None:
    short, long = (
        READER.with_features(read(make("recurrent"), f"{n}x5", SMALL)[1]) for n in (3, 6)
    )
    assert long.features.flops == pytest.approx(2 * (short.features.flops or 0), rel=1e-9)


OWN = """
from flax import linen, nnx
from nnx_models import MODELS

class Linen(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(3)(x)

ready = Linen()

def residual(): return MODELS["residual"][0](rngs=nnx.Rngs(0))
def recurrent(): return MODELS["recurrent"][0](rngs=nnx.Rngs(0))
"""


def by_shape(shape: tuple[int, ...]) -> np.ndarray:
    """The same numbers for every parameter of a shape, whoever holds it."""
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]) or 1)).astype(np.float32)


@pytest.mark.parametrize("name", ["residual", "recurrent"])
def test_layers_train_as_the_model_does(name: str, tmp_path: Path) -> None:
    """The same weights and data: the loss of the model's own code is that of its layers."""
    (tmp_path / "own.py").write_text(OWN)
    spec = ModelSpec(f"{tmp_path}/own.py:{name}", MODELS[name][1], SMALL)
    layers = read(spec.model, spec.input, SMALL)
    losses = []
    for workload in (Workload(model=spec), Workload(layers)):
        first = make_trainer(workload)
        weights = {h.key: by_shape(h.shape) for h in first.program.held if not h.buffer}
        trainer = make_trainer(workload, weights=weights, optimizer=optax.sgd(0.1))
        losses.append([float(trainer.step()[0][0]) for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][2] < losses[0][0]


def test_whose_model_it_is_is_found_out(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    assert framework_of(f"{tmp_path}/own.py:recurrent") == "jax"
    assert framework_of(make("recurrent")) == "jax"


def test_what_is_not_read_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    for name in ("Linen", "ready"):
        with pytest.raises(ModelError, match=r"Linen is a model of flax.linen, which is not read"):
            read_whole(f"{tmp_path}/own.py:{name}", "5", SMALL)
    with pytest.raises(ModelError, match=r"does not run on an input of 4x\(9x9\)"):
        read_whole(make("residual"), "9x9", SMALL)
    with pytest.raises(ModelError, match=r"; flax has channels last, such as 16x16x3$"):
        read_whole(make("residual"), "3x16x16", SMALL)
    with pytest.raises(ModelError, match=r"input is not known"):
        read_whole(make("residual"), None, SMALL)
    with pytest.raises(ModelError, match=r"trained with one of auto"):
        read_whole(make("recurrent"), "7x5", replace(SMALL, loss="own.py:loss"))


class Scanned(nnx.Module):
    """A loop that is compiled as one."""

    def __init__(self, rngs: Any) -> None:
        self.linear = nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (c * 0.5, None), self.linear(x), None, length=3)[0]


def test_a_loop_of_the_users_own_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match=r"does scan with .*, which is not read"):
        read_whole(nnx.eval_shape(lambda: Scanned(nnx.Rngs(0))), "4", SMALL)


class Keyed(nnx.Module):
    """A cell whose carry is begun as flax's pages do, and noise by the model's own hand."""

    def __init__(self, *, noisy: bool, rngs: Any) -> None:
        self.cell = nnx.GRUCell(5, 8, rngs=rngs)
        self.head = nnx.Linear(8, 3, rngs=rngs)
        self.noisy, self.rngs = noisy, rngs

    def __call__(self, x: Any) -> Any:
        carry = self.cell.initialize_carry(x[:, 0].shape, self.rngs)
        if self.noisy:
            carry += jax.random.normal(self.rngs(), carry.shape)
        for position in range(x.shape[1]):
            carry, y = self.cell(carry, x[:, position])
        return self.head(y)


def test_keys_that_nothing_is_drawn_from_are_left_out() -> None:
    quiet, noisy = (
        nnx.eval_shape(lambda noisy=noisy: Keyed(noisy=noisy, rngs=nnx.Rngs(0)))
        for noisy in (False, True)
    )
    layers = read(quiet, "3x5", SMALL)
    assert [layer.kind.operation for layer in layers] == ["grucell"] * 3 + ["linear"]
    with pytest.raises(ModelError, match="the model draws random numbers itself, which is not"):
        read_whole(noisy, "3x5", SMALL)


class Category(nnx.Module):
    """Numbers beside one category for each sample."""

    def __init__(self, rngs: Any) -> None:
        self.numbers = nnx.Linear(6, 8, rngs=rngs)
        self.table = nnx.Embed(9, 8, rngs=rngs)
        self.head = nnx.Linear(16, 3, rngs=rngs)

    def __call__(self, x: Any, category: Any) -> Any:
        both = [nnx.relu(self.numbers(x)), self.table(category[:, 0])]
        return self.head(jax.numpy.concatenate(both, axis=-1))


def test_a_table_may_be_read_at_one_place_for_each_sample() -> None:
    model = nnx.eval_shape(lambda: Category(nnx.Rngs(0)))
    layers = read(model, "6, 1:int64<9", SMALL)
    assert [layer.kind.operation for layer in layers] == ["linear", "embed", "linear"]
    make_trainer(Workload(layers)).step()
