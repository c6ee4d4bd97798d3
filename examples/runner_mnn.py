"""Measures the networks that `ampere ask` wants measured, with MNN alone: no ampere, no torch.

    ampere ask zoo:cnn5 --profile phone.ampere --runtime mnn --provenance modelled > todo.jsonl
    python runner_mnn.py todo.jsonl > done.jsonl
    ampere tell --profile phone.ampere done.jsonl
    ampere ask --profile phone.ampere > todo.jsonl          # and so on

Copy it to the device and put your own meter into `joules`. It trains classifiers of convolutions,
pools and linear layers by SGD; whatever it does not know of a description, or what MNN would pass
over in silence, makes a row that failed, never wrong joules.
"""

# mypy: ignore-errors
# ruff: noqa: B905, D101, D102, E402, SIM115
import functools
import json
import math
import operator
import os
import sys
import time

ANSWERS = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # MNN tells of the processor when it is imported: not between our rows

import MNN
import numpy as np
from MNN import nn, optim
from MNN.expr import _F as F  # the wrappers in MNN.expr insert casts, which have no gradient

PROVENANCE = "modelled"  # as ampere was told; counter, sensor, battery or external, of a meter
MNN.expr.lazy_eval(True)  # without it an optimiser changes nothing
RNG = np.random.default_rng(0)


def joules():
    return 2.7 * time.perf_counter() + 0.9 * time.process_time()  # your meter's total goes here


def constant(array):
    array = np.array(array, np.float32, order="C")
    return F.const(array, list(array.shape), F.data_format.NCHW, F.dtype.float)


def plain(x):  # dimensions in order
    return x if x.data_format == F.data_format.NCHW else F.convert(x, F.data_format.NCHW)


def blocked(x):  # channels in blocks of four, as convolutions and pools want them
    return x if x.data_format == F.data_format.NC4HW4 else F.convert(x, F.data_format.NC4HW4)


def pick(tree, values=()):  # an argument as it is, or what an earlier call made
    if isinstance(tree, list):
        return tuple(pick(part, values) for part in tree)
    if not isinstance(tree, dict):
        return tree
    assert set(tree) == {"value"}, f"{tree} is not known here"
    k, *path = tree["value"] if isinstance(tree["value"], list) else [tree["value"]]
    return functools.reduce(operator.getitem, path, values[k])


def pair(size):
    return list(size) if isinstance(size, tuple) else [size, size]


class Network:
    def __init__(self, optimizer, loss, inputs, calls, result):
        assert optimizer == "sgd" and loss in ("auto", "cross_entropy"), (optimizer, loss)
        assert [spec["dtype"] for spec in inputs] == ["float32"], "one input of float32"
        self.calls, self.result, self.module, self.wanted = calls, result, nn.Module(), {}
        self.module.train(True)
        self.held = [self.hold(k, call) for k, call in enumerate(calls)]
        self.given = constant(RNG.standard_normal(inputs[0]["shape"]))
        if inputs[0]["grad"]:
            self.train("input", self.given)

    def train(self, name, var):
        var.fix_as_trainable()
        var.name = name
        self.wanted[name] = var
        self.module._add_parameter(var)
        return var

    def hold(self, k, call):  # what a call trains: weight and bias
        where = f"{call['op']} in call {k}"
        assert set(call) <= {"op", "arguments", "inputs", "options"}, f"{where}: {sorted(call)}"
        given = {name: pick(value) for name, value in call.get("arguments", {}).items()}
        if call["op"] == "BatchNorm2d":
            kept = given.get("affine", True) and given.get("track_running_stats", True)
            assert kept, f"{where}: it has no scale, or keeps no statistics"
            norm = nn.batch_norm(given["num_features"], 4, 0.9, given.get("eps", 1e-5))
            norm.train(True)
            for name, var in zip(("scale", "bias"), norm.parameters[:2]):
                var.name = f"{k} {name}"
                self.wanted[var.name] = var
            self.module._register_submodules([norm])
            return given, norm
        if call["op"] == "Linear":
            shape = (given["out_features"], given["in_features"])
        elif call["op"] == "Conv2d":
            groups = given.get("groups", 1)
            leaving, entering = given["out_channels"], given["in_channels"]
            # Other groups end the process, and later rows with it.
            assert groups == 1 or groups == leaving == entering, f"{where}: {groups} groups"
            assert given.get("padding_mode", "zeros") == "zeros", f"{where}: not padded with zeros"
            assert not isinstance(given.get("padding"), str), f"{where}: its padding is a word"
            shape = (leaving, entering // groups)
            shape += tuple(pair(given["kernel_size"]))
        else:
            return given, None
        size = 1 / math.sqrt(math.prod(shape[1:]))
        weight = self.train(f"{k} weight", constant(RNG.uniform(-size, size, shape)))
        bias = constant(np.zeros(shape[0]))  # a convolution must have one
        return given, (weight, self.train(f"{k} bias", bias) if given.get("bias", True) else bias)

    def forward(self):
        values = (self.given,)
        for call, (given, held) in zip(self.calls, self.held):
            args = pick(call["inputs"], values)
            options = {name: pick(value, values) for name, value in call.get("options", {}).items()}
            name = call["op"].rpartition(".")[2]
            assert name in OPERATIONS, f"{call['op']} is not known here"
            values += (OPERATIONS[name](given, held, *args, **options),)
        return plain(pick(self.result, values))


def conv(given, held, x):
    stride, pads, gaps = (
        pair(given.get(name, usual))[::-1]  # x, y
        for name, usual in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    groups = given.get("groups", 1)
    return F.conv2d(blocked(x), *held, stride, pads, gaps, groups, F.Padding_Mode.CAFFE)


def pool(given, held, x, kernel_size=None, stride=None, padding=0, **others):
    kernel = given.get("kernel_size", kernel_size)
    stride = given.get("stride", stride) or kernel
    given = {"padding": padding, **others, **given}
    assert given["padding"] in (0, (0, 0)), "a pool that is padded has wrong gradients"
    assert given.get("dilation", 1) in (1, (1, 1)) and not given.get("ceil_mode"), given
    sides = (pair(kernel)[::-1], pair(stride)[::-1])
    return F.max_pool(blocked(x), *sides, F.Padding_Mode.VALID, [0, 0])


def mean(given, held, x, output_size=None):
    assert given.get("output_size", output_size) in (1, (1, 1)), "not one for each channel"
    return F.reduce_mean(plain(x), [2, 3], True)


def flat(given, held, x, start_dim=1, end_dim=-1):
    assert (given.get("start_dim", start_dim), end_dim) == (1, -1)
    return F.reshape(plain(x), [x.shape[0], math.prod(x.shape[1:])])


def add(given, held, x, y):
    return x + y if x.data_format == y.data_format else plain(x) + plain(y)


OPERATIONS = {
    "Conv2d": conv,
    "Linear": lambda given, held, x: F.matmul(plain(x), held[0], False, True) + held[1],
    "BatchNorm2d": lambda given, held, x: held.forward(x),
    **dict.fromkeys(("ReLU", "relu", "relu_"), lambda given, held, x, **_: F.relu(x, 0.0)),
    **dict.fromkeys(("MaxPool2d", "max_pool2d"), pool),
    **dict.fromkeys(("AdaptiveAvgPool2d", "adaptive_avg_pool2d"), mean),
    **dict.fromkeys(("Flatten", "flatten"), flat),
    **dict.fromkeys(("add", "__add__", "__iadd__"), add),
}


def measure(network, steps=50):
    model = Network(**network)
    rows, classes = model.forward().shape
    labels = constant(np.eye(classes)[RNG.integers(classes, size=rows)])

    def loss():
        chosen = F.reduce_sum(F.log(F.softmax(model.forward(), 1)) * labels, [1], False)
        return -F.reduce_mean(chosen, [], False)

    got, _ = optim.Grad().grad([loss()], [constant(1.0)], list(model.wanted.values()))
    missing = set(model.wanted) - {var.name for var in got}
    assert not missing, f"no gradient for {sorted(missing)}"
    optimizer = optim.SGD(model.module, 1e-3, 0.0)  # without the zero it has a momentum of 0.9
    for k in range(-10, steps):  # ten steps to warm up
        if k <= 0:
            begin_j, begin_s = joules(), time.perf_counter()
        assert optimizer.step(loss()), "MNN could not compute a step"
    return (joules() - begin_j) / steps, (time.perf_counter() - begin_s) / steps


for line in filter(str.strip, open(sys.argv[1])) if __name__ == "__main__" else ():
    row = {**json.loads(line), "provenance": PROVENANCE}
    try:
        energy_j, time_s = measure(row.pop("network"))
        row.update(energy_j_per_step=energy_j, time_s_per_step=time_s)
    except Exception as error:  # not known here: something else is asked for
        row["failed"] = f"{type(error).__name__}: {error}".split("\n")[0]
    print(json.dumps(row), file=ANSWERS)
