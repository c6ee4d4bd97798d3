"""Server: rounds of the phones over a real SuperLink; what became of them is written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from ampere.fleet.federation.attendance import Round
from ampere.integrations.flower import EnergyAware
from phones.client import make_model
from phones.world import CHOSEN, DEVICES, digits

app = ServerApp()


@app.main()  # type: ignore[untyped-decorator]
def main(grid: Grid, context: Context) -> None:
    settings = context.run_config
    seed, accuracies = int(settings["seed"]), []

    def judge(number: int, arrays: ArrayRecord) -> MetricRecord:
        accuracies.append(accuracy(arrays, seed))
        return MetricRecord({"accuracy": accuracies[-1]})

    strategy = EnergyAware(CHOSEN, min_available_nodes=len(DEVICES))
    rounds = int(settings["rounds"])
    strategy.start(grid, first_arrays(seed), num_rounds=rounds, evaluate_fn=judge)
    told = {"rounds": [story(each) for each in strategy.history], "accuracies": accuracies}
    Path(str(settings["story"])).write_text(json.dumps(told))


def first_arrays(seed: int) -> ArrayRecord:
    torch.manual_seed(seed)
    return ArrayRecord(make_model().state_dict())


def accuracy(arrays: ArrayRecord, seed: int) -> float:
    """Of images that nobody trains on."""
    model = make_model()
    model.load_state_dict(arrays.to_torch_state_dict())
    right = total = 0
    with torch.no_grad():
        for images, labels in digits(seed).test.in_order(500):
            predicted = model(torch.as_tensor(images, dtype=torch.float32)).argmax(1).numpy()
            right, total = right + int((predicted == labels).sum()), total + len(labels)
    return right / total


def story(done: Round) -> list[dict[str, Any]]:
    """Who trained: each federation numbers nodes anew, but no two quote the same joules."""
    return sorted(
        (
            {
                "energy_j": each.energy_j,
                "steps": each.steps,
                "came_back": each.name in done.answered,
            }
            for each in done.invitations
        ),
        key=lambda row: float(row["energy_j"] or 0.0),
    )
