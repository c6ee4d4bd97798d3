"""A survey of a device: measure what teaches most about calls, and write it down."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from ampere.acquisition import catalogue
from ampere.acquisition.loop import Comebacks, open_journal, run_profiler
from ampere.acquisition.progress import Watch, unwatched
from ampere.acquisition.surveyor import Surveyor
from ampere.core.boundary.example_inputs import Input
from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.devices.base import Device
from ampere.devices.registry import device_or_local, opening
from ampere.errors import MeasurementFailed
from ampere.estimators.lending.lenders import Lenders
from ampere.estimators.survey import calls_of
from ampere.frameworks.models import read
from ampere.frameworks.readers import Model
from ampere.profiles.profile import Profile
from ampere.sittings.effort import Effort
from ampere.sittings.limit import Limit

TOGETHER = 6  # networks of a sitting


def survey(
    path: str | Path,
    *,
    device: Device | None = None,
    like: Sequence[Model] = (),
    input: Input | None = None,
    training: Training | None = None,
    tolerance: float = 0.03,
    effort: Effort | None = None,
    time_limit_s: float = 600.0,
    energy_limit_j: float = float("inf"),
    sittings: int = 1,
    pause_s: float = 180.0,
    any_device: bool = False,
    seed: int = 0,
    without: Collection[str] = (),
    lenders: Lenders | None = None,
    watch: Watch = unwatched,
) -> Profile:
    """Profile a device for any model; the file at `path` grows as it goes, and may be there.

    Random networks are measured so that the expected error over architectures `like` these shrinks
    most: genres of the catalogue (vision, mobile, language, recurrent) or models; all of the
    catalogue if nothing is said, but for families that it shall do `without`. It ends when that
    error is `tolerance` in the middle, or with a limit. `lenders` are surveys of other devices that
    this one may be like.
    """
    training = training or Training()
    limit = Limit(time_limit_s)
    with device_or_local(device) as device:
        with opening(device):
            asked_about = _asked_about(like, input, training, seed, without)
        guide = "energy" if device.provenance.immediate else "time"
        journal, notes = open_journal(
            path, device, any_device=any_device, effort=effort, limit=limit
        )
        with journal:
            surveyor = Surveyor(
                asked_about,
                journal.measurements,
                tolerance=tolerance,
                guide=guide,
                effort=effort,
                training=training,
                seed=seed,
                lenders=lenders,
            )
            run_profiler(
                surveyor,
                device,
                journal,
                effort=effort,
                limit=limit,
                energy_limit_j=energy_limit_j,
                together=TOGETHER,
                comebacks=Comebacks(sittings, pause_s),
                watch=watch,
            )
            measurements = tuple(journal.measurements)
    if not measurements:
        raise MeasurementFailed(
            f"the limit was over before a network was measured (it took {limit.spent_s:.0f} s to"
            " start and to calibrate): the same command goes on from there, give it more"
        )
    return Profile(measurements, journal.header, notes=tuple(notes)).borrowing(lenders)


def _asked_about(
    like: Sequence[Model],
    input: Input | None,
    training: Training,
    seed: int,
    without: Collection[str],
) -> list[Sequence[Layer]]:
    """What a survey shall be good at: models that are given, and genres of the catalogue."""
    genres = [each for each in like if isinstance(each, str) and ":" not in each]
    models = [each for each in like if each not in genres]
    asked: list[Sequence[Layer]] = [calls_of(read(each, input, training)) for each in models]
    if genres or not models:
        asked += catalogue.draw(genres, seed, without)
    return asked
