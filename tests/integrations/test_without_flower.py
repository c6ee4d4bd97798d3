"""Without Flower, one line says what to install; choosing clients works all the same."""

import subprocess
import sys


def test_the_line_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['flwr'] = None; import ampere.fleet.federation.attendance,"
        " ampere.fleet.federation.quoting\nimport ampere.integrations.flower"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: ampere.integrations.flower needs Flower: pip install"
        " 'ampere-energy[flower]' (Python 3.11 or newer)"
    )
