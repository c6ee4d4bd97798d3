"""What a model is fed, without any framework: the tensors of one sample."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ampere.errors import ModelError

DTYPES = ("float32", "int64", "bool")
EXAMPLES = (
    "e.g. 3x32x32 for an image, 128:int64<1000 for 128 token ids below 1000,"
    " or both: 3x32x32, tokens=128:int64<1000"
)

_PATTERN = re.compile(
    r"(?P<shape>\d{1,9}(?:x\d{1,9})*)(?::(?P<dtype>\w+)(?:<(?P<below>\d{1,9}))?)?", re.ASCII
)


@dataclass(frozen=True)
class InputSpec:
    """One tensor of a sample: its shape without the batch, its type; ids are `below` a number."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    below: int | None = None

    def __post_init__(self) -> None:
        if not self.shape or min(self.shape) < 1:
            raise ModelError(f"input {self}: every size must be at least 1, {EXAMPLES}")
        if self.dtype not in DTYPES:
            types = ", ".join(DTYPES)
            raise ModelError(f"input {self}: the type must be one of {types}, {EXAMPLES}")
        if self.below is not None and (self.dtype != "int64" or self.below < 1):
            raise ModelError(f"input {self}: only int64 has a limit, of at least 1, {EXAMPLES}")

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        below = "" if self.below is None else f"<{self.below}"
        return shape if f"{self.dtype}{below}" == "float32" else f"{shape}:{self.dtype}{below}"

    @classmethod
    def parse(cls, text: str) -> InputSpec:
        """Read `3x32x32`, `16:bool` or `128:int64<1000`: sizes without the batch, then the type."""
        match = _PATTERN.fullmatch(text.strip())
        if match is None:
            raise ModelError(f"{text!r} is no input: write the sizes without the batch, {EXAMPLES}")
        below = match["below"]
        return cls(
            tuple(int(size) for size in match["shape"].split("x")),
            match["dtype"] or "float32",
            None if below is None else int(below),
        )


@dataclass(frozen=True)
class Inputs:
    """What one sample of a model is: its positional inputs, and those by keyword."""

    positional: tuple[InputSpec, ...]
    named: tuple[tuple[str, InputSpec], ...] = ()

    def __post_init__(self) -> None:
        names = [name for name, _ in self.named]
        if not self.positional and not names:
            raise ModelError(f"a model needs at least one input, {EXAMPLES}")
        for name in names:
            if not isinstance(name, str) or not name.isidentifier():
                raise ModelError(f"{name!r} cannot be the name of an input, {EXAMPLES}")
            if names.count(name) > 1:
                raise ModelError(f"the input {name!r} is there twice: give each its own name")

    def __iter__(self) -> Iterator[InputSpec]:
        yield from self.positional
        for _, spec in self.named:
            yield spec

    def __str__(self) -> str:
        named = (f"{name}={spec}" for name, spec in self.named)
        return ", ".join((*map(str, self.positional), *named))


def parse_inputs(text: str) -> Inputs:
    """Read inputs between commas, those by keyword with their name: `3x32x32, mask=16:bool`."""
    positional, named = [], []
    for part in text.split(","):
        name, by_name, spec = part.rpartition("=")
        if by_name:
            named.append((name.strip(), InputSpec.parse(spec)))
        else:
            positional.append(InputSpec.parse(spec))
    return Inputs(tuple(positional), tuple(named))
