"""Losses by name: ampere's own, or where the user's function is; runtimes know what they do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ampere.core.boundary.code import check_arguments, in_words, load_function
from ampere.core.boundary.model_names import has_form
from ampere.core.boundary.trust import ForeignText
from ampere.core.training import LOSSES
from ampere.errors import ModelError


def loss_name(loss: str | Callable[[Any], Any] | ForeignText) -> str:
    """A loss as a text: one of `LOSSES`, or where the user's function is found.

    A function must be importable, because the process that runs the steps is another one. What a
    file says is a name, too; only `find_loss` loads, and is never given it.
    """
    if isinstance(loss, ForeignText):
        return loss.text
    if isinstance(loss, str):
        name = loss.strip()
        if name not in LOSSES and not names_loss(name):
            names = ", ".join(LOSSES)
            raise ModelError(
                f"unknown loss {loss!r}: use one of {names}, or your own as path/file.py:loss"
            )
        return name
    if not callable(loss):
        raise ModelError(f"a loss is a name or a function, not {in_words(loss)}")
    name = getattr(loss, "__qualname__", type(loss).__name__)
    home = sys.modules.get(getattr(loss, "__module__", None) or "")
    if home is None or home.__name__ == "__main__" or getattr(home, name, None) is not loss:
        raise ModelError(
            f"the loss {name} cannot be imported: write it as a function in a file of its own,"
            " and pass path/file.py:loss"
        )
    if "." in home.__name__ or hasattr(home, "__path__") or not getattr(home, "__file__", None):
        return f"{home.__name__}:{name}"
    path = Path(str(home.__file__)).resolve()
    here = Path.cwd()
    return f"{path.relative_to(here) if here in path.parents else path}:{name}"


def load_loss(spec: str) -> Callable[[Any], Any]:
    """The user's loss: `path/file.py:loss` or `package.module:loss`, a function of one argument.

    Raises:
        ModelError: The text is malformed, or what it names cannot be found or called so.
    """
    with load_function(spec, "loss") as (loss, _):
        check_arguments(loss, f"{spec.strip()} is called with what the model returns", None)
        return loss


def names_loss(spec: str) -> bool:
    """Whether a text has the form that `load_loss` reads: that of a model, without arguments."""
    return has_form(spec)
