"""What differs from process to process: the same networks, metered in fresh processes.

    python benchmarks/processes.py            # about 4 minutes

On Linux with glibc, `free` gives large blocks back to the kernel, and the next step faults them in
again, or not, depending on what else lies in the heap. So the same network takes more or less time
in another process, for as long as that process lives. ampere's worker keeps what is freed; here it
does so in every other process, and in the others leaves it to the system. Joules are in units of
the reference workload of the same process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence

from machine import RESULTS, machine_line, write_section

import ampere
from ampere.core.workloads import Workload
from ampere.pytorch.models import read
from ampere.sittings.measure import measure
from ampere.sittings.reference import take_reference

MODELS = (
    "zoo:lenet5",
    "zoo:cnn5",
    "zoo:cnn5(channels=[16, 32, 70, 128])",
    "zoo:lstm",
    "zoo:resnet(depth=8)",
)


class Plain(ampere.LocalDevice):
    """A device whose worker leaves freed memory to the system."""

    def _command(self) -> Sequence[str]:
        leave = (
            "import ampere.devices.worker as w;"
            "w.keep_memory = lambda: 'as the system does'; w.main()"
        )
        return [sys.executable, "-u", "-c", leave]


WAYS = {"left to the system": Plain, "kept": ampere.LocalDevice}


def main() -> None:
    """Run all, print the table and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=8)
    options = parser.parse_args()
    layers = [read(model) for model in MODELS]
    ratios: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for repeat in range(options.repeats):
        for way, kind in WAYS.items():
            with kind(ampere.Settings(threads=1)) as device:
                nominal = take_reference(device)
                measured = measure(device, [(Workload(each), each) for each in layers], nominal)
                ratios[way].append([row.energy_j / nominal.energy_j for row in measured])
                identity = device.fingerprint.identity
        sys.stderr.write(f"\r{repeat + 1}/{options.repeats} ")
    settings = {key: identity[key] for key in ("threads", "framework")}
    text = [f"Machine: {machine_line(settings)} {options.repeats} processes each way.", ""]
    text += ["| network | spread, left to the system | spread, kept | joules kept / left |"]
    text += ["|---|---|---|---|"]
    for i, model in enumerate(MODELS):
        left, kept = ([row[i] for row in rows] for rows in ratios.values())
        spreads = [statistics.stdev(each) / statistics.fmean(each) for each in (left, kept)]
        ratio = statistics.fmean(kept) / statistics.fmean(left)
        text.append(f"| {model} | {spreads[0]:.1%} | {spreads[1]:.1%} | {ratio:.2f} |")
    print("\n".join(text))
    write_section("measuring.md", "processes", "\n".join(text))
    (RESULTS / "processes.json").write_text(json.dumps(ratios, indent=1) + "\n")


if __name__ == "__main__":
    main()
