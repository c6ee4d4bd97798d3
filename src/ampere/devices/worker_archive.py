"""The worker as one file that other devices run: `python3 worker.pyz`.

It holds the few modules that a worker needs, all of them for Python 3.8 and later, in packages that
import nothing by themselves. The same version makes the same bytes, so that a device which has the
file is not sent it again.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from functools import lru_cache
from pathlib import Path

# Every one of these runs on Python 3.8: `make lint` checks it.
MODULES = (
    "core/fingerprint.py",
    "core/inputs.py",
    "core/layers.py",
    "core/sizes.py",
    "core/structure.py",
    "core/terms.py",
    "core/training.py",
    "core/trees.py",
    "core/types.py",
    "core/widths.py",
    "core/workloads.py",
    "devices/worker.py",
    "errors.py",
    "pytorch/runtime/builder.py",
    "pytorch/runtime/loader.py",
    "pytorch/runtime/losses.py",
    "pytorch/runtime/trainer.py",
    "zoo/families.py",
)
BARE = (
    "__init__.py",
    "core/__init__.py",
    "devices/__init__.py",
    "pytorch/__init__.py",
    "pytorch/runtime/__init__.py",
    "zoo/__init__.py",
)
MAIN = "from ampere.devices.worker import main\n\nmain()\n"


@lru_cache(maxsize=1)
def worker_archive() -> tuple[str, bytes]:
    """A name that says what is in it, and the file itself."""
    home = Path(__file__).parents[1]
    meters = sorted(path.relative_to(home).as_posix() for path in (home / "meters").rglob("*.py"))
    contents = {f"ampere/{name}": (home / name).read_text(encoding="utf-8")
                for name in (*MODULES, *meters)}  # fmt: skip
    contents.update({f"ampere/{name}": "" for name in BARE})
    contents["__main__.py"] = MAIN
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in sorted(contents.items()):
            # Without dates, and stored, since zlib differs: the same text, the same bytes.
            archive.writestr(zipfile.ZipInfo(name), text)
    data = buffer.getvalue()
    return f"ampere-worker-{hashlib.sha256(data).hexdigest()[:12]}.pyz", data


if __name__ == "__main__":  # what must run on Python 3.8, for `make lint`
    home = Path(__file__).parents[1]
    print(*(home / name for name in MODULES), *sorted((home / "meters").rglob("*.py")), sep="\n")
