"""The training workflow that is metered: forward, loss, backward, optimiser step.

Data are synthetic and stay on the device: loading, augmentation and validation are not part of a
step, and no figure of ampere includes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from ampere.core.inputs import Inputs, InputSpec, parse_inputs
from ampere.core.layers import Role, structure_of
from ampere.core.training import PLAIN, Training, training_of
from ampere.core.workloads import ModelSpec, Settings, Workload
from ampere.errors import DeviceError, ModelError
from ampere.pytorch.runtime.builder import Network, build, is_shared, network_inputs
from ampere.pytorch.runtime.losses import make_loss, returned_tensors

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
    if hasattr(torch, "set_float32_matmul_precision"):  # torch before 1.12 has no such choice
        torch.set_float32_matmul_precision("high" if settings.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = settings.tf32  # convolutions have a switch of their own
    # The first optimiser of a process imports torch's compiler, seconds from a cold disk: now, or
    # the first network would be charged for it.
    OPTIMIZERS["sgd"]([torch.zeros(1, requires_grad=True)])
    return f"torch {torch.__version__}", torch.get_num_threads()


def synchronise(settings: Settings) -> None:
    """Wait until everything that was launched has ended: before every reading."""
    if settings.accelerator == "cuda":
        torch.cuda.synchronize()
    elif settings.accelerator == "mps":
        torch.mps.synchronize()


def make_optimizer(name: str, model: nn.Module) -> torch.optim.Optimizer | None:
    """The optimiser over what is neither frozen nor another layer's; None where nothing is."""
    if name not in OPTIMIZERS:
        raise ModelError(f"unknown optimizer {name!r}: use one of {', '.join(OPTIMIZERS)}")
    parameters = [p for p in model.parameters() if p.requires_grad and not is_shared(p)]
    return OPTIMIZERS[name](parameters) if parameters else None


def dtype_of(model: nn.Module) -> str:
    """The type of most parameters of a model: what its inputs have, too."""
    sizes: Counter[str] = Counter()
    for parameter in model.parameters():
        if parameter.is_floating_point():
            sizes[str(parameter.dtype).rpartition(".")[2]] += parameter.numel()
    return max(sizes, key=sizes.__getitem__, default=PLAIN)


class Trainer:
    """A network with its data, loss and optimiser, ready to run steps.

    Args:
        model: The network.
        inputs: What it is called with; an input that requires a gradient gets one.
        training: How it is trained.
        settings: How it runs.
        ends: Whether it ends as a model does, in a loss. If not, the backward pass starts from
            random gradients of what comes out; so it does for what no layer of a network reads.
        copies: Whether the network may work in place on what it is given.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: tuple[Sequence[torch.Tensor], Mapping[str, torch.Tensor]],
        training: Training,
        settings: Settings,
        *,
        ends: bool = True,
        copies: bool = False,
    ):
        self.training, self.settings = training, settings
        self.model = model.to(settings.accelerator).train()
        args, kwargs = inputs
        self.args = [self._placed(x) for x in args]
        self.kwargs = {name: self._placed(x) for name, x in kwargs.items()}
        self.copies = copies and any(x.requires_grad for x in self.args)
        self.dangles = isinstance(model, Network) and bool(model.dangling)
        self.optimizer = make_optimizer(training.optimizer, self.model)
        entering = [*self.args, *self.kwargs.values()]
        # Whatever collects a gradient that the optimiser does not clear.
        self.leaves = [leaf for leaf in entering if leaf.requires_grad]
        self.leaves += [p for p in self.model.parameters() if is_shared(p)]
        with torch.enable_grad(), self._autocast():
            output = self._run()
            result = output[0] if self.dangles else output
            self.loss = make_loss(str(training.loss), result) if ends else None
            outgoing = self._ends(output)
        self.trains = any(end.requires_grad for end in outgoing)
        # As small as those of a mean, or the weights would run away; a loss needs none.
        self.gradients = [
            None if self.loss is not None and i == 0 else torch.randn_like(end) / end.numel()
            for i, end in enumerate(outgoing)
        ]
        if settings.compile:
            self.model = torch.compile(self.model)  # type: ignore[assignment]

    def _placed(self, x: torch.Tensor) -> torch.Tensor:
        return x.detach().to(self.settings.accelerator).requires_grad_(x.requires_grad)

    def _autocast(self) -> Any:
        if not self.training.amp:
            return nullcontext()
        return torch.autocast(self.settings.accelerator, dtype=torch.bfloat16)

    def _run(self) -> Any:
        args = self.args
        if self.copies:  # a leaf must not be worked on in place
            args = [x.clone() if x.requires_grad else x for x in args]
        return self.model(*args, **self.kwargs)

    def _ends(self, output: Any) -> Sequence[torch.Tensor]:
        result, rest = output if self.dangles else (output, ())
        ends = list(returned_tensors((result, rest)))
        if self.loss is not None:
            ends = [self.loss(result), *returned_tensors(rest)]
        return [end for i, end in enumerate(ends) if end.requires_grad or (self.loss and i == 0)]

    def forward(self) -> Sequence[torch.Tensor]:
        """Forward pass and loss; returns what the backward pass starts from."""
        with self._autocast():
            return self._ends(self._run())

    def backward(self, ends: Sequence[torch.Tensor], again: bool = False) -> None:
        """Backward pass, unless everything is frozen."""
        if self.trains:
            torch.autograd.backward(ends, self.gradients, retain_graph=again)

    def step(self, batches: int = 1) -> None:
        """One whole training step; gradients of several batches add up."""
        if self.optimizer is not None:
            self.optimizer.zero_grad(set_to_none=True)
        for leaf in self.leaves:
            leaf.grad = None
        for _ in range(batches):
            self.backward(self.forward())
        if self.optimizer is not None:
            self.optimizer.step()

    def validate(self, batches: int) -> None:
        """So many batches forward, as a validation runs them; nothing is learned."""
        self.model.eval()
        with torch.no_grad():
            for _ in range(batches):
                self.forward()
        self.model.train()

    def stage(self, name: str) -> Callable[[], Any]:
        """One stage of the step alone, as NeuralPower profiles it."""
        if name == "step":
            return self.step
        if name == "forward":
            return self.forward
        if name == "backward":
            ends = self.forward()
            return lambda: self.backward(ends, again=True)
        self.step()
        optimizer = self.optimizer
        return (lambda: None) if optimizer is None else optimizer.step


def make_trainer(workload: Workload, settings: Settings) -> Trainer:
    """Build what a workload describes: a network of layers, or a model by name."""
    if workload.model is not None:
        return _model_trainer(workload.model, settings)
    entry, end = workload.layers[0], workload.layers[-1]
    training = training_of(workload.layers)
    in_place = any(call.works_in_place for call in structure_of(entry.kind).calls)
    network = build(workload.layers)
    args = network_inputs(workload.layers)
    ends = end.kind.role is Role.LAST
    return Trainer(network, (args, {}), training, settings, ends=ends, copies=in_place)


def synthetic_input(
    spec: InputSpec, batch: int, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """A batch of random data of this shape; token ids stay below the vocabulary's size."""
    shape = (batch, *spec.shape)
    if spec.dtype == "int64":
        return torch.randint(spec.below or 2, shape, device=device)
    if spec.dtype == "bool":
        return torch.rand(shape, device=device) < 0.5
    return torch.randn(shape, device=device, dtype=dtype)


def synthetic_inputs(
    inputs: Inputs, batch: int, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
    """A batch of random data for each input: those by position, and those by keyword."""
    return (
        tuple(synthetic_input(spec, batch, device, dtype) for spec in inputs.positional),
        {name: synthetic_input(spec, batch, device, dtype) for name, spec in inputs.named},
    )


def _model_trainer(spec: ModelSpec, settings: Settings) -> Trainer:
    # Only where the user's code is: other devices are sent layers.
    from ampere.pytorch.runtime.loader import load_model

    fed = None if spec.input is None else parse_inputs(spec.input)
    model, inputs = load_model(spec.model, fed)
    training = spec.training
    if training.dtype is not None:
        model = model.to(getattr(torch, training.dtype))
    dtype = getattr(torch, training.dtype or dtype_of(model))
    data = synthetic_inputs(inputs, training.batch_size, dtype=dtype)
    trainer = Trainer(model, data, training, settings)
    if not trainer.trains:
        raise ModelError(f"nothing that {spec.model} returns has a gradient: there is no training")
    return trainer
