"""The gate: what it counts, when it looks, when it stops, and what never ends a training."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampere.errors import DataError, MeterError
from ampere.gates.forecast import Prior
from ampere.gates.interludes import Validation
from ampere.gates.sinks.json_lines import JsonLinesSink
from ampere.gates.story import Reason, Start, Status, Verdict, last_event
from ampere.gates.terms import Terms
from ampere.meters.base import Resolution
from gates.worlds import HandMeter, World, broken_meter, counting


def test_a_run_inside_its_budget_is_left_alone() -> None:
    world = World()
    gate = world.gate(budget_j=500.0, steps=200)
    with gate:
        assert world.train(gate, 200) == 200
    assert not gate.should_stop
    assert gate.spent_j == pytest.approx(400.0)
    (end,) = world.listener.ends
    assert (end.reason, end.step) == (Reason.FINISHED, 200)
    assert world.listener.statuses[-1].verdict is Verdict.INSIDE
    assert world.meter.closed


def test_it_stops_while_the_next_step_still_fits() -> None:
    world = World()
    gate = world.gate(budget_j=250.0, steps=200)
    with gate:
        world.train(gate, 200)
    assert gate.should_stop
    assert 0.97 * 250 <= world.meter.energy_j <= 250
    assert world.listener.ends[-1].reason is Reason.BUDGET
    assert world.listener.statuses[-1].verdict is Verdict.STOP
    assert any("resume from the last checkpoint" in text for text in world.said)
    assert not gate.step()  # and stays stopped


def test_what_a_checkpoint_takes_is_kept_for_the_next() -> None:
    world = World()
    gate = world.gate(budget_j=300.0, steps=200)
    with gate:
        for step in gate.steps(range(200)):
            world.spend(2.0, 0.1)
            if step == 20:
                with gate.checkpoint():
                    world.spend(30.0, 1.0)
    assert gate.should_stop
    assert world.meter.energy_j + 30.0 <= 300.0


def test_validation_that_comes_every_epoch_is_foreseen() -> None:
    world = World()
    gate = world.gate(budget_j=700.0, steps=400)
    with gate:
        for _ in range(4):
            for _ in gate.steps(range(100)):
                world.spend(2.0, 0.1)
            if gate.should_stop:
                break
            world.spend(40.0, 2.0)  # validation
    assert gate.should_stop
    assert world.meter.energy_j <= 700.0
    middle = next(status for status in world.listener.statuses if status.step >= 150)
    assert middle.forecast_j == pytest.approx(4 * 240.0, rel=0.08)


@pytest.mark.parametrize("told", [False, True])
def test_the_first_validation_is_foreseen_if_it_was_told(told: bool) -> None:
    """Steps take 2 J, the validation after the 100th takes 60 J; the budget ends in it."""
    world = World()
    validation = Validation(every=100, worth=25.0, error=0.1) if told else None
    gate = world.gate(budget_j=240.0, steps=300, prior=Prior(2.0, 0.1, 0.1, validation=validation))
    with gate:
        world.train(gate, 100)
        if not gate.should_stop:
            world.spend(60.0, 3.0)
    assert gate.should_stop == told
    assert (world.meter.energy_j <= 240.0) == told


def test_warn_lets_it_go_on_and_says_so_once() -> None:
    world = World()
    gate = world.gate(budget_j=100.0, steps=200, on_exceed="warn")
    with gate:
        assert world.train(gate, 200) == 200
    assert len([text for text in world.said if "training goes on, as configured" in text]) == 1


@pytest.mark.parametrize(("answer", "begun"), [(False, 200), (None, 49), (True, 49)])
def test_a_function_decides(answer: bool | None, begun: int) -> None:
    world = World()
    gate = world.gate(budget_j=100.0, steps=200, on_exceed=lambda gate: answer)
    with gate:
        assert world.train(gate, 200) == pytest.approx(begun, abs=1)


def test_a_function_that_fails_stops_the_run() -> None:
    def fails(gate: Any) -> None:
        raise RuntimeError("no mail server")

    world = World()
    gate = world.gate(budget_j=100.0, steps=200, on_exceed=fails)
    with gate:
        world.train(gate, 200)
    assert gate.should_stop
    assert any("on_exceed failed" in text for text in world.said)


def test_the_meter_is_read_at_its_pace_not_at_every_step() -> None:
    world = World()
    gate = world.gate(budget_j=1e9, steps=100_000)
    with gate:
        world.train(gate, 5_000, lambda step: 0.01, time_s=0.002)  # ten seconds
    assert world.meter.reads < 40


def test_steps_without_an_end_are_watched_without_a_forecast() -> None:
    world = World()
    gate = world.gate(budget_j=100.0)
    with gate:
        for _ in itertools.islice(gate.steps(counting()), 1000):
            world.spend(2.0, 0.1)
    assert gate.should_stop
    assert world.meter.energy_j <= 100
    assert all(status.forecast_j is None for status in world.listener.statuses)
    foreseen = [status.stops_at for status in world.listener.statuses if status.stops_at]
    assert foreseen[0] == pytest.approx(50, abs=3)


def test_epochs_become_steps_with_the_first_loader() -> None:
    world = World()
    gate = world.gate(epochs=3)
    with gate:
        world.train(gate, 50)
    assert gate.total_steps == 150
    assert world.listener.ends[-1].reason is Reason.LEFT


def test_the_estimate_is_the_forecast_before_anything_is_metered() -> None:
    world = World()
    gate = world.gate(budget_j=1000.0, steps=100, prior=Prior(2.0, 0.1, 0.1))
    with gate:
        gate.step()
    status = gate.status
    assert status is not None and status.forecast_j == pytest.approx(200, rel=0.1)
    low, high = status.forecast_j_interval or (0, 0)
    assert low < 200 < high


def test_what_is_metered_corrects_the_estimate() -> None:
    world = World()
    gate = world.gate(budget_j=1e4, steps=1000, prior=Prior(1.0, 0.1, 0.1))  # half of the truth
    with gate:
        world.train(gate, 300)
    status = gate.status
    assert status is not None and status.forecast_j == pytest.approx(2000, rel=0.05)
    assert status.overhead == pytest.approx(2.0, rel=0.05)


def test_a_device_that_throttles_is_followed() -> None:
    world = World()
    gate = world.gate(budget_j=1e5, steps=6000)
    with gate:
        world.train(gate, 3000, lambda step: 2.0 if step < 2000 else 3.0)
    status = gate.status
    truth_j = 2000 * 2.0 + 4000 * 3.0
    assert status is not None and status.forecast_j == pytest.approx(truth_j, rel=0.07)


def test_it_says_that_a_run_will_not_fit_and_how_far_it_comes() -> None:
    world = World()
    gate = world.gate(budget_j=1000.0, steps=1000)
    with gate:
        world.train(gate, 100)
    assert any("lasts to about step" in text for text in world.said)
    assert gate.status is not None and gate.status.stops_at == pytest.approx(500, rel=0.05)


def test_a_long_pause_is_said_and_counts() -> None:
    world = World()
    gate = world.gate(steps=200)
    with gate:
        for step in gate.steps(range(100)):
            world.spend(2.0, 0.1)
            if step == 50:
                world.spend(90.0, 300.0)
    assert any("nothing was trained for 5 min" in text for text in world.said)
    assert gate.spent_j == pytest.approx(290.0)


def test_spent_joules_go_on_after_a_checkpoint(tmp_path: Path) -> None:
    first, second = World(), World()
    gate = first.gate(budget_j=150.0, steps=200)
    with gate:
        first.train(gate, 200)
        state = json.loads(json.dumps(gate.state_dict()))  # as a checkpoint would keep it
    again = second.gate(budget_j=1000.0, steps=200)
    again.load_state_dict(state)
    with again:
        second.train(again, 200 - again.step_count)
    both_j = first.meter.energy_j + second.meter.energy_j
    assert again.spent_j == pytest.approx(both_j)
    (end,) = second.listener.ends
    assert (end.reason, end.step, end.spent_j) == (Reason.FINISHED, 200, pytest.approx(400.0))
    (start,) = [event for event in second.listener.events if isinstance(event, Start)]
    assert (start.step, start.spent_j) == (gate.step_count, pytest.approx(gate.spent_j))


def test_joules_after_the_checkpoint_are_known_from_the_story(tmp_path: Path) -> None:
    world, run = World(), tmp_path / "run"
    run.mkdir()
    story = run / "gate.jsonl"
    gate = world.gate(steps=200, sinks=(JsonLinesSink(run),), story=story)
    gate.start()
    world.train(gate, 50)
    state = gate.state_dict()
    world.train(gate, 50)  # and then it is killed
    again = World()
    resumed = again.gate(steps=200, sinks=(JsonLinesSink(run),), story=story)
    resumed.load_state_dict(state)
    with resumed:
        again.train(resumed, 1)
    assert resumed.spent_j == pytest.approx(world.meter.energy_j + 2.0, rel=0.1)
    assert any("spent after the checkpoint" in text for text in again.said)


def test_back_to_a_checkpoint_in_one_process_counts_nothing_twice() -> None:
    world = World()
    gate = world.gate(steps=200)
    with gate:
        world.train(gate, 50)
        state = gate.state_dict()
        world.train(gate, 50)
        gate.load_state_dict(state)
        assert gate.step_count == 50
        assert gate.spent_j == pytest.approx(200.0)
        world.train(gate, 10)
    assert gate.spent_j == pytest.approx(world.meter.energy_j) == pytest.approx(220.0)
    gate.load_state_dict(state)
    assert gate.spent_j == pytest.approx(220.0)


def test_what_was_filled_in_and_taken_back_is_no_negative_power() -> None:
    world = World()
    gate = world.gate(steps=400)
    with gate:
        world.train(gate, 100)
        world.meter.fault = OSError("gone")
        world.train(gate, 100, lambda step: 0.5)  # filled in at 20 W
        world.meter.fault = None
        for step in gate.steps(range(100)):
            world.spend(2.0, 0.1)
            if step == 0:
                world.spend(1.0, 5.0)  # a pause in the lap in which it answers again
    assert any("answers again" in text for text in world.said)
    assert gate.spent_j == pytest.approx(world.meter.energy_j)
    watts = [status.power_w for status in world.listener.statuses]
    assert all(power_w is None or power_w >= 0 for power_w in watts)


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    world = World()
    story = tmp_path / "gate.jsonl"
    with world.gate(steps=5, sinks=(JsonLinesSink(tmp_path),), story=story) as gate:
        world.train(gate, 5)
    with pytest.raises(DataError, match="another run"):
        World().gate(steps=5, story=story).start()
    resumed = World().gate(steps=5, story=story)
    resumed.resume()
    resumed.start()
    assert resumed.spent_j == pytest.approx(10.0)


def test_a_budget_that_is_spent_already() -> None:
    world = World()
    gate = world.gate(budget_j=100.0, steps=200)
    with gate:
        world.train(gate, 200)
    again = World().gate(budget_j=50.0, steps=200)
    again.load_state_dict(gate.state_dict())
    with pytest.raises(DataError, match="spent already"):
        again.start()


@pytest.mark.parametrize(
    "state",
    [{}, {"version": 99}, {"version": 1, "run": "a", "step": 1, "spent_j": -1, "forecast": {}}],
)
def test_a_state_of_something_else(state: dict[str, Any]) -> None:
    gate = World().gate()
    with pytest.raises(DataError, match=r"the gate's state|must be|missing|newer"):
        gate.load_state_dict(state)


def test_without_a_meter_training_goes_on() -> None:
    world = World()
    world.open_meter = broken_meter  # type: ignore[method-assign]
    gate = world.gate(budget_j=10.0, steps=100)
    with gate:
        assert world.train(gate, 100) == 100
    assert gate.error is not None and "run as root" in gate.error
    assert world.said == [
        "there is no meter (no counter here: run as root): training goes on, and nobody watches it"
    ]


def test_without_a_meter_it_is_not_started_if_that_was_asked() -> None:
    world = World()
    world.open_meter = broken_meter  # type: ignore[method-assign]
    with pytest.raises(MeterError, match="run as root"):
        world.gate(budget_j=10.0, on_error="stop").start()


def test_a_meter_that_fails_for_a_while() -> None:
    world = World()
    gate = world.gate(budget_j=1e4, steps=400)
    with gate:
        for step in gate.steps(range(400)):
            world.spend(2.0, 0.1)
            world.meter.fault = MeterError("bus error") if 100 <= step < 200 else None
    assert gate.spent_j == pytest.approx(800.0)
    assert [text for text in world.said if "bus error" in text]
    assert [text for text in world.said if "answers again" in text]
    verdicts = [status.verdict for status in world.listener.statuses]
    assert Verdict.UNGATED in verdicts and verdicts[-1] is Verdict.INSIDE


def test_a_meter_that_fails_for_good_stops_the_run_if_that_was_asked() -> None:
    world = World()
    gate = world.gate(budget_j=1e6, steps=10_000, on_error="stop")
    with gate:
        for step in gate.steps(range(10_000)):
            world.spend(2.0, 0.1)
            if step == 100:
                world.meter.fault = MeterError("bus error")
    assert gate.should_stop
    assert gate.step_count == pytest.approx(100 + 600, abs=30)
    assert world.listener.ends[-1].reason is Reason.FAILED


def test_a_budget_holds_by_filled_in_joules_while_the_meter_fails() -> None:
    world = World()
    gate = world.gate(budget_j=300.0, steps=400)
    with gate:
        for step in gate.steps(range(400)):
            world.spend(2.0, 0.1)
            if step == 50:
                world.meter.fault = MeterError("bus error")
    assert gate.should_stop and world.meter.energy_j <= 310.0


def test_our_own_mistake_never_ends_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    gate = world.gate(budget_j=100.0, steps=100)
    with gate:
        monkeypatch.setattr(type(gate._judge), "verdict", lambda *args: 1 / 0)
        assert world.train(gate, 100) == 100
    assert gate.error is not None and "ZeroDivisionError" in gate.error
    assert len(world.said) == 1


def test_a_sink_that_fails_is_dropped_and_told_once() -> None:
    class Full:
        calls = 0

        def start(self, start: Start) -> None:
            pass

        def status(self, status: Status) -> None:
            self.calls += 1
            raise OSError(28, "No space left on device")

        def end(self, end: object) -> None:
            self.calls += 1

    world, full = World(), Full()
    gate = world.gate(steps=100, sinks=(full, world.listener))
    with gate:
        world.train(gate, 100)
    assert full.calls == 1
    assert [text for text in world.said if "No space left" in text]
    assert world.listener.ends


def test_a_run_folder_that_cannot_be_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    world, run = World(), tmp_path / "file" / "run"
    with world.gate(steps=20, sinks=(JsonLinesSink(run),), story=run / "gate.jsonl") as gate:
        assert world.train(gate, 20) == 20
    (line,) = [text for text in world.said if "the sink json fails" in text]
    assert f"({run}: Not a directory): it is told nothing any more" in line


def test_a_training_that_raises_is_told_as_failed() -> None:
    world = World()
    gate = world.gate(steps=10)
    with pytest.raises(RuntimeError), gate:
        raise RuntimeError("CUDA out of memory")
    assert world.listener.ends[-1].reason is Reason.FAILED


def test_a_gate_that_is_entered_again_goes_on_counting() -> None:
    world = World()
    gate = world.gate(budget_j=250.0, steps=400)
    with gate:
        world.train(gate, 50)
    with gate:
        world.train(gate, 350)
    assert gate.should_stop and gate.step_count > 100
    assert 0.97 * 250 <= gate.spent_j <= 250
    assert gate.spent_j == pytest.approx(world.meter.energy_j)


def test_start_and_finish_may_be_called_again() -> None:
    world = World()
    gate = world.gate(steps=10)
    gate.finish()
    gate.start()
    gate.start()
    world.train(gate, 10)
    gate.finish()
    gate.finish()
    assert len(world.listener.ends) == 1
    assert len([event for event in world.listener.events if isinstance(event, Start)]) == 1


def test_a_budget_below_what_the_meter_tells_is_refused() -> None:
    world = World(HandMeter(Resolution(energy_j=36.0, period_s=30.0)))
    with pytest.raises(DataError, match=r"less than the meter hand can tell \(steps of 36.0 J\)"):
        world.gate(budget_j=50.0).start()
    assert world.meter.closed


def test_a_coarse_gauge_holds_a_budget_too() -> None:
    world = World(HandMeter(Resolution(energy_j=36.0, period_s=5.0)))
    gate = world.gate(budget_j=2000.0, steps=2000)
    with gate:
        world.train(gate, 2000)
    assert gate.should_stop
    assert 0.9 * 2000 <= world.meter.energy_j <= 2000


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"budget_j": 0.0}, "leaves room for nothing"),
        ({"budget_j": float("nan")}, "leaves room for nothing"),
        ({"steps": 0}, "0 steps is no training"),
        ({"epochs": -1}, "-1 epochs is no training"),
        ({"confidence": 1.0}, "use a probability"),
        ({"on_exceed": "explode"}, "on_exceed is 'explode'"),
        ({"on_error": "ignore"}, "on_error is 'ignore'"),
        ({"budget_j": 10.0, "reserve_j": 10.0}, "leaves nothing of a budget"),
        ({"reserve_j": -1.0}, "cannot be kept"),
    ],
)
def test_terms_that_cannot_be(terms: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        Terms(**terms)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.integers(20, 600),
    step_j=st.floats(1e-3, 50.0),
    step_s=st.floats(1e-3, 2.0),
    share=st.floats(0.3, 1.7),
    noise=st.floats(0.0, 0.15),
    seed=st.integers(0, 10**6),
)
def test_no_budget_is_exceeded_by_more_than_a_step(
    steps: int, step_j: float, step_s: float, share: float, noise: float, seed: int
) -> None:
    rng, world = random.Random(seed), World()
    costs = [step_j * (1 + noise * rng.uniform(-1, 1)) for _ in range(steps)]
    budget_j = share * sum(costs)
    gate = world.gate(budget_j=budget_j, steps=steps)
    with gate:
        begun = world.train(gate, steps, lambda step: costs[step], step_s)
    assert world.meter.energy_j <= budget_j + max(costs)
    assert gate.step_count == begun
    if share > 1.25:
        assert begun == steps


def test_the_story_on_the_disk_is_what_was_told(tmp_path: Path) -> None:
    world = World()
    story = tmp_path / "gate.jsonl"
    sinks = (JsonLinesSink(tmp_path), world.listener)
    with world.gate(budget_j=1e4, steps=50, sinks=sinks, story=story) as gate:
        world.train(gate, 50)
    assert last_event(story) == world.listener.ends[-1]
