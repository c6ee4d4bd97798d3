"""A narrower model on disk: its weights, and a Python file that builds it and loads them."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ampere.errors import DataError
from ampere.frameworks.torch.building import build
from ampere.frameworks.torch.loading import parse_spec
from ampere.frameworks.torch.slimming import Slim
from ampere.layers import Json
from ampere.workloads import Workload

WEIGHTS, WIDTHS, CODE = "model.safetensors", "widths.json", "model.py"
WRAPPERS = ("state_dict", "model_state_dict", "model", "net")  # keys that checkpoints put around

_PLAIN = "save model.state_dict() with torch.save, or as safetensors"
_HEAD = '''"""{title}

    from model import build

    model = build()
"""

from pathlib import Path

{imports}from safetensors.torch import load_model
from torch import nn

HERE = Path(__file__).resolve().parent
'''

_SMALLER = '''
# What became smaller, by its name in the original.
MODULES = {{
{modules}}}
PARAMETERS = {{
{parameters}}}


{original}

def build(model: "nn.Module | None" = None, weights: "str | Path | None" = None) -> nn.Module:
    """The original with smaller modules, and the weights that were kept."""
    model = original() if model is None else model
    for name, make in MODULES.items():
        owner, _, part = name.rpartition(".")
        old, new = model.get_submodule(name), make()
        for parameter, kept in new.named_parameters():
            kept.requires_grad_(old.get_parameter(parameter).requires_grad)
        setattr(model.get_submodule(owner), part, new)
    for name, shape in PARAMETERS.items():
        owner, _, part = name.rpartition(".")
        held = getattr(model.get_submodule(owner), part)
        held.data = held.data.new_empty(shape)
{ties}    load_model(model, str(weights or HERE / "{weights}"))
    return model
'''

_REBUILT = '''

def build(weights: "str | Path | None" = None) -> nn.Module:
    """The model built from its layers, since sizes stand in its own code; needs ampere."""
    model = build_layers(HERE / "{widths}")
    load_model(model, str(weights or HERE / "{weights}"))
    return model
'''


def write_model(
    folder: Path, slim: Slim, source: str | None, title: str, facts: Mapping[str, Json]
) -> None:
    """Write weights, widths and code into a folder.

    Args:
        folder: Where they go; it is there.
        slim: The model.
        source: The text that names the original (`zoo:cnn5`); None if it was an object.
        title: The first line of the Python file.
        facts: What else stands beside the widths.
    """
    from safetensors.torch import save_model

    save_model(slim.model, str(folder / WEIGHTS))
    rows = {**facts, "layers": Workload(slim.layers).to_json()["layers"]}
    (folder / WIDTHS).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (folder / CODE).write_text(code(slim, source, title), encoding="utf-8")


def code(slim: Slim, source: str | None, title: str) -> str:
    """The Python file that builds a narrower model."""
    title = title.replace("\\", "/").replace('"""', "'''")
    if slim.rebuilt:
        imports = "from ampere.frameworks.torch.saving import build_layers\n"
        head = _HEAD.format(title=title, imports=imports)
        return head + _REBUILT.format(weights=WEIGHTS, widths=WIDTHS)
    imports, original = _original(source)
    lines = {name: f"    {name!r}: lambda: {made},\n" for name, made in slim.modules.items()}
    ties = [
        f"    model.get_submodule({b.rpartition('.')[0]!r}).{b.rpartition('.')[2]} ="
        f" model.get_parameter({a!r})\n"
        for a, b in _ties(slim.model)
    ]
    return _HEAD.format(title=title, imports=imports) + _SMALLER.format(
        modules="".join(lines.values()),
        parameters="".join(f"    {n!r}: {s!r},\n" for n, s in slim.parameters.items()),
        original=original,
        ties="".join(ties),
        weights=WEIGHTS,
    )


def _original(source: str | None) -> tuple[str, str]:
    """Imports and a function that builds the original."""
    head = "def original() -> nn.Module:\n"
    if source is None:
        text = "the original was given as an object: pass it, build(model)"
        return "", f"{head}    raise TypeError({text!r})\n"
    spec = parse_spec(source)
    given = ", ".join(f"{key}={value!r}" for key, value in spec.arguments.items())
    end = f"    return made if isinstance(made, nn.Module) else made({given})\n"
    if spec.source == "zoo":
        imports = "from ampere.zoo import family\n"
        return imports, f"{head}    return family({spec.name!r}).build({given})\n"
    if spec.path is None:
        imports = f"from {spec.source} import {spec.name} as made\n"
        return imports, head + end
    return "import importlib.util\nimport sys\n\n", (
        f"{head}    path = {str(spec.path)!r}\n"
        "    sys.path.insert(0, str(Path(path).parent))\n"
        '    spec = importlib.util.spec_from_file_location("original", path)\n'
        '    module = sys.modules["original"] = importlib.util.module_from_spec(spec)\n'
        "    spec.loader.exec_module(module)\n"
        f"    made = module.{spec.name}\n{end}"
    )


def _ties(model: nn.Module) -> list[tuple[str, str]]:
    """Parameters that stand under two names: the first, and each other."""
    first: dict[int, str] = {}
    pairs = []
    for name, parameter in model.named_parameters(remove_duplicate=False):
        known = first.setdefault(id(parameter), name)
        if known != name:
            pairs.append((known, name))
    return pairs


def build_layers(path: str | Path) -> nn.Module:
    """The network whose layers stand in a file of widths."""
    rows = json.loads(Path(path).read_text(encoding="utf-8"))
    workload = Workload.from_json({"layers": rows["layers"], "model": None, "stage": "step"})
    return build(workload.layers)


def load_weights(model: nn.Module, path: str | os.PathLike[str]) -> None:
    """Put the weights of a file into a model: safetensors, or what `torch.save` wrote.

    Raises:
        DataError: It cannot be read, or does not fit; no code in it is executed.
    """
    state = _read_state(Path(path))
    try:
        missing, unexpected = model.load_state_dict(state, strict=False)
    except RuntimeError as error:  # sizes differ
        reason = str(error).strip().splitlines()[-1].strip()
        raise DataError(f"{path} does not fit the model: {reason}") from None
    tied = {name for name, _ in model.named_parameters()} | {n for n, _ in model.named_buffers()}
    missing = [name for name in missing if name in tied]  # a tied weight is there once
    if missing or unexpected:
        what = f"no {missing[0]}" if missing else f"{unexpected[0]}, which the model has not"
        others = len(missing) + len(unexpected) - 1
        more = f" (and {others} more)" if others else ""
        raise DataError(f"{path} does not fit the model: it has {what}{more}")


def _read_state(path: Path) -> Mapping[str, Any]:
    try:
        if path.suffix == ".safetensors":
            from safetensors import SafetensorError
            from safetensors.torch import load_file

            try:
                return dict(load_file(str(path)))
            except SafetensorError as error:
                raise DataError(f"{path} is no safetensors file: {error}") from None
        found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError):
        raise DataError(f"{path} holds no plain weights: {_PLAIN}") from None
    while isinstance(found, Mapping):
        inner = next((found[key] for key in WRAPPERS if isinstance(found.get(key), Mapping)), None)
        if inner is None:
            break
        found = inner
    if not isinstance(found, Mapping) or not all(torch.is_tensor(v) for v in found.values()):
        raise DataError(f"{path} holds no plain weights: {_PLAIN}")
    return {str(name).removeprefix("module."): tensor for name, tensor in found.items()}
