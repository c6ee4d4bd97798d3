"""Introductions: what must stay the same when a device comes back."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from ampere.core.boundary.fields import Fields
from ampere.core.workloads import Settings
from ampere.devices.introduction import Introduction
from ampere.errors import DeviceError
from ampere.meters.base import Provenance, Resolution

OPENED = {
    "framework": "torch 2.1",
    "threads": 2,
    "freed_memory": "kept",
    "provenance": "sensor",
    "meter": {"name": "jetson", "settings": {"root": "/sys", "rail": "VDD_IN", "period_s": 0.1}},
    "resolution": {"energy_j": 1.0, "period_s": 2.0},
}
ASKED = {"name": "jetson", "settings": {"rail": "VDD_IN"}}
INTRODUCTION = replace(
    Introduction.from_answer(Fields(OPENED), ASKED), identity={"machine": "abacus"}
)


def test_the_identity_has_hardware_settings_and_a_meter_without_its_address() -> None:
    assert INTRODUCTION.provenance is Provenance.SENSOR
    identity = INTRODUCTION.identity_in(Settings(accelerator="cuda", threads=7), ("root",))
    assert identity["machine"] == "abacus"
    assert identity["accelerator"] == "cuda"
    assert identity["threads"] == "2"  # those that there are, not those that were asked for
    assert identity["meter"] == "jetson:period_s=0.1,rail=VDD_IN"
    assert all(isinstance(value, str) for value in identity.values())


def test_the_same_device_may_come_back_with_another_resolution() -> None:
    INTRODUCTION.refuse_another(replace(INTRODUCTION, resolution=Resolution(5.0, 5.0)))


@pytest.mark.parametrize("name", [each.name for each in fields(Introduction) if each.compare])
def test_whatever_else_changed_is_named(name: str) -> None:
    with pytest.raises(DeviceError, match=f"came back with another {name}: begin a new profile"):
        INTRODUCTION.refuse_another(replace(INTRODUCTION, **{name: "other"}))
