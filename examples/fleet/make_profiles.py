"""Profiles of four simulated devices for the fleet in this folder; their joules are simulated.

    python examples/fleet/make_profiles.py         # some ten seconds
    cd examples/fleet
    ampere schedule fleet.toml jobs.toml -o plan.json
    ampere report plan.json -o plan.html

For devices of your own: `ampere profile` or `ampere survey` on each of them.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import ampere

FOLDER = Path(__file__).parent / "profiles"
DEVICES = {"phone": "oppo", "tablet": "iphone", "board": "xavier", "server": "server"}
MODEL, NETWORKS = "zoo:lenet5", 10  # so many of its family are run


def main(folder: Path = FOLDER) -> None:
    folder.mkdir(exist_ok=True)
    for name, device in DEVICES.items():
        path = folder / f"{name}.ampere"
        if path.exists():
            print(f"{path} is there")
            continue
        print(f"{path}: a simulated {device}", flush=True)
        make(path, f"simulated:{device}")


def make(path: Path, name: str) -> None:
    with closing(ampere.open_device(name)) as device:
        ampere.profile(
            MODEL,
            path=path,
            device=device,
            strategy=ampere.Strategy(max_measurements=NETWORKS),
            effort=ampere.Effort(min_rounds=5, max_rounds=5),
        )


if __name__ == "__main__":
    try:
        main(*map(Path, sys.argv[1:]))
    except ampere.AmpereError as error:
        sys.exit(f"error: {error}")
