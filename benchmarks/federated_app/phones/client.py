"""Client: trains its part of the digits while its battery lasts.

client=3 seed=0 profiles="folder" quotes="profile"      # or flops, or none
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ampere.estimators.baselines.flops import fit_flops
from ampere.estimators.intervals import bound
from ampere.fleet.federation.quotes import Quote
from ampere.fleet.federation.quoting import quote_round
from ampere.fleet.member import Battery
from ampere.integrations.flower import QUOTE, steps_now
from ampere.profiles.estimate import estimate
from ampere.profiles.profile import Profile
from ampere.pytorch.models import read
from ampere.zoo.lenet5 import LeNet5
from phones.world import BATCH, STANDS_FOR, STEPS, Phone, digits, parts, phones

app = ClientApp()
torch.set_num_threads(1)


def make_model() -> LeNet5:
    return LeNet5([6, 16], [120, 84])


class Body:
    """A phone at one moment; what it has is kept in the node's context between messages."""

    def __init__(self, context: Context, number: int) -> None:
        settings = context.node_config
        self.phone: Phone = phones(int(settings["seed"]))[int(settings["client"])]
        self.number, self._context = number, context
        if "body" not in context.state.config_records:
            begin = {"battery_j": self.phone.charge_j, "round": 1, "spent_j": 0.0, "wasted_j": 0.0}
            context.state["body"] = ConfigRecord(begin)
        self.state = context.state.config_records["body"]
        while int(self.state["round"]) < number:
            self.state["battery_j"] = self.phone.after(self.battery_j, int(self.state["round"]))
            self.state["round"] = int(self.state["round"]) + 1

    @property
    def battery_j(self) -> float:
        """What is in it."""
        return float(self.state["battery_j"])

    @property
    def usable_j(self) -> float:
        """What it really may spend now."""
        if self.phone.capacity_j is None or self.phone.is_plugged(self.number):
            return float("inf")
        return max(0.0, self.battery_j - self.phone.reserve_j)

    def spend(self, energy_j: float) -> bool:
        """Whether it lasted; a phone ends what would touch its reserve, and the joules are gone."""
        lasted, spent_j = energy_j <= self.usable_j, min(energy_j, self.usable_j)
        if self.usable_j < float("inf"):
            self.state["battery_j"] = self.battery_j - spent_j
        name = "spent_j" if lasted else "wasted_j"
        self.state[name] = float(self.state[name]) + spent_j
        return lasted

    def quote(self, spent_j: float | None = None) -> ConfigRecord:
        """What a round takes, by its profile or by FLOPs."""
        phone, settings = self.phone, self._context.node_config
        capacity_j = phone.capacity_j
        battery = (
            None if capacity_j is None else Battery(self.battery_j, capacity_j, phone.reserve_j)
        )
        path = f"{settings['profiles']}/{phone.device}.ampere"
        make = by_flops if settings["quotes"] == "flops" else by_profile
        priced = make(path, phone.radio_j)
        said = replace(
            priced, battery=battery, plugged_in=phone.is_plugged(self.number), spent_j=spent_j
        )
        return ConfigRecord(said.to_json())


@cache
def by_profile(path: str, radio_j: float) -> Quote:
    return quote_round(path, "zoo:lenet5", steps=STEPS, fixed_j=radio_j)


@cache
def by_flops(path: str, radio_j: float) -> Quote:
    """The same from the profile's rows by FLOPs alone."""
    profile = Profile.load(Path(path))
    layers = read("zoo:lenet5", None, profile.training)
    told = estimate(layers, fit_flops(profile.measurements), steps=STEPS)
    bound_j = bound(told.energy_j, told.energy_j_std, 0.9, told.method)
    plain = quote_round(None, "zoo:lenet5", steps=STEPS, batch_size=BATCH)
    return replace(
        plain,
        energy_j=radio_j + told.energy_j,
        energy_j_bound=radio_j + bound_j,
        fixed_j=radio_j,
    )


@app.query()  # type: ignore[untyped-decorator]
def told(message: Message, context: Context) -> Message:
    body = Body(context, int(message.content["config"]["server-round"]))
    return Message(RecordDict({QUOTE: body.quote()}), reply_to=message)


@app.train()  # type: ignore[untyped-decorator]
def trained(message: Message, context: Context) -> Message:
    number, quotes = int(message.content["config"]["server-round"]), context.node_config["quotes"]
    body = Body(context, number)
    steps = STEPS if quotes == "none" else steps_now(message, body.quote())
    energy_j = body.phone.training_j(number, steps)
    if not body.spend(energy_j):
        raise RuntimeError(f"client {body.phone.number} fell to its reserve")
    model = make_model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    samples = parts(body.phone.seed)[body.phone.number]
    train(model, body.phone, number, max(1, steps // STANDS_FOR))
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": len(samples)}),
    }
    if quotes != "none":
        content[QUOTE] = body.quote(energy_j)
    return Message(RecordDict(content), reply_to=message)


def train(model: LeNet5, phone: Phone, number: int, steps: int) -> None:
    own = digits(phone.seed).train.take(parts(phone.seed)[phone.number])
    batches = own.batches(BATCH, np.random.default_rng([phone.seed, phone.number, number]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        images, labels = next(batches)
        optimizer.zero_grad()
        predicted = model(torch.as_tensor(images, dtype=torch.float32))
        loss = torch.nn.functional.cross_entropy(predicted, torch.as_tensor(labels))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
