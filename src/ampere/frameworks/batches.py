"""Batches: a user's own data loader, drawn from as training would.

Anything that can be iterated over is a loader. One that has ended begins again, as the next epoch
does: what starting its workers takes is part of what a batch takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ampere.core.boundary.code import check_arguments, in_words, load_function, raised
from ampere.core.boundary.fields import shown
from ampere.errors import AmpereError, ModelError

MAKES = "loader"


class Batches:
    """The batches of a loader, one after the other; each `draw` takes the next.

    Args:
        spec: `path/file.py:make_loader` or `package.module:make_loader`, a function that returns
            the loader.

    Raises:
        ModelError: It cannot be found, or is no loader.
    """

    def __init__(self, spec: str) -> None:
        self._spec = spec.strip()
        self._held = ExitStack()  # workers import the file and what lies beside it while they run
        make, self._homes = self._held.enter_context(load_function(spec, MAKES, by_name=True))
        self._loader = self._made(make)
        self._batches: Iterator[Any] | None = None
        self._drawn = 0  # of this epoch
        self.epoch: int | None = None  # batches of one, once it has ended

    @property
    def workers(self) -> int:
        """Processes that load for it, as far as it says."""
        workers = getattr(self._loader, "num_workers", 0)
        return workers if isinstance(workers, int) and workers > 0 else 0

    @property
    def samples(self) -> int | None:
        """Of a batch, as far as it says."""
        samples = getattr(self._loader, "batch_size", None)
        return samples if isinstance(samples, int) and samples > 0 else None

    def draw(self) -> None:
        """Take the next batch, of the next epoch if this one is over.

        Raises:
            ModelError: The loader raises, or has nothing.
        """
        try:
            if self._batches is None:
                self._batches, self._drawn = iter(self._loader), 0
            if self._took():
                return
            if not self._drawn:
                raise ModelError(f"{self._spec} made a loader that yields nothing: give it data")
            self.epoch = self._drawn
            self._batches, self._drawn = iter(self._loader), 0
            if not self._took():
                raise ModelError(
                    f"{self._spec} made a loader that yields nothing the second time: a generator"
                    " has one epoch alone; return a DataLoader"
                )
        except AmpereError:
            raise
        except (Exception, SystemExit) as error:
            raise _failed(self._spec, error, self._homes) from error

    def _took(self) -> bool:
        assert self._batches is not None
        for _ in self._batches:
            self._drawn += 1
            return True
        return False

    def _made(self, make: Any) -> Any:
        check_arguments(make, self._spec)
        try:
            loader = make()
        except AmpereError:
            raise
        except (Exception, SystemExit) as error:
            raise raised(self._spec, error, self._homes) from error
        if not hasattr(loader, "__iter__"):
            what = in_words(loader)
            raise ModelError(f"{self._spec} returned {what}; it must return a DataLoader")
        return loader


def _failed(spec: str, error: BaseException, homes: tuple[Path, ...]) -> ModelError:
    """One line on what went wrong in a loader or its workers."""
    text = str(error)
    if "pickle" in text.lower() or "ampere_model_" in text:
        return ModelError(
            f"{spec}: its workers cannot be sent what they need ({shown(_first(text))}): define it"
            " at the top of a module that can be imported, or use num_workers=0"
        )
    if "\nTraceback" in text or "DataLoader worker" in text:  # torch hands on a worker's own words
        last = [line for line in text.strip().splitlines() if line.strip()][-1]
        return ModelError(f"{spec} raises in a worker: {shown(last.strip())}")
    return raised(spec, error, homes)


def _first(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    wanted = [line for line in lines if "pickle" in line.lower() or "ampere_model_" in line]
    return (wanted or lines or [""])[-1]
