"""The worker's file: it runs where nothing but torch is, on Pythons from 3.8 on."""

from __future__ import annotations

import ast
import importlib.util
import io
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from torch import nn

import ampere
from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.sizes import Size
from ampere.core.program.structure import Call, Port, Structure
from ampere.core.program.terms import ValueRef
from ampere.core.program.widths import Widths
from ampere.core.workloads import REFERENCE, Workload
from ampere.devices import worker_archive as archive_module
from ampere.devices.worker_archive import imported_modules, shipped_files, worker_archive
from ampere.meters.registry import own_meters
from ampere.pytorch.runtime.builder import build_layer
from fakes import VARIANT

from .talk import Talk

HOME = Path(ampere.__file__).parent


def shipped() -> dict[str, str]:
    """Every file of the archive by its name."""
    _, data = worker_archive()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    name, data = worker_archive()
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.fixture
def bare_environment(tmp_path: Path) -> dict[str, str]:
    """Where torch can be imported, and an ampere that must not be: the archive's comes first."""
    decoy = tmp_path / "decoy" / "ampere"
    decoy.mkdir(parents=True)
    (decoy / "__init__.py").write_text("raise SystemExit('the wrong ampere')")
    torch = importlib.util.find_spec("torch")
    assert torch is not None and torch.origin is not None
    path = f"{decoy.parent}{os.pathsep}{Path(torch.origin).parents[1]}"
    return {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)}


def talk_to(archive: Path, environment: Mapping[str, str]) -> Talk:
    """Run as a device runs it but for -S: no site-packages."""
    return Talk([sys.executable, "-S", "-u", str(archive)], environment)


def test_the_same_text_makes_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    name, data = worker_archive()
    worker_archive.cache_clear()
    assert worker_archive() == (name, data)
    assert re.fullmatch(r"ampere-worker-[0-9a-f]{12}\.pyz", name)  # no quotes needed in a shell
    monkeypatch.setattr(archive_module, "MAIN", archive_module.MAIN + "# more\n")
    worker_archive.cache_clear()
    assert worker_archive()[0] != name
    worker_archive.cache_clear()


def test_the_archive_works_where_nothing_but_torch_is(
    archive: Path, bare_environment: dict[str, str]
) -> None:
    with talk_to(archive, bare_environment) as talk:
        meter = {"name": "cpu", "settings": {"idle_w": 2.0, "active_w": 1.0}}
        opened = talk.ask(do="open", meter=meter, settings={"threads": 1})
        assert opened["framework"].startswith("torch ")
        assert (opened["threads"], opened["provenance"]) == (1, "modelled")
        assert opened["meter"] == meter
        assert talk.ask(do="describe")["identity"]["machine"]
        for stage in (VARIANT, REFERENCE, Workload(stage="idle")):
            handle = talk.ask(do="load", workload=stage.to_json())["handle"]
            burst = talk.ask(do="burst", handle=handle, steps=3)
            assert 0 < burst["time_s"] < 60
            assert burst["energy_j"] >= 2.0 * burst["time_s"]
            assert burst["resolution"] == {"energy_j": 0.0, "period_s": 0.0}
            assert talk.ask(do="unload", handle=handle) == {}


def test_without_torch_one_line_says_so(archive: Path, tmp_path: Path) -> None:
    with talk_to(archive, {"HOME": str(tmp_path)}) as talk:
        answer = talk.ask(do="open", meter=None, settings={})
    assert answer["error"] == "DeviceError"
    assert "torch" in answer["message"] and "install it" in answer["message"]
    assert "\n" not in answer["message"]


class OldNorm(nn.BatchNorm2d):
    """As it was before it could be asked for a bias."""

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True) -> None:
        super().__init__(num_features, eps, affine=affine)


def test_an_older_torch_there_builds_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn, "BatchNorm2d", OldNorm)

    def norm(**more: bool) -> Layer:
        call = Call("BatchNorm2d", {"num_features": Size("in"), **more}, (ValueRef(0),))
        ports = (Port((Size("in"), 5, 5)),)
        structure = Structure(ports, ports, (call,), ValueRef(1), multiples={"in": 1})
        kind = LayerKind("norm", Role.HIDDEN, "norm", {"batch": 2}, structure)
        return Layer("norm", kind, Widths({"in": 3}))

    built = build_layer(norm(bias=True))
    assert isinstance(built, OldNorm) and built.bias is not None
    with pytest.raises(TypeError, match="bias"):  # it has one, which is not what was asked for
        build_layer(norm(bias=False))


def test_whatever_the_worker_imports_is_in_the_archive() -> None:
    files = shipped()
    modules = {
        name[: -len(".py")].replace("/__init__", "").replace("/", ".")
        for name in files
        if name.endswith(".py")
    }
    missing = {
        f"{name} imports {module}"
        for name, text in files.items()
        for module in imported_modules(text)
        if module not in modules
    }
    assert not missing
    assert {f"ampere.meters.drivers.{name}" for name in own_meters()} <= modules
    sent = {f"ampere/{path.relative_to(HOME).as_posix()}" for path in shipped_files()}
    for name in files:  # every package on the way is there, and imports nothing by itself
        for parent in Path(name).parents:
            package = f"{parent.as_posix()}/__init__.py"
            assert parent == Path(".") or package in sent or files[package] == ""
    assert sent <= files.keys()


def test_imports_are_followed_wherever_they_stand() -> None:
    text = (
        "import ampere.core.layers, json\n"
        "def f():\n    from ampere.core.fingerprint import refuse_to_mix\n"
        "    from ampere import zoo, errors\n"
        "if TYPE_CHECKING:\n    import ampere.core.choices\n"
        "else:\n    from ampere.core import units, SOME_NAME\n"
        "from amperemeter import volts\n"
    )
    assert sorted(imported_modules(text)) == [
        "ampere.core",  # for the name
        "ampere.core.fingerprint",
        "ampere.core.layers",
        "ampere.core.units",
        "ampere.errors",
        "ampere.zoo",
    ]
    with pytest.raises(ValueError, match="relative"):
        list(imported_modules("from . import errors"))


GENERIC = {"dict", "frozenset", "list", "set", "tuple", "type", "queue.Queue", "subprocess.Popen"}


def old_python_objects(text: str) -> list[str]:
    """What Python 3.8 would stumble over as it runs, though it can read it: `Mapping[str, int]`."""
    tree = ast.parse(text, feature_version=(3, 8))
    abstract = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("collections", "collections.abc")
        for alias in node.names
    }
    unseen = {id(inner) for node in ast.walk(tree) for inner in ast.walk(_not_run(node))}
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and id(node) not in unseen
        and ast.unparse(node.value) in GENERIC | abstract
    ]


def _not_run(node: ast.AST) -> ast.AST:
    """The part of a node that is only there for readers and type checkers."""
    for field in ("annotation", "returns"):
        if isinstance(part := getattr(node, field, None), ast.AST):
            return part
    for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    return node if for_types else ast.Pass()


@pytest.mark.parametrize(
    "path", shipped_files(), ids=lambda path: path.relative_to(HOME).as_posix()
)
def test_every_shipped_file_can_be_read_and_run_by_python_3_8(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "from __future__ import annotations" in text or not text.count("->")
    assert old_python_objects(text) == []


def test_the_check_for_python_3_8_can_fail() -> None:
    text = "from collections.abc import Mapping\nclass A(Mapping[str, int]): x: Mapping[str, int]\n"
    assert old_python_objects(text) == ["Mapping[str, int]"]
    assert old_python_objects("def f() -> list[int]: return list[int]()") == ["list[int]"]
    with pytest.raises(SyntaxError):
        old_python_objects("match x:\n    case 1: pass\n")


@pytest.mark.slow  # `make lint` looks, too
def test_every_shipped_file_calls_only_what_python_3_8_has() -> None:
    pytest.importorskip("vermin")
    listed = subprocess.run(
        [sys.executable, "-m", "ampere.devices.worker_archive"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(HOME.parent)},
    )
    files = listed.stdout.split()
    assert tuple(map(Path, files)) == shipped_files()
    options = ["--no-tips", "--target=3.8-", "--violations"]
    found = subprocess.run(
        [sys.executable, "-c", "import vermin; vermin.main()", *options, *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout


def test_ruff_takes_the_same_files_for_python_3_8() -> None:
    project = HOME.parents[1] / "pyproject.toml"
    if not project.exists():
        pytest.skip("ampere is installed without its project")
    patterns = re.findall(r'"src/ampere/(.+)" = "py38"', project.read_text(encoding="utf-8"))
    listed = {path for pattern in patterns for path in HOME.glob(pattern)}
    packages = {path for path in listed if path.name == "__init__.py"} - set(shipped_files())
    assert listed - packages == set(shipped_files())
    assert all(len(ast.parse(path.read_text()).body) == 1 for path in packages)  # a docstring
