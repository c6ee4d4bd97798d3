"""Profiles: made by either code with its own command, and the seconds that they took."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import ampere
from ampere.core.types import Json
from measured.codes import Code
from measured.part import TRIES, say

PROFILE_S = 400.0  # when one is given up


@dataclass(frozen=True)
class Profiled:
    """A profile that was made: seconds in all, those after start-up, and those of its networks."""

    code: str
    model: str
    path: Path
    seconds: float
    tries: int
    error: str
    measuring_s: float | None = None
    costs_s: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """What is kept of it."""
        return {key: value for key, value in asdict(self).items() if key != "path"}


def make_profile(code: Code, model: str, networks: int) -> Profiled:
    """Profile a family; where other work kept it from that, the same command goes on."""
    path = code.home / f"{code.name}_{model.partition(':')[2]}.ampere"
    path.unlink(missing_ok=True)
    words = ["profile", model, "--profile", str(path), "--threads", "1", "--json"]
    words += ["--measurements", str(networks), "--tolerance", "0.001"]
    words += ["--sittings", "1"] if code.name == "new" else []
    seconds, tries = 0.0, 0
    while tries < TRIES:
        ended = code.ampere(*words, timeout_s=PROFILE_S)
        seconds, tries = seconds + ended.seconds, tries + 1
        if not ended.is_busy:
            break
        say(ended.complaint)
    if ended.code != 0:
        error = ended.complaint or "no end"
        say(f"profile {model}, {code.name}: {error}")
        return Profiled(code.name, model, path, seconds, tries, error)
    profile = ampere.Profile.load(path)
    created_s = datetime.fromisoformat(profile.header.created).timestamp()
    measuring_s = max(row.timestamp for row in profile.measurements) - created_s
    costs_s = tuple(row.cost_s for row in profile.measurements)
    say(f"profile {model}, {code.name}: {seconds:.1f} s, {len(costs_s)} rows")
    return Profiled(code.name, model, path, seconds, tries, "", measuring_s, costs_s)
