"""Zeus: whole jobs on four GPUs, at many batch sizes and power limits; joules by NVML.

Nobody published layers, so a job is one layer of a kind of its own, whose width is the batch.
Joules are those of a step: mean watts times seconds of an epoch, over the steps of an epoch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.errors import DataError
from ampere.meters.base import Provenance
from ampere.records.measurement import Measurement
from ampere_paper.published.extracts import Recorded, records

FILE = "zeus_train_epochs.csv"
SOURCE = "Zeus: ml-energy/zeus, commit 75a8b93, Apache-2.0 (Zeus, NSDI 2023)."
EPOCH = 10_000.0  # samples, by which joules of an epoch are divided: the same for all devices


def read(folder: Path) -> list[Recorded]:
    """A data set for each GPU, in the order of their names."""
    rows: dict[str, list[Measurement]] = defaultdict(list)
    rejected: dict[str, int] = defaultdict(int)
    for record in records(folder, FILE):
        try:
            joules = float(record["time_per_epoch"]) * float(record["average_power"])
            row = _row(record, joules)
        except (KeyError, ValueError) as error:
            raise DataError(f"{folder / FILE} has a line without {error}") from None
        if math.isfinite(joules) and joules > 0:
            rows[record["gpu"]].append(row)
        else:
            rejected[record["gpu"]] += 1
    return [
        Recorded(f"Zeus, {gpu}", tuple(ours), rejected[gpu], None)
        for gpu, ours in sorted(rows.items())
    ]


def _row(record: dict[str, str], joules: float) -> Measurement:
    batch = int(record["batch_size"])
    job = f"{record['dataset']} {record['network']} {record['optimizer']}"
    kind = LayerKind(job, Role.LAST, "job", {"power_limit": int(record["power_limit"])})
    layer = Layer(job, kind, Widths({"batch": batch}))
    return Measurement((layer,), joules * batch / EPOCH, provenance=Provenance.EXTERNAL)
