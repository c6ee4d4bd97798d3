"""The worker as one file that other devices run: `python3 worker.pyz`.

It holds what the worker imports, directly or through others, and every driver of a meter; all of it
runs on Python 3.8 and later. The packages on the way are empty there, so that they import nothing
by themselves. The same version makes the same bytes, so that a device which has the file is not
sent it again.
"""

from __future__ import annotations

import ast
import hashlib
import io
import zipfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

HOME = Path(__file__).parents[1]
WORKER = "ampere.devices.worker"
DRIVERS = "ampere.meters.drivers"  # they are found by their folder: nobody imports them by name
MAIN = """from pathlib import Path

from ampere.devices.worker import main

main(Path(__file__).absolute().parents[1])  # the folder of the archive that this is in
"""


@lru_cache(maxsize=1)
def worker_archive() -> tuple[str, bytes]:
    """A name that says what is in it, and the file itself."""
    contents = {"__main__.py": MAIN}
    for path in shipped_files():
        contents[_name(path)] = path.read_text(encoding="utf-8")
        for package in path.relative_to(HOME.parent).parents[:-1]:
            contents.setdefault(f"{package.as_posix()}/__init__.py", "")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in sorted(contents.items()):
            # Without dates, and stored, since zlib differs: the same text, the same bytes.
            archive.writestr(zipfile.ZipInfo(name), text)
    data = buffer.getvalue()
    return f"ampere-worker-{hashlib.sha256(data).hexdigest()[:12]}.pyz", data


@lru_cache(maxsize=1)
def shipped_files() -> tuple[Path, ...]:
    """Every file of ampere that a worker far away may import, sorted."""
    drivers = (HOME.parent / DRIVERS.replace(".", "/")).glob("*.py")
    modules = [WORKER, *(f"{DRIVERS}.{path.stem}" for path in drivers if path.stem != "__init__")]
    files: dict[str, Path] = {}
    while modules:
        module = modules.pop()
        if module not in files:
            files[module] = _file(module)
            modules += imported_modules(files[module].read_text(encoding="utf-8"))
    return tuple(sorted(files.values()))


def imported_modules(text: str) -> Iterator[str]:
    """Modules of ampere that a file imports, also inside functions, but not for types alone."""
    nodes: list[ast.AST] = [ast.parse(text)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            nodes += node.orelse
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and (node.level or _is_ours(str(node.module))):
            if node.level:
                raise ValueError(f"a relative import cannot be followed: {ast.unparse(node)}")
            for alias in node.names:  # a module of the package, or a name in the module
                inside = f"{node.module}.{alias.name}"
                yield inside if _is_module(inside) else str(node.module)


def _is_ours(module: str) -> bool:
    return module == "ampere" or module.startswith("ampere.")


def _is_module(module: str) -> bool:
    path = HOME.parent / module.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _file(module: str) -> Path:
    path = HOME.parent / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _name(path: Path) -> str:
    return path.relative_to(HOME.parent).as_posix()


if __name__ == "__main__":  # what must run on Python 3.8, for `make lint`
    print(*shipped_files(), sep="\n")
