"""A study: three models on the same batches, only their training metered, and told as it was."""

from __future__ import annotations

import copy
import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ampere.acquisition.families import resampled
from ampere.acquisition.progress import Event
from ampere.core.fingerprint import local_fingerprint
from ampere.core.layers import Layer
from ampere.core.workloads import Settings
from ampere.datasets.samples import Dataset, Samples
from ampere.devices.memory import keep_memory
from ampere.errors import AmpereError, DataError, FingerprintError, MeterError
from ampere.estimators.base import Cost
from ampere.meters.base import Provenance, Resolution
from ampere.meters.drivers.fake import FakeMeter
from ampere.profiles.profile import Profile
from ampere.pytorch.models import read
from ampere.pytorch.pruning.tuner import Tuner, in_force, judge, load_data, tune
from ampere.records.journal import Header
from ampere_paper.study.case_study import study
from ampere_paper.study.race import BURST, Schedule
from ampere_paper.study.study import Study
from fakes import exact

SHAPE = (1, 8, 8)
RATE = 0.05


class Plug(FakeMeter):
    """A meter that is moved by whoever trains, and by nobody else."""

    provenance = Provenance.MODELLED

    def __init__(self, seen: list[Any]) -> None:
        super().__init__()
        self.seen = seen

    def read(self) -> Any:
        self.seen.append("read")
        return super().read()


class Net(nn.Module):
    """A step takes a microjoule for each parameter; what happens is written down."""

    seen: ClassVar[list[Any]] = []
    plug: ClassVar[Plug] = Plug(seen)

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(16 * 4 * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        parameters = sum(each.numel() for each in self.parameters())
        if self.training:
            self.plug.advance(1e-6 * parameters, 1e-3)
        if not x.is_meta:
            self.seen.append((self.training, parameters, x.sum().item()))
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        return self.fc(self.drop(torch.flatten(x, 1)))


def cost(layer: Layer) -> Cost:
    """Of a layer: not quite what its FLOPs are, or both guides would find the same."""
    energy_j = 1e-5 * (10 + 4 * layer.widths.get("out", 0) + math.prod(layer.widths.values()))
    return Cost(energy_j, 0.0, energy_j / 4, 0.0)


def here(**others: str) -> dict[str, str]:
    settings = {**vars(Settings(threads=1)), "framework": f"torch {torch.__version__}",
                "freed_memory": keep_memory(), **others}  # fmt: skip
    return {key: str(value) for key, value in settings.items()}


@pytest.fixture(scope="module")
def profile() -> Profile:
    layers = read(Net(), SHAPE)
    family = [
        each.layers for each in itertools.islice(resampled("n", layers, random.Random(0)), 12)
    ]
    rows = [
        replace(exact(each, cost), provenance=Provenance.MODELLED) for each in (layers, *family)
    ]
    header = Header(local_fingerprint(here()), {"name": "fake"}, Provenance.MODELLED)
    return Profile(tuple(rows), header)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    """They say when they are loaded."""

    def watched(samples: Samples) -> Samples:
        def load(at: Any) -> Any:
            Net.seen.append("load")
            return samples.load(at)

        return Samples(samples.labels, load)

    data = load_data("digits", SHAPE)
    parts = {part: watched(getattr(data, part)) for part in ("train", "validation", "test")}
    return replace(data, **parts)


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(0)
    return Net()


@pytest.fixture(scope="module")
def done(net: Net, digits: Dataset, profile: Profile) -> Iterator[tuple[Study, list[Any]]]:
    """One study, and what happened in it."""
    with in_force(Settings(threads=1)):
        Net.seen.clear()
        found = study(
            net, digits, SHAPE, profile=profile, meter=Net.plug,
            schedule=Schedule(iterations=16, every=7, learning_rate=RATE),
        )  # fmt: skip
        yield found, list(Net.seen)


def message_of(call: Callable[[], Any], error: type[AmpereError] = DataError) -> str:
    with pytest.raises(error) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# What is metered


def test_shares_are_those_of_the_joules_that_training_took(done: tuple[Study, list[Any]]) -> None:
    found, _ = done
    assert [each.name for each in found.contenders] == ["full", "energy", "flops"]
    for each in found.contenders:
        assert each.energy_j_per_step == pytest.approx(1e-6 * each.parameters)
        assert each.energy_j == pytest.approx(16e-6 * each.parameters)
        assert each.curve.steps == (7, 14, 16)
        assert each.curve.energy_j == pytest.approx(
            [s * 1e-6 * each.parameters for s in (7, 14, 16)]
        )
        assert each.curve.time_s == pytest.approx([7e-3, 14e-3, 16e-3])
        assert found.share(each) == pytest.approx(each.parameters / found.contenders[0].parameters)
        assert found.share_std(each) == pytest.approx(0, abs=1e-9)


def test_models_are_those_that_pruning_finds(
    done: tuple[Study, list[Any]], net: Net, profile: Profile
) -> None:
    full, energy, flops = done[0].contenders
    assert full.parameters == sum(each.numel() for each in net.parameters())
    assert full.widths == {"conv1.out": 8, "conv2.out": 16}
    assert full.estimate_j == pytest.approx(profile.estimate(net, SHAPE).energy_j)
    assert energy.estimate_j + 1.28 * energy.estimate_j_std <= 0.5001 * full.estimate_j
    assert 0.3 * full.flops < flops.flops <= 0.5 * full.flops
    assert energy.widths != flops.widths


def test_only_training_is_metered_by_turns_and_on_the_same_batches(
    done: tuple[Study, list[Any]],
) -> None:
    found, seen = done
    first = seen.index("read")
    bursts, others = [], []
    rest = iter(seen[first:])
    for entry in rest:
        if entry == "read":
            bursts.append(list(itertools.takewhile(lambda each: each != "read", rest)))
        else:
            others.append(entry)
    sizes = [each.parameters for each in found.contenders]
    assert all(len({size for _, size, _ in burst}) == 1 for burst in bursts)
    assert [burst[0][1] for burst in bursts] == sizes * (len(bursts) // 3)
    assert [len(burst) for burst in bursts[::3]] == [5, 2, 5, 2, 2]  # turns of 7, 7 and 2
    for together in zip(bursts[::3], bursts[1::3], bursts[2::3], strict=True):
        sums = [[total for _, _, total in burst] for burst in together]
        assert sums[0] == sums[1] == sums[2]
    assert all(training for burst in bursts for training, _, _ in burst)
    # Outside: loading and judging, no training.
    assert "load" in others
    assert {training for training, *_ in (each for each in others if each != "load")} == {False}


def test_batches_are_those_that_tuning_takes(
    done: tuple[Study, list[Any]], net: Net, digits: Dataset
) -> None:
    found, _ = done
    alone = copy.deepcopy(net)
    tuned = tune(alone, digits.train, 16, optimizer="sgd", learning_rate=RATE)
    full = found.contenders[0]
    turns = tuned.losses[:7], tuned.losses[7:14], tuned.losses[14:]
    assert full.curve.loss == pytest.approx([np.mean(turn) for turn in turns])
    assert full.test_accuracy == judge(alone, digits.test).accuracy
    assert full.curve.accuracy[-1] == judge(alone, digits.validation).accuracy


def test_nothing_outside_is_changed(net: Net, digits: Dataset, profile: Profile) -> None:
    before = copy.deepcopy(net.state_dict())
    torch.manual_seed(5)
    wanted = torch.rand(1).item()
    torch.manual_seed(5)
    watched: list[Event] = []
    torch.set_num_threads(2)
    found = study(
        net, digits, SHAPE, profile=profile, schedule=Schedule(3, every=2), seed=4,
        meter=Net.plug, budget="60%", watch=watched.append,
    )  # fmt: skip
    assert torch.get_num_threads() == 2
    assert found.warnings == ("trained with 1 thread as the profile was made, not 2",)
    assert torch.rand(1).item() == wanted
    assert all(torch.equal(net.state_dict()[name], before[name]) for name in before)
    assert [(event.done, event.total) for event in watched] == [(1, 2), (2, 2)]
    assert (found.learning_rate, found.optimizer, found.batch_size) == (0.01, "sgd", 10)


def test_new_weights_follow_the_seed(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("from paper.study.test_case_study import Net as Own\n")

    def losses(seed: int) -> list[tuple[float, ...]]:
        torch.rand(3)  # what the caller draws does not matter
        found = study(
            f"{tmp_path}/own.py:Own", "digits", SHAPE, profile=profile,
            schedule=Schedule(2, every=1), meter=Net.plug, seed=seed,
        )  # fmt: skip
        assert (found.model, found.data) == (f"{tmp_path}/own.py:Own", "digits")
        return [curve.loss for curve in found.curves]

    first = losses(0)
    assert first == losses(0)
    assert first != losses(1)


# Budgets


@pytest.mark.parametrize(
    ("budget", "limit_j"), [("50%", None), ("0.002J/step", 0.012), ("12 mJ", 0.012)]
)
def test_the_limit_is_for_the_whole_job(
    net: Net, digits: Dataset, profile: Profile, budget: str, limit_j: float | None
) -> None:
    found = study(
        net,
        digits,
        SHAPE,
        profile=profile,
        budget=budget,
        schedule=Schedule(6, every=6),
        meter=Net.plug,
    )
    full = found.contenders[0]
    # A share is one of what was metered; joules are joules.
    assert found.limit_j == pytest.approx(full.energy_j / 2 if limit_j is None else limit_j)
    assert [found.inside(each) for each in found.contenders] == [
        each.energy_j <= found.limit_j for each in found.contenders
    ]


# Devices and meters


def test_a_profile_of_another_device_is_refused(
    net: Net, digits: Dataset, profile: Profile
) -> None:
    other = local_fingerprint(here(compile="True", framework="torch 0.4"))
    foreign = replace(profile, header=replace(profile.header, fingerprint=other))
    options: dict[str, Any] = {"schedule": Schedule(1, every=1), "meter": FakeMeter(1.0, 1.0)}
    says = message_of(
        lambda: study(net, digits, SHAPE, profile=foreign, **options), FingerprintError
    )
    assert "compile is False here, True there" in says
    assert f"framework is torch {torch.__version__} here, torch 0.4 there" in says
    found = study(net, digits, SHAPE, profile=foreign, any_device=True, **options)
    assert len(found.contenders) == 3


def test_another_meter_is_a_doubt(net: Net, digits: Dataset, profile: Profile) -> None:
    header = replace(profile.header, meter={"name": "rapl"})
    found = study(
        net, digits, SHAPE, profile=replace(profile, header=header), schedule=Schedule(1),
        meter=FakeMeter(1.0, 1.0),
    )  # fmt: skip
    assert found.provenance is Provenance.SIMULATED
    assert found.warnings == (
        "estimates are from modelled joules (meter rapl), this study's are simulated (meter fake):"
        " compare shares, not joules",
    )


def test_the_meter_is_the_best_one_here_and_the_profiles_settings_open_none(
    net: Net, digits: Dataset, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ampere_paper.study.case_study.choose_meter", lambda name, accelerator: "cpu"
    )
    watts = {"idle_w": 1000.0, "active_w": 0.0}
    header = replace(profile.header, meter={"name": "cpu", "settings": watts})
    found = study(net, digits, SHAPE, profile=replace(profile, header=header), schedule=Schedule(2))
    curve = found.curves[0]
    assert found.provenance is Provenance.MODELLED
    assert found.warnings == ()
    assert 0 < curve.energy_j[0] < 500 * curve.time_s[0]  # a file sets no watts


def test_a_coarse_meter_is_read_once_a_turn(net: Net, digits: Dataset, profile: Profile) -> None:
    class Coarse(FakeMeter):
        resolution = Resolution(energy_j=0.5)

    options: dict[str, Any] = {"profile": profile, "schedule": Schedule(20, every=10)}
    fine = study(net, digits, SHAPE, meter=FakeMeter(1.0, 0.25), **options)
    coarse = study(net, digits, SHAPE, meter=Coarse(1.0, 0.25), **options)
    assert fine.curves[0].energy_j == (10 / BURST, 20 / BURST)
    assert coarse.curves[0].energy_j == (1.0, 2.0)
    # Half a joule at 4 W are 125 ms; two turns with 2 % in the mean need 35 times as long.
    assert [each for each in coarse.warnings if each not in fine.warnings] == [
        "turns of 250 ms are short for the meter fake: use longer ones (every), of 4.42 s"
    ]


def test_a_meter_that_stands_still_ends_the_study(
    net: Net, digits: Dataset, profile: Profile
) -> None:
    says = message_of(
        lambda: study(net, digits, SHAPE, profile=profile, meter=FakeMeter(0.0, 0.1)), MeterError
    )
    assert "did not move in 0.1 s" in says
    assert "turns (every)" in says


@pytest.mark.parametrize(("iterations", "every"), [(0, 5), (5, 0), (-1, 1)])
def test_no_turns_at_all(iterations: int, every: int) -> None:
    says = message_of(lambda: Schedule(iterations, every))
    assert says == f"{iterations} iterations in turns of {every}: use 1 or more of both"


# Pausing


def test_pausing_changes_nothing(digits: Dataset) -> None:
    models = [Net(), Net()]
    models[1].load_state_dict(models[0].state_dict())
    whole = tune(models[0], digits.train, 9, seed=3)
    tuner = Tuner(models[1], digits.train, seed=3)
    batches = digits.train.batches(10, np.random.default_rng(3))
    seen: list[int] = []
    parts = []
    for steps in (4, 0, 5):
        torch.rand(steps)  # whatever the caller draws in between
        some = itertools.islice(batches, steps)
        parts.append(tuner.run(some, lambda step, loss: seen.append(step)))
        judge(models[1], digits.validation)
    assert [len(part) for part in parts] == [4, 0, 5]
    assert tuple(tuner.losses) == (*parts[0], *parts[2]) == whole.losses
    assert seen == list(range(1, 10))
    assert all(map(torch.equal, models[0].parameters(), models[1].parameters()))


def test_settings_are_in_force_for_a_while() -> None:
    torch.set_num_threads(2)
    precision = torch.get_float32_matmul_precision()
    with (
        pytest.raises(ZeroDivisionError),
        in_force(Settings(threads=1, tf32=True, onednn=False)) as said,
    ):
        assert said == (f"torch {torch.__version__}", 1, 2)
        assert (torch.get_num_threads(), torch.backends.mkldnn.enabled) == (1, False)
        assert torch.get_float32_matmul_precision() == "high"
        raise ZeroDivisionError
    assert (torch.get_num_threads(), torch.backends.mkldnn.enabled) == (2, True)
    assert torch.get_float32_matmul_precision() == precision
