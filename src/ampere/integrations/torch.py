"""Joules as a term of a loss, for search by gradient over relaxed widths.

    joules = EnergyTerm(profile.tabulate(model))
    loss = task_loss + 0.1 * joules(widths)    # widths: a tensor, in the order of joules.names
    loss.backward()

Joules are as good as the profile's: where those are modelled, so are these.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ampere.errors import DataError
from ampere.profiles.tables.family_tables import FamilyTables


class EnergyTerm(nn.Module):
    """Estimated joules of training a model at relaxed widths, with their gradient.

    At whole sizes the value is `estimate_many` and the gradient `energy_gradient`; between them
    both follow one smooth surface. It has no parameters, and no second derivative.

    Args:
        tables: What the family costs (`profile.tabulate`).
        steps: Of the job; joules are those of all of them.
    """

    def __init__(self, tables: FamilyTables, steps: int = 1) -> None:
        super().__init__()
        if steps < 1:
            raise DataError(f"{steps} steps is not a training job: use 1 or more")
        self.tables, self.steps = tables, steps

    @property
    def names(self) -> tuple[str, ...]:
        """Which widths, in order."""
        return self.tables.names

    @property
    def largest(self) -> tuple[int, ...]:
        """Up to where each of them goes; the least is one of `tables.steps`."""
        return self.tables.largest

    def forward(self, widths: Tensor) -> Tensor:
        """Joules of one candidate (k,), or of each of several (m, k)."""
        rows = widths[None] if widths.dim() == 1 else widths
        joules: Tensor = _Joules.apply(rows, self.tables)  # type: ignore[no-untyped-call]
        joules = self.steps * joules
        return joules[0] if widths.dim() == 1 else joules


class _Joules(torch.autograd.Function):
    """What tables say, outside of torch's graph."""

    @staticmethod
    def forward(ctx: Any, widths: Tensor, tables: FamilyTables) -> Tensor:
        joules, slopes = tables.relaxed(widths.detach().cpu().double().numpy())
        ctx.save_for_backward(torch.from_numpy(slopes).to(widths))
        return torch.from_numpy(joules).to(widths)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (slopes,) = ctx.saved_tensors
        return gradient[:, None] * slopes, None
