"""Checkup: whether a machine has what ampere needs, a finding for each thing that was looked at.

    ok     as it should be
    note   ampere works, and could do better, or not everything
    fix    something is broken: answers would be wrong, or there would be none

Each look stands alone: what it cannot do is a finding itself, and the others are made all the same.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from ampere.core import units
from ampere.core.page import printable
from ampere.core.types import Json

OK, NOTE, FIX = "ok", "note", "fix"
LOOK_S = 1.0  # at what else runs
LITTLE, TOO_LITTLE = 1e9, 50e6  # bytes of a disk: for a framework's caches, for a profile
NEEDED = ("numpy", "scipy")
CLIENTS = {  # what reaches devices from here, and what brings it
    "adb": "Android devices need it: install Android's platform-tools",
    "ssh": "other machines need it: install openssh-client",
}


@dataclass(frozen=True)
class Finding:
    """What one look found: of what, how it is, in words, and what to do, if anything."""

    name: str
    state: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.text}; {self.remedy}" if self.remedy else self.text


@dataclass(frozen=True)
class Checkup:
    """All findings, in the order of the looks."""

    findings: tuple[Finding, ...]

    @property
    def to_fix(self) -> tuple[str, ...]:
        """Names of what must be fixed."""
        return tuple(each.name for each in self.findings if each.state == FIX)

    def to_json(self) -> dict[str, Json]:
        """Plain data, as `ampere doctor --json` prints it."""
        return {
            "ok": not self.to_fix,
            "to_fix": list(self.to_fix),
            "findings": [asdict(each) for each in self.findings],
        }

    def __repr__(self) -> str:
        width = max((len(each.name) for each in self.findings), default=0)
        lines = [
            f"{each.state:4}  {printable(each.name):{width}}  {printable(str(each))}"
            for each in self.findings
        ]
        must = f"to be fixed: {', '.join(self.to_fix)}" if self.to_fix else "nothing must be fixed"
        return "\n".join([*lines, "", must])


def examine(looks: Iterable[tuple[str, Callable[[], Iterable[Finding]]]] | None = None) -> Checkup:
    """Look at this machine, which takes a second or a few; nothing is changed.

    Args:
        looks: What is looked at, by name; all there is if it is left out.
    """
    findings: list[Finding] = []
    for name, look in LOOKS if looks is None else looks:
        try:
            findings += look()
        except Exception as error:  # whatever is broken here: it is what is looked for
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            text = f"looking at it failed ({type(error).__name__}: {reason})"
            findings.append(Finding(name, FIX, text, "install ampere-energy anew, or report this"))
    return Checkup(tuple(findings))


def look_at_machine() -> list[Finding]:
    """System, processor, cores, memory, and the Python that runs."""
    from ampere.core.fingerprint import local_fingerprint

    identity = local_fingerprint({}).identity
    cores = units.plural(int(identity["cores"]), "usable core")
    hardware = f"{identity['processor']}, {cores}, {identity['memory']}"
    return [
        Finding("machine", OK, f"{identity['system']} {identity['machine']}, {hardware}"),
        Finding("python", OK, f"{platform.python_version()} ({sys.executable})"),
    ]


def look_at_ampere() -> list[Finding]:
    """Its version, and what it cannot do without."""
    import ampere

    versions = {name: _version(name) for name in NEEDED}
    missing = [name for name, version in versions.items() if version is None]
    told = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    text = f"{ampere.__version__} ({Path(ampere.__file__).parent})" + (f", {told}" if told else "")
    if missing:
        text += f", without {' and '.join(missing)}"
        return [Finding("ampere", FIX, text, f"pip install {' '.join(missing)}")]
    return [Finding("ampere", OK, text)]


def look_at_name() -> list[Finding]:
    """Whether the other project that is imported as `ampere` is installed here, too."""
    import ampere
    import ampere_energy as door

    if (said := door.obstacle()) is not None:
        return [Finding("name", FIX, said)]
    if door.is_shared(ampere.__file__):
        return [Finding("name", FIX, door.SHARED)]
    if (version := _version("ampere")) is not None:
        text = f"another project named ampere ({version}, battery models) is installed"
        return [Finding("name", FIX, text, door.REMEDY)]
    return [Finding("name", OK, "no other project named ampere is installed")]


def look_around() -> list[Finding]:
    """Whether others keep this machine busy right now."""
    from ampere.meters.surroundings import Surroundings
    from ampere.sittings.quiet import who_is_busy

    watched = Surroundings().watch(LOOK_S)
    if watched.evidence is None or watched.evidence.others_s is None:
        text = "this system does not tell what else runs"
        return [Finding("quiet", NOTE, text, "close other programs before measuring")]
    who = who_is_busy(watched)
    if who is None:
        return [Finding("quiet", OK, f"nothing else ran during {watched.time_s:.0f} s")]
    remedy = "end that before measuring: ampere waits for a quiet machine, and refuses a busy one"
    return [Finding("quiet", NOTE, f"busy right now: {who}", remedy)]


def look_at_meters() -> list[Finding]:
    """Which meter `auto` takes, and what its joules are."""
    from ampere.meters.registry import describe_meters

    taken = next((meter for meter in describe_meters() if meter.default), None)
    if taken is None or taken.provenance is None:
        return [
            Finding("meter", FIX, "auto finds no meter", "`ampere meters` says what each needs")
        ]
    text = f"auto takes {taken.name}: joules are {taken.provenance.origin}"
    if taken.provenance.metered == "measured":
        return [Finding("meter", OK, text)]
    remedy = (
        "for real joules: `ampere meters` says what each counter, sensor or plug needs;"
        " `ampere calibrate` fits the model to one of them"
    )
    return [Finding("meter", NOTE, text, remedy)]


def look_at_runtimes() -> list[Finding]:
    """Who can train here: each is loaded, since one that is installed may be broken."""
    from ampere.errors import DeviceError
    from ampere.frameworks.runtimes import RUNTIMES, find_runtime

    findings = []
    for name, entry in RUNTIMES.items():
        if entry.version is None:
            findings.append(
                Finding(name, NOTE, "not installed", f"to train with it: {entry.remedy}")
            )
            continue
        try:
            with _hushed():
                find_runtime(name)
        except DeviceError as error:
            findings.append(Finding(name, FIX, f"{entry.version}, but {error}"))
        except Exception as error:  # a library of it may fail in any way
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            text = f"{entry.version}, but it cannot be loaded ({reason})"
            findings.append(Finding(name, FIX, text, f"install it anew: {entry.remedy}"))
        else:
            findings.append(Finding(name, OK, entry.version))
    return findings


@contextmanager
def _hushed() -> Iterator[None]:
    """While this is open nobody hears what a C library prints: MNN tells of the processor."""
    sys.stdout.flush()
    heard, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(heard, 1)
        os.close(heard)
        os.close(nowhere)


def look_at_clients() -> list[Finding]:
    """What reaches other devices; nothing is run: adb would start a server that stays."""
    return [
        Finding(name, NOTE, "not found", remedy)
        if (path := shutil.which(name)) is None
        else Finding(name, OK, path)
        for name, remedy in CLIENTS.items()
    ]


def look_at_disk() -> list[Finding]:
    """What is free where profiles are written: here."""
    here = Path.cwd()
    free = shutil.disk_usage(here).free
    text = f"{units.memory(free)} free in {here}"
    if free < TOO_LITTLE:
        return [Finding("disk", FIX, text, "free some: a profile could not be written")]
    if free < LITTLE:
        return [Finding("disk", NOTE, text, "free some: frameworks and public models take more")]
    return [Finding("disk", OK, text)]


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


# Others are looked at before frameworks are loaded, which keeps a machine busy itself.
LOOKS: tuple[tuple[str, Callable[[], Iterable[Finding]]], ...] = (
    ("machine", look_at_machine),
    ("ampere", look_at_ampere),
    ("name", look_at_name),
    ("quiet", look_around),
    ("meter", look_at_meters),
    ("runtimes", look_at_runtimes),
    ("clients", look_at_clients),
    ("disk", look_at_disk),
)
