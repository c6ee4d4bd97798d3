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

import ampere_energy as _door

__version__ = "0.17.0"

_door.look_around(__file__)

if TYPE_CHECKING:
    from ampere._api import (
        after_steps,
        calibrate,
        check,
        evaluate,
        measure,
        measure_loader,
        profile,
        sample,
    )
    from ampere.acquisition.exchange import ask, tell
    from ampere.acquisition.families import Network
    from ampere.acquisition.loop import Profiler
    from ampere.acquisition.strategy import Strategy
    from ampere.acquisition.survey import survey
    from ampere.cli.progress import progress
    from ampere.core.inputs import Inputs, InputSpec
    from ampere.core.layers import Features, Layer, LayerKind, Role
    from ampere.core.page import Page
    from ampere.core.program.widths import Widths
    from ampere.core.training import Training
    from ampere.core.workloads import Settings
    from ampere.devices.base import Device
    from ampere.devices.local import LocalDevice
    from ampere.devices.memory import keep_memory
    from ampere.devices.registry import open_device
    from ampere.errors import AmpereError
    from ampere.evaluation.check import Check
    from ampere.evaluation.evaluation import Evaluation
    from ampere.evaluation.measured import Measured
    from ampere.evaluation.measured_loader import MeasuredLoader
    from ampere.fleet.files.jobs import read_jobs
    from ampere.fleet.files.members import read_fleet
    from ampere.fleet.member import Battery, Charging, Fleet, Member, Span
    from ampere.fleet.plan import Plan, read_plan
    from ampere.fleet.schedule import schedule
    from ampere.fleet.task import Task
    from ampere.frameworks.models import read as read_layers
    from ampere.gates.gate import Gate
    from ampere.gates.opening import gate
    from ampere.meters.base import Meter, Provenance, Reading
    from ampere.profiles.alignment import align
    from ampere.profiles.collection.admission import add_profile
    from ampere.profiles.collection.comparison import Comparison, compare_devices
    from ampere.profiles.estimate import Estimate
    from ampere.profiles.jobs.job import Job, Loading
    from ampere.profiles.library import Library, open_library
    from ampere.profiles.profile import Profile, fit
    from ampere.pruning.judge import Judging
    from ampere.pruning.prune import prune
    from ampere.pruning.result import Pruning
    from ampere.pruning.search import Search
    from ampere.pruning.verify import Verification
    from ampere.pytorch.pruning.files import rebuild_model
    from ampere.pytorch.runtime.loader import build_model
    from ampere.records.failure import Cause, Failure
    from ampere.records.measurement import Measurement
    from ampere.records.rows import read_rows
    from ampere.reports.comparison_page import report_comparison
    from ampere.reports.html import Report
    from ampere.reports.plan_page import report_plan
    from ampere.reports.profile_page import report
    from ampere.sittings.effort import Effort

_HOMES = {
    "AmpereError": "ampere.errors",
    "Battery": "ampere.fleet.member",
    "Cause": "ampere.records.failure",
    "Charging": "ampere.fleet.member",
    "Check": "ampere.evaluation.check",
    "Comparison": "ampere.profiles.collection.comparison",
    "Device": "ampere.devices.base",
    "Effort": "ampere.sittings.effort",
    "Estimate": "ampere.profiles.estimate",
    "Evaluation": "ampere.evaluation.evaluation",
    "Failure": "ampere.records.failure",
    "Features": "ampere.core.layers",
    "Fleet": "ampere.fleet.member",
    "Gate": "ampere.gates.gate",
    "InputSpec": "ampere.core.inputs",
    "Inputs": "ampere.core.inputs",
    "Job": "ampere.profiles.jobs.job",
    "Judging": "ampere.pruning.judge",
    "Layer": "ampere.core.layers",
    "LayerKind": "ampere.core.layers",
    "Library": "ampere.profiles.library",
    "Loading": "ampere.profiles.jobs.job",
    "LocalDevice": "ampere.devices.local",
    "Measured": "ampere.evaluation.measured",
    "MeasuredLoader": "ampere.evaluation.measured_loader",
    "Measurement": "ampere.records.measurement",
    "Member": "ampere.fleet.member",
    "Meter": "ampere.meters.base",
    "Network": "ampere.acquisition.families",
    "Page": "ampere.core.page",
    "Plan": "ampere.fleet.plan",
    "Profile": "ampere.profiles.profile",
    "Profiler": "ampere.acquisition.loop",
    "Provenance": "ampere.meters.base",
    "Pruning": "ampere.pruning.result",
    "Reading": "ampere.meters.base",
    "Report": "ampere.reports.html",
    "Role": "ampere.core.layers",
    "Search": "ampere.pruning.search",
    "Settings": "ampere.core.workloads",
    "Span": "ampere.fleet.member",
    "Strategy": "ampere.acquisition.strategy",
    "Task": "ampere.fleet.task",
    "Training": "ampere.core.training",
    "Verification": "ampere.pruning.verify",
    "Widths": "ampere.core.program.widths",
    "add_profile": "ampere.profiles.collection.admission",
    "after_steps": "ampere._api",
    "align": "ampere.profiles.alignment",
    "ask": "ampere.acquisition.exchange",
    "build_model": "ampere.pytorch.runtime.loader",
    "calibrate": "ampere._api",
    "check": "ampere._api",
    "compare_devices": "ampere.profiles.collection.comparison",
    "evaluate": "ampere._api",
    "fit": "ampere.profiles.profile",
    "gate": "ampere.gates.opening",
    "keep_memory": "ampere.devices.memory",
    "measure": "ampere._api",
    "measure_loader": "ampere._api",
    "open_device": "ampere.devices.registry",
    "open_library": "ampere.profiles.library",
    "profile": "ampere._api",
    "progress": "ampere.cli.progress",
    "prune": "ampere.pruning.prune",
    "read_fleet": "ampere.fleet.files.members",
    "read_jobs": "ampere.fleet.files.jobs",
    "read_layers": "ampere.frameworks.models:read",
    "read_plan": "ampere.fleet.plan",
    "read_rows": "ampere.records.rows",
    "rebuild_model": "ampere.pytorch.pruning.files",
    "report": "ampere.reports.profile_page",
    "report_comparison": "ampere.reports.comparison_page",
    "report_plan": "ampere.reports.plan_page",
    "sample": "ampere._api",
    "schedule": "ampere.fleet.schedule",
    "survey": "ampere.acquisition.survey",
    "tell": "ampere.acquisition.exchange",
}

__all__ = [
    "AmpereError",
    "Battery",
    "Cause",
    "Charging",
    "Check",
    "Comparison",
    "Device",
    "Effort",
    "Estimate",
    "Evaluation",
    "Failure",
    "Features",
    "Fleet",
    "Gate",
    "InputSpec",
    "Inputs",
    "Job",
    "Judging",
    "Layer",
    "LayerKind",
    "Library",
    "Loading",
    "LocalDevice",
    "Measured",
    "MeasuredLoader",
    "Measurement",
    "Member",
    "Meter",
    "Network",
    "Page",
    "Plan",
    "Profile",
    "Profiler",
    "Provenance",
    "Pruning",
    "Reading",
    "Report",
    "Role",
    "Search",
    "Settings",
    "Span",
    "Strategy",
    "Task",
    "Training",
    "Verification",
    "Widths",
    "add_profile",
    "after_steps",
    "align",
    "ask",
    "build_model",
    "calibrate",
    "check",
    "compare_devices",
    "evaluate",
    "fit",
    "gate",
    "keep_memory",
    "measure",
    "measure_loader",
    "open_device",
    "open_library",
    "profile",
    "progress",
    "prune",
    "read_fleet",
    "read_jobs",
    "read_layers",
    "read_plan",
    "read_rows",
    "rebuild_model",
    "report",
    "report_comparison",
    "report_plan",
    "sample",
    "schedule",
    "survey",
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
                f"ampere.{name} needs PyTorch: pip install 'ampere-energy[torch]'", name="torch"
            ) from None
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
