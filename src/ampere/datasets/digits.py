"""Digits: the 1797 grey images of 8×8 pixels that scikit-learn brings along, in 10 classes."""

from __future__ import annotations

import numpy as np

from ampere.core.arrays import AnyArray, Ints
from ampere.datasets.samples import Dataset, Samples, Shape, folds, standardise
from ampere.errors import DataError

SIDE = 8


def open_digits(shape: Shape, seed: int = 0) -> Dataset:
    """Digits as images (C, H, W) or sequences of rows (T, F): 60 % train, 20 % each for the rest.

    Args:
        shape: What they are enlarged to by linear interpolation; channels are all the same.
        seed: Of the split, which keeps the shares of the classes.

    Raises:
        DataError: They cannot have this shape, or scikit-learn is missing.
    """
    if len(shape) not in (2, 3) or min(shape[-2:]) < SIDE:
        raise DataError(
            f"digits cannot be {'x'.join(map(str, shape))}: they are images, e.g. 1x28x28, or rows"
            f" of pixels, e.g. 32x32, of {SIDE}x{SIDE} or more; other inputs need your own data"
        )
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise DataError("digits need scikit-learn: pip install 'ampere-energy[prune]'") from None
    bunch = load_digits()
    images, labels = bunch.images.astype(np.float32), bunch.target.astype(np.int64)
    rows, columns = (_stretch(size) for size in shape[-2:])

    def load(at: Ints) -> AnyArray:
        grey = rows @ images[at] @ columns.T
        return grey if len(shape) == 2 else np.repeat(grey[:, None], shape[0], axis=1)

    digits = Samples(labels, load)
    *to_train, to_validate, to_test = folds(labels, 5, np.random.default_rng(seed))
    raw = Dataset(
        name="digits",
        train=digits.take(np.concatenate(to_train)),
        validation=digits.take(to_validate),
        test=digits.take(to_test),
        classes=10,
        shape=shape,
    )
    return standardise(raw)


def _stretch(size: int) -> AnyArray:
    """Weights (size, 8) of linear interpolation between the centres of 8 pixels."""
    places = np.clip((np.arange(size) + 0.5) * SIDE / size - 0.5, 0, SIDE - 1)
    distances = np.abs(places[:, None] - np.arange(SIDE))
    return np.asarray(np.maximum(1 - distances, 0), dtype=np.float32)
