"""Joules as a term of a loss: the tables' values, and gradients that finite differences confirm."""

from __future__ import annotations

import math

import pytest
import torch

from ampere.errors import DataError
from ampere.integrations.torch import EnergyTerm
from ampere.profiles.tables.family_tables import FamilyTables
from integrations.cases import known_profile


@pytest.fixture(scope="module")
def tables() -> FamilyTables:
    return known_profile().tabulate("zoo:cnn5")


def between(tables: FamilyTables, *shares: float) -> torch.Tensor:
    """Candidates at shares of the largest widths."""
    rows = [[1 + share * (top - 1) for top in tables.largest] for share in shares]
    return torch.tensor(rows, dtype=torch.float64, requires_grad=True)


def test_at_sizes_it_is_the_estimate_and_its_gradient(tables: FamilyTables) -> None:
    sizes = [[3, 8, 20, 5], [1, 1, 1, 1], list(tables.largest)]
    widths = torch.tensor(sizes, dtype=torch.float64, requires_grad=True)
    joules = EnergyTerm(tables)(widths)
    joules.sum().backward()
    assert joules.tolist() == pytest.approx(tables.estimate_many(sizes).tolist())
    assert widths.grad is not None
    for got, said in zip(widths.grad.tolist(), tables.energy_gradient(sizes), strict=True):
        assert got == pytest.approx(said.tolist())


def test_gradients_agree_with_finite_differences(tables: FamilyTables) -> None:
    term = EnergyTerm(tables, steps=100)
    # Joules are small numbers: a fast check, in units of a millijoule.
    widths = between(tables, 0.31, 0.5, 0.77)
    assert torch.autograd.gradcheck(lambda x: 1e3 * term(x), (widths,), eps=1e-5, rtol=1e-4)


def test_one_candidate_is_a_number(tables: FamilyTables) -> None:
    row = between(tables, 0.4).detach()[0].float().requires_grad_()
    joules = EnergyTerm(tables, steps=10)(row)
    joules.backward()
    assert joules.shape == () and joules.dtype == torch.float32
    assert row.grad is not None and row.grad.shape == row.shape
    many = EnergyTerm(tables)(between(tables, 0.4))
    assert joules.item() == pytest.approx(10 * many.item(), rel=1e-5)


def test_a_search_by_gradient_meets_its_target(tables: FamilyTables) -> None:
    """Logits of widths, pulled to a third of the largest member's joules."""
    term = EnergyTerm(tables)
    tops = torch.tensor(term.largest, dtype=torch.float64)
    aim = term(tops).item() / 3
    logits = torch.full((len(tops),), 2.0, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        joules = term(1 + (tops - 1) * torch.sigmoid(logits))
        ((joules / aim - 1) ** 2).backward()
        optimizer.step()
    assert joules.item() == pytest.approx(aim, rel=0.01)


@pytest.mark.parametrize("bad", [0.5, -3.0, 1000.0, math.nan])
def test_widths_outside_the_family_are_refused(tables: FamilyTables, bad: float) -> None:
    with pytest.raises(DataError, match=r"conv1.out goes from 1 to \d+ in this family"):
        EnergyTerm(tables)(torch.tensor([bad, 1.0, 1.0, 1.0]))


def test_widths_of_another_shape_are_refused(tables: FamilyTables) -> None:
    with pytest.raises(DataError, match="rows of 4 numbers"):
        EnergyTerm(tables)(torch.ones(3))


def test_a_job_has_a_step(tables: FamilyTables) -> None:
    with pytest.raises(DataError, match="not a training job"):
        EnergyTerm(tables, steps=0)
