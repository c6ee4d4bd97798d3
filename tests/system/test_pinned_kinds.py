"""Names of kinds, structures as text and messages to workers stay what they were, byte for byte.

The name of a kind ends in the digest of its structure, and journals are read by names: a change
here means that profiles which people have would no longer know their own layers. Where a change is
meant, `UPDATE_GOLDEN=1 pytest tests/system/test_pinned_kinds.py -n 0` writes the golden file anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch

from ampere.core.description import describe
from ampere.core.inputs import parse_inputs
from ampere.core.layers import Layer, LayerKind
from ampere.core.training import Training
from ampere.core.workloads import ModelSpec, Workload
from ampere.frameworks.models import layers_of, plan_variants
from ampere.pytorch.graph.model_reading import read_model
from ampere.zoo.families import family_names
from reference_models import REFERENCES

GOLDEN = Path(__file__).parents[1] / "golden/kinds.json"
MESSAGE = Path(__file__).parents[1] / "golden/message.json"
BATCH = 4
MODELS = [*(f"zoo:{name}" for name in family_names()), *REFERENCES]


def read(name: str) -> tuple[Layer, ...]:
    if name.startswith("zoo:"):
        return layers_of(ModelSpec(name))
    reference = REFERENCES[name]
    torch.manual_seed(0)  # what a model that looks at values sees
    model = reference.build(reference.width)
    return read_model(model, parse_inputs(reference.inputs), Training(BATCH)).layers


def digest(tree: Any) -> str:
    """Of the text as it is written: the order of keys counts, too."""
    return hashlib.sha256(json.dumps(tree).encode()).hexdigest()[:12]


def _contents(kind: LayerKind) -> list[Any]:
    structure = None if kind.structure is None else kind.structure.to_json()
    return [kind.role.value, kind.operation, dict(kind.attributes), structure]


def pinned(layers: Sequence[Layer]) -> dict[str, Any]:
    kinds: dict[str, LayerKind] = {layer.kind.name: layer.kind for layer in layers}
    for isolation in plan_variants(layers).isolations:  # stand-ins have names of their own
        kinds.setdefault(isolation.kind.name, isolation.kind)
    return {
        "kinds": {name: digest(_contents(kind)) for name, kind in kinds.items()},
        "rows": digest([replace(layer, work=()).to_json() for layer in layers]),
        "description": digest(describe(layers)),
    }


@lru_cache(maxsize=1)
def golden() -> dict[str, Any]:
    if os.environ.get("UPDATE_GOLDEN"):
        rows = {name: pinned(read(name)) for name in MODELS}
        GOLDEN.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    kept: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return kept


def test_every_model_is_pinned() -> None:
    assert set(golden()) == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_names_structures_and_descriptions_are_as_they_were(name: str) -> None:
    assert json.loads(json.dumps(pinned(read(name)))) == golden()[name]


def test_a_message_to_a_worker_says_what_it_said() -> None:
    """A worker reads what an older ampere sent, and the other way round."""
    kept = json.loads(MESSAGE.read_text(encoding="utf-8"))
    workload = Workload(layers_of(ModelSpec("zoo:lenet5")), stage="forward")
    again = json.loads(json.dumps(workload.to_json()))
    assert {key: again[key] for key in kept if key != "layers"} == {
        key: kept[key] for key in kept if key != "layers"
    }
    for old, new in zip(kept["layers"], again["layers"], strict=True):
        assert {key: new[key] for key in old} == old
    for old_layer, layer in zip(Workload.from_json(kept).layers, workload.layers, strict=True):
        assert (old_layer.kind, old_layer.widths, old_layer.reads, old_layer.kind.structure) == (
            layer.kind,
            layer.widths,
            layer.reads,
            layer.kind.structure,
        )
