"""Rounds of the phones; what became of them is written down."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from ampere.integrations.flower import EnergyAware
from ampere.zoo.lenet5 import LeNet5

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    settings = context.run_config
    torch.manual_seed(0)
    strategy = EnergyAware(
        clients=int(settings["clients"]),
        patience=1,
        min_available_nodes=int(settings["nodes"]),
        reply_s=float(settings["reply-s"]),
        ask_s=60.0,
    )
    arrays = ArrayRecord(LeNet5([6, 16], [120, 84]).state_dict())
    result = strategy.start(grid, arrays, num_rounds=int(settings["rounds"]))
    story = {
        "rounds": [asdict(each) for each in strategy.history],
        "dropped": [list(each.dropped) for each in strategy.history],
        "spent_j": strategy.book.spent_j,
        "metrics": {k: dict(v) for k, v in result.train_metrics_clientapp.items()},
        "finite": all(bool((a.numpy() == a.numpy()).all()) for a in result.arrays.values()),
    }
    Path(str(settings["story"])).write_text(json.dumps(story))
