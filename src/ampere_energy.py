"""The door: looks whether `ampere` is this project before it is opened.

The name `ampere` on the package index belongs to another project (battery models), which is
imported by the same name. Installed together, both have their files in one folder, and whichever
came last has overwritten the other's `__init__.py`.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

OURS = "ampere_energy"  # what our own `__init__.py` imports, and no other does
THEIRS = "base_battery.py"  # what the other project has beside its `__init__.py`
REMEDY = "pip uninstall ampere, then pip install --force-reinstall --no-deps ampere-energy"
SHARED = f"another project named ampere (battery models) is installed in the same folder: {REMEDY}"


def main() -> None:
    """Run the command line of ampere, if it is there."""
    if (said := obstacle()) is not None:
        sys.exit(f"error: {said}")
    from ampere.cli import main as run

    run()


def obstacle() -> str | None:
    """What keeps `import ampere` from being this project, in a line; nothing is imported for it."""
    spec = find_spec("ampere")
    if spec is None or spec.origin is None:
        return f"ampere-energy is installed in part only: {REMEDY.partition(', then ')[2]}"
    if OURS in Path(spec.origin).read_text(encoding="utf-8", errors="replace"):
        return None
    return f"another project named ampere (battery models) has overwritten ampere-energy: {REMEDY}"


def is_shared(init: str) -> bool:
    """Whether the other project's files lie beside our own `__init__.py`."""
    return Path(init).with_name(THEIRS).is_file()


def look_around(init: str) -> None:
    """Say so if the other project's files lie beside our own `__init__.py`."""
    if is_shared(init):
        print(f"warning: {SHARED}", file=sys.stderr)
