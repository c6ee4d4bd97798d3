"""Measures the networks that `ampere ask` wants measured, with PyTorch alone: no ampere needed.

    python runner.py todo.jsonl > done.jsonl

Copy it to the device and put your own meter into `joules`. It trains classifiers by the optimisers
that ampere knows; what else it does not know of a description makes a row that failed, never wrong
joules.
"""

# mypy: ignore-errors
# ruff: noqa: D101, D102, SIM115
import functools
import json
import operator
import re
import sys
import time

import torch
from torch import nn

PROVENANCE = "modelled"  # counter, sensor, battery or external, if a meter says the joules

OPTIMIZERS = {  # as ampere's own worker has them
    "sgd": functools.partial(torch.optim.SGD, lr=1e-3),
    "momentum": functools.partial(torch.optim.SGD, lr=1e-3, momentum=0.9),
    "adam": functools.partial(torch.optim.Adam, lr=1e-4),
    "adamw": functools.partial(torch.optim.AdamW, lr=1e-4),
    "rmsprop": functools.partial(torch.optim.RMSprop, lr=1e-4),
}

# Operations on tensors: a line of todo.jsonl calls these, and nothing else that torch has.
LISTED = {
    id(call) for calls in torch.overrides.get_overridable_functions().values() for call in calls
}
LISTED |= {
    id(getattr(torch, name, 0)) for name in dir(torch._C._VariableFunctions) if name != "from_file"
}
LISTED |= {
    id(getattr(torch.Tensor, f"new_{how}")) for how in ("zeros", "ones", "full", "empty", "tensor")
}


def joules():
    return 2.7 * time.perf_counter() + 0.9 * time.process_time()  # your meter's total goes here


def pick(tree, values=()):  # an argument as it is, or what an earlier call made
    if isinstance(tree, list):
        return tuple(pick(part, values) for part in tree)
    tag, what = next(iter(tree.items())) if isinstance(tree, dict) else ("plain", tree)
    if tag == "value":
        k, *path = what if isinstance(what, list) else [what]
        return functools.reduce(operator.getitem, path, values[k])
    makers = {"plain": lambda: what, "dtype": lambda: getattr(torch, what)}
    return slice(*pick(what, values)) if tag == "slice" else makers[tag]()


def function(name):  # flatten, nn.functional.relu, Tensor.view, Tensor.T.__get__
    attribute = re.fullmatch(r"Tensor\.([A-Za-z]\w*)\.__get__", name)
    if attribute:
        return operator.attrgetter(attribute.group(1))
    found = operator.attrgetter(name)(torch)
    assert id(found) in LISTED, f"torch.{name} is no operation on tensors"
    return found


def sample(shape, dtype, grad, below=2):
    if dtype == "float32":
        return torch.randn(shape).requires_grad_(grad)
    return torch.randint(below, shape, dtype=getattr(torch, dtype))


class Network(nn.Module):
    def __init__(self, optimizer, loss, inputs, calls, result):
        super().__init__()
        assert optimizer in OPTIMIZERS and loss in ("auto", "cross_entropy"), (optimizer, loss)
        self.calls, self.result, self.held = calls, result, nn.ModuleDict()
        for k, call in enumerate(calls, len(inputs)):  # values: the inputs, then what calls make
            assert set(call) <= {"op", "arguments", "inputs", "options", "again"}, sorted(call)
            if "." not in call["op"] and "again" not in call:
                arguments = {name: pick(value) for name, value in call.get("arguments", {}).items()}
                self.held[str(k)] = getattr(nn, call["op"])(**arguments)

    def forward(self, *values):
        for call in self.calls:  # op is Conv2d, torch.flatten or torch.Tensor.view
            _, _, name = call["op"].partition(".")
            module = None if name else self.held[str(call.get("again", len(values)))]
            run = function(name) if name else module
            options = {key: pick(value, values) for key, value in call.get("options", {}).items()}
            values += (run(*pick(call["inputs"], values), **options),)
        return pick(self.result, values)


def measure(network, steps=50):
    model, data = Network(**network).train(), [sample(**spec) for spec in network["inputs"]]
    *rest, classes = model(*data).shape
    assert classes > 1 and len(rest) in (1, 2), "no classifier"
    labels = torch.randint(classes, (torch.Size(rest).numel(),))
    optimizer = OPTIMIZERS[network["optimizer"]](model.parameters())
    for k in range(-10, steps):  # ten steps to warm up
        if k <= 0:
            begin_j, begin_s = joules(), time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(*data).reshape(-1, classes), labels).backward()
        optimizer.step()
    return (joules() - begin_j) / steps, (time.perf_counter() - begin_s) / steps


for line in filter(str.strip, open(sys.argv[1])) if __name__ == "__main__" else ():
    row = {**json.loads(line), "provenance": PROVENANCE}
    try:
        energy_j, time_s = measure(row.pop("network"))
        row.update(energy_j_per_step=energy_j, time_s_per_step=time_s)
    except Exception as error:  # no memory, or not known here: something else is asked for
        row["failed"] = f"{type(error).__name__}: {error}".split("\n")[0]
    print(json.dumps(row), flush=True)
