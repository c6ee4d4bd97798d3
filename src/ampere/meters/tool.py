"""A tool that knows what a meter wants to: what keeps it from answering is the meter's trouble."""

from __future__ import annotations

from collections.abc import Sequence

from ampere.core.boundary.tool import ToolAnswer, run_tool
from ampere.errors import DataError, MeterError, MeterFault


def ask_tool(command: Sequence[str], timeout_s: float) -> ToolAnswer:
    """What a tool answers, whatever its exit code.

    Raises:
        MeterFault: If it went on beyond the time.
        MeterError: If it cannot be run, or says more than anybody reads.
    """
    try:
        return run_tool(command, timeout_s)
    except TimeoutError as error:
        raise MeterFault(str(error)) from None
    except FileNotFoundError:
        raise MeterError(f"{command[0]} is not installed here, or not on the PATH") from None
    except (OSError, ValueError, TypeError) as error:
        raise MeterError(f"{command[0]} cannot be run ({error})") from error
    except DataError as error:
        raise MeterError(str(error)) from None
