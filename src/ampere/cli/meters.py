"""`ampere meters`: what can measure here."""

from __future__ import annotations

import time

from ampere import tables
from ampere.cli.options import AsJson
from ampere.cli.shell import json_text
from ampere.errors import MeterError
from ampere.layers import Json

LOOK_S = 0.5


def meters(as_json: AsJson = False) -> str:
    """List the meters of this machine.

    Which of them can be used, what is in the way of the others, and a short look at the best one.
    """
    from ampere.meters import describe_meters

    found = describe_meters()
    (default,) = (meter.name for meter in found if meter.default)
    look = _look(default)
    if as_json:
        listed = [
            {**vars(meter), "provenance": meter.provenance and meter.provenance.value}
            for meter in found
        ]
        return json_text({"default": default, "reading": look, "meters": listed})
    rows = [
        (
            f"{meter.name} (auto)" if meter.default else meter.name,
            meter.provenance.value if meter.provenance else tables.UNKNOWN,
            "yes" if meter.available else "no",
            meter.obstacle or meter.summary,
        )
        for meter in found
    ]
    if "failed" in look:
        now = f"could not be read: {look['failed']}"
    else:
        now = (
            f"{tables.watts(look['power_w'])} over {tables.seconds(look['time_s'])};"
            f" joules are {tables.origin(look['provenance'])}"
        )
    return f"{tables.table(('meter', 'joules', 'usable', ''), rows)}\n\n{default} now: {now}"


def _look(name: str) -> dict[str, Json]:
    """The power that a meter shows over half a second."""
    from ampere.meters import energy_between, open_meter

    try:
        meter = open_meter(name)
        before = meter.read()
        time.sleep(LOOK_S)
        after = meter.read()
        energy_j, time_s = energy_between(before, after)
    except MeterError as error:
        return {"failed": str(error)}
    return {
        "energy_j": energy_j,
        "time_s": time_s,
        "power_w": energy_j / time_s,
        "provenance": after.provenance.value,
    }
