"""Testimony: what a worker says of what else ran on its device, read field by field."""

from __future__ import annotations

from ampere.core.boundary.fields import Fields
from ampere.core.page import printable
from ampere.core.surroundings import NAME, NAMED, Evidence, Process, Watched

MOST_S = 1e12
MOST_CORES = 10**6
MOST_COUNT = 10**15
SECONDS = ("absent_s", "others_s", "stolen_s", "waiting_s", "held_s")


def read_evidence(answer: Fields) -> Evidence | None:
    """What ran beside a burst; nothing where the answer does not say."""
    if "evidence" not in answer:
        return None
    row = answer.inner("evidence")
    return Evidence(
        cpu_s=row.number("cpu_s", least=0.0, most=MOST_S),
        cores=row.whole("cores", least=1, most=MOST_CORES),
        **{name: row.number(name, None, least=0.0, most=MOST_S) for name in SECONDS},
        switches=row.whole("switches", None, most=MOST_COUNT),
        page_faults=row.whole("page_faults", None, most=MOST_COUNT),
        clock_mhz=row.number("clock_mhz", None, least=0.0),
        temperature_c=row.number("temperature_c", None),
    )


def read_watched(answer: Fields) -> Watched:
    """What a device did while nothing was asked of it; names of processes are text to print."""
    processes = []
    for place, row in answer.items("processes", least=0, most=NAMED):
        fields = Fields(row, place)
        name = printable(" ".join(fields.text("name").split()))[:NAME]
        pid = fields.whole("pid", most=MOST_COUNT)
        processes.append(Process(name, pid, fields.number("cores", least=0.0, most=MOST_CORES)))
    time_s = answer.number("time_s", least=0.0, most=MOST_S)
    return Watched(time_s, read_evidence(answer), tuple(processes))
