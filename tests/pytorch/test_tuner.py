"""Training on real data: it learns, repeats itself, and leaves alone what is not its own."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ampere.datasets.samples import Dataset, Samples
from ampere.errors import AmpereError, DataError, ModelError
from ampere.pytorch.pruning.tuner import (
    Judgement,
    Tuned,
    judge,
    load_data,
    refresh_statistics,
    tune,
)
from ampere.pytorch.runtime.loader import load_model
from ampere.pytorch.runtime.trainer import OPTIMIZERS


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_data("digits", (1, 8, 8))


@pytest.fixture(autouse=True)
def same_weights() -> None:
    torch.manual_seed(0)


def small(outputs: int = 10, pixels: int = 64) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(pixels, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, outputs)
    )


def normed() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten(), nn.Linear(144, 10)
    )


def points(n: int = 40, classes: int = 2) -> Samples:
    """Points on a line, the classes one after the other."""
    inputs = np.linspace(-1, 1, n, dtype=np.float32)[:, None]
    labels = np.arange(n) * classes // n
    return Samples(labels, lambda at: inputs[at])


def message_of(call: Callable[[], Any], error: type[AmpereError] = ModelError) -> str:
    with pytest.raises(error) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


class Returning(nn.Module):
    """A model of one weight that returns what a function makes of weighed inputs."""

    def __init__(self, answer: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.answer = answer

    def forward(self, x: Tensor) -> Any:
        return self.answer(self.weight * x)


# Training


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_learns_digits(digits: Dataset, optimizer: str) -> None:
    model = small()
    before = judge(model, digits.test)
    tuned = tune(model, digits.train, 300, optimizer=optimizer)
    after = judge(model, digits.test)
    assert before.accuracy < 0.3
    assert after.accuracy > 0.7
    assert after.loss < before.loss
    assert len(tuned.losses) == 300


def test_models_of_the_zoo_learn_digits_of_their_shape() -> None:
    model, inputs = load_model("zoo:lenet5")
    data = load_data("digits", inputs.positional[0].shape)
    tune(model, data.train, 150)
    assert judge(model, data.validation).accuracy > 0.8


def test_rows_of_pixels_are_a_sequence() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(16, 32, batch_first=True)
            self.head = nn.Linear(32, 10)

        def forward(self, x: Tensor) -> Any:
            return self.head(self.rnn(x)[0][:, -1])

    data, model = load_data("digits", (8, 16)), Last()
    tune(model, data.train, 150, optimizer="adam", learning_rate=0.01)
    assert judge(model, data.validation).accuracy > 0.7


def weights(model: nn.Module) -> list[float]:
    return torch.cat([value.flatten().float() for value in model.state_dict().values()]).tolist()


def test_the_same_seed_trains_the_same_model(digits: Dataset) -> None:
    first = small()
    models = [first, copy.deepcopy(first), copy.deepcopy(first)]
    tuned = []
    for model, seed in zip(models, (1, 1, 2), strict=True):
        torch.rand(7)  # what the caller draws does not matter
        tuned.append(tune(model, digits.train, 5, seed=seed))
    assert tuned[0] == tuned[1] != tuned[2]
    assert weights(models[0]) == weights(models[1]) != weights(models[2])


def test_the_callers_random_numbers_are_left_alone(digits: Dataset) -> None:
    model = nn.Sequential(normed(), nn.Dropout())
    torch.manual_seed(3)
    wanted = torch.rand(2).tolist()
    torch.manual_seed(3)
    tune(model, digits.train, 2)
    judge(model, digits.test)
    refresh_statistics(model, digits.train, 2)
    assert torch.rand(2).tolist() == wanted


def test_a_step_is_one_of_gradient_descent() -> None:
    model = nn.Linear(1, 2)
    samples = points(4)
    wanted = copy.deepcopy(model)
    inputs, labels = map(torch.from_numpy, samples.batch([0, 1, 2, 3]))
    loss = functional.cross_entropy(wanted(inputs), labels)
    loss.backward()
    tuned = tune(model, samples, 1, batch_size=4, optimizer="sgd", learning_rate=0.5)
    assert tuned.losses == pytest.approx([loss.item()])
    for ours, theirs in zip(model.parameters(), wanted.parameters(), strict=True):
        assert theirs.grad is not None
        assert torch.allclose(ours, theirs - 0.5 * theirs.grad)


def test_old_gradients_do_not_count() -> None:
    clean, used = nn.Linear(1, 2), nn.Linear(1, 2)
    used.load_state_dict(clean.state_dict())
    used(torch.ones(1, 1)).sum().backward()
    for model in (clean, used):
        tune(model, points(), 2)
    assert weights(clean) == weights(used)


def test_every_step_is_watched(digits: Dataset) -> None:
    seen: list[tuple[int, float]] = []
    tuned = tune(small(), digits.train, 3, watch=lambda step, loss: seen.append((step, loss)))
    assert seen == list(enumerate(tuned.losses, start=1))
    assert tune(small(), digits.train, 0) == Tuned(())


def test_what_is_frozen_stays(digits: Dataset) -> None:
    model = small()
    first, last = model.get_submodule("1"), model.get_submodule("4")
    first.requires_grad_(False)
    before = weights(first), weights(last)
    tune(model, digits.train, 3)
    assert weights(first) == before[0]
    assert weights(last) != before[1]
    model.requires_grad_(False)
    assert "every parameter of the model is frozen" in message_of(
        lambda: tune(model, digits.train, 3)
    )


@pytest.mark.parametrize("training", [True, False])
def test_every_module_keeps_its_mode(digits: Dataset, training: bool) -> None:
    model = normed().train(training)
    model[1].train(not training)
    modes = [module.training for module in model.modules()]
    tune(model, digits.train, 1)
    judge(model, digits.test)
    refresh_statistics(model, digits.train, 1)
    message_of(lambda: tune(model, digits.train, 1, learning_rate=math.nan))
    with pytest.raises(RuntimeError):
        judge(model, points())
    assert [module.training for module in model.modules()] == modes


def test_training_trains_and_judging_does_not(digits: Dataset) -> None:
    modes: list[bool] = []
    model = small()
    model.register_forward_pre_hook(lambda module, args: modes.append(module.training))
    with torch.no_grad():  # whatever surrounds it
        tune(model, digits.train, 2)
    before = weights(model)
    assert judge(model, digits.test, batch_size=359) == judge(model, digits.test, batch_size=359)
    assert weights(model) == before
    assert modes == [True, True, False, False]


# Judging


def test_a_judgement_is_a_mean_over_samples_whatever_the_batches() -> None:
    samples = points(5)  # labels 0 0 0 1 1 at -1, -1/2, 0, 1/2, 1
    model = Returning(lambda x: torch.cat([0 * x, x + 0.25], 1))
    said = judge(model, samples, batch_size=2)
    margins = [-0.75, -0.25, 0.25, 0.75, 1.25]
    signs = [-1, -1, -1, 1, 1]
    losses = [math.log1p(math.exp(-s * m)) for s, m in zip(signs, margins, strict=True)]
    assert said.loss == pytest.approx(np.mean(losses), rel=1e-6)
    assert said.accuracy == 0.8
    assert judge(model, samples).loss == pytest.approx(said.loss)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1), (-1, 1, 1)])
def test_one_number_a_sample_tells_two_classes_apart(shape: tuple[int, ...]) -> None:
    two = judge(Returning(lambda x: torch.cat([0 * x, x + 0.6], 1)), points(5))
    one = judge(Returning(lambda x: (x + 0.6).reshape(shape)), points(5), batch_size=2)
    assert one.loss == pytest.approx(two.loss)
    assert one.accuracy == two.accuracy == 0.6


def test_one_number_a_sample_is_trained() -> None:
    model = nn.Linear(1, 1)
    tune(model, points(), 200, learning_rate=0.1)
    assert judge(model, points()).accuracy > 0.9


def test_scores_may_be_wrapped_and_classes_may_be_left_over() -> None:
    model = Returning(lambda x: {"scores": torch.cat([-x, x, x - 9], 1)})
    assert judge(model, points(4)) == Judgement(pytest.approx(0.24, abs=0.2), 1.0)


@pytest.mark.parametrize(
    ("answer", "classes", "says"),
    [
        (lambda x: torch.cat([x, x], 1), 3, "tells 2 classes apart, the data have a label 2"),
        (lambda x: torch.cat([x, x], 1), 3, "give the model 3 outputs"),
        (lambda x: x, 3, "tells 2 classes apart"),
        (lambda x: x[:, :, None].expand(-1, 4, 4), 2, "returns (10, 4, 4) for 10 samples"),
        (lambda x: x[:5].expand(5, 3), 2, "it must return (10, classes), or (10,) for two classes"),
        (lambda x: (x, x), 2, "returns 2 tensors of floats: return scores alone"),
        (lambda x: None, 2, "returns 0 tensors"),
        (lambda x: x.argmax(1), 2, "returns 0 tensors of floats"),
    ],
)
def test_an_output_that_does_not_fit_the_labels(
    answer: Callable[[Tensor], Any], classes: int, says: str
) -> None:
    model, samples = Returning(answer), points(30, classes)
    assert says in message_of(lambda: tune(model, samples, 5))
    assert says in message_of(lambda: judge(model, samples, 10))


# Runaways


def test_a_loss_that_runs_away_names_the_step(digits: Dataset) -> None:
    steps: list[int] = []
    says = message_of(
        lambda: tune(
            small(),
            digits.train,
            500,
            learning_rate=1e30,
            watch=lambda step, loss: steps.append(step),
        )
    )
    assert says.startswith("the loss is ")
    assert f" at step {len(steps) + 1}: use a learning rate below 1e+30" in says


def test_a_loss_that_was_never_finite_is_not_the_learning_rates_fault() -> None:
    says = message_of(lambda: tune(Returning(lambda x: x * math.nan), points(), 5))
    assert says == "the loss is nan at step 1: check the model's weights and the data"


@pytest.mark.parametrize("rate", [0.0, -0.1, math.inf, math.nan])
def test_learning_rates_that_cannot_be(rate: float) -> None:
    says = message_of(lambda: tune(nn.Linear(1, 2), points(), 1, learning_rate=rate))
    assert f"the learning rate is {rate}" in says


def test_what_cannot_be_trained() -> None:
    assert "unknown optimizer 'lion'" in message_of(
        lambda: tune(nn.Linear(1, 2), points(), 1, optimizer="lion")
    )
    assert "has no gradient" in message_of(
        lambda: tune(Returning(lambda x: x.detach()), points(), 1)
    )
    assert "no batches of 0" in message_of(
        lambda: tune(nn.Linear(1, 2), points(), 1, batch_size=0), DataError
    )


# Statistics


def test_statistics_are_those_of_the_data(digits: Dataset) -> None:
    model = normed()
    norm = model[1]
    assert isinstance(norm, nn.BatchNorm2d)
    norm.running_mean.fill_(100.0)
    kept = weights(model[0]), weights(model[4]), norm.weight.tolist()
    refresh_statistics(model, digits.train, batches=5, batch_size=len(digits.train))
    inputs, _ = digits.train.batch(np.arange(len(digits.train)))
    with torch.no_grad():
        seen = model[0](torch.from_numpy(inputs))
    assert torch.allclose(norm.running_mean, seen.mean((0, 2, 3)), atol=1e-4)
    assert torch.allclose(norm.running_var, seen.var((0, 2, 3)), rtol=1e-3)
    assert norm.momentum == 0.1
    assert (weights(model[0]), weights(model[4]), norm.weight.tolist()) == kept


def test_refreshing_helps_a_model_whose_statistics_mislead(digits: Dataset) -> None:
    model = normed()
    tune(model, digits.train, 150)
    good = judge(model, digits.test).accuracy
    model[1].running_mean.fill_(5.0)
    assert judge(model, digits.test).accuracy < good - 0.2
    refresh_statistics(model, digits.train)
    assert judge(model, digits.test).accuracy > good - 0.05


def test_statistics_follow_the_seed_and_ignore_dropout(digits: Dataset) -> None:
    model = nn.Sequential(nn.Dropout(), *normed())
    twins = [model, copy.deepcopy(model), copy.deepcopy(model)]
    for twin, seed in zip(twins, (1, 1, 2), strict=True):
        refresh_statistics(twin, digits.train, 2, batch_size=20, seed=seed)
    assert weights(twins[0]) == weights(twins[1]) != weights(twins[2])


def test_models_without_statistics_are_not_even_run(digits: Dataset) -> None:
    def refuse(at: Any) -> Any:
        raise AssertionError("it was run")

    unread = Samples(digits.train.labels, refuse)
    untracked = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, track_running_stats=False))
    for model in (small(), untracked):
        before = weights(model)
        refresh_statistics(model, unread)
        assert weights(model) == before


# Data by name

OWN = """
import numpy as np
import torch

def _part(n, *shape):
    return np.ones((n, *shape)), np.arange(n) % 2

def plain(): return _part(10, 4), _part(5, 4)
def shaped(shape): return _part(10, *shape), _part(6, *shape), _part(5, *shape)
def renamed(size): return shaped(size)
def with_default(shape=(9,)): return shaped(shape)
def own_default(count=7): return _part(count, 4), _part(5, 4)
def tensors(): return [(torch.ones(10, 4), torch.arange(10) % 2), (torch.ones(5, 4), torch.ones(5))]
def tokens(): return [(torch.ones(10, 4).long(), torch.arange(10) % 2)] * 2
def attached(): return [(torch.ones(10, 4, requires_grad=True), torch.arange(10) % 2)] * 2
def neighbour():
    import beside_these
    return beside_these.data()
def two(shape, other): return 1
def broken(): return 1 / 0
def leaves(): raise SystemExit(2)
def nothing(): pass
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "own.py").write_text(OWN)
    beside = "import numpy as np\ndef data(): return [(np.ones((9, 4)), np.arange(9))] * 3"
    (tmp_path / "deep" / "beside_these.py").write_text(beside)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("plain", (8, 2, 5)),
        ("shaped", (10, 6, 5)),
        ("renamed", (10, 6, 5)),
        ("with_default", (10, 6, 5)),
        ("own_default", (6, 1, 5)),
        ("tensors", (8, 2, 5)),
        ("neighbour", (9, 9, 9)),
    ],
)
def test_the_users_own_data(own: Path, name: str, sizes: tuple[int, ...]) -> None:
    data = load_data(f" deep/own.py:{name} ", (4,))
    assert (len(data.train), len(data.validation), len(data.test)) == sizes
    assert (data.name, data.shape) == (f"deep/own.py:{name}", (4,))
    inputs, labels = data.train.batch([0, 1])
    assert (inputs.shape, inputs.dtype, labels.dtype) == ((2, 4), np.float32, np.int64)


def test_tokens_train_an_embedding(own: Path) -> None:
    data = load_data("deep/own.py:tokens", (4,), dtype="int64")
    model = nn.Sequential(nn.Embedding(3, 2), nn.Flatten(), nn.Linear(8, 2))
    assert len(tune(model, data.train, 3).losses) == 3


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("deep/own.py:absent", ModelError, "has no 'absent'; it has"),
        ("deep/none.py:plain", ModelError, "cannot read"),
        ("deep/own.py:two", ModelError, "is called with the shape of an input at most: missing"),
        ("deep/own.py:broken", ModelError, "raises ZeroDivisionError: division by zero"),
        ("deep/own.py:leaves", ModelError, "raises SystemExit"),
        ("deep/own.py:nothing", DataError, "deep/own.py:nothing must return (train, test)"),
        ("deep/own.py:attached", DataError, "inputs of deep/own.py:attached cannot be made into"),
        ("deep/own.py", DataError, "there are no data 'deep/own.py': use digits, celeba:DIR"),
        ("mnist", DataError, "there are no data 'mnist'"),
        ("celeba:absent", DataError, "there is no folder absent"),
    ],
)
def test_data_that_cannot_be_loaded(
    own: Path, text: str, error: type[AmpereError], says: str
) -> None:
    assert says in message_of(lambda: load_data(text, (3, 8, 8)), error)


def test_images_are_no_tokens() -> None:
    says = message_of(lambda: load_data("digits", (32,), dtype="int64"), DataError)
    assert says.startswith("digits are images, the model takes int64: pass your own data")


def test_batches_go_where_the_model_lies() -> None:
    model = nn.Linear(1, 2).to("meta")
    seen: list[str] = []
    model.register_forward_pre_hook(lambda module, args: seen.append(args[0].device.type))
    with pytest.raises((RuntimeError, NotImplementedError)):  # nothing can be read from it
        judge(model, points())
    assert seen == ["meta"]
