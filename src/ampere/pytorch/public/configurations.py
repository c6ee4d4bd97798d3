"""Configurations: the `config.json` of a folder, read as data.

Whoever wrote it may be anybody. What would fetch or run code is refused or left out: holes of this
kind were found in transformers itself (CVE-2026-4372, CVE-2026-5241).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import read_whole
from ampere.core.types import Json
from ampere.errors import DataError, ModelError

FILE = "config.json"
MOST_BYTES = 2**24
DEEP = 12
_REFUSED = {
    "auto_map": "names code of its own, which ampere never runs",
    "trust_remote_code": "asks for code of its own, which ampere never runs",
    "use_timm_backbone": "names a model of another package: use timm:NAME",
    "use_pretrained_backbone": "asks for weights, and ampere builds without",
    "quantization_config": "asks for quantised weights, which are not trained as they are",
}
_FOREIGN_TYPES = ("timm_backbone", "timm_wrapper")  # they build whatever their file names
# Which code computes a part, which may be a place on a hub, and where weights lie.
_LEFT_OUT = re.compile(
    r"\w+_implementation(_internal)?|use_kernels|kernel_config|\w*name_or_path|transformers_version"
)


def read_configuration(folder: Path) -> Mapping[str, Json]:
    """The configuration in a folder, without what would fetch or run code.

    Raises:
        ModelError: There is none, it cannot be read, or it asks for code.
    """
    path = folder / FILE
    try:
        row = parse_json(read_whole(path, MOST_BYTES))
        fields = Fields({"config": row})
        configuration: Mapping[str, Json] = fields.inner("config").row
        fields.plain("config", depth=DEEP)
        Fields(configuration).text("model_type")
    except OSError as error:
        raise ModelError(
            f"cannot read {path}: {error.strerror or error}; ampere fetches nothing: download the"
            " model's config.json into a folder, or use a type such as hf:bert"
        ) from None
    except DataError as error:
        raise ModelError(f"{path} is no configuration of a model: {error}") from None
    cleaned = _cleaned(configuration, str(path))
    assert isinstance(cleaned, dict)
    return cleaned


def refuse_code(name: str, value: Json, where: str) -> None:
    """Refuse a setting that would fetch or run code, or that says nothing about training."""
    if name in _REFUSED and value not in (None, False):
        raise ModelError(f"{where}: {name} {_REFUSED[name]}; take it out")
    if name == "backbone" and isinstance(value, str):
        raise ModelError(f"{where}: backbone {_REFUSED['use_timm_backbone']}; take it out")
    if name == "model_type" and value in _FOREIGN_TYPES:
        raise ModelError(f"{where}: {value} {_REFUSED['use_timm_backbone']}")


def _cleaned(tree: Json, where: str) -> Json:
    """The same, at any depth: parts of a model have configurations of their own."""
    if isinstance(tree, list):
        return [_cleaned(part, where) for part in tree]
    if not isinstance(tree, Mapping):
        return tree
    for name, value in tree.items():
        refuse_code(name, value, where)
    return {
        name: _cleaned(value, where)
        for name, value in tree.items()
        if not _LEFT_OUT.fullmatch(name) and name not in _REFUSED
    }
