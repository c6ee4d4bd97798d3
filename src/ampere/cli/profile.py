"""`ampere profile`: learn what this device's layers cost."""

from __future__ import annotations

import math
import shlex
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampere.cli.command import Command
from ampere.cli.options import (
    MANY,
    AsJson,
    Care,
    LikeDevices,
    Machine,
    Method,
    MixDevices,
    Model,
    ProfilePath,
    Sittings,
    TrainingOptions,
    above_zero,
    at_most,
)
from ampere.cli.progress import progress
from ampere.cli.shell import Interrupted, json_text, say
from ampere.core.types import Json
from ampere.errors import Busy

if TYPE_CHECKING:
    from ampere.acquisition.strategy import Strategy
    from ampere.estimators.lending.lenders import Lenders
    from ampere.profiles.profile import Profile


@dataclass(frozen=True)
class StrategyOptions:
    """What is measured, and when it is enough."""

    measurements: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="At most so many, besides two that are repeated at the end; with method additive.",
            callback=at_most(MANY),
        ),
    ] = 40
    max_points: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="At most so many for each kind; with method paper.",
            callback=at_most(MANY),
        ),
    ] = 20
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="It ends when models are known this well. Default: 0.08 (paper: kinds, 0.05).",
        ),
    ] = None
    method: Method = "additive"
    kernel: Annotated[
        str, typer.Option(metavar="NAME", help="The kernel of the paper's processes.")
    ] = "matern52"
    guide: Annotated[
        str, typer.Option(metavar="energy|time", help="What the next point is chosen by.")
    ] = "energy"
    per_layer: Annotated[
        bool,
        typer.Option("--per-layer", help="Also tell layers apart; with method additive."),
    ] = False

    def strategy(self) -> Strategy:
        """For the profiler."""
        from ampere.acquisition.strategy import Strategy

        return Strategy(
            method=self.method,
            max_measurements=self.measurements,
            max_points=self.max_points,
            tolerance=self.tolerance,
            guide=self.guide,
            kernel=self.kernel,
            per_layer=self.per_layer,
        )


@dataclass(frozen=True)
class LimitOptions:
    """What profiling may take."""

    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="End after this time.", callback=above_zero),
    ] = None
    energy_limit: Annotated[
        float | None,
        typer.Option(metavar="JOULES", help="End after these joules.", callback=above_zero),
    ] = None


def profile(
    model: Model,
    path: ProfilePath,
    training: TrainingOptions,
    plan: StrategyOptions = StrategyOptions(),
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL", help="A model that will be asked about; may be given several times."
        ),
    ] = None,
    limits: LimitOptions = LimitOptions(),
    machine: Machine = Machine(),
    any_device: MixDevices = False,
    like_devices: LikeDevices = None,
    care: Care = Care(),
    again: Sittings = Sittings(),
    as_json: AsJson = False,
) -> str:
    """Learn what the layers of a model cost here.

    Small networks are trained and metered, and each measurement is kept in the profile's file at
    once: a profile that was interrupted, or shall be better, goes on with the same command. At the
    end it comes back to two of them; with --sittings 2, once more after a pause.
    """
    from ampere import _api
    from ampere.acquisition.families import remembered

    model = training.named(model)
    strategy = plan.strategy()
    lenders = None if like_devices is None else lenders_of(like_devices, path, by_calls=False)
    try:
        with closing(machine.open(model)) as device, progress() as watch:
            learned = _api.profile(
                model,
                training.input,
                training=training.over(_api.training_for(path)),
                path=path,
                device=device,
                strategy=strategy,
                candidates=[training.named(each) for each in candidate or ()],
                effort=care.effort(),
                time_limit_s=limits.time_limit or math.inf,
                energy_limit_j=limits.energy_limit or math.inf,
                sittings=again.sittings,
                pause_s=again.pause,
                any_device=any_device,
                lenders=lenders,
                watch=watch,
            )
    except KeyboardInterrupt:
        raise Interrupted(kept(path)) from None
    except Busy as error:
        raise Busy(f"{error}; {kept(path)}") from None
    if as_json:
        for note in learned.notes:
            say(f"warning: {note}")
        return json_text(profile_row(learned, path))
    fed = f" --like-devices {shlex.quote(like_devices)}" if like_devices else ""
    known = learned.input_for(model)
    if training.input and (known is None or known != remembered(training.input)):
        fed += f" --input {shlex.quote(training.input)}"
    return (
        f"{learned!r}\n\nsaved in {path}; next:\n  ampere estimate {shlex.quote(model)}{fed}"
        f" --profile {shlex.quote(str(path))} --steps 2000"
    )


def lenders_of(text: str, path: Path, by_calls: bool) -> Lenders:
    """Other devices, that go with the profile as far as there is one yet."""
    from ampere.profiles.borrowing import make_lenders, read_entries
    from ampere.profiles.profile import Profile

    own = Profile.load(path) if path.exists() else None
    return make_lenders(read_entries(text, path), own, by_calls)


def kept(path: Path) -> str:
    """What has become of the work so far."""
    if not path.exists():
        return "nothing was measured yet"
    return f"everything measured so far is in {path}; the same command goes on from there"


def profile_row(profile: Profile, path: Path) -> dict[str, Json]:
    """A profile in a few numbers."""
    kinds = {layer.kind.name for row in profile.measurements for layer in row.layers}
    return {
        "path": str(path),
        "device": profile.device,
        "provenance": profile.provenance.value,
        "measurements": len(profile.measurements),
        "failed": sum(row.failed is not None for row in profile.measurements),
        "kinds": sorted(kinds),
        "profiling_s": profile.profiling_s,
        "profiling_j": profile.profiling_j,
        "method": profile.method,
        "left_out": len(profile.rejected),
        "pays_off_after_models": profile.pays_off_after,
        "warnings": [*profile.notes, *profile.doubts],
    }


PROFILE = Command(profile, "ampere profile zoo:lenet5 --profile lenet5.ampere --time-limit 300")
