"""A powercap tree in a temporary folder, with counters that wrap as the kernel's do."""

from __future__ import annotations

from pathlib import Path


class Powercap:
    def __init__(self, root: Path) -> None:
        self.path = root
        root.mkdir(parents=True)

    @property
    def root(self) -> str:
        return str(self.path)

    def add(self, zone: str, name: str, energy_uj: int = 1, range_uj: int = 1_000_000) -> None:
        (self.path / zone).mkdir()
        self.write(zone, "name", f"{name}\n")
        self.write(zone, "max_energy_range_uj", f"{range_uj}\n")
        self.write(zone, "energy_uj", f"{energy_uj}\n")

    def write(self, zone: str, file: str, text: str) -> None:
        (self.path / zone / file).write_text(text, encoding="utf-8")

    def spend(self, zone: str, energy_uj: int) -> None:
        """Count on, wrapping around at the zone's range."""
        now = int((self.path / zone / "energy_uj").read_text())
        range_uj = int((self.path / zone / "max_energy_range_uj").read_text())
        self.write(zone, "energy_uj", f"{(now + energy_uj) % range_uj}\n")
