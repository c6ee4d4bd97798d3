"""Fit cache: a file in the user's cache folder that keeps what fitting a journal found.

    lenet5.ampere                       the journal
    ~/.cache/ampere/fits/3f9c….fit      two lines of JSON: what it belongs to, and what is kept

Kept are the solutions of fits (see estimators/solution.py), and the layers of models of the zoo
that were asked about, so that asking again needs neither a search nor a framework. The file is only
ever a shortcut: it belongs to the very bytes of the journal and to the very code that wrote it, and
one that is missing, damaged or out of date is passed over and written anew. It may be deleted at
any time. It does not lie beside the journal, which may come from somebody else: then so could the
file, and say of honest rows what it likes. Where it cannot be written, nothing is kept.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import ampere
from ampere.core.boundary.fields import parse_json
from ampere.core.boundary.files import read_whole, write_whole
from ampere.core.boundary.model_names import parse_name
from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.core.types import Json
from ampere.errors import DataError
from ampere.estimators.drift import STEADY
from ampere.estimators.lending.lenders import Lenders
from ampere.estimators.methods import ProfileFit, fit_rows
from ampere.estimators.solution import rebuild, solution_of
from ampere.records.measurement import Measurement

FORMAT = 3  # 2: with the point where the posterior is densest; 3: with how wide intervals are
SUFFIX = ".fit"
MOST_FILES = 200  # of journals that were asked last
MODELS = 16  # whose layers are kept; the one that was added first goes first


@dataclass(frozen=True)
class FitCache:
    """What is kept of the fits of one journal, as its bytes are now."""

    digest: str

    @classmethod
    def of(cls, journal: bytes) -> FitCache:
        """The cache of a journal with these bytes, wherever it lies."""
        return cls(_digest(journal))

    @property
    def path(self) -> Path:
        """Where it is kept."""
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return Path(home) / "ampere" / "fits" / (self.digest + SUFFIX)

    def fit(
        self,
        measurements: Sequence[Measurement],
        method: str,
        kernel: str,
        drift: float = STEADY,
        lenders: Lenders | None = None,
    ) -> ProfileFit:
        """The fit of the journal's measurements: rebuilt if it was kept, else made and kept.

        What it borrows depends on the rows of the lenders, so these are in its name.
        """
        name = f"{method} {kernel} {len(measurements)}" + (f" {lenders.key}" if lenders else "")
        kept = self._read("fits").get(name)
        if kept is not None:
            with suppress(DataError):
                return rebuild(kept, measurements, method, kernel, lenders)
        fit = fit_rows(measurements, method, kernel, drift, lenders)
        self._keep("fits", name, solution_of(fit, measurements))
        return fit

    def layers(
        self, model: str, training: Training, read: Callable[[], tuple[Layer, ...]]
    ) -> tuple[Layer, ...]:
        """The layers of a model of the zoo, or a public one: as they were kept, else read and kept.

        Only these cannot change under their name. Where torch is in use already, its defaults may
        have been changed, and reading costs little: then nothing is kept.
        """
        loss = training.loss
        if "torch" in sys.modules or not parse_name(model).is_settled:
            return read()
        if not isinstance(loss, str) or ":" in loss:
            return read()  # the user's own function
        versions = [_installed(package) for package in ("torch", "timm", "transformers")]
        name = json.dumps([model, training.to_json(), versions])
        kept = self._read("layers").get(name)
        if isinstance(kept, list) and kept:
            with suppress(DataError):
                return tuple(Layer.from_json(row) for row in kept)
        layers = read()
        self._keep("layers", name, [layer.to_json() for layer in layers])
        return layers

    def _read(self, section: str) -> dict[str, Json]:
        """One section of the file; empty if it is not to be trusted."""
        try:
            if not self.path.is_file():  # whatever else has its name, a pipe is not waited for
                return {}
            first, _, body = read_whole(self.path).partition(b"\n")
            if parse_json(first) != self._header(body):
                return {}
            kept = parse_json(body).get(section, {})
            return kept if isinstance(kept, dict) else {}
        except (OSError, DataError, AttributeError):
            return {}

    def _keep(self, section: str, name: str, value: Json) -> None:
        """Add an entry; what another process adds at the same time may be lost, and made anew."""
        fits, layers = self._read("fits"), self._read("layers")
        (fits if section == "fits" else layers)[name] = value
        newest = dict(list(layers.items())[-MODELS:])
        with suppress(OSError, ValueError):  # a folder that is read-only; numbers without a JSON
            body = json.dumps({"fits": fits, "layers": newest}, allow_nan=False).encode()
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            data = json.dumps(self._header(body)).encode() + b"\n" + body
            write_whole(self.path, data, own=True)
            _forget_the_oldest(self.path.parent)

    def _header(self, body: bytes) -> Mapping[str, Json]:
        return {
            "ampere_fit": FORMAT,
            "code": code_version(),
            "journal": self.digest,
            "check": _digest(body),
        }


@functools.cache
def code_version() -> str:
    """The version of everything that a fit's numbers depend on: ampere's own code, numpy, scipy.

    The code's digest is in it, since versions stand still while somebody works on the code.
    """
    folder = Path(ampere.__file__).parent
    sources = sorted(folder.rglob("*.py"))
    code = _digest(b"\0".join(path.read_bytes() for path in sources))
    return f"{ampere.__version__} {code} numpy {np.__version__} scipy {_installed('scipy')}"


def _forget_the_oldest(folder: Path) -> None:
    kept = sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for path in kept[:-MOST_FILES]:
        path.unlink(missing_ok=True)


def _installed(package: str) -> str | None:
    """The version of a package, which need not be imported for it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(eq=False)
class Fits:
    """The fit of a profile, once it was made, and the file that keeps it between runs, if any."""

    made: ProfileFit | None = None
    cache: FitCache | None = None
