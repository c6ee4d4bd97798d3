"""Data as arrays: digits, a folder like CelebA's that is drawn here, and the user's own."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from ampere.datasets.arrays import assemble
from ampere.datasets.registry import is_known, open_data
from ampere.datasets.samples import Dataset, Samples, folds
from ampere.errors import DataError


def counted(n: int) -> Samples:
    """Samples whose input is their number, of three classes."""
    numbers = np.arange(n, dtype=np.float32)[:, None]
    return Samples(np.arange(n) % 3, lambda at: numbers[at])


def message_of(call: Callable[[], Any]) -> str:
    with pytest.raises(DataError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Samples


@given(n=st.integers(1, 30), size=st.integers(1, 40), seed=st.integers(0, 99))
def test_every_epoch_has_every_sample_once(n: int, size: int, seed: int) -> None:
    batches = itertools.islice(counted(n).batches(size, np.random.default_rng(seed)), 3 * n)
    inputs, labels = zip(*batches, strict=True)
    assert {len(batch) for batch in inputs} == {size}
    seen = np.concatenate(inputs)[:, 0].astype(int)
    assert (np.concatenate(labels) == seen % 3).all()
    for epoch in range(len(seen) // n):
        assert sorted(seen[epoch * n : (epoch + 1) * n]) == list(range(n))


def test_batches_follow_the_seed_and_differ_from_epoch_to_epoch() -> None:
    def epochs(seed: int) -> list[list[float]]:
        batches = counted(20).batches(20, np.random.default_rng(seed))
        return [inputs[:, 0].tolist() for inputs, _ in itertools.islice(batches, 2)]

    assert epochs(1) == epochs(1)
    assert epochs(1) != epochs(2)
    first, second = epochs(1)
    assert first != second


@given(n=st.integers(1, 30), size=st.integers(1, 40))
def test_in_order_goes_once_through(n: int, size: int) -> None:
    inputs, labels = zip(*counted(n).in_order(size), strict=True)
    assert [len(batch) for batch in inputs[:-1]] == [size] * (len(inputs) - 1)
    assert np.concatenate(inputs)[:, 0].tolist() == list(range(n))
    assert np.concatenate(labels).tolist() == [i % 3 for i in range(n)]


def test_some_of_some_samples() -> None:
    some = counted(10).take([9, 7, 5, 3]).take([2, 0])
    inputs, labels = some.batch([0, 1])
    assert len(some) == 2
    assert inputs[:, 0].tolist() == [5, 9]
    assert labels.tolist() == [2, 0]


def test_nothing_is_loaded_before_it_is_needed() -> None:
    asked: list[int] = []

    def load(at: Any) -> Any:
        asked.extend(at)
        return at

    samples = Samples(np.arange(9), load).take([8, 6, 4])
    assert not asked
    samples.batch([1])
    assert asked == [6]


@pytest.mark.parametrize(("n", "size"), [(0, 5), (5, 0), (5, -1)])
def test_no_batches(n: int, size: int) -> None:
    samples = counted(n)
    for batches in (samples.in_order(size), samples.batches(size, np.random.default_rng(0))):
        assert f"no batches of {size} in {n} samples" in message_of(lambda b=batches: next(b))


def test_every_part_needs_samples() -> None:
    says = message_of(lambda: Dataset("mine", counted(3), counted(0), counted(3), 3, (1,)))
    assert says.startswith("mine has no validation samples")


@given(labels=st.lists(st.integers(0, 4), max_size=60), count=st.integers(1, 6))
def test_folds_share_every_class(labels: list[int], count: int) -> None:
    parts = folds(np.array(labels, dtype=np.int64), count, np.random.default_rng(0))
    assert sorted(np.concatenate(parts)) == list(range(len(labels)))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    for label in set(labels):
        each = [sum(labels[i] == label for i in part) for part in parts]
        assert max(each) - min(each) <= 1


# Digits


def test_digits_are_split_by_class() -> None:
    data = open_data("digits", (1, 8, 8))
    assert (data.name, data.classes, data.shape) == ("digits", 10, (1, 8, 8))
    sizes = [len(part) for part in (data.train, data.validation, data.test)]
    assert sizes == [1079, 359, 359]
    for part in (data.train, data.validation, data.test):
        shares = np.bincount(part.labels, minlength=10) / len(part)
        assert np.abs(shares - 0.1).max() < 0.01


def images_of(samples: Samples) -> set[bytes]:
    return {image.tobytes() for image in samples.batch(np.arange(len(samples)))[0]}


def test_the_split_of_digits_follows_the_seed() -> None:
    ours, same, other = (open_data(" digits ", (1, 8, 8), seed) for seed in (1, 1, 2))
    assert images_of(ours.test) == images_of(same.test)
    assert len(images_of(ours.test) & images_of(other.test)) < 200
    assert not images_of(ours.train) & (images_of(ours.test) | images_of(ours.validation))


def test_digits_at_their_own_size_are_the_pixels() -> None:
    from sklearn.datasets import load_digits

    data = open_data("digits", (1, 8, 8))
    inputs, labels = data.train.batch(np.arange(len(data.train)))
    assert inputs.dtype == np.float32
    assert labels.dtype == np.int64
    known = {image.astype(np.uint8).tobytes() for image in load_digits().images}
    levels = (inputs - inputs.min()) / (inputs.max() - inputs.min()) * 16
    assert {image.tobytes() for image in np.rint(levels).astype(np.uint8)} <= known


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (2, 8, 13), (32, 32), (9, 128)])
def test_digits_fit_a_shape_and_are_standardised(shape: tuple[int, ...]) -> None:
    data = open_data("digits", shape)
    inputs, _ = data.train.batch(np.arange(len(data.train)))
    assert inputs.shape == (1079, *shape)
    assert inputs.mean(dtype=float) == pytest.approx(0, abs=1e-5)
    assert inputs.std(dtype=float) == pytest.approx(1, abs=1e-5)
    if len(shape) == 3:
        assert (inputs == inputs[:, :1]).all()


def test_digits_are_enlarged_by_interpolation() -> None:
    small, large = (open_data("digits", (8, width)).test.batch([0])[0][0] for width in (8, 16))
    before, after = small[:, [0, *range(7)]], small[:, [*range(1, 8), 7]]
    # Two new pixels lie a quarter to either side of an old one's centre.
    wanted = np.stack([0.75 * small + 0.25 * before, 0.75 * small + 0.25 * after], axis=2)
    same = np.corrcoef(large.ravel(), wanted.ravel())[0, 1]  # each is standardised by itself
    assert same == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("shape", [(32,), (1, 7, 8), (8, 5), (1, 1, 8, 8)])
def test_shapes_that_digits_cannot_have(shape: tuple[int, ...]) -> None:
    says = message_of(lambda: open_data("digits", shape))
    assert f"digits cannot be {'x'.join(map(str, shape))}:" in says
    assert "your own data" in says


@pytest.mark.parametrize("text", ["mnist", "", "digits:8", "digit"])
def test_unknown_data(text: str) -> None:
    says = message_of(lambda: open_data(text, (1, 8, 8)))
    assert says.startswith(f"there are no data {text!r}: use digits, celeba:DIR or your own")
    assert is_known(text) == text.startswith("digits")


@pytest.mark.parametrize(
    ("module", "text", "says"),
    [("sklearn.datasets", "digits", "digits need scikit-learn"), ("PIL", "celeba", "needs Pillow")],
)
def test_what_is_not_installed(
    module: str, text: str, says: str, celeba: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    name = f"celeba:{celeba}" if text == "celeba" else text
    said = message_of(lambda: open_data(name, (3, 8, 8)))
    assert says in said
    assert "pip install 'ampere-energy[prune]'" in said


def test_data_need_neither_torch_nor_what_they_do_not_read() -> None:
    code = (
        "import sys, ampere.datasets.registry as data\n"
        "assert not {'PIL', 'sklearn', 'torch'} & set(sys.modules)\n"
        "data.open_data('digits', (1, 8, 8))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# CelebA

NAMES = ("Eyeglasses", "Male", "Smiling")
# On both sides of the official borders between the parts.
NUMBERS = (1, 2, 3, 162_770, 162_771, 182_637, 182_638, 202_599)
OFFICIAL = {"train": NUMBERS[:4], "validation": NUMBERS[4:6], "test": NUMBERS[6:]}


def attributes_of(number: int) -> tuple[bool, ...]:
    """Every other image is a man's, every third smiles."""
    return (False, number % 2 == 0, number % 3 == 0)


def shade(number: int) -> int:
    return 20 + 30 * NUMBERS.index(number)


def file(number: int) -> str:
    return f"{number:06}.jpg"


def write_lists(folder: Path, ending: str, parts: dict[int, int] | None = None) -> None:
    gap = "," if ending == "csv" else " "
    rows = [
        gap.join([file(n), *("1" if has else "-1" for has in attributes_of(n))]) for n in NUMBERS
    ]
    head = [gap.join(["image_id", *NAMES])] if gap == "," else [str(len(rows)), "  ".join(NAMES)]
    (folder / f"list_attr_celeba.{ending}").write_text("\n".join([*head, *rows]) + "\n")
    if parts is not None:
        rows = [gap.join([file(n), str(part)]) for n, part in parts.items()]
        head = ["image_id,partition"] if gap == "," else []
        (folder / f"list_eval_partition.{ending}").write_text("\n".join([*head, *rows]) + "\n")


def draw(folder: Path) -> None:
    """Faces of one shade each in the middle square, red above it and below."""
    folder.mkdir(parents=True)
    for number in NUMBERS:
        image = Image.new("RGB", (178, 218), (255, 0, 0))
        image.paste((shade(number),) * 3, (0, 20, 178, 198))
        image.save(folder / file(number), quality=95, subsampling=0)


@pytest.fixture
def celeba(tmp_path: Path) -> Path:
    folder = tmp_path / "faces, aligned"
    draw(folder / "img_align_celeba")
    write_lists(folder, "txt")
    return folder


def shades(samples: Samples, low: float, high: float) -> list[int]:
    """Shades of images, from how dark the darkest and the brightest are after scaling."""
    inputs, _ = samples.batch(np.arange(len(samples)))
    middle = inputs.mean((1, 2, 3))
    return [round(value) for value in 20 + 210 * (middle - low) / (high - low)]


def test_faces_in_the_official_parts(celeba: Path) -> None:
    data = open_data(f"celeba:{celeba}", (3, 16, 16))
    assert (data.classes, data.shape) == (2, (3, 16, 16))
    darkest = data.train.batch([0])[0].mean()
    brightest = data.test.batch([1])[0].mean()
    for part, numbers in OFFICIAL.items():
        samples: Samples = getattr(data, part)
        assert samples.labels.tolist() == [int(n % 2 == 0) for n in numbers]
        found = shades(samples, darkest, brightest)
        assert found == pytest.approx([shade(n) for n in numbers], abs=2)


def test_faces_are_standardised_squares_from_the_middle(celeba: Path) -> None:
    data = open_data(f"celeba:{celeba}", (3, 20, 10))
    inputs, labels = data.train.batch(np.arange(4))
    assert inputs.shape == (4, 3, 20, 10)
    assert (inputs.dtype, labels.dtype) == (np.float32, np.int64)
    assert inputs.mean(dtype=float) == pytest.approx(0, abs=1e-5)
    assert inputs.std(dtype=float) == pytest.approx(1, abs=1e-5)
    assert inputs.std((1, 2, 3)).max() < 0.1  # nothing of the red is left


def test_colours_are_channels_and_can_be_given_up(celeba: Path) -> None:
    path = celeba / "img_align_celeba" / file(1)
    Image.new("RGB", (178, 218), (250, 0, 0)).save(path)
    (red, green, blue) = open_data(f"celeba:{celeba}", (3, 8, 8)).train.batch([0])[0][0]
    assert red.mean() > 0 > green.mean()
    assert green.mean() == pytest.approx(blue.mean(), abs=0.1)
    assert open_data(f"celeba:{celeba}", (1, 8, 8)).train.batch([0, 1])[0].shape == (2, 1, 8, 8)


@pytest.mark.parametrize("ending", ["txt", "csv"])
def test_a_list_of_parts_comes_first(tmp_path: Path, ending: str) -> None:
    draw(tmp_path / "img_align_celeba" / "img_align_celeba")  # as in some archives
    parts = {n: i % 3 for i, n in enumerate(NUMBERS)}
    write_lists(tmp_path, ending, parts)
    data = open_data(f"celeba:{tmp_path}", (1, 8, 8))
    for i, part in enumerate(("train", "validation", "test")):
        samples: Samples = getattr(data, part)
        assert samples.labels.tolist() == [int(n % 2 == 0) for n in NUMBERS if parts[n] == i]


def test_another_attribute(celeba: Path) -> None:
    data = open_data(f"celeba:{celeba}, attribute=Smiling", (1, 8, 8))
    assert data.train.labels.tolist() == [int(n % 3 == 0) for n in OFFICIAL["train"]]
    assert data.name == f"celeba:{celeba}, attribute=Smiling"


def spoil_missing(folder: Path) -> None:
    for number in NUMBERS[2:4]:
        (folder / "img_align_celeba" / file(number)).unlink()


def spoil_list(old: str, new: str) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        path = folder / "list_attr_celeba.txt"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return spoil


def spoil_names(folder: Path) -> None:
    (folder / "img_align_celeba" / file(1)).rename(folder / "img_align_celeba" / "anna.jpg")
    spoil_list(file(1), "anna.jpg")(folder)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (spoil_missing, "2 of 8 images that {0}/list_attr_celeba.txt names are not in"),
        (spoil_missing, "the first is 000003.jpg"),
        (lambda folder: (folder / "list_attr_celeba.txt").unlink(), "has no list_attr_celeba.txt"),
        (lambda folder: (folder / "list_attr_celeba.txt").write_text(""), "it is empty"),
        (spoil_list("Male", "Female"), "no attribute 'Male'; it has Eyeglasses, Female, Smiling"),
        (spoil_list("8\n", "9\n"), "lists 8 of 9 images: download it again"),
        (spoil_list("000002.jpg -1 1 -1", "000002.jpg -1 1"), "the line of 000002.jpg must be"),
        (spoil_list("000002.jpg -1 1 -1", "000002.jpg -1 1.5 1"), "the line of 000002.jpg must be"),
        (
            lambda folder: (folder / "img_align_celeba").rename(folder / "images"),
            "has no folder img",
        ),
        (spoil_names, "anna.jpg has no number to tell its part"),
        (
            lambda folder: write_lists(folder, "txt", dict.fromkeys(NUMBERS[1:], 0)),
            "list_eval_partition.txt must say 0, 1 or 2 for 000001.jpg",
        ),
        (
            lambda folder: write_lists(folder, "txt", {n: i % 2 for i, n in enumerate(NUMBERS)}),
            "has no test samples",
        ),
        (
            lambda folder: write_lists(folder, "txt", dict.fromkeys(NUMBERS, 2)),
            "has no train samples",
        ),
    ],
)
def test_a_folder_that_lacks_something(
    celeba: Path, spoil: Callable[[Path], object], says: str
) -> None:
    spoil(celeba)
    assert says.format(celeba) in message_of(lambda: open_data(f"celeba:{celeba}", (3, 8, 8)))


def test_no_folder(tmp_path: Path) -> None:
    says = message_of(lambda: open_data(f"celeba:{tmp_path}/absent", (3, 8, 8)))
    assert says.startswith(f"there is no folder {tmp_path}/absent")
    assert "celeba needs its folder" in message_of(lambda: open_data("celeba:", (3, 8, 8)))
    assert "celeba needs its folder" in message_of(lambda: open_data("celeba", (3, 8, 8)))


@pytest.mark.parametrize("shape", [(32,), (32, 32), (2, 8, 8)])
def test_shapes_that_faces_cannot_have(celeba: Path, shape: tuple[int, ...]) -> None:
    assert "celeba cannot be" in message_of(lambda: open_data(f"celeba:{celeba}", shape))


@pytest.mark.parametrize("kept", [0, 10, 0.5])
def test_a_damaged_image_is_named_when_it_is_decoded(celeba: Path, kept: float) -> None:
    path = celeba / "img_align_celeba" / file(202_599)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept if kept >= 1 else kept * len(whole))])
    data = open_data(f"celeba:{celeba}", (3, 8, 8))
    data.test.batch([0])
    assert f"cannot read the image {path}" in message_of(lambda: data.test.batch([1]))


# The user's own


def part(n: int, shape: tuple[int, ...] = (2,), dtype: str = "float64") -> tuple[Any, Any]:
    inputs = np.arange(n * np.prod(shape), dtype=dtype).reshape(n, *shape)
    return inputs, np.arange(n) % 3


def test_three_parts_are_taken_as_they_are() -> None:
    data = assemble("mine", [part(5), part(4), part(3)], (2,))
    assert [len(each) for each in (data.train, data.validation, data.test)] == [5, 4, 3]
    assert (data.name, data.classes, data.shape) == ("mine", 3, (2,))
    inputs, labels = data.test.batch([2, 0])
    assert inputs.tolist() == [[4, 5], [0, 1]]
    assert (inputs.dtype, labels.dtype) == (np.float32, np.int64)


def test_without_validation_a_fifth_of_the_training_part_is_held_back() -> None:
    ours, same, other = (assemble("x", (part(60), part(3)), (2,), seed=s) for s in (1, 1, 2))
    train, held = (each.batch(np.arange(len(each))) for each in (ours.train, ours.validation))
    assert (len(train[1]), len(held[1])) == (48, 12)
    assert sorted([*train[0][:, 0], *held[0][:, 0]]) == list(range(0, 120, 2))
    assert Counter(held[1].tolist()) == {0: 4, 1: 4, 2: 4}
    assert (same.validation.batch([0, 1, 2])[0] == held[0][:3]).all()
    assert set(other.validation.batch(np.arange(12))[0][:, 0]) != set(held[0][:, 0])


@pytest.mark.parametrize("given", ["uint8", "int64", "bool"])
def test_tokens_stay_whole_numbers_and_bytes_become_floats(given: str) -> None:
    parts = [(np.ones((3, 2), dtype=given), [0, 1.0, True])] * 3
    for dtype in ("float32", "int64"):
        inputs, labels = assemble("x", parts, (2,), dtype=dtype).train.batch([0])
        assert inputs.dtype == dtype
        assert labels.dtype == np.int64


class Unwilling:
    def __array__(self, *args: object, **kwargs: object) -> Any:
        raise RuntimeError("first\nmove it to the host")


GOOD = part(5)


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (None, "mine must return (train, test) or (train, validation, test), each a pair"),
        ((GOOD,), "must return (train, test)"),
        ((GOOD, GOOD[0]), "must return (train, test)"),
        ((GOOD, (*GOOD, 1)), "must return (train, test)"),
        (
            (GOOD, part(3, (4,))),
            "the test inputs of mine are of shape (3, 4): the model takes (n, 2)",
        ),
        ((GOOD, (3.0, [1])), "the test inputs of mine are of shape (): the model takes (n, 2)"),
        ((part(0), GOOD), "the train inputs of mine are of shape (0, 2)"),
        ((GOOD, part(3), (GOOD[0], [0, 1])), "test labels of mine are 2, the inputs are 5"),
        ((GOOD, (GOOD[0], [0, 1, 0.5, 1, 0])), "labels of mine must be whole numbers from 0 on"),
        ((GOOD, (GOOD[0], [0, 1, 0.5, 1, 0])), "not 0.5"),
        ((GOOD, (GOOD[0], [0, 1, -1, 1, 0])), "not -1"),
        ((GOOD, (GOOD[0], [0, 1, np.nan, 1, 0])), "not nan"),
        ((GOOD, (GOOD[0], [0, 1, np.inf, 1, 0])), "not inf"),
        ((GOOD, (GOOD[0], np.eye(5))), "test labels of mine are of shape (5, 5): give one whole"),
        ((GOOD, (GOOD[0], list("abcde"))), "test labels of mine must be numbers, not <U1"),
        (
            (GOOD, (np.full((5, 2), np.nan), GOOD[1])),
            "test inputs of mine hold numbers that are not",
        ),
        ((GOOD, ([[1, 2], [3]], [0, 1])), "test inputs of mine cannot be made into an array"),
        ((GOOD, (Unwilling(), [0, 1])), "cannot be made into an array: first move it to the host"),
        ((part(4), GOOD), "mine has no validation samples"),
    ],
)
def test_returned_data_that_do_not_fit(returned: Any, says: str) -> None:
    assert says in message_of(lambda: assemble("mine", returned, (2,)))


def test_floats_are_no_tokens() -> None:
    says = message_of(lambda: assemble("mine", (GOOD, GOOD), (2,), dtype="int64"))
    assert says == "the train inputs of mine are float64: the model takes int64"
