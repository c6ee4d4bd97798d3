"""The compiled step: whole, compiled once, and with nothing left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ampere.core.layers import Layer
from ampere.core.workloads import REFERENCE, Workload
from ampere.errors import ModelError

pytest.importorskip("flax.nnx", reason="needs JAX: pip install 'ampere-energy[jax]'")

from ampere.jax.engine import make_trainer
from ampere.jax.runtime.trainer import OPTIMIZERS


def trained_by(**attributes: object) -> Workload:
    def changed(layer: Layer) -> Layer:
        known = {**layer.kind.attributes, **attributes}
        return replace(layer, kind=replace(layer.kind, attributes=known))

    return Workload(tuple(map(changed, REFERENCE.layers)))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_nothing_is_compiled_while_steps_are_measured(optimizer: str) -> None:
    trainer = make_trainer(trained_by(optimizer=optimizer))
    before = trainer.values()
    for _ in range(3):
        trainer.step()
    assert trainer._step._cache_size() == 1
    after = trainer.values()
    assert all((after[key] != before[key]).any() for key in before)


def test_what_it_cannot_do_is_one_line() -> None:
    with pytest.raises(ModelError, match=r"no automatic mixed precision: use --dtype"):
        make_trainer(trained_by(amp=True))
    with pytest.raises(ModelError, match=r"no stage 'forward'"):
        make_trainer(REFERENCE).stage("forward")
