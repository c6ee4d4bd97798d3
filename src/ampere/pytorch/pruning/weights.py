"""Weights of a file, put into a model: whoever saved them, and however it was wrapped."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ampere.errors import DataError

WRAPPERS = ("state_dict", "model_state_dict", "model", "net")  # keys that checkpoints put around
_PLAIN = "save model.state_dict() with torch.save, or as safetensors"


def load_weights(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Put the weights of a file into a model: safetensors, or what `torch.save` wrote.

    Raises:
        DataError: It cannot be read, or does not fit; no code in it is executed.
    """
    held = model.state_dict(keep_vars=True)
    state = _unwrapped(_read(Path(path)), held)
    if state is None:
        raise DataError(f"{path} holds no plain weights: {_PLAIN}")
    wrong = [
        f"{name} is {_shape(tensor)}, the model's is {_shape(held[name])}"
        for name, tensor in state.items()
        if name in held and tensor.shape != held[name].shape
    ]
    if not wrong:
        missing, unexpected = model.load_state_dict(state, strict=False)
        there = {id(held[name]) for name in state if name in held}  # tied weights may be there once
        wrong += [f"it has no {name}" for name in missing if id(held[name]) not in there]
        wrong += [f"it has {name}, which the model has not" for name in unexpected]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if wrong[1:] else ""
        raise DataError(f"{path} does not fit the model: {wrong[0]}{more}")


def _read(path: Path) -> Any:
    """What a file holds, whatever it is."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except ModuleNotFoundError:
        raise
    except OSError as error:
        own = error.strerror or "it is no file"  # safetensors says nothing of use
        reason = own if path.exists() else "there is no such file"
        raise DataError(f"cannot read {path}: {reason}") from None
    except Exception:  # of many types, depending on where the file is damaged
        raise DataError(f"{path} holds no plain weights: {_PLAIN}") from None


def _unwrapped(content: Any, held: Mapping[str, Any]) -> dict[str, torch.Tensor] | None:
    """The tensors by the names that the model has, if there are any."""
    while isinstance(content, Mapping):
        inner = next(
            (content[key] for key in WRAPPERS if isinstance(content.get(key), Mapping)), None
        )
        if inner is None:
            break
        content = inner
    if not isinstance(content, Mapping) or not all(map(torch.is_tensor, content.values())):
        return None
    state = {str(name): tensor for name, tensor in content.items()}
    # Whoever wraps a model puts a word before all names: `module.`, `_orig_mod.`, `model.`
    while state and not state.keys() & held.keys():
        words = {name.partition(".")[0] for name in state}
        if len(words) > 1 or not all("." in name for name in state):
            break
        state = {name.partition(".")[2]: tensor for name, tensor in state.items()}
    return state


def _shape(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"
