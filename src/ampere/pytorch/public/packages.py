"""Packages that not everybody has: import one, and keep it off the network meanwhile."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

import torch

from ampere.errors import MissingLibrary, ModelError

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_HUB = "huggingface_hub.constants"


@dataclass(frozen=True)
class Package:
    """A package of others, and the extra of ampere that brings it."""

    name: str
    extra: str

    def load(self, wanted: str) -> ModuleType:
        """Import it.

        Args:
            wanted: The model that it is needed for.

        Raises:
            MissingLibrary: It is not installed.
            ModelError: It cannot be imported.
        """
        install = f"pip install 'ampere-energy[{self.extra}]'"
        if self.name not in sys.modules and importlib.util.find_spec(self.name) is None:
            raise MissingLibrary(
                f"{wanted} needs the package {self.name}: {install}", name=self.name
            )
        try:
            with offline():
                _let_torchvision_load()
                return importlib.import_module(self.name)
        except Exception as error:  # what a broken installation raises is anything
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ModelError(
                f"{wanted} needs the package {self.name}, which cannot be imported here"
                f" ({reason}): {install}"
            ) from error


@contextmanager
def offline() -> Iterator[None]:
    """Nothing is fetched and nothing warned of meanwhile; afterwards all is as it was."""
    said = {name: os.environ.get(name) for name in OFFLINE}
    hub = sys.modules.get(_HUB)  # it reads what was said only once, when it is imported
    was = any(str(value).upper() in ("1", "ON", "YES", "TRUE") for value in said.values())
    was = was if hub is None else hub.HF_HUB_OFFLINE
    os.environ.update(dict.fromkeys(OFFLINE, "1"))
    if hub is not None:
        hub.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, value in said.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if _HUB in sys.modules:
            sys.modules[_HUB].HF_HUB_OFFLINE = was  # type: ignore[attr-defined]


def _let_torchvision_load() -> None:
    """Import torchvision, if it is there, also where its operators do not fit this torch.

    timm and the image models of transformers import it, and call none of these operators.
    """
    if "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in ("nms", "qnms"):
            signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            torch.library.define(f"torchvision::{name}", signature)
        importlib.import_module("torchvision")
