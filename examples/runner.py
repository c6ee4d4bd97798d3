"""Measures the networks that `ampere ask` wants measured, with PyTorch alone: no ampere needed.

    python runner.py todo.jsonl > done.jsonl

Copy it to the device and put your own meter into `joules`. It trains classifiers with SGD; what
needs more (other losses and optimisers, partly frozen modules) is told as failed.
"""

# mypy: ignore-errors
import functools
import json
import operator
import sys
import time

import torch
from torch import nn

PROVENANCE = "modelled"  # counter, sensor, battery or external, if a meter says the joules
KNOWN = {"op", "arguments", "inputs", "options", "frozen", "again"}


def joules():
    return 2.7 * time.perf_counter() + 0.9 * time.process_time()  # your meter's total goes here


def pick(tree, values=()):  # an argument as it is, or what an earlier call made
    if isinstance(tree, list):
        return tuple(pick(part, values) for part in tree)
    if not isinstance(tree, dict):
        return tree
    ((tag, what),) = tree.items()
    if tag == "value":
        k, *path = what if isinstance(what, list) else [what]
        return functools.reduce(operator.getitem, path, values[k])
    if tag == "slice":
        return slice(*pick(what, values))
    if tag == "dtype":
        return getattr(torch, what)
    raise NotImplementedError(f"this runner does not know {tree}")


def sample(shape, dtype, grad, below=2):
    if "float" in dtype:
        return torch.randn(shape).requires_grad_(grad)
    return torch.randint(below, shape, dtype=getattr(torch, dtype))


class Network(nn.Module):
    """Calls one after the other; op is Conv2d, parameter, torch.flatten or torch.Tensor.view."""

    def __init__(self, calls, inputs, result, **_):
        super().__init__()
        self.calls, self.result = list(enumerate(calls, len(inputs))), result
        self.held, self.bare = nn.ModuleDict(), nn.ParameterDict()
        for k, call in self.calls:
            if set(call) - KNOWN or call["op"] == "buffer":
                raise NotImplementedError(f"this runner does not know {call['op']}: {set(call)}")
            given = {name: pick(value) for name, value in call.get("arguments", {}).items()}
            trains = not call.get("frozen", False)
            if call["op"] == "parameter":
                self.bare[str(k)] = nn.Parameter(torch.randn(given["shape"]) / 50, trains)
            elif "." not in call["op"] and "again" not in call:
                self.held[str(k)] = getattr(nn, call["op"])(**given).requires_grad_(trains)

    def forward(self, *values):
        """What the result names, of the values that the inputs and all calls make."""
        for k, call in self.calls:
            _, _, name = call["op"].partition(".")
            given = {key: pick(value, values) for key, value in call.get("options", {}).items()}
            if call["op"] == "parameter":
                made = self.bare[str(k)]
            elif name:
                made = operator.attrgetter(name)(torch)(*pick(call["inputs"], values), **given)
            else:
                module = self.held[str(call.get("again", k))]
                made = module(*pick(call["inputs"], values), **given)
            values += (made,)
        return pick(self.result, values)


def measure(network, steps=50):
    if network["optimizer"] != "sgd" or network["loss"] not in ("auto", "cross_entropy"):
        raise NotImplementedError(f"{network['optimizer']} with loss {network['loss']}")
    model = Network(**network).train()
    data = [sample(**spec) for spec in network["inputs"]]
    *rest, classes = getattr(model(*data), "shape", [0])
    if len(rest) not in (1, 2) or classes == 1 or "unread" in network:
        raise NotImplementedError("this runner does only classifiers")
    labels = torch.randint(classes, (torch.Size(rest).numel(),))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for k in range(-10, steps):  # ten steps to warm up
        if k <= 0:
            begin_j, begin_s = joules(), time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(*data).reshape(-1, classes), labels).backward()
        optimizer.step()
    return (joules() - begin_j) / steps, (time.perf_counter() - begin_s) / steps


def main():
    with open(sys.argv[1]) as lines:
        for line in lines:
            row = json.loads(line)
            row["provenance"] = PROVENANCE
            try:
                energy_j, time_s = measure(row.pop("network"))
                row.update(energy_j_per_step=energy_j, time_s_per_step=time_s)
            except RuntimeError as error:  # no memory, or not known here: another one is asked for
                row["failed"] = str(error)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
