"""Callbacks by the order of hooks of each framework: stopped by their budget, and resumed.

The frameworks themselves train in `test_lightning.py` and the like, where they are installed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ampere.errors import DataError
from ampere.gates.story import Reason

from .gating import Machine, check_resumed, check_stopped
from .protocols import (
    BATCHES,
    EPOCHS,
    Accelerate,
    HuggingFace,
    Keras,
    Lightning,
    Skorch,
    framework,
)

STEPS = BATCHES * EPOCHS
BUDGET_J = 27.0


def test_lightning(tmp_path: Path) -> None:
    first, second = Machine(), Machine()
    with framework("lightning", Lightning.MODULES) as module:
        trainer = Lightning(first, tmp_path)
        callback = module.EnergyGate(first.gate(BUDGET_J))
        trainer.fit(callback)
        check_stopped(first, BUDGET_J)
        assert trainer.saved == [module.FILE]
        assert (trainer.validated, trainer.ended) == (2, 2)
        loop = trainer.fit_loop
        assert (trainer.limit_val_batches, loop.min_epochs, loop.epoch_loop.min_steps) == (1, 2, 30)
        assert trainer.logged[-1]["ampere/simulated/spent_j"] == first.spent_j

        state = json.loads(json.dumps(callback.state_dict()))
        trainer = Lightning(second, tmp_path, start=first.end.step)
        callback = module.EnergyGate(second.gate(100.0))
        callback.load_state_dict(state)
        trainer.fit(callback)
    check_resumed(first, second, STEPS)
    assert trainer.saved == []


def test_a_lightning_fit_that_fails(tmp_path: Path) -> None:
    machine = Machine()
    with framework("lightning", Lightning.MODULES) as module:
        callback = module.EnergyGate(machine.gate(BUDGET_J))
        trainer = Lightning(machine, tmp_path)
        callback.on_fit_start(trainer, None)
        callback.on_exception(trainer, None, KeyboardInterrupt())
    assert machine.end.reason is Reason.FAILED


def test_one_budget_for_several_fits(tmp_path: Path) -> None:
    machine = Machine()
    with framework("lightning", Lightning.MODULES) as module:
        with machine.gate(STEPS + BUDGET_J) as gate:
            callback = module.EnergyGate(gate)
            made = []
            for _ in range(3):
                trainer = Lightning(machine, tmp_path)
                trainer.fit(callback)
                made.append(trainer.global_step)
            assert gate.running
        assert made[0] == STEPS
        assert 0.8 * BUDGET_J <= made[1] <= BUDGET_J
        assert made[2] == 1  # the budget is spent, and stays so
        with pytest.raises(DataError, match="make another one"):
            Lightning(machine, tmp_path).fit(callback)
    assert machine.end.reason is Reason.BUDGET


def test_huggingface(tmp_path: Path) -> None:
    first, second = Machine(), Machine()
    with framework("huggingface", HuggingFace.MODULES) as module:
        trainer = HuggingFace(first, tmp_path)
        trainer.train(module.EnergyGate(first.gate(BUDGET_J), log=trainer.log))
        check_stopped(first, BUDGET_J)
        assert trainer.saved == [10, 20, first.end.step]
        assert trainer.evaluated == 2
        assert "ampere/simulated/spent_j" in trainer.logged[0]

        saved = json.loads(json.dumps(trainer.state.stateful_callbacks))
        trainer = HuggingFace(second, tmp_path, saved, start=first.end.step)
        trainer.train(module.EnergyGate(second.gate(100.0)))
        check_resumed(first, second, STEPS)
        assert trainer.saved == [30, 40, 50]
        with pytest.raises(DataError, match="restore_callback_states_from_checkpoint"):
            HuggingFace(second, tmp_path).train(module.EnergyGate())


def test_accelerate(tmp_path: Path) -> None:
    machines = first, second = Machine(), Machine()
    saved = None
    with framework("accelerate", Accelerate.MODULES) as module:
        for machine, budget_j in zip(machines, (BUDGET_J, 100.0), strict=True):
            accelerator = Accelerate(machine, saved)
            source = machine.gate(budget_j, steps=STEPS)
            with module.EnergyGate(source, accelerator) as gate:
                while source.step_count < STEPS:
                    machine.work(0.5, 0.25)
                    accelerator.sync_gradients = not accelerator.sync_gradients
                    if not gate.step():
                        gate.save(tmp_path)
                        break
            saved = accelerator.saved
            assert accelerator.logged
    check_stopped(first, BUDGET_J)
    check_resumed(first, second, STEPS)


def test_keras(tmp_path: Path) -> None:
    first, second = Machine(), Machine()
    with framework("keras", Keras.MODULES) as module:
        model = Keras(first)
        callback = module.EnergyGate(first.gate(BUDGET_J), tmp_path / "kept")
        model.fit(callback, callback.resume(model))
        check_stopped(first, BUDGET_J)
        assert (model.validated, model._should_eval(1, 1)) == (2, True)

        model = Keras(second)
        callback = module.EnergyGate(second.gate(100.0), tmp_path / "kept")
        assert callback.resume(model) == 2  # which begins anew
        assert model.loaded
        model.fit(callback, 2)
    assert second.heard.starts[-1].spent_j == first.end.spent_j
    assert second.end.reason is Reason.FINISHED
    assert second.end.spent_j == first.spent_j + second.spent_j == first.spent_j + STEPS - 20
    assert model.history[-1]["ampere/simulated/spent_j"] > first.spent_j


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_text('{"epoch": "two"}')
    with framework("keras", Keras.MODULES) as module, pytest.raises(DataError, match=r"gate\.json"):
        module.EnergyGate(Machine().gate(1.0), tmp_path).resume(Keras(Machine()))


def test_skorch(tmp_path: Path) -> None:
    first, second = Machine(), Machine()
    with framework("skorch", Skorch.MODULES) as module:
        net = Skorch(first)
        callback = module.EnergyGate(first.gate(BUDGET_J), tmp_path)
        net.partial_fit(callback, callback.resume(net))
        check_stopped(first, BUDGET_J)
        assert net.saved
        assert net._hook is None

        again = Skorch(second)
        again.history.extend(net.history[:-1])
        callback = module.EnergyGate(second.gate(100.0), tmp_path)
        left = callback.resume(again)
        assert (left, again.loaded) == (EPOCHS - 2, True)
        again.partial_fit(callback, left)
    assert second.heard.starts[-1].spent_j == first.end.spent_j
    assert second.end.reason is Reason.FINISHED
    assert second.end.spent_j == first.spent_j + second.spent_j == first.spent_j + STEPS - 20
    assert second.heard.statuses[-1].steps == second.end.step


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("lightning", "lightning"),
        ("huggingface", "transformers"),
        ("accelerate", "accelerate"),
        ("keras", "keras"),
        ("skorch", "skorch"),
    ],
)
def test_without_the_library_a_line_says_what_to_install(name: str, library: str) -> None:
    import subprocess
    import sys

    code = f"import sys; sys.modules[{library!r}] = None; import ampere.integrations.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith(f": pip install 'ampere-energy[{name}]'")
