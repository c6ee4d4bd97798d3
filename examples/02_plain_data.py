"""A profile from plain rows: no framework, no device, measurements from anywhere.

Here a made-up phone app has metered one-, two- and three-layer networks. Each row says which layers
a network had and what a training step took; ampere finds out what each kind of layer costs, and
estimates a deeper network that nobody has run.
"""

from __future__ import annotations

import ampere


def row(joules: float, *layers: tuple[str, str, dict[str, int]]) -> ampere.Measurement:
    """One line of the app's log, in the format of docs/journal.md."""
    return ampere.Measurement.from_json(
        {
            "layers": [
                {"kind": kind, "operation": "linear", "role": role, "widths": widths}
                for role, kind, widths in layers
            ],
            "energy_j_per_step": joules,
            "time_s_per_step": joules / 3.0,
            "device": "phone",
            "provenance": "simulated",
        }
    )


def first_j(out: int) -> float:
    """What a first layer really costs here; ampere sees only totals."""
    return 0.02 + 4e-4 * out


def hidden_j(entering: int, out: int) -> float:
    return 0.01 + 5e-6 * entering * out


def last_j(entering: int) -> float:
    return 0.05 + 1e-4 * entering


def rows() -> list[ampere.Measurement]:
    measured = []
    for c in (8, 32, 64, 96, 128):
        last = ("last", "head", {"in": c})
        measured.append(row(last_j(c), last))
        measured.append(row(first_j(c) + last_j(c), ("first", "stem", {"out": c}), last))
        for d in (8, 64, 128):
            measured.append(
                row(
                    first_j(c) + hidden_j(c, d) + last_j(d),
                    ("first", "stem", {"out": c}),
                    ("hidden", "body", {"in": c, "out": d}),
                    ("last", "head", {"in": d}),
                )
            )
    return measured


def main() -> None:
    profile = ampere.fit(rows(), device="phone")
    network = [
        {"name": "stem", "kind": "stem", "role": "first", "widths": {"out": 48}},
        {"name": "body1", "kind": "body", "widths": {"in": 48, "out": 80}},
        {"name": "body2", "kind": "body", "widths": {"in": 80, "out": 80}, "count": 3},
        {"name": "head", "kind": "head", "role": "last", "widths": {"in": 80}},
    ]
    estimate = profile.estimate([ampere.Layer.from_json(layer) for layer in network], steps=1000)
    print(estimate)
    real = first_j(48) + hidden_j(48, 80) + 3 * hidden_j(80, 80) + last_j(80)
    print(f"\nreally: {1000 * real:.1f} J, error {estimate.energy_j / (1000 * real) - 1:+.1%}")


if __name__ == "__main__":
    main()
