"""Examples are run as a user would run them; those that measure are run elsewhere, or compiled."""

import ast
import py_compile
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import ampere

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_every_example_compiles(tmp_path):
    files = sorted(EXAMPLES.glob("*.py"))
    assert len(files) >= 2
    for file in files:
        py_compile.compile(str(file), cfile=str(tmp_path / "out.pyc"), doraise=True)


def test_examples_need_nothing_but_the_public_names():
    for file in sorted(EXAMPLES.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                room = (node.module or "").rpartition(".")[0]
                outside = (node.module or "").partition(".")[0] != "ampere"
                assert outside or room == "ampere.integrations", file
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("ampere.") for alias in node.names), file


def test_the_runner_needs_pytorch_and_nothing_else():
    """It is run by test_asking; here, what it could import at all."""
    tree = ast.parse((EXAMPLES / "runner.py").read_text(), feature_version=(3, 7))
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for node in imports
        for alias in node.names
    }
    assert names - sys.stdlib_module_names == {"torch"}


def test_plain_data_needs_no_framework_and_finds_the_known_cost():
    code = (
        "import runpy, sys; sys.modules['torch'] = None;"
        f"runpy.run_path({str(EXAMPLES / '02_plain_data.py')!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    error = re.search(r"error ([+-][\d.]+)%", done.stdout)
    assert error is not None
    assert abs(float(error[1])) < 2
    assert "simulated, not measured" in done.stdout


@pytest.mark.parametrize("vague", [3.0, 1.01])
def test_the_demo_goes_through_and_says_if_it_knows_little(vague, tmp_path, monkeypatch, capsys):
    """On a device that nobody keeps busy; with another measure of what is vague."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ampere, "LocalDevice", lambda: ampere.open_device("simulated:xavier"))
    demo = runpy.run_path(str(EXAMPLES / "01_lenet5.py"))
    monkeypatch.setitem(demo["main"].__globals__, "VAGUE", vague)
    demo["main"]()
    text = capsys.readouterr().out
    assert "5 unseen models" in text
    assert ("delete lenet5.ampere" in text) == (vague < 2)
