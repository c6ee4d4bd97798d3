"""LoRA by PEFT's own API: read, counted as it runs, rebuilt and trained."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("peft") is None or find_spec("transformers") is None:
    pytest.skip("pip install peft", allow_module_level=True)

import torch
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertForSequenceClassification

from ampere.core.layers import CHECKPOINTED, Layer
from ampere.core.training import Training
from ampere.core.workloads import Settings, Workload
from ampere.pytorch.graph.flops import flop_counter
from ampere.pytorch.models import read
from ampere.pytorch.runtime.trainer import make_trainer

INPUT = "input_ids=16:int64<100"
BATCH = 4
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def bert() -> Any:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(**sizes, intermediate_size=64, vocab_size=100)
    return BertForSequenceClassification(config)


def lora() -> Any:
    adapters = LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["query", "value"])
    return get_peft_model(bert(), adapters)


def layers_of(model: Any) -> tuple[Layer, ...]:
    from ampere.core.inputs import parse_inputs

    return read(model, parse_inputs(INPUT), Training(BATCH))


def flops_of_a_step(model: Any) -> float:
    tokens = torch.randint(0, 100, (BATCH, 16))
    with flop_counter() as counter:
        model(input_ids=tokens).logits.sum().backward()
    return float(counter.get_total_flops())


def flops(layers: tuple[Layer, ...]) -> float:
    return sum((layer.features.flops or 0.0) * layer.count for layer in layers)


def test_adapters_are_read_and_counted_as_they_run() -> None:
    model = lora().train()
    layers = layers_of(model)
    assert flops(layers) == flops_of_a_step(model) < flops(layers_of(bert()))
    adapted = [layer for layer in layers if "8×linear" in layer.kind.operation]
    assert len(adapted) == 2
    assert any(" frozen" in layer.kind.name for layer in layers)


def test_adapters_are_trained_from_their_layers() -> None:
    make_trainer(Workload(layers_of(lora())), Settings(threads=1)).step()


def test_checkpointing_of_transformers_is_counted_as_it_runs() -> None:
    model = bert().train()
    plain = flops(layers_of(model))
    model.gradient_checkpointing_enable()
    layers = layers_of(model)
    assert any(layer.kind.attributes.get(CHECKPOINTED) for layer in layers)
    assert plain < flops(layers) == flops_of_a_step(model)
