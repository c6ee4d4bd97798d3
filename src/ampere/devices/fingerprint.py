"""Which hardware in which settings: measurements of different fingerprints never mix silently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fingerprint:
    """`identity` must be the same for measurements to mix; `conditions` should be."""

    identity: Mapping[str, str]
    conditions: Mapping[str, str] = field(default_factory=dict, compare=False)
