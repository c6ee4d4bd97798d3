"""Tuning: real training on real data, and how well a model does on them.

Nothing here is metered: `runtime.trainer` has the step that ampere's figures are of, and whoever
meters a `Tuner` does so from outside.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ampere.core.boundary.code import check_arguments, load_function, raised
from ampere.core.boundary.losses import names_loss
from ampere.core.workloads import Settings
from ampere.datasets.arrays import assemble
from ampere.datasets.registry import is_known, open_data
from ampere.datasets.samples import Batch, Dataset, Samples
from ampere.errors import AmpereError, DataError, ModelError
from ampere.pytorch.modules.registry import keeps_statistics
from ampere.pytorch.runtime.losses import returned_tensors
from ampere.pytorch.runtime.trainer import apply_settings, make_optimizer

# Times the learning rate of a metered step, which is kept low since its data are noise.
FASTER = 10

Watch: TypeAlias = Callable[[int, float], None]  # the step, from 1 on, and its loss


@dataclass(frozen=True)
class Tuned:
    """What training did: the loss of every step, before its update."""

    losses: tuple[float, ...]


@dataclass(frozen=True)
class Judgement:
    """How well a model does: mean loss, and the share of samples that it gets right."""

    loss: float
    accuracy: float


def unwatched(step: int, loss: float) -> None:
    """Nobody watches."""


def load_data(
    text: str, shape: tuple[int, ...], *, dtype: str = "float32", seed: int = 0
) -> Dataset:
    """Open `digits`, `celeba:DIR`, or what the user's `path/file.py:function` returns.

    Args:
        text: The name. The user's function is called with the shape if its first argument is
            called `shape` or has no default. It returns (train, test) or (train, validation, test),
            each a pair of inputs and labels.
        shape: Of one input of the model.
        dtype: Its type; only the user's own data can be anything but `float32`.
        seed: Of the split into parts, where they are not given.

    Raises:
        DataError: There are no such data, or they do not fit the model.
        ModelError: The user's function cannot be found or called, or raises.
    """
    if is_known(text) or not names_loss(text):
        if dtype != "float32":
            raise DataError(
                f"{text} are images, the model takes {dtype}: pass your own data as"
                " path/file.py:function"
            )
        return open_data(text, shape, seed)
    return assemble(text.strip(), _returned(text.strip(), shape), shape, dtype=dtype, seed=seed)


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Random numbers by seed, and afterwards those that would have come."""
    with torch.random.fork_rng([device] if device and device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


@contextmanager
def in_force(settings: Settings) -> Iterator[tuple[str, int, int]]:
    """A device's settings, and afterwards those that were.

    Gives the framework's version, its threads now, and those it had before.
    """
    threads, onednn = torch.get_num_threads(), torch.backends.mkldnn.enabled
    precision, tf32 = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    try:
        yield (*apply_settings(settings), threads)
    finally:
        torch.set_num_threads(threads)
        torch.backends.mkldnn.enabled = onednn
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.allow_tf32 = tf32


class Tuner:
    """A model in training that may pause: its optimiser and its random numbers go on afterwards.

    Args:
        model: Returns scores (n, classes), or (n,) or (n, 1) of two classes. It is trained in
            place, where it lies; what is frozen stays as it is.
        samples: What its batches are from.
        optimizer: One of `runtime.trainer.OPTIMIZERS`.
        learning_rate: By default 0.01 for sgd and momentum, and 0.001 for the others.
        seed: Of dropout.

    Raises:
        ModelError: There is nothing to train, or no such optimiser or learning rate.
    """

    def __init__(
        self,
        model: nn.Module,
        samples: Samples,
        *,
        optimizer: str = "momentum",
        learning_rate: float | None = None,
        seed: int = 0,
    ) -> None:
        updates = make_optimizer(optimizer, model)
        if updates is None:
            raise ModelError("every parameter of the model is frozen: there is nothing to train")
        for group in updates.param_groups:
            group["lr"] = FASTER * group["lr"] if learning_rate is None else learning_rate
        self.rate: float = updates.param_groups[0]["lr"]
        if not 0 < self.rate < math.inf:
            raise ModelError(f"the learning rate is {self.rate}: use a number above 0, e.g. 0.01")
        self.model = model
        self.losses: list[float] = []
        self._updates, self._top, self._seed = updates, _top(samples), seed
        self._random: list[Tensor] = []  # how far its numbers are, once some were drawn

    def run(self, batches: Iterable[Batch], watch: Watch = unwatched) -> list[float]:
        """Train on some more batches; returns the loss of each, before its update.

        Raises:
            ModelError: The model does not fit the labels, or its loss runs away.
        """
        done = len(self.losses)
        with _in_mode(self.model, training=True), self._own_random(), torch.enable_grad():
            for step, batch in enumerate(batches, start=done + 1):
                self._step(batch)
                watch(step, self.losses[-1])
        return self.losses[done:]

    def _step(self, batch: Batch) -> None:
        loss = _loss(*_answer(self.model, batch, self._top))
        self.losses.append(loss.item())
        if not math.isfinite(self.losses[-1]):
            raise ModelError(_runaway(self.losses, self.rate))
        if not loss.requires_grad:
            raise ModelError("what the model returns has no gradient: there is no training")
        self._updates.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._updates.step()

    @contextmanager
    def _own_random(self) -> Iterator[None]:
        """Random numbers that go on where this model's stopped, and afterwards the caller's."""
        device = _device(self.model)
        with seeded(self._seed, device):
            if self._random:
                torch.set_rng_state(self._random[0])
            if self._random[1:]:
                torch.cuda.set_rng_state(self._random[1], device)
            yield
            self._random = [torch.get_rng_state()]
            if device.type == "cuda":
                self._random.append(torch.cuda.get_rng_state(device))


def tune(
    model: nn.Module,
    samples: Samples,
    steps: int,
    *,
    batch_size: int = 10,
    optimizer: str = "momentum",
    learning_rate: float | None = None,
    seed: int = 0,
    watch: Watch = unwatched,
) -> Tuned:
    """Train a model in place on shuffled batches, by a `Tuner`.

    Args:
        model: See `Tuner`.
        samples: What it is trained on.
        steps: How many batches.
        batch_size: Samples in each.
        optimizer: See `Tuner`.
        learning_rate: See `Tuner`.
        seed: Of the batches, and of dropout.
        watch: Told of every step.

    Raises:
        ModelError: The model does not fit the labels, has nothing to train, or its loss runs away.
    """
    tuner = Tuner(model, samples, optimizer=optimizer, learning_rate=learning_rate, seed=seed)
    batches = samples.batches(batch_size, np.random.default_rng(seed))
    return Tuned(tuple(tuner.run(itertools.islice(batches, steps), watch)))


def judge(model: nn.Module, samples: Samples, batch_size: int = 200) -> Judgement:
    """How well a model does on all samples, as it would in use."""
    loss, right, top = 0.0, 0, _top(samples)
    with _in_mode(model, training=False), torch.no_grad():
        for batch in samples.in_order(batch_size):
            scores, labels = _answer(model, batch, top)
            loss += _loss(scores, labels).item() * len(labels)
            says = scores > 0 if scores.dim() == 1 else scores.argmax(1)
            right += int((says == labels).sum())
    return Judgement(loss / len(samples), right / len(samples))


def refresh_statistics(
    model: nn.Module, samples: Samples, batches: int = 10, *, batch_size: int = 100, seed: int = 0
) -> None:
    """Take the running statistics of batch normalisation anew, as means over a few batches.

    After channels were cut, those of the whole model no longer hold. A model without batch
    normalisation is left alone.
    """
    norms: list[Any] = [
        module
        for module in model.modules()
        if keeps_statistics(module) and module.track_running_stats
    ]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    with _in_mode(model, training=False), torch.no_grad():
        try:
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None  # a plain mean
                norm.train()
            shuffled = samples.batches(batch_size, np.random.default_rng(seed))
            for inputs, _ in itertools.islice(shuffled, batches):
                model(torch.from_numpy(inputs).to(_device(model)))
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum


def _returned(text: str, shape: tuple[int, ...]) -> Any:
    """What the user's function makes."""
    with load_function(text, "dataset") as (function, homes):
        arguments = (shape,) if _takes_shape(function) else ()
        check_arguments(
            function, f"{text} is called with the shape of an input at most", *arguments
        )
        try:
            return function(*arguments)
        except AmpereError:
            raise
        except (Exception, SystemExit) as error:
            raise raised(text, error, homes) from error


def _takes_shape(function: Callable[..., Any]) -> bool:
    """Whether it names or needs it; other arguments with a default are the user's own."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some builtins have none
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return any(p.name == "shape" or p.default is p.empty for p in positional[:1])


def _top(samples: Samples) -> int:
    """The largest label, looked for once: there may be many samples."""
    return int(samples.labels.max(initial=0))


def _answer(model: nn.Module, batch: Batch, top: int) -> tuple[Tensor, Tensor]:
    """A model's scores, (n, classes) or (n,) of two classes, and the labels that they should say.

    Args:
        model: Where it lies, there it answers.
        batch: Inputs and labels.
        top: The largest label of all samples.

    Raises:
        ModelError: The scores do not fit the labels.
    """
    inputs, labels = (torch.from_numpy(part).to(_device(model)) for part in batch)
    floats = [part for part in returned_tensors(model(inputs)) if part.is_floating_point()]
    if len(floats) != 1:
        raise ModelError(f"the model returns {len(floats)} tensors of floats: return scores alone")
    (scores,), count = floats, len(labels)
    if scores.numel() == count:
        scores = scores.reshape(count)
    elif scores.dim() != 2 or len(scores) != count:
        raise ModelError(
            f"the model returns {tuple(scores.shape)} for {count} samples: it must return"
            f" ({count}, classes), or ({count},) for two classes"
        )
    classes = 2 if scores.dim() == 1 else scores.shape[1]
    if top >= classes:
        raise ModelError(
            f"the model tells {classes} classes apart, the data have a label {top}: they count from"
            f" 0, so give the model {top + 1} outputs"
        )
    return scores, labels


def _loss(scores: Tensor, labels: Tensor) -> Tensor:
    if scores.dim() == 1:
        return functional.binary_cross_entropy_with_logits(scores, labels.to(scores.dtype))
    return functional.cross_entropy(scores, labels)


def _runaway(losses: list[float], rate: float) -> str:
    if len(losses) == 1:  # before any update
        return f"the loss is {losses[0]} at step 1: check the model's weights and the data"
    return f"the loss is {losses[-1]} at step {len(losses)}: use a learning rate below {rate:g}"


def _device(model: nn.Module) -> torch.device:
    return next((p.device for p in model.parameters()), torch.device("cpu"))


@contextmanager
def _in_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """Every module in a mode, and afterwards in its own: a model may have both."""
    modes = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
