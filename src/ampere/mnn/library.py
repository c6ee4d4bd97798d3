"""MNN itself, imported when it is first needed: tables of operations are read without it.

`F` has MNN's expressions as the engine has them. The wrappers of the same names in `MNN.expr` are
never used: several insert a cast, and a cast has no gradient, so what stands behind it is skipped
in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class _Expressions:
    """The functions of `MNN.expr._F`, looked up once each."""

    def __getattr__(self, name: str) -> Any:
        from MNN.expr import _F

        found = getattr(_F, name)
        setattr(self, name, found)
        return found


F: Any = _Expressions()


def constant(values: Any, kind: str = "float") -> Any:
    """An array of numpy as a value that does not change: `float` or `int`."""
    import numpy as np

    array = np.array(values, np.float32 if kind == "float" else np.int32, order="C")
    dtype = getattr(F.dtype, kind)
    return F.const(array, list(array.shape), F.data_format.NCHW, dtype)


def plain(x: Any) -> Any:
    """The same value with its dimensions in order; convolutions keep channels in blocks of four."""
    return x if x.data_format == F.data_format.NCHW else F.convert(x, F.data_format.NCHW)


def blocked(x: Any) -> Any:
    """The same value with its channels in blocks of four, as convolutions and pools want it."""
    return x if x.data_format == F.data_format.NC4HW4 else F.convert(x, F.data_format.NC4HW4)


def reshaped(x: Any, shape: Sequence[int]) -> Any:
    """The same numbers in another shape."""
    return F.reshape(plain(x), [int(size) for size in shape])


def permuted(x: Any, order: Sequence[int]) -> Any:
    """The same numbers with dimensions in another order."""
    return F.transpose(plain(x), [int(axis) for axis in order])
