"""The training workflow that is metered: forward, loss, backward, optimiser step.

Data are synthetic and stay on the device: loading, augmentation and validation are not part of a
step, and no figure of ampere includes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ampere.devices.device import Settings, Workload
from ampere.errors import DeviceError, ModelError
from ampere.frameworks.torch.building import build, example_inputs, structure_of, works_in_place
from ampere.frameworks.torch.loading import load_model
from ampere.frameworks.torch.tracing import synthetic_input
from ampere.inputs import parse_input

OPTIMIZERS: Mapping[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-4),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-4),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, lr=1e-4),
}


def apply_settings(settings: Settings) -> tuple[str, int]:
    """Put a device's settings into force; returns the framework's version and its threads."""
    if settings.accelerator == "cuda" and not torch.cuda.is_available():
        raise DeviceError("torch sees no CUDA device here: use --accelerator cpu")
    if settings.accelerator == "mps" and not torch.backends.mps.is_available():
        raise DeviceError("torch sees no MPS device here: use --accelerator cpu")
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    torch.backends.mkldnn.enabled = settings.onednn  # type: ignore[assignment]
    torch.set_float32_matmul_precision("high" if settings.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = settings.tf32  # convolutions have a switch of their own
    return f"torch {torch.__version__}", torch.get_num_threads()


def synchronise(settings: Settings) -> None:
    """Wait until everything that was launched has ended: before every reading."""
    if settings.accelerator == "cuda":
        torch.cuda.synchronize()
    elif settings.accelerator == "mps":
        torch.mps.synchronize()


def make_optimizer(name: str, model: nn.Module) -> torch.optim.Optimizer | None:
    """The optimiser over what is not frozen; None where everything is."""
    if name not in OPTIMIZERS:
        raise ModelError(f"unknown optimizer {name!r}: use one of {', '.join(OPTIMIZERS)}")
    parameters = [p for p in model.parameters() if p.requires_grad]
    return OPTIMIZERS[name](parameters) if parameters else None


def default_loss(output: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Cross-entropy over the last dimension of scores, squared error for single numbers."""
    if output.dim() < 2 or output.shape[-1] == 1:
        target = torch.zeros_like(output)
        return lambda result: functional.mse_loss(result, target)
    if output.dim() == 4:  # a class for each pixel
        labels = torch.randint(output.shape[1], output[:, 0].shape, device=output.device)
        return lambda result: functional.cross_entropy(result, labels)
    classes = output.shape[-1]
    labels = torch.randint(classes, (output.numel() // classes,), device=output.device)
    return lambda result: functional.cross_entropy(result.reshape(-1, classes), labels)


def first_tensor(result: Any) -> torch.Tensor:
    """The tensor that the loss is taken of: the first one of a tuple or dict."""
    while not isinstance(result, torch.Tensor):
        result = next(iter(result.values() if isinstance(result, dict) else result))
    return result


class Trainer:
    """A network with its data, loss and optimiser, ready to run steps."""

    def __init__(
        self,
        model: nn.Module,
        x: torch.Tensor,
        optimizer: str,
        settings: Settings,
        copies: bool = False,
    ):
        self.settings = settings
        self.model = model.to(settings.accelerator).train()
        self.x = x.to(settings.accelerator)
        self.copies = x.requires_grad and copies  # a leaf must not be worked on in place
        if x.requires_grad:
            self.x = self.x.detach().requires_grad_(True)
        self.optimizer = make_optimizer(optimizer, self.model)
        with torch.no_grad():
            self.loss = default_loss(first_tensor(self.model(self.x)).detach())
        if settings.compile:
            self.model = torch.compile(self.model)  # type: ignore[assignment]

    def _autocast(self) -> Any:
        if not self.settings.amp:
            return nullcontext()
        return torch.autocast(self.settings.accelerator, dtype=torch.bfloat16)

    def forward(self) -> torch.Tensor:
        """Forward pass and loss."""
        with self._autocast():
            x = self.x.clone() if self.copies else self.x
            return self.loss(first_tensor(self.model(x)))

    def step(self) -> None:
        """One whole training step."""
        if self.optimizer is not None:
            self.optimizer.zero_grad(set_to_none=True)
        self.x.grad = None
        loss = self.forward()
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        if self.optimizer is not None:
            self.optimizer.step()

    def stage(self, name: str) -> Callable[[], Any]:
        """One stage of the step alone, as NeuralPower profiles it."""
        if name == "step":
            return self.step
        if name == "forward":
            return self.forward
        loss = self.forward()
        if name == "backward":
            if not loss.requires_grad:
                return lambda: None
            return lambda: loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
        self.step()
        optimizer = self.optimizer
        return (lambda: None) if optimizer is None else optimizer.step


def make_trainer(workload: Workload, settings: Settings) -> Trainer:
    """Build what a workload describes: a network of layers, a model by name, or the reference."""
    if workload.model is not None:
        spec = workload.model
        given = parse_input(spec.input) if spec.input else None
        model, shape = load_model(spec.model, given)
        return Trainer(model, synthetic_input(shape, spec.batch_size), spec.optimizer, settings)
    if not workload.layers:
        return Trainer(_reference(), torch.randn(8, 8, 16, 16), "sgd", settings)
    entry = workload.layers[0]
    structure = structure_of(entry)
    (x,) = example_inputs(entry)
    optimizer = str(entry.kind.attributes["optimizer"])
    in_place = any(works_in_place(call) for call in structure.calls)
    return Trainer(build(workload.layers), x, optimizer, settings, copies=in_place)


def _reference() -> nn.Module:
    """A small fixed network; how long it takes says how fast the machine is at the moment."""
    return nn.Sequential(
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 16 * 16, 16)
    )
