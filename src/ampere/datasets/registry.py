"""Data by name: those that ampere knows, and whether a text names them."""

from __future__ import annotations

from ampere.datasets.celeba import open_celeba
from ampere.datasets.digits import open_digits
from ampere.datasets.samples import Dataset, Shape
from ampere.errors import DataError

NAMES = ("digits", "celeba")


def is_known(text: str) -> bool:
    """Whether a text names data that ampere knows, and not the user's own."""
    return text.strip().partition(":")[0] in NAMES


def open_data(text: str, shape: Shape, seed: int = 0) -> Dataset:
    """Open data by name: `digits`, `celeba:DIR` or `celeba:DIR,attribute=Smiling`.

    Args:
        text: The name, after a colon where the data are and how they are read.
        shape: Of one input, which the data are made to fit.
        seed: Of the split into parts, where there is no official one.

    Raises:
        DataError: There are no such data, something of them is missing, or they cannot fit.
    """
    name, colon, place = text.strip().partition(":")
    if name == "celeba":
        return open_celeba(place, shape)
    if name == "digits" and not colon:
        return open_digits(shape, seed)
    raise DataError(
        f"there are no data {text!r}: use digits, celeba:DIR or your own as path/file.py:function"
    )
