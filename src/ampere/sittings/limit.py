"""Limit: the seconds that somebody gave, counted from when he gave them."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from ampere.devices.base import Device


@dataclass
class Limit:
    """So many seconds, by our clock or by the device's own, whichever is ahead.

    A simulated device spends seconds that nobody waits for. Starting up, calibrating and waiting
    count like measuring.
    """

    seconds: float = math.inf
    began_s: float = field(default_factory=time.monotonic)
    _device: Device | None = field(default=None, init=False)
    _device_began_s: float = field(default=0.0, init=False)

    def watch(self, device: Device) -> None:
        """Count the seconds of this device's clock, too."""
        if self._device is None:
            self._device, self._device_began_s = device, device.now()

    @property
    def spent_s(self) -> float:
        """Seconds since the beginning."""
        ours_s = time.monotonic() - self.began_s
        if self._device is None:
            return ours_s
        return max(ours_s, self._device.now() - self._device_began_s)

    @property
    def left_s(self) -> float:
        """Seconds that are left; below 0 if it took longer."""
        return self.seconds - self.spent_s
