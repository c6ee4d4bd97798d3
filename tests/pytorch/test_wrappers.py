"""Models in wrappers are taken as they are inside, and that is said; shards are refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from ampere.errors import ModelError
from ampere.pytorch.models import read
from ampere.pytorch.runtime.wrappers import unwrapped


def small() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A group of one process."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_what_has_no_wrapper_is_itself_and_nothing_is_said() -> None:
    model = small()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert unwrapped(model) is model


def test_data_parallel() -> None:
    with pytest.warns(UserWarning, match=r"in DataParallel: .*one device has the whole batch"):
        layers = read(nn.DataParallel(small()), (4,))
    assert layers == read(small(), (4,))


@pytest.mark.usefixtures("group")
def test_distributed_data_parallel_is_one_rank() -> None:
    model = small()
    with pytest.warns(UserWarning, match="in DistributedDataParallel: .*--ranks counts several"):
        assert unwrapped(nn.parallel.DistributedDataParallel(model)) is model


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile itself
def test_wrappers_in_wrappers() -> None:
    model = small()
    both = torch.compile(nn.DataParallel(model))
    with pytest.warns(UserWarning) as told:
        assert unwrapped(both) is model
    assert ["torch.compile" in str(each.message) for each in told] == [True, False]


def test_a_module_of_the_users_own_with_such_a_name_is_no_wrapper() -> None:
    class DataParallel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = small()

    model = DataParallel()
    assert unwrapped(model) is model


@pytest.mark.usefixtures("group")
def test_shards_are_refused() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    sharded = fully_shard(small(), mesh=init_device_mesh("cpu", (1,)))
    with pytest.raises(ModelError, match="before, and the number of ranks as --ranks"):
        read(sharded, (4,))
