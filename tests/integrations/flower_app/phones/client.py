"""Phones that train LeNet-5 on a part of the digits; some of them misbehave, as their node says.

profile="oppo.ampere" battery=50.0 part=0 parts=3 behaviour="garbage" pids="folder"
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ampere.datasets.digits import open_digits
from ampere.fleet.member import Battery
from ampere.integrations.flower import QUOTE, quote, steps_now
from ampere.zoo.lenet5 import LeNet5

app = ClientApp()
STEPS, BATCH = 10, 10
torch.set_num_threads(1)


def spend(context: Context, energy_j: float) -> None:
    """What a battery has is kept between messages: each starts a process of its own."""
    left_j = battery_j(context)
    if left_j is not None:
        context.state["battery"] = ConfigRecord({"left_j": left_j - energy_j})


def battery_j(context: Context) -> float | None:
    if "battery" in context.state.config_records:
        return float(context.state.config_records["battery"]["left_j"])  # type: ignore[arg-type]
    full_j = context.node_config.get("battery")
    return None if full_j is None else float(full_j)


def own_quote(context: Context, spent_j: float | None = None) -> ConfigRecord:
    left_j, profile = battery_j(context), context.node_config.get("profile")
    battery = None if left_j is None else Battery(left_j, 1e6, reserve_j=0.0)
    said = quote(
        None if profile is None else str(profile),
        "zoo:lenet5",
        steps=STEPS,
        batch_size=BATCH,
        battery=battery,
        spent_j=spent_j,
    )
    if context.node_config.get("behaviour") == "liar":
        said["energy_j"] = math.nan
    return said


@app.query()
def told(message: Message, context: Context) -> Message:
    return Message(RecordDict({QUOTE: own_quote(context)}), reply_to=message)


@app.train()
def trained(message: Message, context: Context) -> Message:
    note_and_wait(context)
    said = own_quote(context)
    steps = STEPS if context.node_config.get("behaviour") == "liar" else steps_now(message, said)
    model = LeNet5([6, 16], [120, 84])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    samples = len(part := own_part(context))
    loss = train(model, part, steps)
    spent_j = float(said.get("energy_j", 0.0)) * steps / STEPS  # type: ignore[arg-type]
    spend(context, spent_j)
    metrics: dict[str, float] = {"num-examples": samples, "loss": loss, "steps": steps}
    if context.node_config.get("behaviour") == "garbage":
        metrics["num-examples"] = math.nan
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord(metrics),
        QUOTE: own_quote(context, spent_j),
    }
    return Message(RecordDict(content), reply_to=message)  # type: ignore[arg-type]


def note_and_wait(context: Context) -> None:
    """A test that wants to end this node in the middle of a round knows now that it trains."""
    folder = context.node_config.get("pids")
    if folder is not None:
        Path(str(folder), str(os.getpid())).touch()
        if context.node_config.get("behaviour") == "slow":
            time.sleep(60)


def own_part(context: Context) -> np.ndarray:
    part, parts = int(context.node_config["part"]), int(context.node_config["parts"])
    return np.arange(part, 1000, parts)


def train(model: torch.nn.Module, part: np.ndarray, steps: int) -> float:
    samples = open_digits((1, 28, 28)).train.take(part)
    batches = samples.batches(BATCH, np.random.default_rng(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        images, labels = next(batches)
        optimizer.zero_grad()
        predicted = model(torch.as_tensor(images, dtype=torch.float32))
        loss = torch.nn.functional.cross_entropy(predicted, torch.as_tensor(labels))
        loss.backward()
        optimizer.step()
    return float(loss)
