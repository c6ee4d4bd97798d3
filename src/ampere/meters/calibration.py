"""Watts of the `cpu` model, fitted to a better meter or to what a user read off one.

    energy_j = idle_w × seconds + active_w × CPU-seconds          least squares of relative errors

They are kept in `~/.config/ampere/cpu.json` of the machine they were fitted on, with their error
and where they come from; the meter `cpu` takes them unless it is given others. Its joules stay
modelled: a model that was fitted is still a model.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ampere.core.boundary.fields import Fields, parse_json
from ampere.core.boundary.files import read_whole, write_whole
from ampere.errors import DataError, MeterError, MeterFault
from ampere.meters.base import Meter, Reading, energy_between
from ampere.meters.surroundings import Evidence, Surroundings

LEAST_W, MOST_W = 1e-6, 1e6  # of any machine that somebody trains on
MOST_BYTES = 65536  # of what is kept
BUSY = 0.1  # cores that other programs may have meanwhile
SECONDS = 4.0  # of each load, or what the meter needs
TRIES = 3
SPIN = "import sys, time\nwhile time.process_time() < float(sys.argv[1]): pass\n"


@dataclass(frozen=True)
class Load:
    """What a machine took while so many of its cores were busy."""

    time_s: float
    cpu_s: float
    energy_j: float


@dataclass(frozen=True)
class Calibration:
    """Watts of the model, how far it is from what it was fitted to, and whose joules those were."""

    idle_w: float
    active_w: float
    error: float | None  # relative; None where two loads leave nothing to judge by
    against: str
    when: str

    @property
    def settings(self) -> dict[str, float]:
        """The settings of the meter `cpu`."""
        return {"idle_w": self.idle_w, "active_w": self.active_w}

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {100 * self.error:.1f} %"
        return (
            f"{self.idle_w:.3g} W idle and {self.active_w:.3g} W for each busy core{error},"
            f" fitted to {self.against} on {self.when[:10]}"
        )


def fit_watts(loads: Sequence[Load], against: str, when: str) -> Calibration:
    """The watts that explain these loads best."""
    usable = [
        load
        for load in loads
        if load.time_s > 0 and LEAST_W <= load.energy_j / load.time_s <= MOST_W
    ]
    busy = [load.cpu_s / load.time_s for load in usable]
    if len(usable) < 2 or max(busy) - min(busy) < 0.2:
        raise MeterError(
            "watts need two loads at least, one idle and one busy: give both, e.g."
            " --watts 0=2.7 --watts 4=6.4"
        )
    # Two unknowns: powers = idle_w + active_w × busy, each weighted by 1 / power².
    powers = [load.energy_j / load.time_s for load in usable]
    weights = [1 / power**2 for power in powers]
    total = sum(weights)
    mean_busy = sum(w * b for w, b in zip(weights, busy)) / total
    mean_w = sum(w * p for w, p in zip(weights, powers)) / total
    spread = sum(w * (b - mean_busy) ** 2 for w, b in zip(weights, busy))
    joint = sum(w * (b - mean_busy) * (p - mean_w) for w, b, p in zip(weights, busy, powers))
    active_w = joint / spread
    idle_w = mean_w - active_w * mean_busy
    if not (0 < active_w <= MOST_W and 0 <= idle_w <= MOST_W):
        raise MeterError(
            f"these loads make no sense of the model ({idle_w:.3g} W idle, {active_w:.3g} W a busy"
            " core): neither may be below 0; measure again on a quiet machine"
        )
    errors = [(idle_w + active_w * b) / p - 1 for b, p in zip(busy, powers)]
    error = math.sqrt(sum(e * e for e in errors) / (len(errors) - 2)) if len(errors) > 2 else None
    return Calibration(idle_w, active_w, error, against, when)


def run_loads(
    meter: Meter, cores: int, watch: Callable[[str], None] = lambda text: None
) -> list[Load]:
    """Idle, then some of the cores busy, then all, each under the meter."""
    steps = sorted({0, 1, (cores + 1) // 2, cores})
    loads = []
    power_w = 1.0
    for busy in (*steps, *reversed(steps)):  # up and down, so that a drift cancels out
        seconds = max(SECONDS, meter.resolution.window_s(power_w, 0.02))
        watch(f"{busy} of {cores} cores busy for {seconds:.0f} s")
        load = _run_load(meter, busy, seconds)
        power_w = load.energy_j / load.time_s
        loads.append(load)
    return loads


def store(calibration: Calibration) -> Path:
    """Keep it for the meter `cpu` of this machine."""
    path = _path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(asdict(calibration), indent=1) + "\n")
    except OSError as error:
        raise MeterError(f"{path} cannot be written: {error.strerror}") from None
    return path


def stored() -> Calibration | None:
    """What was kept, if anything."""
    path = _path()
    try:
        row = Fields(parse_json(read_whole(path, MOST_BYTES)))
        return Calibration(
            idle_w=row.number("idle_w", least=0.0, most=MOST_W),
            active_w=row.number("active_w", above=0.0, most=MOST_W),
            error=row.number("error", None, least=0.0),
            against=row.text("against", most=1000),
            when=row.text("when", most=100),
        )
    except FileNotFoundError:
        return None
    except (OSError, DataError) as error:
        raise MeterError(f"{path} is damaged ({error}): delete it, or calibrate again") from None


def calibrated(name: str, settings: Mapping[str, float | str]) -> dict[str, float | str]:
    """Settings of a meter: the user's, and what it was calibrated to here for the rest."""
    models = name in ("cpu", "tree") and not {"idle_w", "active_w"} <= set(settings)
    calibration = stored() if models else None
    return {**(calibration.settings if calibration else {}), **settings}


def _run_load(meter: Meter, busy: int, seconds: float) -> Load:
    surroundings = Surroundings()
    for left in reversed(range(TRIES)):
        spinners: list[subprocess.Popen[bytes]] = []
        try:
            for _ in range(busy):
                spinners.append(_spin(4 * seconds + 5))
            time.sleep(0.3)  # until they are all under way
            around = surroundings.look()
            before = _cpu_s(spinners), meter.read()
            time.sleep(seconds)
            after = _cpu_s(spinners), meter.read()
            _refuse_others(surroundings.since(around), after[0] - before[0], seconds)
            if any(spinner.poll() is not None for spinner in spinners):
                raise MeterFault("a process that kept a core busy has ended; calibrate again")
            return _load(before, after)
        except MeterFault:
            if not left:
                raise
        finally:
            for spinner in spinners:
                spinner.kill()
                spinner.wait()
    raise AssertionError("the last try returns or raises")


def _refuse_others(evidence: Evidence, spinning_s: float, time_s: float) -> None:
    """Joules of a better meter have everybody's work in them, and only ours is known."""
    others = max((evidence.others_s or 0.0) - spinning_s, 0.0) / time_s
    if others > BUSY:
        raise MeterFault(
            f"other programs had {others:.2f} cores meanwhile: end them, and calibrate again"
        )


def _spin(seconds: float) -> subprocess.Popen[bytes]:
    """A process that keeps a core busy for so long."""
    try:
        return subprocess.Popen([sys.executable, "-c", SPIN, str(seconds)])
    except OSError as error:
        raise MeterError(f"no core can be kept busy ({error.strerror}); try again") from None


def _load(before: tuple[float, Reading], after: tuple[float, Reading]) -> Load:
    window = energy_between(before[1], after[1])
    return Load(window.time_s, after[0] - before[0], window.energy_j)


def _cpu_s(processes: Sequence[subprocess.Popen[bytes]]) -> float:
    """CPU-seconds that these processes have used; Linux tells, elsewhere each has a core."""
    total = 0.0
    for process in processes:
        try:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            total += time.perf_counter()
    return total


def _path() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "ampere" / "cpu.json"
