"""What single layers cost, metered as differences of whole networks, against what profiles say.

    python benchmarks/single_layers.py          # about 3 minutes, after benchmarks/additive.py

A Transformer or ResNet with more blocks, and the same one with fewer, are metered side by side: the
difference is what the blocks cost inside a network. A profile that was fitted to whole networks and
a few variants, at random widths, has not seen these blocks; its lines for them are checked, with
their interval. The interval of the difference has the noise of both measurements in it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

import numpy as np
from machine import RESULTS, machine_line, write_section

import ampere
from ampere.acquisition.loop import reference_of
from ampere.core.fingerprint import refuse_to_mix
from ampere.core.layers import Layer
from ampere.core.workloads import ModelSpec, Workload
from ampere.estimators.additive import AdditiveFit, fit_additive
from ampere.estimators.base import inflation
from ampere.estimators.encoding import depth_context, distinct
from ampere.pytorch.models import read
from ampere.records.journal import read_journal
from ampere.sittings.measure import measure

PAIRS = {
    "transformer": [
        (f"zoo:transformer(d_model={w}, layers={a})", f"zoo:transformer(d_model={w}, layers={b})")
        for w, a, b in ((128, 2, 4), (96, 1, 3), (64, 2, 4), (40, 1, 4), (112, 1, 2), (72, 2, 4))
    ],
    "resnet": [
        (f"zoo:resnet(widths={w}, depth={a})", f"zoo:resnet(widths={w}, depth={b})")
        for w, a, b in (
            ([16, 32, 64], 8, 20),
            ([8, 16, 32], 14, 26),
            ([12, 24, 40], 8, 20),
            ([16, 16, 16], 8, 20),
            ([5, 20, 50], 8, 20),
            ([10, 30, 30], 14, 26),
        )
    ],
}


def added(small: Sequence[Layer], large: Sequence[Layer]) -> list[Layer]:
    """The layers that the larger network has beyond the smaller one."""
    unmatched = Counter((layer.kind.name, layer.widths) for layer in small)
    more = []
    for layer in large:
        key = (layer.kind.name, layer.widths)
        if unmatched[key] > 0:
            unmatched[key] -= 1
        else:
            more.append(layer)
    return more


def say(fit: AdditiveFit, more: Sequence[Layer], large: Sequence[Layer]) -> tuple[float, float]:
    """What the profile says that these layers cost inside the larger network."""
    layers, counts = distinct([more])
    context = np.array([depth_context(large)])
    mean, cov = fit.energy.predict(fit.encoder.encode(layers), counts, context)
    return float(mean[0]), inflation(len(fit.energy.rows)) * math.sqrt(max(float(cov[0, 0]), 0.0))


def main() -> None:
    """Meter the pairs, compare, and keep the table."""
    rows = []
    with ampere.LocalDevice(ampere.Settings(threads=1)) as device:
        identity = device.fingerprint.identity
        for family, pairs in PAIRS.items():
            path = RESULTS / f"additive_{family}_seed0.ampere.gz"
            header, measured = read_journal(path)
            refuse_to_mix(device.fingerprint, header.fingerprint)
            fit, nominal = fit_additive(measured), reference_of(header, device)
            noise = math.sqrt(float(fit.energy.noise_var(np.array([1.0]))[0]))
            for names in pairs:
                both = [read(name) for name in names]
                work = [
                    (Workload(model=ModelSpec(name)), layers)
                    for name, layers in zip(names, both, strict=True)
                ]
                small, large = measure(device, work, nominal)
                metered = large.energy_j - small.energy_j
                more = added(*both)
                estimated, std = say(fit, more, both[1])
                unsure = noise * math.hypot(small.energy_j, large.energy_j)
                reach = 1.645 * math.hypot(std, unsure)
                rows.append(
                    (
                        names[1],
                        len(more),
                        metered,
                        estimated,
                        reach,
                        abs(estimated - metered) <= reach,
                    )
                )
    settings = {key: identity[key] for key in ("threads", "framework")}
    inside = sum(row[-1] for row in rows)
    text = [f"Machine: {machine_line(settings)}", ""]
    text += [
        "| network | blocks added | metered (mJ) | estimated (mJ) | error | inside |",
        "|---|---|---|---|---|---|",
    ]
    text += [
        f"| `{name}` | {n} | {1e3 * m:.2f} | {1e3 * s:.2f} ± {1e3 * reach:.2f} | {s / m - 1:+.0%} |"
        f" {'yes' if ok else 'no'} |"
        for name, n, m, s, reach, ok in rows
    ]
    error = fmean(abs(s / m - 1) for _, _, m, s, _, _ in rows)
    text += ["", f"{inside} of {len(rows)} differences lie inside; mean error {error:.1%}."]
    print("\n".join(text))
    write_section("accuracy.md", "single layers", "\n".join(text))
    (RESULTS / "single_layers.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
