"""Batches of a user's loader: drawn epoch after epoch, and what may be wrong with one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ampere.errors import ModelError
from ampere.frameworks.batches import Batches

CODE = """
import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __init__(self, n=6, bad=False):
        self.n, self.bad = n, bad

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if self.bad:
            raise ValueError("file 7 is damaged")
        return torch.tensor([float(i)])


def made(**options):
    return DataLoader(Numbers(**options), batch_size=4)


def plain():
    return made()


def empty():
    return made(n=0)


def bad():
    return made(bad=True)


def bad_worker():
    return DataLoader(Numbers(bad=True), batch_size=4, num_workers=1)


def spawned():
    return DataLoader(Numbers(), batch_size=4, num_workers=1, multiprocessing_context="spawn")


def unpicklable():
    data = Numbers()
    data.transform = lambda x: x
    return DataLoader(data, num_workers=1, multiprocessing_context="spawn")


def once():
    return (i for i in range(2))


def number():
    return 5


def raises():
    raise RuntimeError("no such folder")


def asks(folder):
    return made()


def listed():
    return [1, 2, 3]
"""


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A user's file with loaders, whose name no module has."""
    path = tmp_path / f"numbers_{tmp_path.name}.py"
    path.write_text(CODE)
    yield path
    sys.modules.pop(path.stem, None)


def test_a_loader_that_has_ended_begins_again(data: Path) -> None:
    batches = Batches(f"{data}:plain")
    assert (batches.workers, batches.samples, batches.epoch) == (0, 4, None)
    for _ in range(5):
        batches.draw()
    assert batches.epoch == 2


def test_a_loader_need_not_be_of_torch(data: Path) -> None:
    batches = Batches(f"{data}:listed")
    for _ in range(4):
        batches.draw()
    assert (batches.epoch, batches.samples, batches.workers) == (3, None, 0)


def test_workers_that_are_spawned_find_the_file(data: Path) -> None:
    batches = Batches(f"{data}:spawned")
    batches.draw()
    assert batches.workers == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("empty", "made a loader that yields nothing: give it data"),
        ("once", "yields nothing the second time"),
        ("bad", "raises ValueError: file 7 is damaged"),
        ("bad_worker", "raises in a worker: 'ValueError: file 7 is damaged'"),
        ("unpicklable", "its workers cannot be sent what they need"),
        ("number", "returned an object of type int; it must return a DataLoader"),
        ("raises", "raises RuntimeError: no such folder"),
        ("asks", "missing a required argument: 'folder'"),
        ("absent", "has no 'absent'"),
    ],
)
def test_a_loader_that_cannot_be_drawn_from_is_one_line(data: Path, name: str, says: str) -> None:
    with pytest.raises(ModelError) as error:
        batches = Batches(f"{data}:{name}")
        for _ in range(3):
            batches.draw()
    assert says in str(error.value) and "\n" not in str(error.value)


def test_a_text_that_names_nothing_is_refused() -> None:
    with pytest.raises(ModelError, match=r"write path/file\.py:loader"):
        Batches("loader")
