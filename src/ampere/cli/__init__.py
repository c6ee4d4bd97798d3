"""The command line: thin shells that parse, call a function of ampere, and print.

Results go to standard output, as text or with `--json` as one line of JSON and nothing else;
progress, warnings and errors go to standard error. Exit codes: 0 for an answer, 1 for an error that
ampere explains in a line, 2 for a command line that cannot be read, 130 after Ctrl-C.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    from ampere.cli.streams import set_apart, silence

    try:
        set_apart()
        from ampere.cli.app import app

        app(prog_name="ampere")
    except KeyboardInterrupt:  # before a command had begun, or while it ended
        sys.exit(130)
    except OSError as error:  # help that nobody can be given
        silence(sys.stdout)
        sys.exit(f"error: standard output cannot be written: {error.strerror or error}")
    finally:
        sys.stdout = sys.stderr  # whatever somebody prints as Python ends
