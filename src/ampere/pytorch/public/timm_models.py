"""Models of timm: `timm:resnet50`, `timm:vit_small_patch16_224(img_size=160, num_classes=10)`."""

from __future__ import annotations

import re
from typing import Any

from torch import nn

from ampere.core.boundary.model_names import ModelName
from ampere.core.inputs import Inputs, InputSpec
from ampere.errors import ModelError
from ampere.pytorch.public.packages import Package, offline
from ampere.pytorch.public.recipe import Recipe, alike

TIMM = Package("timm", "timm")
_NAME = re.compile(r"\w[\w.]*", re.ASCII)  # and neither a place on a hub nor a folder
_WEIGHTS = ("checkpoint_path", "cache_dir")


def find_timm_model(named: ModelName) -> Recipe:
    """How a model of timm is made; its input is that of its default configuration.

    Raises:
        ModelError: timm is not there, has no such model, or weights are asked for.
    """
    label = f"timm:{named.name}"
    for argument in named.arguments:
        if argument.startswith("pretrained") or argument in _WEIGHTS:
            raise ModelError(f"{label} is built without weights: leave {argument} out")
    timm = TIMM.load(label)
    with offline():
        if not _NAME.fullmatch(named.name) or not timm.is_model(named.name):
            hint = alike(named.name, timm.list_models(), "`timm.list_models()` lists them")
            raise ModelError(f"timm has no model {named.name!r}: {hint}")
        size = _input_size(timm, named)

    def make() -> nn.Module:
        with offline():
            model: nn.Module = timm.create_model(named.name, pretrained=False, **named.arguments)
            return model

    return Recipe(make, size)


def _input_size(timm: Any, named: ModelName) -> Inputs | None:
    try:
        configuration = timm.get_pretrained_cfg(named.name)
    except RuntimeError as error:  # a tag of weights that are not there
        raise ModelError(f"timm:{named.name}: {error}") from None
    if configuration is None:
        return None
    channels, *sides = configuration.input_size
    side = named.arguments.get("img_size", sides)
    sides = [side] * len(sides) if isinstance(side, int) else list(side)
    return Inputs((InputSpec((named.arguments.get("in_chans", channels), *sides)),))
