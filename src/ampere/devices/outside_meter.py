"""Outside meter: one that watches a device from this side, read around the worker's bursts."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from ampere.meters.base import Meter, Provenance, Reading, Resolution, Window, energy_between
from ampere.meters.registry import meter_classes, open_meter


def is_outside(name: str) -> bool:
    """Whether a meter by this name watches from where ampere runs."""
    driver = meter_classes().get(name)
    return driver is not None and driver.outside


class OutsideMeter:
    """A meter that is opened when it is first needed, and again after it was closed."""

    def __init__(self, name: str, settings: Mapping[str, float | str]) -> None:
        self._name, self._settings = name, settings
        self._meter: Meter | None = None
        self._resolution = Resolution()  # what it had shown when it was closed
        # What readings are further apart than the burst between them.
        self._lags_s: deque[float] = deque(maxlen=31)

    def open(self) -> Meter:
        """The meter, opened if it is not."""
        if self._meter is None:
            self._meter = open_meter(self._name, **self._settings)
        return self._meter

    @property
    def provenance(self) -> Provenance:
        """Where its joules come from."""
        return self.open().provenance

    @property
    def resolution(self) -> Resolution:
        """How finely it tells: no finer than its readings are apart beyond their bursts."""
        own = self._meter.resolution if self._meter else self._resolution
        lag_s = statistics.median(self._lags_s) if self._lags_s else 0.0
        return replace(own, period_s=max(own.period_s, lag_s))

    def read(self) -> Reading:
        """Look at it now."""
        return self.open().read()

    def energy_since(self, before: Reading, burst_s: float) -> Window:
        """What it shows from an earlier reading until now, for a burst that took `burst_s`."""
        window = energy_between(before, self.read())
        self._lags_s.append(abs(window.time_s - burst_s))
        return window

    def close(self) -> None:
        """Let go of it."""
        if self._meter is not None:
            self._resolution = self._meter.resolution
            self._meter.close()
            self._meter = None
