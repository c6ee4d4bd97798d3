"""Small packages that look like timm and transformers, to be imported in their place."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TIMM = """
import os
from types import SimpleNamespace
from torch import nn

SAID_OFFLINE = os.environ.get("HF_HUB_OFFLINE")
SIZES = {"tiny": (3, 8, 8), "tiny_net": (3, 16, 16), "sizeless": None}

def list_models():
    return list(SIZES)

def is_model(name):
    return name.split(".")[0] in SIZES

def get_pretrained_cfg(name):
    name, _, tag = name.partition(".")
    if tag:
        raise RuntimeError(f"Invalid pretrained tag ({tag}) for {name}.")
    return SimpleNamespace(input_size=SIZES[name]) if SIZES[name] else None

def create_model(name, pretrained, num_classes=4, in_chans=3, img_size=None):
    assert not pretrained and os.environ["HF_HUB_OFFLINE"] == "1"
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(nn.Conv2d(in_chans, 8, 3), nn.ReLU(), pooled, nn.Linear(8, num_classes))
"""
TRANSFORMERS = """
import os
from types import SimpleNamespace
import torch
from torch import nn

class Logging:
    level = 30
    def get_verbosity(self): return self.level
    def set_verbosity(self, level): self.level = level
    def set_verbosity_error(self): self.level = 40
logging = Logging()

class Config:
    model_type, usual = "", {}
    def __init__(self, **settings):
        vars(self).update({**self.usual, **settings})
    @classmethod
    def from_dict(cls, settings):
        if settings.get("hidden", 1) < 1:
            raise ValueError("hidden must be\\nabove 0")
        return cls(**settings)
    def get_text_config(self): return self
    def to_dict(self): return dict(vars(self))

class WriterConfig(Config):
    model_type = "writer"
    usual = dict(vocab_size=50, hidden=8, max_position_embeddings=64, num_labels=2, layerdrop=0.1)

class SeerConfig(Config):
    model_type = "seer"
    usual = dict(image_size=8, num_channels=3, hidden=8, num_labels=2)

class Writer(nn.Module):
    main_input_name = "input_ids"
    def __init__(self, config):
        super().__init__()
        assert os.environ["HF_HUB_OFFLINE"] == "1" and logging.level == 40
        self.config, self.loss_type = config, None
        self.embed = nn.Embedding(config.vocab_size, config.hidden)
        self.head = nn.Linear(config.hidden, config.vocab_size)
    def forward(self, input_ids, labels=None):
        logits = self.head(self.embed(input_ids))
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits}

class WriterClassifier(Writer): pass

class Seer(nn.Module):
    main_input_name = "pixel_values"
    def __init__(self, config):
        super().__init__()
        self.patch = nn.Conv2d(config.num_channels, config.hidden, 4, 4)
        self.head = nn.Linear(config.hidden, config.num_labels)
    def forward(self, pixel_values, labels=None):
        logits = self.head(self.patch(pixel_values).mean((2, 3)))
        return {"loss": nn.functional.cross_entropy(logits, labels.flatten()), "logits": logits}

CONFIG_MAPPING = {"writer": WriterConfig, "seer": SeerConfig}

def auto(mapping):
    class Auto:
        _model_mapping = mapping
        @classmethod
        def from_config(cls, config, trust_remote_code):
            assert trust_remote_code is False
            found = mapping[type(config)]
            return (found[0] if isinstance(found, tuple) else found)(config)
    return Auto

AutoModelForCausalLM = auto({WriterConfig: (Writer,)})
AutoModelForSequenceClassification = auto({WriterConfig: WriterClassifier})
AutoModelForImageClassification = auto({SeerConfig: Seer})
"""


@contextmanager
def installed(
    name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A package that can be imported, and is forgotten afterwards."""
    real = sys.modules.pop(name, None)
    (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    yield
    sys.modules.pop(name, None)
    if real is not None:
        sys.modules[name] = real
