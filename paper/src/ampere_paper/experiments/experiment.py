"""Experiment: a figure or table of the paper, what it claims, and how it is made here.

Plain data in the middle: `measure` makes them, and figures, tables and sentences are made of them
alone, as often as wanted, without measuring.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from ampere.core.page import Page
from ampere.core.types import Json
from ampere.reports.parts import Part
from ampere_paper.lab.benches import Bench
from ampere_paper.lab.laboratory import Laboratory
from ampere_paper.lab.plans import Sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Experiment(ABC):
    """What a run asks of an experiment; those that need no trials and no parts say nothing of them.

    Attributes:
        name: As it is asked for: `fig8`.
        title: What it shows.
        claim: What the paper says, and where.
        figures: Names that figures may have.
        families: Of which it needs trials.
        fitting_s: Seconds of further fits for each trial, roughly.
        recorded: Whether it looks at recorded energies, where there are some.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    claim: ClassVar[str]
    figures: ClassVar[tuple[str, ...]]
    families: ClassVar[tuple[str, ...]] = ()
    fitting_s: ClassVar[float] = 0.0
    recorded: ClassVar[bool] = False

    @abstractmethod
    def measure(self, lab: Laboratory) -> Json:
        """Make the data.

        Raises:
            NotCovered: None of the benches can tell.
        """

    @abstractmethod
    def draw(self, data: Json) -> Mapping[str, Figure]:
        """The figures, by the name of their files; within `style.styled`."""

    @abstractmethod
    def table(self, data: Json) -> Page:
        """The numbers."""

    @abstractmethod
    def sentence(self, data: Json) -> str:
        """What was found, and whether the claim holds here."""

    def parts(self, data: Json) -> tuple[Part, ...]:
        """What a page shows besides, in a browser."""
        return ()

    def needs_trials_on(self, bench: Bench) -> bool:
        """Whether it needs trials of its families on this bench."""
        return True

    def networks(self, sizes: Sizes) -> int:
        """How many networks it measures besides, on a bench of these sizes."""
        return 0
