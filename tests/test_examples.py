"""Examples are run as a user would run them; the first one measures, so it is only compiled."""

import py_compile
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_every_example_compiles(tmp_path):
    files = sorted(EXAMPLES.glob("[0-9][0-9]_*.py"))
    assert len(files) >= 2
    for file in files:
        py_compile.compile(str(file), cfile=str(tmp_path / "out.pyc"), doraise=True)


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
