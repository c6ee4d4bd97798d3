"""Crew: a worker process for each member of a fleet, on this machine, to try things out.

What is trained is trained here; joules and batteries are those of the simulated devices whose
profiles the members have.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from ampere.devices.physics import simulated_devices
from ampere.errors import DeviceError
from ampere.fleet.member import Fleet, Member
from ampere.integrations.dask import Place

END_S = 10.0
SIMULATED = "simulated "


class Crew:
    """Workers of simulated devices.

    Args:
        fleet: Whose profiles must be of simulated devices.
        folder: Each worker keeps what it has in a folder of its own below it.
        say: Told who ends.

    Raises:
        DeviceError: A member's device is not simulated: it has to join by itself.
    """

    def __init__(self, fleet: Fleet, folder: Path, say: Callable[[str], None]) -> None:
        self._devices = {member.name: device_of(member) for member in fleet}
        self._fleet, self._folder, self._say = fleet, folder, say
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ending = False

    def start(self, place: Place) -> None:
        """Start them all."""
        for member in self._fleet:
            command = self.command(member, place)
            self._say(f"{member.name}: {' '.join(command[2:])}")
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
            self.processes[member.name] = process
            threading.Thread(target=self._watch, args=(member.name, process), daemon=True).start()

    def command(self, member: Member, place: Place) -> list[str]:
        """What starts a worker, word by word."""
        words = [sys.executable, "-m", "ampere", "fleet", "join", member.name]
        words += ["--at", place.address, "--device", self._devices[member.name]]
        words += ["--keep", str(self._folder / folder_of(member.name))]
        if member.battery is not None:
            words += ["--battery-j", f"{member.battery.energy_j!r}"]
            words += ["--reserve-j", f"{member.battery.reserve_j!r}"]
        if place.tls is not None:
            words += ["--tls", os.fspath(place.tls)]
        return words

    def _watch(self, name: str, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        if not self._ending:
            self._say(f"{name}: its worker has ended ({code}); start it again as above")

    def end(self) -> None:
        """End those that still run."""
        self._ending = True
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()


def device_of(member: Member) -> str:
    """The simulated device that a member's profile is of, as it is written on the command line."""
    name = member.profile.header.fingerprint.identity.get("device", "")
    if name.startswith(SIMULATED) and name[len(SIMULATED) :] in simulated_devices():
        return f"simulated:{name[len(SIMULATED) :]}"
    raise DeviceError(
        f"member {member.name} has the profile of a real device: it joins by itself, with"
        f" `ampere fleet join {member.name}`"
    )


def folder_of(name: str) -> str:
    """A name for a folder: a member may be called anything."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:50]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
