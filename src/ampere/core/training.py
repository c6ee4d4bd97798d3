"""Training: the settings that decide over a layer's cost besides the layer and the device.

One class carries them from the command line to the kinds of layers: batch size, optimiser, loss and
precision are part of a kind's name, so rows of different settings never share a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Callable, Mapping, Union  # three of them for Python 3.8, on old devices

from ampere.core.boundary.fields import Fields
from ampere.core.boundary.trust import ForeignText
from ampere.core.layers import Layer, Role
from ampere.core.types import Json
from ampere.errors import ModelError

# By name, the user's own function, or a name that only a file says.
Loss = Union[str, Callable[[Any], Any], ForeignText]

LOSSES = ("auto", "cross_entropy", "mse", "bce", "sum")  # that ampere has itself

DTYPES = ("float32", "bfloat16", "float16", "float64")
PLAIN = "float32"
MOST_BATCH = 10**9


@dataclass(frozen=True)
class Training:
    """How a model is trained.

    Args:
        batch_size: Samples of a step.
        optimizer: sgd, momentum, adam, adamw or rmsprop, whatever their case.
        loss: By name (`auto` takes what fits the outputs), or a function of what the model returns.
        dtype: Of parameters and inputs; None is the model's own.
        amp: Automatic mixed precision: operations that allow it run in bfloat16.
    """

    batch_size: int = 10
    optimizer: str = "sgd"
    loss: Loss = "auto"
    dtype: str | None = None
    amp: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= MOST_BATCH:
            raise ModelError(
                f"a batch of {self.batch_size:.10g} cannot be trained: use 1 to {MOST_BATCH}"
            )
        if self.dtype is not None and self.dtype not in DTYPES:
            raise ModelError(f"unknown dtype {self.dtype!r}: use one of {', '.join(DTYPES)}")
        object.__setattr__(self, "optimizer", self.optimizer.strip().lower())  # torch: AdamW

    def but(self, **changes: Any) -> Training:
        """The same, but for what is given: None leaves a setting as it is."""
        return replace(
            self, **{name: value for name, value in changes.items() if value is not None}
        )

    @property
    def precision(self) -> str:
        """As it stands in a kind's name: `float32`, `bfloat16`, `float32+amp`."""
        return (self.dtype or PLAIN) + ("+amp" if self.amp else "")

    @property
    def _loss_text(self) -> Json:
        return self.loss.text if isinstance(self.loss, ForeignText) else self.loss

    def attributes(self, role: Role) -> dict[str, Json]:
        """What a kind of this role holds fixed; the loss is in LAST only (paper, section 3.2)."""
        held: dict[str, Json] = {"batch": self.batch_size, "optimizer": self.optimizer}
        if role is Role.LAST and self.loss != "auto":
            held["loss"] = self._loss_text
        if self.dtype not in (None, PLAIN):
            held["dtype"] = self.dtype
        if self.amp:
            held["amp"] = True
        return held

    @classmethod
    def of_file(cls, fields: Fields) -> Training:
        """Read what `to_json` wrote into a file: a loss that is code stays text there."""
        return cls(
            batch_size=fields.whole("batch_size", least=1, most=MOST_BATCH),
            optimizer=fields.text("optimizer"),
            loss=loss_of_file(fields.text("loss", "auto")),
            dtype=fields.choice("dtype", DTYPES) if "dtype" in fields else None,
            amp=fields.flag("amp"),
        )

    def to_json(self) -> dict[str, Json]:
        """Plain data; settings that are as usual and came with later versions are left out."""
        row: dict[str, Json] = {"batch_size": self.batch_size, "optimizer": self.optimizer}
        row["loss"] = self._loss_text
        if self.dtype is not None:
            row["dtype"] = self.dtype
        if self.amp:
            row["amp"] = True
        return row


def training_of(layers: Sequence[Layer]) -> Training:
    """How a network that was read or sent here is trained."""
    attributes = layers[0].kind.attributes
    if not _is_stated(attributes):
        raise ModelError(f"{layers[0].kind.name} does not say how it is trained")
    return _training(attributes, _last_loss(layers))


def stated_training(layers: Sequence[Layer]) -> Training | None:
    """How a network in a file was trained; None if its layers do not say, as others' may not."""
    attributes = layers[0].kind.attributes
    if not _is_stated(attributes):
        return None
    return _training(attributes, loss_of_file(_last_loss(layers)))


def loss_of_file(name: str) -> Loss:
    """A loss as a file says it: one of ours, or text that nobody may load."""
    return name if name in LOSSES else ForeignText(name)


def _is_stated(attributes: Mapping[str, Json]) -> bool:
    """Whether attributes say how a layer is trained; another tool's may mean something else."""
    batch, optimizer = attributes.get("batch"), attributes.get("optimizer")
    precise = attributes.get("dtype") in (None, *DTYPES)
    return type(batch) is int and batch >= 1 and isinstance(optimizer, str) and precise


def _last_loss(layers: Sequence[Layer]) -> str:
    """Only what ends in a last layer has a loss."""
    last = layers[-1].kind
    return str(last.attributes.get("loss", "auto")) if last.role is Role.LAST else "auto"


def training_of_kind(attributes: Mapping[str, Json]) -> Training:
    """How layers of a kind that ampere has read are trained."""
    return _training(attributes, str(attributes.get("loss", "auto")))


def _training(attributes: Mapping[str, Json], loss: Loss) -> Training:
    return Training(
        batch_size=int(attributes["batch"]),
        optimizer=str(attributes["optimizer"]),
        loss=loss,
        dtype=attributes.get("dtype"),
        amp=bool(attributes.get("amp", False)),
    )
