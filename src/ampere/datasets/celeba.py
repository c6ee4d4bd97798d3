"""CelebA: 202 599 faces with 40 attributes, from a folder that the user has downloaded.

It holds `img_align_celeba/`, `list_attr_celeba.txt` and `list_eval_partition.txt`, or the same
lists as `.csv`. Without the list of parts, the official numbers of the images tell them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ampere.core.arrays import AnyArray, Ints
from ampere.datasets.samples import Dataset, Samples, Shape, standardise
from ampere.errors import DataError

IMAGES, ATTRIBUTES, PARTS = "img_align_celeba", "list_attr_celeba", "list_eval_partition"
LAST_OF = (162_770, 182_637)  # the training and validation images; the others are for testing
FORMATS = ("JPEG", "PNG")  # others may start programs, such as that of PostScript
LOOKED_AT = 500  # images that mean and standard deviation are taken from

_PATTERN = re.compile(r"(?P<folder>.+?)(?:,\s*attribute=(?P<attribute>[^,=]+))?", re.DOTALL)


def open_celeba(text: str, shape: Shape) -> Dataset:
    """Faces in two classes, in the official parts.

    Args:
        text: The folder, and which attribute is told apart: `DIR`, which means
            `DIR,attribute=Male`, or another.
        shape: Images (C, H, W), in colour or grey: the square in the middle, made to fit.

    Raises:
        DataError: The folder lacks something, or the faces cannot have this shape.
    """
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise DataError("celeba needs its folder: write celeba:DIR or celeba:DIR,attribute=Smiling")
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise DataError(
            f"celeba cannot be {'x'.join(map(str, shape))}: its images have 3 channels, or 1 if"
            " grey, e.g. 3x32x32"
        )
    folder = Path(os.path.expanduser(match["folder"].strip()))
    images = _images(folder)
    attributes = _find(folder, ATTRIBUTES)
    if attributes is None:
        raise DataError(f"{folder} has no {ATTRIBUTES}.txt or .csv: download it from CelebA's page")
    labels = _labels(attributes, (match["attribute"] or "Male").strip())
    present = set(os.listdir(images))
    missing = [name for name in labels if name not in present]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(labels)} images that {attributes} names are not in {images},"
            f" the first is {missing[0]}: unpack {IMAGES}.zip there again"
        )
    names = list(labels)
    faces = Samples(
        np.array(list(labels.values()), dtype=np.int64),
        lambda at: np.stack([_decode(images / names[i], shape) for i in at]),
    )
    part = _parts(folder, names)
    train, validation, test = (faces.take(np.flatnonzero(part == i)) for i in range(3))
    raw = Dataset(
        name=f"celeba:{text.strip()}",
        train=train,
        validation=validation,
        test=test,
        classes=2,
        shape=shape,
    )
    return standardise(raw, math.ceil(len(raw.train) / LOOKED_AT))


def _images(folder: Path) -> Path:
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}: download CelebA, and write celeba:DIR")
    images = folder / IMAGES
    if not images.is_dir():
        raise DataError(f"{folder} has no folder {IMAGES}: unpack {IMAGES}.zip there")
    inner = images / IMAGES  # as some archives have it
    return inner if inner.is_dir() else images


def _find(folder: Path, stem: str) -> Path | None:
    paths = (folder / f"{stem}{ending}" for ending in (".txt", ".csv"))
    return next((path for path in paths if path.is_file()), None)


def _lines(path: Path) -> Iterator[list[str]]:
    """Cells between blanks or commas, of lines that have any."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for line in file:
            if cells := line.replace(",", " ").split():
                yield cells


def _labels(path: Path, attribute: str) -> dict[str, int]:
    """Which images have an attribute. Before the names of attributes, a text has their number."""
    lines = _lines(path)
    header = next(lines, [])
    count = int(header[0][:20]) if len(header) == 1 and header[0].isdecimal() else None
    if count is not None:
        header = next(lines, [])
    attributes = [name for name in header if name != "image_id"]
    if attribute not in attributes:
        listed = f"it has {', '.join(attributes[:8])}" + (" ..." if len(attributes) > 8 else "")
        raise DataError(
            f"{path} has no attribute {attribute!r}; {listed if attributes else 'it is empty'}"
        )
    column = 1 + attributes.index(attribute)
    labels: dict[str, int] = {}
    for cells in lines:
        if len(cells) != 1 + len(attributes) or cells[column] not in ("1", "-1", "0"):
            raise DataError(
                f"{path}: the line of {cells[0]} must be a name and {len(attributes)} times 1 or"
                " -1: download it again"
            )
        labels[cells[0]] = int(cells[column] == "1")
    if count not in (None, len(labels)):
        raise DataError(f"{path} lists {len(labels)} of {count} images: download it again")
    return labels


def _parts(folder: Path, names: Sequence[str]) -> Ints:
    """Of each image: 0 for training, 1 for validation, 2 for testing."""
    path = _find(folder, PARTS)
    if path is None:
        unknown = next((name for name in names if not Path(name).stem.isdecimal()), None)
        if unknown is not None:
            raise DataError(
                f"{unknown} has no number to tell its part: put {PARTS}.txt in {folder}"
            )
        return np.searchsorted(LAST_OF, [int(Path(name).stem) for name in names])
    part_of = {cells[0]: cells[-1] for cells in _lines(path)}
    unknown = next((name for name in names if part_of.get(name) not in ("0", "1", "2")), None)
    if unknown is not None:
        raise DataError(f"{path} must say 0, 1 or 2 for {unknown}: download it again")
    return np.array([int(part_of[name]) for name in names], dtype=np.int64)


def _decode(path: Path, shape: Shape) -> AnyArray:
    """The square in the middle of an image as numbers (C, H, W) from 0 to 255."""
    pillow = _pillow()
    channels, height, width = shape
    try:
        with pillow.open(path, formats=FORMATS) as image:
            side = min(image.size)
            left, top = ((size - side) // 2 for size in image.size)
            square = image.crop((left, top, left + side, top + side))
            pixels = square.convert("L" if channels == 1 else "RGB").resize(
                (width, height), pillow.Resampling.BILINEAR
            )
    except Exception as error:  # of many types, depending on where the file is damaged
        raise DataError(f"cannot read the image {path}: {error}; download it again") from None
    return np.atleast_3d(np.asarray(pixels, dtype=np.float32)).transpose(2, 0, 1)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise DataError("celeba needs Pillow: pip install 'ampere-energy[prune]'") from None
    return Image
