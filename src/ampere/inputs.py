"""InputSpec: the shape and type of one sample that a model is fed, without any framework."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ampere.errors import ModelError

EXAMPLES = "e.g. 3x32x32 for an image, or 128:int64<1000 for 128 token ids below 1000"

_PATTERN = re.compile(
    r"(?P<shape>\d{1,9}(?:x\d{1,9})*)(?::(?P<dtype>\w+)(?:<(?P<below>\d{1,9}))?)?", re.ASCII
)


@dataclass(frozen=True)
class InputSpec:
    """One sample: its shape without the batch, and its type; token ids are `below` a number."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    below: int | None = None

    def __post_init__(self) -> None:
        if not self.shape or min(self.shape) < 1:
            raise ModelError(f"input {self}: every size must be at least 1, {EXAMPLES}")
        if self.dtype not in ("float32", "int64", "bool"):
            raise ModelError(f"input {self}: the type must be float32 or int64, {EXAMPLES}")
        if self.below is not None and (self.dtype != "int64" or self.below < 1):
            raise ModelError(f"input {self}: only int64 has a limit, of at least 1, {EXAMPLES}")

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        below = "" if self.below is None else f"<{self.below}"
        return shape if f"{self.dtype}{below}" == "float32" else f"{shape}:{self.dtype}{below}"


@dataclass(frozen=True)
class Inputs:
    """What one sample of a model is: its positional inputs, and those by keyword."""

    positional: tuple[InputSpec, ...]
    named: tuple[tuple[str, InputSpec], ...] = ()

    def __iter__(self):
        yield from self.positional
        yield from (s for _, s in self.named)

    def __str__(self):
        return ", ".join([*map(str, self.positional), *(f"{n}={s}" for n, s in self.named)])


def parse_inputs(text: str) -> Inputs:
    pos, named = [], []
    for part in text.split(","):
        n, eq, rest = part.strip().rpartition("=")
        (named.append((n, parse_input(rest))) if eq else pos.append(parse_input(rest)))
    return Inputs(tuple(pos), tuple(named))


def parse_input(text: str) -> InputSpec:
    """Read `3x32x32`, `128:int64` or `128:int64<1000`: sizes without the batch, then the type."""
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise ModelError(f"{text!r} is no input: write the sizes without the batch, {EXAMPLES}")
    below = match["below"]
    return InputSpec(
        tuple(int(size) for size in match["shape"].split("x")),
        match["dtype"] or "float32",
        None if below is None else int(below),
    )
