"""Load what a text names: a model of the zoo, public or the user's own, or the user's own loss."""

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

import torch
from torch import nn

from ampere.core.boundary.model_names import (
    TIMM,
    TRANSFORMERS,
    ZOO,
    ModelName,
    has_form,
    parse_name,
    source_path,
)
from ampere.core.boundary.trust import refuse_code
from ampere.core.inputs import Inputs, InputSpec, parse_inputs
from ampere.errors import AmpereError, ModelError
from ampere.pytorch.public.timm_models import find_timm_model
from ampere.pytorch.public.transformers_models import find_transformers_model
from ampere.pytorch.runtime.wrappers import unwrapped
from ampere.zoo.families import find_family

MOST_CODE = 2**24  # bytes of a file
_PUBLIC = {TIMM: find_timm_model, TRANSFORMERS: find_transformers_model}


def build_model(spec: str) -> nn.Module:
    """Build the model that a text names, such as `zoo:cnn5(channels=[16, 32, 64, 64])`.

    Python files that `ampere prune` wrote import this one from `ampere`: it stays as it is.

    Raises:
        ModelError: The text is malformed, or what it names cannot be found or built.
    """
    with _factory_of(parse_name(spec)) as factory:
        return factory.build()


def load_model(
    spec: str, input: Inputs | None = None, *, hollow: bool = False
) -> tuple[nn.Module, Inputs]:
    """Build the model that a text names, and say what it is fed.

    Args:
        spec: `zoo:cnn5(channels=[16, 32, 64, 64])`, `timm:resnet50`, `hf:gpt2(sequence=128)`,
            `path/file.py:factory(width=32)` or `package.module:factory`; the factory is a
            function, an `nn.Module` class or a model.
        input: What the model is fed; by default the zoo's or the public model's input, or the
            factory's `input` attribute, which may be a text.
        hollow: Whether sizes are enough: a public model, which may be larger than this machine's
            memory, is then built without values.

    Raises:
        ModelError: The text is malformed, or what it names cannot be found or built.
    """
    with _factory_of(parse_name(spec)) as factory:
        input = input or factory.input
        if input is None:
            raise ModelError(
                f"{factory.label} does not say its input: pass --input, e.g. --input 3x32x32"
            )
        return factory.build(hollow), input


@dataclass(frozen=True)
class _Factory:
    """What makes a model, or already is one, with the arguments of the text that names it."""

    label: str
    make: Any
    arguments: dict[str, Any]
    input: Inputs | None
    homes: tuple[Path, ...]
    public: bool = False

    def build(self, hollow: bool = False) -> nn.Module:
        if isinstance(self.make, nn.Module):
            if self.arguments:
                raise ModelError(f"{self.label} is a model already: leave its arguments out")
            return unwrapped(self.make)
        check_arguments(self.make, self.label, **self.arguments)
        try:
            model = self._hollow() if hollow and self.public else self.make(**self.arguments)
        except AmpereError:
            raise
        except (Exception, SystemExit) as error:
            raise raised(self.label, error, self.homes) from error
        if not isinstance(model, nn.Module):
            raise ModelError(
                f"{self.label} returned {in_words(model)}; it must return an nn.Module"
            )
        return unwrapped(model)

    def _hollow(self) -> Any:
        try:
            with torch.device("meta"):
                return self.make()
        except Exception:  # it looks at values while it is built
            return self.make()


@contextmanager
def _factory_of(named: ModelName) -> Iterator[_Factory]:
    """The factory that a text names; while it is open, it can import what lies beside it."""
    label = f"{named.source}:{named.name}"
    if named.source in _PUBLIC:
        recipe = _PUBLIC[named.source](named)
        yield _Factory(label, recipe.make, {}, recipe.input, (), public=True)
        return
    if named.source == ZOO:
        family = find_family(named.name)
        yield _Factory(label, family.build, named.arguments, family.input, ())
        return
    with _imported(named.source) as (module, homes):
        make = _named(module, named.name, named.source, "model")
        yield _Factory(label, make, named.arguments, _own_input(make), homes)


def load_loss(spec: str) -> Callable[[Any], Any]:
    """The user's loss: `path/file.py:loss` or `package.module:loss`, a function of one argument.

    Raises:
        ModelError: The text is malformed, or what it names cannot be found or called so.
    """
    with load_function(spec, "loss") as (loss, _):
        check_arguments(loss, f"{spec.strip()} is called with what the model returns", None)
        return loss


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
    if not names_loss(spec):
        forms = f"path/file.py:{makes} or package.module:{makes}"
        raise ModelError(f"{spec!r} names no {makes}: write {forms}")
    source, _, name = spec.strip().rpartition(":")
    with _imported(source, by_name) as (module, homes):
        yield _named(module, name, source, makes), homes


def names_loss(spec: str) -> bool:
    """Whether a text has the form that `load_loss` reads: that of a model, without arguments."""
    return has_form(spec)


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

    def may_be_meant(member: Any) -> bool:
        return isinstance(member, nn.Module) or (
            (
                inspect.isfunction(member)
                or (isinstance(member, type) and issubclass(member, nn.Module))
            )
            and member.__module__.startswith(module.__name__)  # not what it only imports
        )

    attribute = getattr(module, name, None)
    if callable(attribute):
        return attribute
    public = {key: value for key, value in vars(module).items() if key[0] != "_"}
    names = [key for key, value in public.items() if may_be_meant(value)]
    others = (
        f"it has {', '.join(names[:8])}" if names else f"define a function that returns a {makes}"
    )
    if attribute is None:
        raise ModelError(f"{source} has no {name!r}; {others}")
    raise ModelError(f"{source}:{name} is {in_words(attribute)}, which makes no {makes}; {others}")


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
    return ModelError(f"{what} raises {type(error).__name__}: {_line(message)} ({where})")


def _line(text: str) -> str:
    return textwrap.shorten(text, 200, placeholder=" ...") or "no message"


def in_words(value: Any) -> str:
    """How to speak of a value: `None`, `the class Net`, `an object of type int`."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"an object of type {type(value).__name__}"
