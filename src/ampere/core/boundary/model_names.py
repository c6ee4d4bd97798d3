"""Names of models: what a text such as `zoo:cnn5(channels=[16, 32])` says; nothing is imported.

zoo:cnn5                          ampere's own
timm:resnet50                     of the package timm
hf:gpt2(sequence=128)             of the package transformers: a type of model,
hf:./folder                       or a folder with a `config.json`
path/file.py:factory(width=32)    the user's own file,
package.module:factory            or module
"""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampere.core.boundary.trust import refuse_code
from ampere.errors import ModelError

ZOO, TIMM, TRANSFORMERS = "zoo", "timm", "hf"
PUBLIC = (TIMM, TRANSFORMERS)  # packages of others, whose models have names that everybody knows
FORMS = "write zoo:lenet5, timm:resnet50, hf:bert, path/file.py:factory or package.module:factory"

_PATTERN = re.compile(r"(?P<source>.+?):(?P<name>[^\W\d]\w*)(?P<arguments>\(.*\))?", re.DOTALL)
_PUBLIC_PATTERN = re.compile(
    r"(?P<source>timm|hf):(?P<name>[^(\s].*?)(?P<arguments>\(.*\))?", re.DOTALL
)


@dataclass(frozen=True)
class ModelName:
    """What a text that names a model says: where it lies, what it is called, how it is built."""

    source: str  # `zoo`, `timm`, `hf`, a module, or a file
    name: str
    arguments: dict[str, Any]

    @property
    def path(self) -> Path | None:
        """The file, or the folder of a configuration, if it is one."""
        if self.source == TRANSFORMERS:
            return absolute(self.name) if is_folder(self.name) else None
        return source_path(self.source)

    @property
    def is_own(self) -> bool:
        """Whether the user's own code makes it, not the zoo or a package that everybody knows."""
        return self.source not in (ZOO, *PUBLIC)

    @property
    def is_settled(self) -> bool:
        """Whether it is the same model as long as what is installed stays the same."""
        return not self.is_own and self.path is None

    def __str__(self) -> str:
        listed = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items())
        return f"{self.source}:{self.name}({listed})" if listed else f"{self.source}:{self.name}"


def parse_name(text: str) -> ModelName:
    """Read a text that names a model; nothing is imported.

    Raises:
        ModelError: It is malformed.
        DataError: A file says it, not the user.
    """
    refuse_code(text, "model", "its name")
    match = _PUBLIC_PATTERN.fullmatch(text.strip()) or _PATTERN.fullmatch(text.strip())
    if match is None:
        raise ModelError(f"{text!r} names no model: {FORMS}")
    return ModelName(match["source"], match["name"], _arguments(match["arguments"] or "()", text))


def has_form(text: str) -> bool:
    """Whether a text names something of the user's own, without arguments."""
    match = _PATTERN.fullmatch(text.strip())
    return match is not None and match["arguments"] is None


def is_folder(name: str) -> bool:
    """Whether what follows `hf:` is a folder: that has a separator, a type of model has none."""
    return name in (".", "..", "~") or bool(re.search(r"[/\\]", name))


def source_path(source: str) -> Path | None:
    """A path is known by its ending or its separators; anything else must be a module."""
    return absolute(source) if re.search(r"\.py$|[/\\]", source) else None


def absolute(text: str) -> Path:
    """Where a text that the user typed leads to; unlike Path's own, for any text."""
    return Path(os.path.realpath(os.path.expanduser(text)))


def _arguments(text: str, spec: str) -> dict[str, Any]:
    """Read `(width=32, block="basic")`: keywords and literals only, nothing is evaluated."""
    arguments: dict[str, Any] = {}
    try:
        call = ast.parse(f"f{text}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError
        for keyword in call.keywords:
            if keyword.arg is None or keyword.arg in arguments:
                raise ValueError
            arguments[keyword.arg] = ast.literal_eval(keyword.value)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise ModelError(
            f"cannot read the arguments of {spec!r}: write name=value pairs of plain values, "
            "e.g. factory(width=32, sizes=[16, 32])"
        ) from None
    return arguments
