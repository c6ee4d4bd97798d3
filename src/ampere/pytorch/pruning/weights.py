"""Weights of a file, put into a model: whoever saved them, and however it was wrapped.

A file of safetensors is numbers and nothing else. What `torch.save` wrote is a program that makes
numbers: it is read only where torch is known to keep it from making anything else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ampere.errors import DataError

WRAPPERS = ("state_dict", "model_state_dict", "model", "net")  # keys that checkpoints put around
# Before it, a crafted file runs code in spite of `weights_only`: CVE-2025-32434, CVE-2026-24747.
SAFE_TORCH = "2.10"
_PLAIN = "save them with safetensors.torch.save_model, or model.state_dict() with torch.save"


def load_weights(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Put the weights of a file into a model: safetensors, or what `torch.save` wrote.

    Raises:
        DataError: It cannot be read, or does not fit, or this torch reads only safetensors safely;
            no code in it is executed.
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
        if not path.is_file():  # a pipe would be waited for, a device has no end
            raise OSError("it is no file" if path.exists() else "there is no such file")
        if path.suffix == ".safetensors" or _looks_like_safetensors(path):
            from safetensors.torch import load_file

            return load_file(_utf8(path))
        if torch.__version__ >= SAFE_TORCH:
            return torch.load(path, map_location="cpu", weights_only=True)
    except (ModuleNotFoundError, DataError):
        raise
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception:  # of many types, depending on where the file is damaged
        raise DataError(f"{path} holds no plain weights: {_PLAIN}") from None
    raise DataError(
        f"{path} is no safetensors, and torch {torch.__version__} may run code that stands in other"
        " files: save the weights with safetensors.torch.save_model where they were made, or"
        f" upgrade to torch {SAFE_TORCH}"
    )


def _utf8(path: Path) -> str:
    """A name that safetensors takes."""
    try:
        return os.fsencode(path).decode()
    except UnicodeDecodeError:
        raise DataError(
            f"safetensors reads no file whose name is not UTF-8: rename {path}"
        ) from None


def _looks_like_safetensors(path: Path) -> bool:
    """Whether a file begins with the size of a header and the header, whatever it is called."""
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def _unwrapped(content: Any, held: Mapping[str, Any]) -> dict[str, torch.Tensor] | None:
    """The tensors by the names that the model has, if there are any."""
    while isinstance(content, Mapping):
        inner = next(
            (content[key] for key in WRAPPERS if isinstance(content.get(key), Mapping)), None
        )
        if inner is None:
            break
        content = inner
    if not isinstance(content, Mapping) or not all(map(_is_plain, content.values())):
        return None
    state = {str(name): tensor for name, tensor in content.items()}
    # Whoever wraps a model puts a word before all names: `module.`, `_orig_mod.`, `model.`
    while state and not state.keys() & held.keys():
        words = {name.partition(".")[0] for name in state}
        if len(words) > 1 or not all("." in name for name in state):
            break
        state = {name.partition(".")[2]: tensor for name, tensor in state.items()}
    return state


def _is_plain(value: Any) -> bool:
    """Whether a value is an array of numbers here, not a sparse, quantized or absent one."""
    return (
        torch.is_tensor(value)
        and value.device.type == "cpu"
        and value.layout is torch.strided
        and not (value.is_quantized or value.is_nested)
    )


def _shape(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"
