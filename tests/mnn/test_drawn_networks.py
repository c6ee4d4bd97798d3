"""Networks by chance, as surveys draw them: MNN trains them as torch does."""

from __future__ import annotations

import random

import pytest
import torch

from ampere.core.training import Training
from ampere.core.workloads import Settings
from ampere.pytorch.generator.network import GENRES, draw
from ampere.pytorch.graph.model_reading import read_model
from programs.golden import errors, golden_step
from programs.networks import still

pytest.importorskip("MNN", reason="MNN is not installed: pip install 'ampere-energy[mnn]'")

from ampere.mnn.engine import RUNTIME
from ampere.mnn.trainer import MnnTrainer

SEED = 3  # half of what is drawn as maps has groups, which MNN cannot train: that one has none


@pytest.mark.parametrize("genre", GENRES)
def test_a_drawn_network_is_trained_as_by_torch(genre: str) -> None:
    RUNTIME.apply(Settings(threads=1))
    torch.manual_seed(0)
    drawn = draw(random.Random(SEED), genre, 1e6)
    layers = read_model(still(drawn.model), drawn.inputs, Training(2)).layers
    golden = golden_step(layers)
    trainer = MnnTrainer(golden.program, golden.values, golden.data, golden.targets, 1.0)
    trainer.step()
    assert max(errors(golden, trainer.values(), 1.0).values()) < 5e-3  # those with a GELU
