"""Options of a whole job: what a user pays beside the steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampere.cli.options import STEPS, Job, above_zero, at_most

if TYPE_CHECKING:
    from ampere.profiles.jobs import job as jobs

RANKS = 10**6


@dataclass(frozen=True)
class Around:
    """What goes on around the steps of a job, and how batches make steps."""

    accumulate: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Batches of each update of the weights.",
            callback=at_most(STEPS),
        ),
    ] = 1
    validation_samples: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Samples of a validation.", callback=at_most(STEPS)),
    ] = None
    validations: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="How often it is validated. Default: after each epoch.",
            callback=at_most(STEPS),
        ),
    ] = None
    data_s_per_batch: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="How long training waits for the data of a batch.",
            callback=above_zero,
        ),
    ] = None
    data_j_per_batch: Annotated[
        float | None,
        typer.Option(
            metavar="JOULES",
            help="What that takes. Default: between idle and busy watts.",
            callback=above_zero,
        ),
    ] = None
    loader_measured: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Both instead, from `ampere measure --loader ... --json`."
        ),
    ] = None
    ranks: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Processes that train together, each on a device like this.",
            callback=at_most(RANKS),
        ),
    ] = 1

    def __post_init__(self) -> None:
        if self.validations is not None and self.validation_samples is None:
            raise typer.BadParameter("--validations needs --validation-samples")
        if self.data_j_per_batch is not None and self.data_s_per_batch is None:
            raise typer.BadParameter("--data-j-per-batch goes with --data-s-per-batch")
        if self.data_s_per_batch is not None and self.loader_measured is not None:
            raise typer.BadParameter("give either --data-s-per-batch or --loader-measured")

    def job(self, length: Job) -> jobs.Job:
        """The whole job: one step if nothing was said of its length."""
        from ampere.profiles.jobs import job as jobs

        validated = self.validation_samples is not None
        if validated and length.epochs is None and self.validations is None:
            raise typer.BadParameter(
                "--validation-samples without --epochs needs --validations: how often?"
            )
        loading = None
        if self.data_s_per_batch is not None:
            loading = jobs.Loading(self.data_s_per_batch, self.data_j_per_batch)
        elif self.loader_measured is not None:
            loading = jobs.read_loading(self.loader_measured)
        return jobs.Job(
            steps=length.steps if length.epochs is not None else length.steps or 1,
            epochs=length.epochs,
            samples=length.samples,
            accumulate=self.accumulate,
            validation_samples=self.validation_samples,
            validations=self.validations,
            loading=loading,
            ranks=self.ranks,
        )
