"""The fuzzer: `python -m security.fuzzing.fuzz --seconds 3600`, from the folder `tests`.

Each round mutates a valid input, or one of the corpus, and gives it to a target. What breaks a
target is written to the corpus, which every run of the tests replays.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

CORPUS = Path(__file__).parents[1] / "corpus"
HANG_S = 20.0
MOST_MEMORY = 12 * 2**30


class Hang(BaseException):
    """An input took longer than any should."""


@dataclass
class Tally:
    """What a run has seen."""

    inputs: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    broken: dict[str, str] = field(default_factory=dict)  # where it is kept, and what happened

    def __str__(self) -> str:
        lines = [f"{sum(self.inputs.values())} inputs, {len(self.broken)} of them broke something"]
        lines += [
            f"  {name:12} {count:8} inputs, {self.refused[name]:8} refused in a line"
            for name, count in sorted(self.inputs.items())
        ]
        return "\n".join([*lines, *(f"  {path}: {why}" for path, why in self.broken.items())])


def try_input(run: object, data: bytes, slow: bool) -> str | None:
    """Give an input to a target; None if it was read, else the refusal. Bugs are raised."""
    from ampere.errors import AmpereError
    from security.fuzzing.targets import require_a_line

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(data, slow)  # type: ignore[operator]
    except AmpereError as error:
        require_a_line(error)
        return str(error)
    return None


@contextlib.contextmanager
def in_a_folder_of_its_own() -> Iterator[None]:
    """Whatever targets write is gone afterwards; a canary must not appear."""
    before, environment = os.getcwd(), dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ.update(XDG_CONFIG_HOME=folder, XDG_CACHE_HOME=folder)
        try:
            yield
        finally:
            assert not Path("canary").exists(), "an input ran a command"
            os.chdir(before)
            os.environ.clear()
            os.environ.update(environment)


def fuzz(seconds: float, seed: int, names: list[str], keep: Path | None = CORPUS) -> Tally:
    """Feed targets in turn until the time is up."""
    from security.fuzzing.mutations import mutate
    from security.fuzzing.targets import SLOW, by_name

    rng, tally = Random(seed), Tally()
    targets = list(by_name(names))
    signal.signal(signal.SIGALRM, _hang)
    with in_a_folder_of_its_own():
        seeds = {target.name: [*target.seeds(), *corpus_of(target.name)] for target in targets}
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            for target in targets:
                data = mutate(rng.choice(seeds[target.name]), seeds[target.name], rng)
                tally.inputs[target.name] += 1
                signal.setitimer(signal.ITIMER_REAL, HANG_S)
                try:
                    refusal = try_input(target.run, data, rng.randrange(SLOW) == 0)
                    tally.refused[target.name] += refusal is not None
                except (Exception, Hang) as error:
                    tally.broken[_kept(keep, target.name, data)] = _what(error)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
    return tally


def corpus_of(name: str) -> list[bytes]:
    """Inputs of earlier runs that broke a target, or nearly did."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]


def _kept(folder: Path | None, name: str, data: bytes) -> str:
    path = (folder or Path()) / name / hashlib.sha256(data).hexdigest()[:12]
    if folder is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return str(path)


def _what(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{type(error).__name__}: {str(error)[:120]!r} in {place}"


def _hang(*_: object) -> None:
    raise Hang(f"nothing for {HANG_S:g} s")


def main() -> None:
    """Fuzz, say what was found, and end with 1 if anything was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--target", action="append", default=[])
    options = parser.parse_args()
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    tally = fuzz(options.seconds, options.seed, options.target)
    print(f"seed {options.seed}: {tally}")
    sys.exit(1 if tally.broken else 0)


if __name__ == "__main__":
    main()
