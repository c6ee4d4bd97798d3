"""Estimate the energy and time that training a neural network will cost on a device.

    import ampere

    profile = ampere.profile("zoo:lenet5", path="lenet5.ampere")
    print(profile.estimate("zoo:lenet5(channels=[3, 8])", steps=2000))

Names are imported when they are first used: `import ampere` is light, and estimating from plain
layers needs no framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.6.0"

if TYPE_CHECKING:
    from ampere.api import after_steps, align, calibrate, check, evaluate, measure, profile
    from ampere.asking import ask, tell
    from ampere.checking import Check
    from ampere.devices.device import Device
    from ampere.devices.local import LocalDevice
    from ampere.errors import AmpereError
    from ampere.estimating import Estimate
    from ampere.evaluating import Evaluation
    from ampere.frameworks.torch import read as read_layers
    from ampere.inputs import Inputs, InputSpec
    from ampere.layers import Features, Layer, LayerKind, Role, Widths
    from ampere.measurements import Measurement, read_rows
    from ampere.measuring import Effort
    from ampere.meters.meter import Meter, Provenance, Reading
    from ampere.opening import open_device
    from ampere.profiles import Profile, fit
    from ampere.profiling import Profiler
    from ampere.pruning import prune
    from ampere.prunings import Pruning
    from ampere.reporting import report
    from ampere.reports.pages import Report
    from ampere.reproducing import reproduce
    from ampere.strategies import Strategy
    from ampere.workloads import Settings

_HOMES = {
    "AmpereError": "ampere.errors",
    "Check": "ampere.checking",
    "Device": "ampere.devices.device",
    "Effort": "ampere.measuring",
    "Estimate": "ampere.estimating",
    "Evaluation": "ampere.evaluating",
    "Features": "ampere.layers",
    "InputSpec": "ampere.inputs",
    "Inputs": "ampere.inputs",
    "Layer": "ampere.layers",
    "LayerKind": "ampere.layers",
    "LocalDevice": "ampere.devices.local",
    "Measurement": "ampere.measurements",
    "Meter": "ampere.meters.meter",
    "Profile": "ampere.profiles",
    "Profiler": "ampere.profiling",
    "Provenance": "ampere.meters.meter",
    "Pruning": "ampere.prunings",
    "Reading": "ampere.meters.meter",
    "Report": "ampere.reports.pages",
    "Role": "ampere.layers",
    "Settings": "ampere.workloads",
    "Strategy": "ampere.strategies",
    "Widths": "ampere.layers",
    "after_steps": "ampere.api",
    "align": "ampere.api",
    "ask": "ampere.asking",
    "calibrate": "ampere.api",
    "check": "ampere.api",
    "evaluate": "ampere.api",
    "fit": "ampere.profiles",
    "measure": "ampere.api",
    "open_device": "ampere.opening",
    "profile": "ampere.api",
    "prune": "ampere.pruning",
    "read_layers": "ampere.frameworks.torch:read",
    "read_rows": "ampere.measurements",
    "report": "ampere.reporting",
    "reproduce": "ampere.reproducing",
    "tell": "ampere.asking",
}

__all__ = [
    "AmpereError",
    "Check",
    "Device",
    "Effort",
    "Estimate",
    "Evaluation",
    "Features",
    "InputSpec",
    "Inputs",
    "Layer",
    "LayerKind",
    "LocalDevice",
    "Measurement",
    "Meter",
    "Profile",
    "Profiler",
    "Provenance",
    "Pruning",
    "Reading",
    "Report",
    "Role",
    "Settings",
    "Strategy",
    "Widths",
    "after_steps",
    "align",
    "ask",
    "calibrate",
    "check",
    "evaluate",
    "fit",
    "measure",
    "open_device",
    "profile",
    "prune",
    "read_layers",
    "read_rows",
    "report",
    "reproduce",
    "tell",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ampere' has no attribute {name!r}")
    module, _, attribute = home.partition(":")
    try:
        value = getattr(import_module(module), attribute or name)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise ModuleNotFoundError(
                f"ampere.{name} needs PyTorch: pip install 'ampere[torch]'", name="torch"
            ) from None
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
