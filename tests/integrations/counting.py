"""What torch counts of a whole model, to be compared with the sums over its layers."""

from __future__ import annotations

from ampere.core.training import Training
from ampere.pytorch.graph.flops import flop_counter
from ampere.pytorch.models import read_whole
from ampere.pytorch.runtime.loader import load_model
from ampere.pytorch.runtime.losses import make_loss
from ampere.pytorch.runtime.trainer import synthetic_inputs

BATCH_SIZE = 2
Counts = tuple[int, int]  # parameters, and FLOPs of forward and backward


def counts_of_whole(name: str) -> Counts:
    model, inputs = load_model(name, hollow=True)
    args, kwargs = synthetic_inputs(inputs, BATCH_SIZE, "meta")
    with flop_counter() as counter:
        output = model.train()(*args, **kwargs)
        make_loss("auto", output)(output).backward()
    return sum(p.numel() for p in model.parameters()), counter.get_total_flops()


def counts_of_layers(name: str) -> Counts:
    reading = read_whole(name, None, Training(BATCH_SIZE))
    layers = [layer for layer in reading.layers for _ in range(layer.count)]
    params = sum(layer.params or 0 for layer in layers)
    return params, int(sum(layer.features.flops or 0 for layer in layers))
