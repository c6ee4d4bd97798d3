"""Quoting: what a round of training takes of this device, from its own profile and battery."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from ampere.core.boundary.example_inputs import Input
from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.errors import DataError
from ampere.estimators.intervals import bound
from ampere.fleet.federation.quotes import Quote
from ampere.fleet.member import Battery
from ampere.frameworks.readers import Model
from ampere.profiles.estimate import Estimate
from ampere.profiles.jobs.job import Job
from ampere.profiles.profile import Profile

CONFIDENCE = 0.9  # of the bounds in a quote


def quote_round(
    profile: Profile | str | os.PathLike[str] | None,
    model: Model | Sequence[Layer],
    input: Input | None = None,
    *,
    steps: int | None = None,
    job: Job | None = None,
    batch_size: int | None = None,
    training: Training | None = None,
    battery: Battery | None = None,
    plugged_in: bool = False,
    fixed_j: float = 0.0,
    loss: float | None = None,
    spent_j: float | None = None,
) -> Quote:
    """What a round takes: the median and what 90 % of such rounds stay under.

    Args:
        profile: Of this device, or its file; without one, or one that does not know all layers,
            the quote has no joules, and the client trains only while it is plugged in.
        model: What is trained, as for `Profile.estimate`.
        input: What it is fed.
        steps: Of a round; or say a `job`.
        job: The same with loading and validation.
        batch_size: As the round trains; the profile's unless given.
        training: Whatever else differs from how the profile was made.
        battery: What there is, and what must stay in it; None on the mains.
        plugged_in: Whether it is being charged.
        fixed_j: Joules of a round beside its steps: radio, starting. They come on top.
        loss: Root mean square of the samples' losses in the last round, for `utility`.
        spent_j: What the last round took, if it was metered.

    Raises:
        AmpereError: The model or the profile cannot be read.
    """
    if (steps is None) == (job is None):
        raise DataError("a round is as long as its steps or its job: give one of them")
    if not isinstance(profile, Profile) and profile is not None:
        profile = Profile.load(profile, keep_fit=True)
    known = Training() if profile is None else profile.training
    training = (training or known).but(batch_size=batch_size)
    job = job or Job(steps=steps)
    count = job.count(training.batch_size)
    plain = Quote(
        samples=count.batches * training.batch_size,
        steps=count.steps,
        battery=battery,
        plugged_in=plugged_in,
        loss=loss,
        spent_j=spent_j,
    )
    if profile is None:
        return plain
    estimate = profile.estimate(model, input, training=training, job=job)
    return plain if estimate.uncovered else _priced(plain, estimate, fixed_j)


def _priced(plain: Quote, estimate: Estimate, fixed_j: float) -> Quote:
    method, time_s, std = estimate.method, estimate.time_s, estimate.time_s_std
    bound_j = bound(estimate.energy_j, estimate.energy_j_std, CONFIDENCE, method)
    known = time_s is not None and std is not None
    return replace(
        plain,
        energy_j=fixed_j + estimate.energy_j,
        energy_j_bound=fixed_j + bound_j,
        time_s=time_s if known else None,
        time_s_bound=bound(time_s, std, CONFIDENCE, method) if known else None,  # type: ignore[arg-type]
        fixed_j=fixed_j,
        provenance=estimate.provenance,
    )
