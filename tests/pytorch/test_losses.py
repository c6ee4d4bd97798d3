"""Losses of whatever a model returns, by name or by the user's own function."""

from __future__ import annotations

import functools
import sys
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import own_losses
from ampere.core.boundary.losses import loss_name
from ampere.errors import ModelError
from ampere.pytorch.runtime.losses import LOSSES, find_loss, make_loss, returned_tensors

Pair = namedtuple("Pair", "scores extra")


@dataclass
class Answer:
    scores: Tensor
    extra: Tensor | None = None


class ModelOutput(OrderedDict[str, Any]):
    """As Hugging Face's: a dict whose entries are attributes too."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(name)
        return self[name]


def made(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def gradient(loss: Tensor, of: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(loss, of, allow_unused=True)
    return torch.zeros_like(of) if found is None else found


SCORES = made(4, 5)


@pytest.mark.parametrize(
    "output",
    [
        SCORES,
        (SCORES,),
        [SCORES],
        {"scores": SCORES},
        OrderedDict(scores=SCORES),
        ModelOutput(scores=SCORES, hidden_states=None),
        Pair(SCORES, None),
        Answer(SCORES),
        {"deep": [({"scores": SCORES},), 3, "text", None]},
        (SCORES, torch.ones(4), torch.ones(4, dtype=torch.int64)),  # no gradient: does not count
    ],
)
def test_auto_finds_the_scores_wherever_they_are(output: Any) -> None:
    loss = make_loss("auto", output)(output)
    assert loss.dim() == 0
    pushed = gradient(loss, SCORES)
    # Cross-entropy: the gradients of each sample's scores add up to 0, that of its label is < 0.
    assert torch.allclose(pushed.sum(1), torch.zeros(4), atol=1e-6)
    assert ((pushed < 0).sum(1) == 1).all()


@pytest.mark.parametrize(
    ("shape", "over"), [((4, 5), 1), ((4, 7, 5), 2), ((4, 5, 6, 7), 1), ((2, 3, 4, 5, 6), 4)]
)
@pytest.mark.parametrize("name", ["auto", "cross_entropy"])
def test_scores_are_over_the_last_dimension_or_the_channels_of_a_pixel(
    name: str, shape: tuple[int, ...], over: int
) -> None:
    output = made(*shape)
    pushed = gradient(make_loss(name, output)(output), output)
    assert torch.allclose(pushed.sum(over), torch.zeros(()), atol=1e-6)
    assert ((pushed < 0).sum(over) == 1).all()


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 7, 1)])
def test_single_numbers_have_a_squared_error(shape: tuple[int, ...]) -> None:
    output = made(*shape)
    expected = (output**2).mean()
    assert torch.equal(make_loss("auto", output)(output), expected)
    assert torch.equal(make_loss("mse", output)(output), expected)


def test_every_output_with_a_gradient_counts() -> None:
    scores, numbers, aside = made(4, 5), made(4, 1), torch.randn(4, 1)
    output = {"a": (scores, aside), "b": numbers, "c": numbers.sum()}
    torch.manual_seed(0)
    loss = make_loss("auto", output)
    torch.manual_seed(0)
    labels = torch.randint(5, (4,))
    expected = functional.cross_entropy(scores, labels) + (numbers**2).mean() + numbers.sum()
    assert torch.allclose(loss(output), expected)


def test_a_model_that_returns_its_loss_is_believed() -> None:
    x = made(4, 5)
    own = (x**3).sum()
    for output in (
        own,
        {"loss": own, "logits": x},
        SimpleNamespace(loss=own),
        ModelOutput(loss=own),
    ):
        assert make_loss("auto", output)(output) is own
    assert make_loss("sum", {"loss": own, "logits": x})({"loss": own, "logits": x}) is not own


@pytest.mark.parametrize("entry", [None, 0.5, torch.tensor(0.5), made(4, 5)])
def test_an_entry_that_is_no_loss_is_not(entry: Any) -> None:
    output = {"loss": entry, "logits": SCORES}
    assert gradient(make_loss("auto", output)(output), SCORES).abs().sum() > 0


def test_binary_cross_entropy_and_sum() -> None:
    output = made(64, 3)
    assert torch.equal(make_loss("sum", output)(output), output.sum())
    pushed = gradient(make_loss("bce", output)(output), output) * output.numel()
    targets = output.sigmoid() - pushed
    assert torch.allclose(targets, targets.round(), atol=1e-5)
    assert set(targets.round().abs().flatten().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("name", LOSSES)
def test_targets_are_made_once(name: str) -> None:
    output = made(8, 5)
    loss = make_loss(name, (output,))
    state = torch.get_rng_state()
    assert torch.equal(loss((output,)), loss((output,)))
    assert torch.equal(torch.get_rng_state(), state)


def test_the_first_output_is_not_kept() -> None:
    output = made(4, 5) * 2
    reference = weakref.ref(output)
    loss = make_loss("auto", {"a": output})
    del output
    assert reference() is None
    assert loss({"a": made(4, 5)}).dim() == 0


def test_what_is_wholly_frozen_has_a_loss_without_a_gradient() -> None:
    output = (torch.randn(4, 5), torch.ones(4, dtype=torch.int64))
    assert not make_loss("auto", output)(output).requires_grad


def test_returned_tensors_nothing() -> None:
    assert list(returned_tensors((None, 3, "text", {}, Answer, object()))) == []


@pytest.mark.parametrize(
    ("name", "output", "says"),
    [
        ("auto", None, "returns None without a tensor to take a loss of"),
        ("auto", {}, "an object of type dict without a tensor"),
        ("mse", torch.ones(4, dtype=torch.int64), "without a tensor"),
        ("cross_entropy", made(4), "needs scores of classes, not (4,): use mse or bce"),
    ],
)
def test_outputs_without_a_loss(name: str, output: Any, says: str) -> None:
    with pytest.raises(ModelError) as caught:
        make_loss(name, output)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


# --- the user's own ------------------------------------------------------------------------------

OWN = """
import torch

def good(output): return (output["scores"] ** 2).mean()
def keeps_shape(output): return output["scores"]
def number(output): return output["scores"].mean().item()
def nothing(output): pass
def detached(output): return output["scores"].detach().mean()

def wrong_key(output):
    return output["score"].mean()

def raises(output):
    raise ValueError("first line\\nsecond line")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


def test_a_function_of_a_file_takes_what_the_model_returns(own: Path) -> None:
    output = {"scores": made(4, 5)}
    for name in ("own.py:good", f"{own}:good"):
        assert torch.equal(make_loss(name, output)(output), (output["scores"] ** 2).mean())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("keeps_shape", "is of shape (4, 5), no scalar: take its mean or sum"),
        ("number", "returned an object of type float; it must return a scalar"),
        ("nothing", "returned None; it must return a scalar"),
        ("detached", "has no gradient"),
        ("wrong_key", "raises KeyError: 'score' ("),
        ("raises", "raises ValueError: first line second line"),
        ("absent", "has no 'absent'; it has good"),
    ],
)
def test_a_loss_that_cannot_train_is_one_line(own: Path, name: str, says: str) -> None:
    with pytest.raises(ModelError) as caught:
        make_loss(f"own.py:{name}", {"scores": made(4, 5)})
    assert says in str(caught.value)
    assert "own.py" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_line_of_the_users_code_is_named(own: Path) -> None:
    line = 1 + OWN[: OWN.index('output["score"].mean()')].count("\n")
    with pytest.raises(ModelError, match=f"own.py:{line}"):
        make_loss("own.py:wrong_key", {"scores": made(4, 5)})


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*LOSSES, " mse ", "own.py:good", "package.losses:good"])
def test_names_stay_as_they_are_whether_their_file_is_here_or_not(name: str) -> None:
    assert loss_name(name) == name.strip()


@pytest.mark.parametrize("name", ["", "magic", "own.py", "own.py:", "own.py:good(x=1)", ":good"])
def test_an_unknown_loss_is_told_the_known(name: str) -> None:
    with pytest.raises(ModelError, match="auto, cross_entropy, mse, bce, sum, or your own as"):
        loss_name(name)


def test_a_function_becomes_where_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert loss_name(own_losses.total) == f"{Path(own_losses.__file__).resolve()}:total"
    monkeypatch.chdir(Path(__file__).parents[2])
    assert loss_name(own_losses.total) == "tests/own_losses.py:total"
    again = find_loss(loss_name(own_losses.total))(None)
    assert again(torch.ones(3)) == 3
    assert loss_name(again) == "tests/own_losses.py:total"
    assert loss_name(nn.functional.relu) == "torch.nn.functional:relu"


def nested() -> Callable[[Any], Tensor]:
    def inside(output: Any) -> Tensor:
        return own_losses.total(output)

    return inside


@pytest.mark.parametrize(
    "loss",
    [
        nested(),
        lambda output: output.sum(),
        functools.partial(own_losses.total),
        nn.MSELoss(),
        Tensor.sum,
        torch.sum,
    ],
)
def test_a_function_that_the_worker_cannot_import(loss: Callable[..., Any]) -> None:
    with pytest.raises(ModelError, match="cannot be imported: write it as a function") as caught:
        loss_name(loss)
    assert "\n" not in str(caught.value)


def test_a_function_of_the_running_script_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "total", own_losses.total, raising=False)
    monkeypatch.setattr(own_losses.total, "__module__", "__main__")
    with pytest.raises(ModelError, match="in a file of its own"):
        loss_name(own_losses.total)


def test_what_is_neither_name_nor_function() -> None:
    with pytest.raises(ModelError, match="an object of type int"):
        loss_name(3)
