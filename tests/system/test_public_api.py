"""What `import ampere` shows is what it promises, and costs next to nothing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import ampere

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ampere"


def typed_names() -> set[str]:
    """What type checkers believe that ampere has."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = (node for node in block.body if isinstance(node, ast.ImportFrom))
    return {alias.asname or alias.name for node in imports for alias in node.names}


@pytest.mark.parametrize("name", ampere.__all__)
def test_every_promised_name_is_there(name: str) -> None:
    assert getattr(ampere, name).__name__ in (name, "read")


def test_runtime_and_type_checkers_see_the_same_names() -> None:
    assert sorted(ampere.__all__) == ampere.__all__
    assert typed_names() == set(ampere.__all__) == set(ampere._HOMES)


def test_nothing_else_is_visible() -> None:
    helpers = {"Any", "TYPE_CHECKING", "annotations", "import_module"}
    modules = {path.stem for path in SOURCE.iterdir()}
    visible = {name for name in dir(ampere) if not name.startswith("_")}
    assert visible - helpers - modules == set(ampere.__all__) - modules


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'prophesy'"):
        _ = ampere.prophesy


def test_the_version_stands_in_one_place() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in project
    assert 'path = "src/ampere/__init__.py"' in project
    assert not re.search(r"^version\s*=", project, re.MULTILINE)
    said = [path for path in SOURCE.rglob("*.py") if ampere.__version__ in path.read_text()]
    assert said == [SOURCE / "__init__.py"]


def test_the_installed_version_is_ours() -> None:
    try:
        installed = version("ampere-energy")
    except PackageNotFoundError:
        pytest.skip("ampere runs from a checkout")
    assert installed == ampere.__version__


def test_importing_ampere_imports_nothing_heavy() -> None:
    script = (
        "import sys, ampere; dir(ampere); ampere.AmpereError; ampere.Layer;"
        "print([m for m in ('torch', 'numpy', 'scipy', 'sklearn', 'typer') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_without_torch_a_name_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "import ampere; ampere.fit; ampere.profile\n"
        "try: ampere.rebuild_model\n"
        "except ModuleNotFoundError as error: print(error.name, error)\n"
        "try: ampere.read_layers('zoo:lenet5')\n"
        "except ModuleNotFoundError as error: print(error.name, error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    install = "pip install 'ampere-energy[torch]'"
    assert done.stdout.splitlines() == [
        f"torch ampere.rebuild_model needs PyTorch: {install}",
        f"torch this needs PyTorch: {install}",
    ]
