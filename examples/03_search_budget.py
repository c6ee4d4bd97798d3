"""Search for the best small CNN on digits with Optuna, where no trial may take more than 2 joules.

Takes a minute on two cores if nothing else runs on them; needs `pip install
'ampere-energy[torch,prune,optuna]'`. Joules are those of the meter that `ampere meters` takes:
without a counter they are modelled from CPU time. Delete digits.ampere to profile anew.
"""

from __future__ import annotations

import sys

import optuna
import torch
from sklearn.datasets import load_digits
from torch import nn

import ampere
from ampere.integrations.optuna import EnergyBudget

PATH, LIMIT = "digits.ampere", "2 J"
SHAPE, BATCH_SIZE, EPOCHS, TRIALS = (1, 8, 8), 32, 4, 20


def make_model(first: int, second: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, first, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(first, second, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(second * 16, 10),
    )


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, steps: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        at = torch.arange(step * BATCH_SIZE, (step + 1) * BATCH_SIZE) % len(images)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[at]), labels[at])
        torch.autograd.backward(loss)
        optimizer.step()


def main() -> None:
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    training = ampere.Training(batch_size=BATCH_SIZE, optimizer="adam")
    print("1. Profile the largest model's family.")
    with ampere.progress() as watch:
        profile = ampere.profile(
            make_model(32, 64),
            SHAPE,
            path=PATH,
            training=training,
            strategy=ampere.Strategy(max_measurements=12),
            watch=watch,
        )
    budget = EnergyBudget(profile, energy=LIMIT, confidence=0.9)
    steps = EPOCHS * 1200 // BATCH_SIZE

    def objective(trial: optuna.Trial) -> tuple[float, float]:
        model = make_model(trial.suggest_int("first", 1, 32), trial.suggest_int("second", 1, 64))
        estimate = budget.check(trial, model, SHAPE, steps=steps)  # refused ones end here
        train(model, images[:1200], labels[:1200], steps)
        right = model(images[1200:]).argmax(1) == labels[1200:]
        return float(right.float().mean()), estimate.energy_j

    print(f"\n2. Search: {TRIALS} trials, those that would take more than {LIMIT} are not run.")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        directions=["maximize", "minimize"], sampler=optuna.samplers.TPESampler(seed=0)
    )
    study.optimize(objective, n_trials=TRIALS)
    for trial in study.trials:
        widths = f"{trial.params['first']:3} and {trial.params['second']:3} channels"
        said = trial.user_attrs.get("ampere_refused")
        print(f"{widths}: " + (f"refused, {said}" if said else f"{trial.values[0]:.1%} right"))
    print("\nThe best for their joules, as estimated:")
    for trial in sorted(study.best_trials, key=lambda trial: trial.values[1]):
        print(f"{trial.values[0]:.1%} right for {trial.values[1]:.2f} J: {trial.params}")
    print(f"\nJoules are {profile.provenance.origin}.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(f"interrupted: what was profiled so far is in {PATH}; run it again to go on")
    except ampere.AmpereError as error:
        sys.exit(f"error: {error}")
