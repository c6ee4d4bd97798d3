"""The stride: which pauses between steps are something else."""

from __future__ import annotations

from ampere.gates.stride import Stride


def walk(stride: Stride, times_s: list[float]) -> list[float]:
    now_s, pauses = 0.0, []
    stride.rest(now_s)
    for time_s in times_s:
        now_s += time_s
        pauses.append(stride.step(now_s))
    return pauses


def test_a_late_step_has_an_interlude_before_it() -> None:
    pauses = walk(Stride(), [0.1] * 10 + [5.1] + [0.1] * 3)
    assert [round(pause_s, 6) for pause_s in pauses if pause_s] == [5.0]


def test_slow_first_steps_are_none() -> None:
    stride = Stride()
    assert not any(walk(stride, [9.0, 0.2, 0.1, 0.1, 0.12]))
    assert 0.09 < stride.usual_s < 0.13


def test_steps_that_become_slower_are_followed() -> None:
    assert not any(walk(Stride(), [0.1 * 1.05**i for i in range(60)]))


def test_a_hiccup_is_none() -> None:
    assert not any(walk(Stride(), [0.002] * 10 + [0.03] + [0.002] * 3))


def test_several_steps_at_once() -> None:
    stride = Stride()
    stride.rest(0.0)
    for i in range(1, 6):
        assert not stride.step(float(i), count=10)
    assert stride.usual_s == 0.1
