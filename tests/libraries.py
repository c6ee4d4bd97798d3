"""Profiles of devices whose costs are known, as files of a library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ampere.core.fingerprint import Fingerprint
from ampere.core.layers import Layer
from ampere.meters.base import Provenance
from ampere.profiles.profile import Profile
from ampere.records.journal import Header
from ampere.records.measurement import Measurement
from fakes import exact, plain_model

MODELS = [plain_model(width) for width in (1, 20, 40, 64)]
MODELS += [plain_model(a, b) for a in (1, 32, 64) for b in (1, 32, 64)]
TORCH = {"framework": "torch 2.13.0", "threads": "2", "compile": "False", "tf32": "False"}


def a_profile(
    identity: Mapping[str, str],
    *,
    factor: float = 1.0,
    provenance: Provenance = Provenance.SIMULATED,
    meter: str = "simulated",
    models: Iterable[tuple[Layer, ...]] = MODELS,
    made_for: str | None = "zoo:lenet5",
    created: str = "2999-01-02T03:04:05+00:00",
) -> Profile:
    """A device that takes so many times the joules of the plain one."""
    rows = [_row(layers, number, factor, provenance) for number, layers in enumerate(models)]
    header = Header(Fingerprint(identity), {"name": meter}, provenance, created, model=made_for)
    return Profile(tuple(rows), header)


def _row(
    layers: tuple[Layer, ...], number: int, factor: float, provenance: Provenance
) -> Measurement:
    row = exact(layers)
    wave = 1 + 0.01 * (-1) ** number  # rows that agree to the last digit are no measurements
    return replace(
        row,
        energy_j_per_step=factor * wave * row.energy_j,
        provenance=provenance,
        when=f"2026-01-02T03:04:{number:02}+00:00",
    )


def a_fleet(folder: Path) -> Path:
    """Three devices: one measured, one modelled, one simulated; and a file that is no profile."""
    folder.mkdir()
    laptop = {"processor": "Core i7", "cores": "4", "accelerator": "cpu", **TORCH}
    a_profile(laptop, factor=2.0, provenance=Provenance.COUNTER, meter="rapl").save(
        folder / "laptop.ampere"
    )
    box = {"processor": "EPYC", "cores": "2", "accelerator": "cpu", **TORCH, "threads": "1"}
    a_profile(box, provenance=Provenance.MODELLED, meter="cpu").save(folder / "box.ampere")
    a_profile({"device": "simulated tx2"}, factor=3.0).save(folder / "tx2.ampere")
    (folder / "broken.ampere").write_text('{"x": 1}\n')
    return folder
