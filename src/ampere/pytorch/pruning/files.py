"""A narrower model on disk: its weights, and a Python file that builds it and loads them."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from ampere.core.boundary.code import homes_of
from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import read_whole, write_whole
from ampere.core.boundary.model_names import PUBLIC, TRANSFORMERS, ZOO, parse_name
from ampere.core.layers import Layer
from ampere.core.types import Json
from ampere.errors import DataError, ModelError
from ampere.pytorch.pruning.slimmer import Slim
from ampere.pytorch.runtime.builder import build

WEIGHTS, WIDTHS, CODE = "model.safetensors", "widths.json", "model.py"
ORIGINAL = "original.py"  # a copy of the user's own file
MOST_BYTES = 2**40  # of weights: more than any device that trains has

_HEAD = '''"""{title}

    from model import build

    model = build({given})
"""

{imports}from pathlib import Path

{ours}from safetensors.torch import load_model
from torch import nn

HERE = Path(__file__).resolve().parent
'''
_BUILD = '''

def build({model}weights: "str | Path | None" = None) -> nn.Module:
    """{what}"""
'''
_LOAD = """\
    load_model(model, str(weights or HERE / "{weights}"){how})
    return model
"""
# Where the original lies is tried first, since it may need what lies beside it; but only while it
# is what was pruned: a file of the same name may be anything by then.
_LOADS = """\
    copy = HERE / {copy}
    places = [HERE / {way}, Path({path})]
    same = [each for each in places if each.is_file() and each.read_bytes() == copy.read_bytes()]
    path = (same or [copy])[0].resolve()
    homes = [{beside}] if same else ["."]
    sys.path[:0] = [str((path.parent / each).resolve()) for each in homes]
    spec = importlib.util.spec_from_file_location("original", path)
    module = sys.modules["original"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.{name}
"""
# What a file has of each of these is only what its model needs: most have no more than modules.
_STEPS = {
    "MODULES": """\
    for name, make in MODULES.items():
        old, new = model.get_submodule(name), make()
        for part, kept in new.named_parameters():
            was = old.get_parameter(part)
            kept.data = kept.data.to(was.dtype)
            kept.requires_grad_(was.requires_grad)
        for path, module in list(model.named_modules(remove_duplicate=False)):
            if module is old:
                owner, _, part = path.rpartition(".")
                setattr(model.get_submodule(owner), part, new)
""",
    "TENSORS": """\
    for name, shape in TENSORS.items():
        owner, _, part = name.rpartition(".")
        module = model.get_submodule(owner)
        held = getattr(module, part)
        held.data = held.data.new_empty(shape)
        if not isinstance(held, nn.Parameter):
            module.register_buffer(part, held)  # the file has it, even if the original would not
""",
    "TIES": """\
    for name, first in TIES.items():
        owner, _, part = name.rpartition(".")
        setattr(model.get_submodule(owner), part, model.get_parameter(first))
""",
}


def write_model(
    folder: Path,
    slim: Slim,
    source: str | None,
    title: str,
    facts: Mapping[str, Json],
    home: Path | None = None,
) -> None:
    """Write weights, widths and code into a folder.

    Args:
        folder: Where they go; it is there.
        slim: The model.
        source: The text that names the original (`zoo:cnn5`); None if it was an object.
        title: The first line of the Python file.
        facts: What else stands beside the widths.
        home: Where the folder will lie in the end, if it is written elsewhere first.

    Raises:
        OSError: They cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_model

    for name in slim.parameters.keys() & dict(slim.model.named_buffers()).keys():
        # What a model makes anew when it is built would be of the original's size.
        owner, _, part = name.rpartition(".")
        slim.model.get_submodule(owner).register_buffer(part, slim.model.get_buffer(name))
    try:
        save_model(slim.model, str(folder / WEIGHTS))
    except SafetensorError as error:  # also where it is the disk's fault
        raise OSError(str(error)) from None
    (folder / WEIGHTS).chmod(0o644)  # some versions of safetensors let nobody else read it
    layers = [layer.to_json(with_structure=True) for layer in slim.layers]
    rows = {**facts, "layers": layers}
    write_whole(folder / WIDTHS, json.dumps(rows, indent=1) + "\n")
    path = own_path(source)
    if path is not None and not slim.rebuilt:
        write_whole(folder / ORIGINAL, path.read_bytes())
    write_whole(folder / CODE, code(slim, source, title, home or folder))


def own_path(source: str | None) -> Path | None:
    """The user's own file that a text names, if it names one."""
    named = None if source is None else parse_name(source)
    return named.path if named is not None and named.is_own else None


def code(slim: Slim, source: str | None, title: str, home: Path = Path()) -> str:
    """The Python file that builds a narrower model, for the folder where it will lie."""
    title = title.replace("\\", "/").replace('"""', "'''")
    if slim.rebuilt:
        ours = "from ampere import rebuild_model\n"
        what = "The model built from its layers, since sizes stand in its own code; needs ampere."
        parts = [
            _HEAD.format(title=title, given="", imports="", ours=ours),
            _BUILD.format(model="", what=what),
            f'    model = rebuild_model(HERE / "{WIDTHS}")\n',
            _LOAD.format(weights=WEIGHTS, how=""),
        ]
        return "".join(parts)
    changes = {
        "MODULES": {name: f"lambda: {made}" for name, made in slim.modules.items()},
        "TENSORS": {name: repr(shape) for name, shape in slim.parameters.items()},
        "TIES": {name: _quoted(first) for name, first in _ties(slim.model).items()},
    }
    made = [name for name, lines in changes.items() if lines]
    imports, ours, original = _original(source, home) if source else ("", "", "")
    model = 'model: "nn.Module | None" = None, ' if source else "model: nn.Module, "
    what = "The original with smaller modules, and the weights that were kept."
    parts = [
        _HEAD.format(title=title, given="" if source else "original", imports=imports, ours=ours),
        "\n# What is not as it was, by its name in the original.\n" if made else "",
        *(f"{name} = {_dict(changes[name])}\n" for name in made),
        original,
        _BUILD.format(model=model, what=what),
        "    model = original() if model is None else model\n" if source else "",
        *(_STEPS[name] for name in made),
        _LOAD.format(weights=WEIGHTS, how=", strict=False" if _has_twins(slim.model) else ""),
    ]
    return "".join(parts)


def _original(source: str, home: Path) -> tuple[str, str, str]:
    """What builds the original: imports of Python's own and of ampere, and a function."""
    spec = parse_name(source)
    head = "\n\ndef original() -> nn.Module:\n"
    arguments = ", ".join(f"{key}={value!r}" for key, value in spec.arguments.items())
    end = f"    return made if isinstance(made, nn.Module) else made({arguments})\n"
    if spec.source in (ZOO, *PUBLIC):
        if spec.source == TRANSFORMERS and spec.path is not None:
            spec = replace(spec, name=str(spec.path))  # from wherever it is built
        ours = "from ampere import build_model\n"
        return "", ours, f"{head}    return build_model({_quoted(str(spec))})\n"
    if spec.path is None:
        return "", "", f"{head}    from {spec.source} import {spec.name} as made\n\n{end}"
    # Ways from a folder stay right when both are moved together.
    beside = [os.path.relpath(each, spec.path.parent) for each in homes_of(spec.source)]
    loads = _LOADS.format(
        way=_quoted(os.path.relpath(spec.path, os.path.realpath(home))),
        path=_quoted(str(spec.path)),
        copy=_quoted(ORIGINAL),
        beside=", ".join(map(_quoted, dict.fromkeys(beside))),
        name=spec.name,
    )
    return "import importlib.util\nimport sys\n", "", head + loads + end


def _dict(lines: Mapping[str, str]) -> str:
    """A dict of expressions, one a line."""
    listed = "".join(f"    {_quoted(name)}: {text},\n" for name, text in lines.items())
    return f"{{\n{listed}}}"


def _quoted(text: str) -> str:
    """A text in Python's code; a folder may have bytes in its name that are no letters."""
    return json.dumps(text, ensure_ascii=False).encode(errors="backslashreplace").decode()


def _ties(model: nn.Module) -> dict[str, str]:
    """Parameters that several modules hold: their other names, and the first."""
    first: dict[int, str] = {}
    ties = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first_name = first.setdefault(id(parameter), name)
        if _owner(model, first_name) is not _owner(model, name):
            ties[name] = first_name
    return ties


def _has_twins(model: nn.Module) -> bool:
    """Whether a normalisation stands at two places: safetensors takes its counter for too much."""
    counting = [
        module
        for _, module in model.named_modules(remove_duplicate=False)
        if getattr(module, "num_batches_tracked", None) is not None
    ]
    return len(counting) > len({id(module) for module in counting})


def _owner(model: nn.Module, name: str) -> nn.Module:
    return model.get_submodule(name.rpartition(".")[0])


def rebuild_model(path: str | Path) -> nn.Module:
    """The network, with new weights, whose layers stand in the `widths.json` of a pruned model.

    Python files that `ampere prune` wrote import this one from `ampere`: it stays as it is.

    Raises:
        DataError: It cannot be read, or holds no layers.
        ModelError: Its layers are no network that anybody could train.
    """
    rows = _rows_of(path)
    try:
        layers = [Layer.from_json(row, with_structure=True) for row in rows]
        with torch.device("meta"):  # nothing is allocated before its size is known
            size = sum(tensor.nbytes for tensor in build(layers).state_dict().values())
        if size > MOST_BYTES:
            raise ModelError(f"its weights would take {size / 1e9:,.0f} GB")
        return build(layers)
    except (DataError, ModelError) as error:
        raise type(error)(f"{path} is damaged: {error}") from None
    except Exception as error:  # of any type: it says what is called with what
        reason = textwrap.shorten(f"{type(error).__name__}: {error}", 200, placeholder=" ...")
        raise ModelError(f"{path} is damaged: its layers make no network ({reason})") from error


def _rows_of(path: str | Path) -> list[Json]:
    """The layers of a file that may be anybody's."""
    try:
        rows = Fields(parse_json(read_whole(path))).items("layers", least=1)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    except DataError as error:
        raise DataError(f"{path} is damaged: {error}") from None
    return [row for _, row in rows]
