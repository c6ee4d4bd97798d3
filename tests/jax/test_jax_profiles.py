"""Three models of flax.nnx that are not in the zoo: read, profiled here, estimated and metered."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import ampere

pytest.importorskip("flax.nnx", reason="needs JAX: pip install 'ampere-energy[jax]'")

from nnx_models import MODELS, make

METER = {"idle_w": 1.0, "active_w": 5.0}
QUICK = ampere.Effort(0.005, 0.0, 3, 4, 0.1, accept_busy=True, patience_s=0.0)


@pytest.mark.parametrize("name", ["residual", "transformer", "recurrent"])
def test_a_model_is_profiled_and_estimated(name: str, tmp_path: Path) -> None:
    model, input = make(name), MODELS[name][1]
    settings = ampere.Settings(runtime="jax")
    with ampere.open_device("local", settings, "cpu", METER) as device:
        profile = ampere.profile(
            model,
            input,
            path=tmp_path / "p.ampere",
            device=device,
            training=ampere.Training(2),
            strategy=ampere.Strategy(max_measurements=3),
            effort=QUICK,
        )
    estimate = profile.estimate(model, input)
    assert estimate.runtime == "jax" and not estimate.translated
    assert math.isfinite(estimate.energy_j) and estimate.energy_j > 0
    assert len(profile.measurements) >= 3


def test_another_frameworks_runtime_is_refused_before_a_profile_is_begun(tmp_path: Path) -> None:
    path = tmp_path / "p.ampere"
    with (
        ampere.open_device("local", ampere.Settings(runtime="torch"), "cpu", METER) as device,
        pytest.raises(ampere.AmpereError, match="use --runtime jax"),
    ):
        ampere.profile(make("residual"), MODELS["residual"][1], path=path, device=device)
    assert not path.exists()
