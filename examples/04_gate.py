"""A training loop under an energy budget: know before, watch during, stop in time, go on later.

    python examples/04_gate.py          # about twenty seconds
    ampere watch build/gated            # the same run in a browser

A small network is trained twice on made-up digits. The first run has too small a budget: it stops
before it is exceeded, and saves. The second one goes on from there with a larger budget; what was
spent stays spent.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ampere

RUN, CHECKPOINT = Path("build/gated"), Path("build/gated.pt")
EPOCHS, SAMPLES = 6, 2048
BUDGETS = ("8 J", "200 J")


def main() -> None:
    torch.manual_seed(0)
    shutil.rmtree(RUN, ignore_errors=True)
    CHECKPOINT.unlink(missing_ok=True)
    for budget in BUDGETS:
        print(f"\nA budget of {budget}:")
        gate = train(budget)
        assert gate.status is not None
        print(
            f"{gate.spent_j:.1f} J spent after {gate.step_count} steps: {gate.status.verdict.value}"
        )
        if not gate.should_stop:
            break


def train(budget: str) -> ampere.Gate:
    """Train to the end, or to that of the budget; goes on where a checkpoint is."""
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 11 * 11, 10)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    digits = TensorDataset(torch.randn(SAMPLES, 1, 28, 28), torch.randint(10, (SAMPLES,)))
    loader = DataLoader(digits, batch_size=32, shuffle=True)

    gate = ampere.gate(steps=EPOCHS * len(loader), budget=budget, run=RUN, name="digits")
    if CHECKPOINT.exists():
        saved = torch.load(CHECKPOINT, weights_only=True)
        model.load_state_dict(saved["model"])
        gate.load_state_dict(saved["gate"])
    with gate:
        while gate.step_count < EPOCHS * len(loader) and not gate.should_stop:
            for images, labels in gate.steps(loader):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(images), labels)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            with gate.checkpoint():
                state = {"model": model.state_dict(), "gate": gate.state_dict()}
                torch.save(state, CHECKPOINT)
    return gate


if __name__ == "__main__":
    main()
