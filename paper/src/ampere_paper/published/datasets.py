"""Data sets: energies of training that others metered and published, as measurements.

A folder holds extracts of public data sets, one row a metered run; a module for each source says
what they are:

ecnas      ecnas_train.csv, ecnas_layers.csv
intel      broadwell_mlp_train.csv, raptorlake_layers_train.csv, cpu_sweeps_train.csv
board      board_train.jsonl
gpus       gpu_linear_train_time.jsonl

Networks that were metered several times are one row, their mean. What is one step here is whatever
was metered: a batch, or a process from its start to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ampere.errors import DataError
from ampere_paper.published import board, ecnas, gpus, intel
from ampere_paper.published.extracts import Recorded

# What `ampere reproduce` looks at; benchmarks look at the other two as well.
SOURCES = f"{ecnas.SOURCE} {intel.SOURCE}"
ALL_SOURCES = f"{SOURCES} {board.SOURCE} {gpus.SOURCE}"
FILES = (
    "ecnas_train.csv",
    "ecnas_layers.csv",
    "broadwell_mlp_train.csv",
    "raptorlake_layers_train.csv",
    "cpu_sweeps_train.csv",
)
ALL_FILES = (*FILES, board.FILE, gpus.FILE)


def refuse_incomplete(folder: Path, names: Sequence[str] = FILES) -> None:
    """See that all of these files are there.

    Raises:
        DataError: Some are not.
    """
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise DataError(f"{folder} has no {', '.join(missing)}: name the folder of these files")


def read_sets(folder: Path) -> dict[str, Recorded]:
    """The data sets of networks and of layers, by a short name; sweeps stand apart."""
    refuse_incomplete(folder)
    return {
        "ecnas": ecnas.read(folder),
        "broadwell": intel.broadwell(folder),
        "conv": intel.raptorlake(folder, "conv"),
        "linear": intel.raptorlake(folder, "linear"),
    }
