"""The user's own code: found by the name that he typed, imported as if it were run by itself.

Nothing else is ever run: what a file or a device says is a `ForeignText`, and refused here.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ampere.core.boundary.model_names import ModelName, has_form, source_path
from ampere.core.boundary.trust import refuse_code
from ampere.core.inputs import Inputs, InputSpec, parse_inputs
from ampere.errors import AmpereError, ModelError

MOST_CODE = 2**24  # bytes of a file
# Extras that bring what a model may be written in.
FRAMEWORKS = {"torch": "torch", "jax": "jax", "flax": "jax", "MNN": "mnn"}


@dataclass(frozen=True)
class Factory:
    """What makes a model, or already is one, with the arguments of the text that names it."""

    label: str
    make: Any
    arguments: dict[str, Any]
    input: Inputs | None
    homes: tuple[Path, ...] = ()

    def build(self, is_model: Callable[[object], bool]) -> Any:
        """What it makes, or itself if that is a model; what goes wrong is told in one line."""
        if is_model(self.make):
            if self.arguments:
                raise ModelError(f"{self.label} is a model already: leave its arguments out")
            return self.make
        check_arguments(self.make, self.label, **self.arguments)
        try:
            return self.make(**self.arguments)
        except AmpereError:
            raise
        except (Exception, SystemExit) as error:
            raise raised(self.label, error, self.homes) from error

    def fed(self, input: Inputs | None) -> Inputs:
        """What its model is fed: what was said, or else what it says itself."""
        fed = input or self.input
        if fed is None:
            raise ModelError(f"{self.label} does not say its input: give input, e.g. 3x32x32")
        return fed


@contextmanager
def own_factory(named: ModelName) -> Iterator[Factory]:
    """The user's factory that a text names; while it is open, it can import what lies beside it.

    Raises:
        ModelError: What it names cannot be found.
    """
    with _imported(named.source) as (module, homes):
        make = _named(module, named.name, named.source, "model")
        label = f"{named.source}:{named.name}"
        yield Factory(label, make, named.arguments, _own_input(make), homes)


@contextmanager
def load_function(
    spec: str, makes: str, *, by_name: bool = False
) -> Iterator[tuple[Callable[..., Any], tuple[Path, ...]]]:
    """The user's function that a text names and where it lies, able to import what lies there.

    Args:
        spec: `path/file.py:function` or `package.module:function`.
        makes: What it makes, for messages.
        by_name: Whether other processes must be able to import the file by its name, as workers
            that are sent objects of its classes do; where the name is taken, they cannot.

    Raises:
        ModelError: The text is malformed, or what it names cannot be found.
    """
    refuse_code(spec, makes, "its name")
    if not has_form(spec):
        forms = f"path/file.py:{makes} or package.module:{makes}"
        raise ModelError(f"{spec!r} names no {makes}: write {forms}")
    source, _, name = spec.strip().rpartition(":")
    with _imported(source, by_name) as (module, homes):
        yield _named(module, name, source, makes), homes


def _own_input(factory: Any) -> Inputs | None:
    """What a factory says of itself; a model may call something else of its own `input`."""
    own = getattr(factory, "input", None)
    if isinstance(own, str):
        return parse_inputs(own)
    if isinstance(own, InputSpec):
        return Inputs((own,))
    return own if isinstance(own, Inputs) else None


def homes_of(source: str) -> tuple[Path, ...]:
    """Where the code that a source names lies, and may import from."""
    path = source_path(source)
    return (Path.cwd(),) if path is None else (path.parent, Path.cwd())


@contextmanager
def _imported(source: str, by_name: bool = False) -> Iterator[tuple[ModuleType, tuple[Path, ...]]]:
    """The user's code, able to import what lies beside it, as if it were run by itself."""
    path, homes = source_path(source), homes_of(source)
    entries = [str(home) for home in homes]
    by_name = by_name and path is not None and path.is_file() and _is_free(path.stem)
    sys.path[:0] = entries
    try:
        if path is None:
            yield _import_module(source, homes), homes
        elif by_name:
            yield _import_module(path.stem, homes), homes
        else:
            yield _import_file(path, homes), homes
    finally:
        for entry in entries:  # only ours: the user's code may have added its own
            with suppress(ValueError):
                sys.path.remove(entry)


def _is_free(name: str) -> bool:
    """Whether no module has this name yet."""
    if not name.isidentifier() or name in sys.modules:
        return False
    return importlib.util.find_spec(name) is None


def _import_file(path: Path, homes: tuple[Path, ...]) -> ModuleType:
    """Run a file as a module; an unchanged file is run once."""
    try:
        with path.open("rb") as file:
            source = file.read(MOST_CODE + 1)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}; check the path") from None
    if len(source) > MOST_CODE:
        raise ModelError(f"{path} is larger than any Python file: check the path")
    digest = hashlib.sha256(os.fsencode(path) + b"\0" + source).hexdigest()[:8]
    name = re.sub(r"\W", "_", f"ampere_model_{path.stem}_{digest}")
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # before it runs: dataclasses look their module up
    try:
        # Not through a loader: cached bytecode is stale when a file changes within a second.
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise raised(str(path), error, homes) from error
    return module


def _import_module(source: str, homes: tuple[Path, ...]) -> ModuleType:
    """Import a module by its dotted name."""
    if not all(part.isidentifier() for part in source.split(".")):
        raise ModelError(f"{source!r} is neither a .py file nor a module: check its spelling")
    importlib.invalidate_caches()
    try:
        return importlib.import_module(source)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{source}.".startswith(f"{error.name}."):
            raise ModelError(
                f"no module {error.name!r} here or installed: "
                "run from the directory that holds it, or write its path, path/file.py"
            ) from None
        raise raised(source, error, homes) from error


def _named(module: ModuleType, name: str, source: str, makes: str) -> Any:
    """What a module calls by this name, if it can be called or is a model."""
    attribute = getattr(module, name, None)
    if callable(attribute):
        return attribute
    public = {key: value for key, value in vars(module).items() if key[0] != "_"}
    names = [key for key, value in public.items() if _may_be_meant(value, module.__name__)]
    others = (
        f"it has {', '.join(names[:8])}" if names else f"define a function that returns a {makes}"
    )
    if attribute is None:
        raise ModelError(f"{source} has no {name!r}; {others}")
    raise ModelError(f"{source}:{name} is {in_words(attribute)}, which makes no {makes}; {others}")


def _may_be_meant(member: Any, module: str) -> bool:
    """Whether a member of the user's code may be what he wanted to name."""
    if inspect.isfunction(member) or isinstance(member, type):  # not what it only imports
        return member.__module__.startswith(module) and _makes_callables(member)
    return callable(member) and not inspect.isbuiltin(member)


def _makes_callables(member: Any) -> bool:
    """Whether it is a function, or a class of models: their objects can be called."""
    if not isinstance(member, type):
        return True
    return any("__call__" in vars(parent) for parent in member.__mro__)


def check_arguments(
    code: Callable[..., Any], label: str, /, *positional: Any, **named: Any
) -> None:
    """Raise a ModelError that begins with the label, unless code can be called so."""
    try:
        signature = inspect.signature(code)
    except (TypeError, ValueError):  # some builtins have none: calling it will tell
        return
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        takes = ", ".join(map(str, signature.parameters.values())) or "no arguments"
        raise ModelError(f"{label}: {error}; it takes {_line(takes)}") from None


def raised(what: str, error: BaseException, homes: tuple[Path, ...]) -> ModelError:
    """One line on an error of the user's code, with the last place in it that was reached."""
    if isinstance(error, SyntaxError) and error.filename:
        where, message = f"{error.filename}:{error.lineno}", error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [
            frame
            for frame in frames
            if any(home in Path(frame.filename).parents for home in homes)
            and "site-packages" not in frame.filename
        ]
        frame = (own or frames)[-1]
        where, message = f"{frame.filename}:{frame.lineno}", str(error)
    text = f"{what} raises {type(error).__name__}: {_line(message)} ({where})"
    package, _, _ = (getattr(error, "name", None) or "").partition(".")
    if isinstance(error, ModuleNotFoundError) and package in FRAMEWORKS:
        text += f"; pip install 'ampere-energy[{FRAMEWORKS[package]}]' brings it"
    return ModelError(text)


def _line(text: str) -> str:
    return textwrap.shorten(text, 200, placeholder=" ...") or "no message"


def in_words(value: Any) -> str:
    """How to speak of a value: `None`, `the class Net`, `an object of type int`."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"an object of type {type(value).__name__}"
