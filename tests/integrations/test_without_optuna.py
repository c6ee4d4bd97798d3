"""Without Optuna, one line says what to install; the rest of the room works."""

import subprocess
import sys


def test_the_line_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['optuna'] = None; import ampere.integrations.limits\n"
        "import ampere.integrations.optuna"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: ampere.integrations.optuna needs Optuna: pip install"
        " 'ampere-energy[optuna]'"
    )
