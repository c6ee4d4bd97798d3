"""Load the model that a text names: one of the zoo, or what a factory in the user's code builds."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from ampere import zoo
from ampere.errors import AmpereError, ModelError
from ampere.inputs import InputSpec, parse_input

_PATTERN = re.compile(r"(?P<source>.+?):(?P<name>[^\W\d]\w*)(?P<arguments>\(.*\))?", re.DOTALL)
_FORMS = "write zoo:lenet5, path/file.py:factory or package.module:factory(width=32)"


def load_model(spec: str, input: InputSpec | None = None) -> tuple[nn.Module, InputSpec]:
    """Build the model that a text names, and say what it is fed.

    Args:
        spec: `zoo:cnn5(channels=[16, 32, 64, 64])`, `path/file.py:factory(width=32)` or
            `package.module:factory`; the factory is a function, an `nn.Module` class or a model.
        input: What the model is fed; by default the zoo's input or the factory's `input` attribute.

    Raises:
        ModelError: The text is malformed, or what it names cannot be found or built.
    """
    match = _PATTERN.fullmatch(spec.strip())
    if match is None:
        raise ModelError(f"{spec!r} names no model: {_FORMS}")
    source, name = match["source"], match["name"]
    arguments = _arguments(match["arguments"] or "()", spec)
    if source == "zoo":
        family = zoo.family(name)
        return _build(family.build, arguments, f"zoo:{name}", ()), input or family.input
    # A path is known by its ending or its separators; anything else must be a module.
    path = Path(source).expanduser().resolve() if re.search(r"\.py$|[/\\]", source) else None
    homes = (Path.cwd(),) if path is None else (path.parent, Path.cwd())
    with _importable(homes):
        module = _import_module(source, homes) if path is None else _import_file(path, homes)
        factory = _factory(module, name, source)
        own = getattr(factory, "input", None)
        input = input or (parse_input(own) if isinstance(own, str) else own)
        if not isinstance(input, InputSpec):
            raise ModelError(
                f"{source}:{name} does not say its input: pass --input, e.g. --input 3x32x32"
            )
        return _build(factory, arguments, f"{source}:{name}", homes), input


def _arguments(text: str, spec: str) -> dict[str, Any]:
    """Read `(width=32, block="basic")`: keywords and literals only, nothing is evaluated."""
    arguments: dict[str, Any] = {}
    try:
        call = ast.parse(f"f{text}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError
        for keyword in call.keywords:
            if keyword.arg is None or keyword.arg in arguments:
                raise ValueError
            arguments[keyword.arg] = ast.literal_eval(keyword.value)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise ModelError(
            f"cannot read the arguments of {spec!r}: write name=value pairs of plain values, "
            "e.g. factory(width=32, sizes=[16, 32])"
        ) from None
    return arguments


@contextmanager
def _importable(homes: tuple[Path, ...]) -> Iterator[None]:
    """Let the user's code import what lies beside it, as if it were run by itself."""
    entries = [str(home) for home in homes]
    sys.path[:0] = entries
    try:
        yield
    finally:
        for entry in entries:  # only ours: the user's code may have added its own
            with suppress(ValueError):
                sys.path.remove(entry)


def _import_file(path: Path, homes: tuple[Path, ...]) -> ModuleType:
    """Run a file as a module; an unchanged file is run once."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}; check the path") from None
    digest = hashlib.sha256(str(path).encode() + b"\0" + source).hexdigest()[:8]
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
        raise _raised(str(path), error, homes) from error
    return module


def _import_module(source: str, homes: tuple[Path, ...]) -> ModuleType:
    """Import a module by its dotted name."""
    if not all(part.isidentifier() for part in source.split(".")):
        raise ModelError(f"{source!r} is neither a .py file nor a module: {_FORMS}")
    importlib.invalidate_caches()
    try:
        return importlib.import_module(source)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{source}.".startswith(f"{error.name}."):
            raise ModelError(
                f"no module {error.name!r} here or installed: "
                "run from the directory that holds it, or write path/file.py:factory"
            ) from None
        raise _raised(source, error, homes) from error


def _factory(module: ModuleType, name: str, source: str) -> Any:
    """What a module calls by this name, if it can be or make a model."""

    def makes_models(thing: Any) -> bool:
        return isinstance(thing, nn.Module) or (
            (
                inspect.isfunction(thing)
                or (isinstance(thing, type) and issubclass(thing, nn.Module))
            )
            and thing.__module__.startswith(module.__name__)  # not what it only imports
        )

    factory = getattr(module, name, None)
    if callable(factory):
        return factory
    found = [key for key, thing in vars(module).items() if key[0] != "_" and makes_models(thing)]
    others = f"it has {', '.join(found[:8])}" if found else "define a function that returns a model"
    if factory is None:
        raise ModelError(f"{source} has no {name!r}; {others}")
    raise ModelError(f"{source}:{name} is {_a(factory)}, which makes no model; {others}")


def _build(
    factory: Any, arguments: dict[str, Any], label: str, homes: tuple[Path, ...]
) -> nn.Module:
    """Call a factory, or take the model that it already is."""
    if isinstance(factory, nn.Module):
        if arguments:
            raise ModelError(f"{label} is a model already: leave its arguments out")
        return factory
    _check_arguments(factory, arguments, label)
    try:
        model = factory(**arguments)
    except AmpereError:
        raise
    except (Exception, SystemExit) as error:
        raise _raised(label, error, homes) from error
    if not isinstance(model, nn.Module):
        raise ModelError(f"{label} returned {_a(model)}; it must return an nn.Module")
    return model


def _check_arguments(factory: Callable[..., Any], arguments: dict[str, Any], label: str) -> None:
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # some builtins have none: calling it will tell
        return
    try:
        signature.bind(**arguments)
    except TypeError as error:
        takes = ", ".join(map(str, signature.parameters.values())) or "no arguments"
        raise ModelError(f"{label}: {error}; it takes {_line(takes)}") from None


def _raised(what: str, error: BaseException, homes: tuple[Path, ...]) -> ModelError:
    """One line on an error of the user's code, with the last place in it that was reached."""
    if isinstance(error, SyntaxError) and error.filename:
        where, message = f"{error.filename}:{error.lineno}", error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [
            frame
            for frame in frames
            if any(Path(frame.filename).is_relative_to(home) for home in homes)
            and "site-packages" not in frame.filename
        ]
        frame = (own or frames)[-1]
        where, message = f"{frame.filename}:{frame.lineno}", str(error)
    return ModelError(f"{what} raises {type(error).__name__}: {_line(message)} ({where})")


def _line(text: str) -> str:
    return textwrap.shorten(text, 200, placeholder=" ...") or "no message"


def _a(thing: Any) -> str:
    """How to speak of a thing: `None`, `the class Net`, `an object of type int`."""
    if thing is None:
        return "None"
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    return f"an object of type {type(thing).__name__}"
