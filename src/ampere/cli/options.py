"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampere.core.training import LOSSES

if TYPE_CHECKING:
    from ampere.core.rates import Rate
    from ampere.core.training import Training
    from ampere.core.workloads import Settings
    from ampere.devices.registry import AnyDevice
    from ampere.sittings.effort import Effort

# What is typed beyond these is a slip: no device trains it, and no number of joules comes of it.
MANY = 10**6  # measurements, models
STEPS = 10**15  # and samples, epochs
LARGEST_BATCH = 10**9
SEEDS = 2**32
THREADS = 10**5
SMALL, LARGE = 1e-15, 1e15
LEAST_SHARE = 1e-6
LONGEST_BURST_S = 3600.0
LONGEST_PAUSE_S = 7 * 86400.0
MANY_SITTINGS = 1000


def above_zero(value: float | None) -> float | None:
    """Refuse what is not a number above 0 that something can have."""
    if value is not None and not SMALL <= value <= LARGE:
        raise typer.BadParameter(f"{value:g} is not a number above 0, up to {LARGE:g}")
    return value


def not_below_zero(value: float | None) -> float | None:
    """Refuse what is no duration."""
    if value is not None and not 0 <= value <= LONGEST_PAUSE_S:
        raise typer.BadParameter(f"{value:g} is not a number from 0 to {LONGEST_PAUSE_S:g}")
    return value


def finite(value: float | None) -> float | None:
    """Refuse what is no moment."""
    if value is not None and not abs(value) <= LARGE:
        raise typer.BadParameter(f"{value:g} is not a number of seconds")
    return value


def at_most(most: int) -> Callable[[int | None], int | None]:
    """Refuse whole numbers that nobody can mean."""

    def check(value: int | None) -> int | None:
        if value is not None and abs(value) > most:
            raise typer.BadParameter(f"that is more than {most:,}")
        return value

    return check


def share(value: float | None) -> float | None:
    """Refuse what is no share."""
    if value is not None and not LEAST_SHARE <= value < 1:
        raise typer.BadParameter(f"{value:g} is no share between 0 and 1, such as 0.05")
    return value


def _burst(value: float | None) -> float | None:
    """Refuse what nobody waits for."""
    if value is not None and not SMALL <= value <= LONGEST_BURST_S:
        raise typer.BadParameter(f"{value:g} is not a number above 0, up to {LONGEST_BURST_S:g}")
    return value


def _known_method(name: str) -> str:
    from ampere.estimators.methods import METHODS

    if name not in METHODS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(METHODS)}")
    return name


def _known_task(name: str | None) -> str | None:
    from ampere.pytorch.public.tasks import TASKS

    if name is not None and name not in TASKS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(TASKS)}")
    return name


def known_runtime(name: str | None) -> str | None:
    """Refuse the name of a runtime that there is not."""
    from ampere.frameworks.runtimes import RUNTIMES

    if name is not None and name not in RUNTIMES:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(RUNTIMES)}")
    return name


def _one_or_several(text: str | None) -> str | None:
    """Refuse 3,64,64: commas stand between inputs, but sizes of one may be meant."""
    sizes = (text or "").strip().split(",")
    if text is None or len(sizes) < 2 or not all(size.isdecimal() for size in sizes):
        return text
    raise typer.BadParameter(
        f"{text} may be one input or {len(sizes)}: write {'x'.join(sizes)} for one of these sizes,"
        f" or '{', '.join(sizes)}' for {len(sizes)}"
    )


OWN_SETTINGS = ("simulated", "recorded")  # devices that have a runtime and a meter of their own
FORMS = "zoo:lenet5, timm:resnet50, hf:bert, hf:DIR, path/file.py:factory, package.module:factory"
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help=FORMS,
        show_default=False,
    ),
]
ProfilePath = Annotated[
    Path, typer.Option("--profile", metavar="FILE", help="The profile's file.", show_default=False)
]
LikeDevices = Annotated[
    str | None,
    typer.Option(
        metavar="DIR|FILES",
        help="Profiles of other devices to borrow from: a folder, or files with commas between.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]
MixDevices = Annotated[
    bool, typer.Option("--any-device", help="Mix measurements of different devices.")
]
BatteryWh = Annotated[
    float | None, typer.Option(metavar="WH", help="What the battery holds.", callback=above_zero)
]
CarbonRate = Annotated[
    str | None,
    typer.Option(metavar="FR|FILE", help="What a kWh emits: FR, 56g/kWh or hourly.csv."),
]
AcceptBusy = Annotated[
    bool,
    typer.Option("--accept-busy", help="Measure beside other programs, with a wider interval."),
]
Method = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="How it is fitted: additive or paper.", callback=_known_method
    ),
]


@dataclass(frozen=True)
class TrainingOptions:
    """A model's input and how it is trained, as far as it was said."""

    input: Annotated[
        str | None,
        typer.Option(
            metavar="SHAPES",
            help="One sample: 3x32x32, 128:int64<1000 for tokens, or both: 3x32x32, ids=128:int64.",
            callback=_one_or_several,
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Default: 10, or the profile's own.",
            callback=at_most(LARGEST_BATCH),
        ),
    ] = None
    optimizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="sgd, momentum, adam, adamw or rmsprop. Default: sgd, or the profile's own.",
        ),
    ] = None
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="auto, cross_entropy, mse, bce, sum or path/file.py:function."
            " Default: auto, or the profile's own.",
        ),
    ] = None

    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="float32, bfloat16, float16 or float64. Default: the model's, or the profile's.",
        ),
    ] = None
    amp: Annotated[bool, typer.Option("--amp", help="Automatic mixed precision, in bfloat16.")] = (
        False
    )
    task: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What hf:MODEL is trained for: causal-lm, masked-lm, classification, seq2seq,"
            " image-classification, speech-to-text, ... Default: as is usual for it.",
            callback=_known_task,
        ),
    ] = None
    sequence: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Tokens of a sample of hf:MODEL. Default: 128.",
            callback=at_most(LARGEST_BATCH),
        ),
    ] = None

    def named(self, model: str) -> str:
        """The model with what was said of it: its name is all that other processes get to know."""
        said = {
            name: value
            for name, value in (("task", self.task), ("sequence", self.sequence))
            if value is not None
        }
        if not said:
            return model
        if not model.strip().startswith("hf:"):
            raise typer.BadParameter("--task and --sequence go with hf:MODEL")
        from ampere.core.boundary.model_names import parse_name

        name = parse_name(model)
        for option in said.keys() & name.arguments.keys():
            raise typer.BadParameter(f"give --{option} or hf:MODEL({option}=...), not both")
        return str(replace(name, arguments={**name.arguments, **said}))

    def over(self, usual: Training) -> Training:
        """What was said, and the rest as usual; a loss that is not there is refused."""
        if self.loss is not None and self.loss.strip() not in LOSSES:
            from ampere.acquisition.families import present_loss

            present_loss(self.loss)
        other = ("input", "task", "sequence")  # what is trained, not how
        options = {name: value for name, value in asdict(self).items() if name not in other}
        return usual.but(**{**options, "amp": self.amp or None})

    @property
    def untouched(self) -> bool:
        """Whether nothing was said about training itself."""
        return self == TrainingOptions(self.input, task=self.task, sequence=self.sequence)


@dataclass(frozen=True)
class Job:
    """How long a model is trained."""

    steps: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Training steps of the job.", callback=at_most(STEPS)
        ),
    ] = None
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Instead of --steps, with --samples.",
            callback=at_most(STEPS),
        ),
    ] = None
    samples: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Samples of an epoch.", callback=at_most(STEPS)),
    ] = None

    def __post_init__(self) -> None:
        if self.steps is not None and self.epochs is not None:
            raise typer.BadParameter("give either --steps or --epochs")
        if (self.epochs is None) != (self.samples is None):
            raise typer.BadParameter("--epochs and --samples go together")

    def length(self, batch_size: int) -> int | None:
        """Steps of the whole job, if anything was said."""
        if self.epochs is None or self.samples is None:
            return self.steps
        steps = self.epochs * -(-self.samples // batch_size)
        if steps > STEPS:
            raise typer.BadParameter(f"these are {steps:,} steps, more than {STEPS:,}")
        return steps


@dataclass(frozen=True)
class Rates:
    """What a kilowatt-hour emits and costs."""

    carbon: CarbonRate = None
    price: Annotated[
        str | None,
        typer.Option(metavar="PRICE|FILE", help="What it costs: 0.30EUR/kWh or hourly.csv."),
    ] = None

    def read(self) -> tuple[Rate | None, Rate | None]:
        """Both, as far as they were said."""
        from ampere.core.rates import parse_carbon, parse_price

        return (
            None if self.carbon is None else parse_carbon(self.carbon),
            None if self.price is None else parse_price(self.price),
        )


@dataclass(frozen=True)
class Machine:
    """A device in certain settings under a certain meter."""

    device: Annotated[
        str,
        typer.Option(
            metavar="DEVICE",
            help="local, ssh:user@host, adb:serial, simulated:xavier, recorded:file.ampere",
        ),
    ] = "local"
    meter: Annotated[
        str, typer.Option(metavar="METER", help="auto, rapl, cpu:idle_w=2.5,active_w=9, ...")
    ] = "auto"
    runtime: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Who trains there: torch, mnn or jax. Default: the model's own framework.",
            callback=known_runtime,
        ),
    ] = None
    accelerator: Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda or mps.")] = "cpu"
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Default: the framework's own choice.",
            callback=at_most(THREADS),
        ),
    ] = None
    compile: Annotated[bool, typer.Option("--compile", help="Compile the models (torch).")] = False
    tf32: Annotated[bool, typer.Option("--tf32", help="TF32 on NVIDIA GPUs (torch).")] = False
    no_onednn: Annotated[bool, typer.Option("--no-onednn", help="Do without oneDNN (torch).")] = (
        False
    )

    def open(self, model: str | None = None) -> AnyDevice:
        """The device that these options describe; whoever opens it closes it.

        Unless a runtime was named, the framework of the model trains there, if one is given.
        """
        from ampere.devices.registry import open_device
        from ampere.meters.registry import parse_meter

        meter, meter_settings = parse_meter(self.meter)
        return open_device(self.device, self.settings(model), meter, meter_settings)

    def settings(self, model: str | None = None) -> Settings:
        """Who trains there, and how."""
        from ampere.core.workloads import Settings

        return Settings(
            runtime=self.runtime or self._usual_runtime(model),
            accelerator=self.accelerator,
            threads=self.threads,
            compile=self.compile,
            tf32=self.tf32,
            onednn=not self.no_onednn,
        )

    def _usual_runtime(self, model: str | None) -> str:
        from ampere.core.program.structure import TORCH

        if model is None or self.device.strip().partition(":")[0] in OWN_SETTINGS:
            return TORCH
        from ampere.frameworks.models import framework_of

        return framework_of(model)


@dataclass(frozen=True)
class Care:
    """How much measuring: what measuring itself thinks right, unless something else is said."""

    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repeats per measurement, more noise.")
    ] = False
    precision: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="How well each measurement shall repeat. Default: 0.015; coarse meters need more.",
            callback=share,
        ),
    ] = None

    burst_s: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Length of a burst. Default: 0.03, or what the meter needs.",
            callback=_burst,
        ),
    ] = None

    accept_busy: AcceptBusy = False
    patience: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="How long other programs are waited for.",
            callback=not_below_zero,
        ),
    ] = 30.0

    def effort(self) -> Effort | None:
        """What was said, if anything."""
        from ampere.sittings.effort import Effort

        if self == Care():
            return None
        effort = Effort()
        if self.quick:
            effort = Effort(burst_s=0.02, warmup_s=0.05, min_rounds=5, max_rounds=8, target=0.03)
        return replace(
            effort,
            target=self.precision or effort.target,
            burst_s=self.burst_s or effort.burst_s,
            accept_busy=self.accept_busy,
            patience_s=self.patience,
        )


@dataclass(frozen=True)
class Sittings:
    """How often the same is measured, and how far apart."""

    sittings: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Measure in so many sittings.", callback=at_most(MANY_SITTINGS)
        ),
    ] = 1
    pause: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Between two sittings.", callback=not_below_zero),
    ] = 180.0
