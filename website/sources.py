"""Sources: what stands in the code, read as text: nothing of it is imported.

So the reference needs no torch, takes a fraction of a second, and is the same with every version of
Python: signatures are as they were written.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Definition: TypeAlias = ast.ClassDef | Function


@dataclass(frozen=True)
class Field:
    """A field of a dataclass: its comment says what its name does not."""

    name: str
    type: str
    default: str | None
    comment: str


def module_text(module: str) -> str:
    """The source of a module by its dotted name."""
    base = SOURCE.joinpath(*module.split("."))
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return path.read_text(encoding="utf-8")


@cache
def tree_of(module: str) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(module_text(module))


def constant(module: str, name: str) -> object:
    """A literal that a module assigns to a name."""
    for node in tree_of(module).body:
        if isinstance(node, ast.Assign) and any(ast.unparse(each) == name for each in node.targets):
            return ast.literal_eval(node.value)
    raise KeyError(f"{module} assigns no {name}")


def definition(module: str, name: str) -> Definition:
    """A class or a function of a module."""
    for node in tree_of(module).body:
        if isinstance(node, Definition) and node.name == name:
            return node
    raise KeyError(f"{module} defines no {name}")


def docstring(node: Definition | ast.Module) -> str:
    """What it says of itself, without the indentation."""
    return inspect.cleandoc(ast.get_docstring(node) or "")


def signature(name: str, function: Function) -> str:
    """A call of it with its annotations, an argument a line where one line is not enough."""
    bound = {"self", "cls"}
    plain = [*function.args.posonlyargs, *function.args.args]
    defaults = [None] * (len(plain) - len(function.args.defaults)) + list(function.args.defaults)
    parts = [
        _argument(each, default)
        for each, default in zip(plain, defaults, strict=True)
        if each.arg not in bound
    ]
    if function.args.vararg:
        parts.append(f"*{_argument(function.args.vararg, None)}")
    elif function.args.kwonlyargs:
        parts.append("*")
    parts += [
        _argument(each, default)
        for each, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    ]
    if function.args.kwarg:
        parts.append(f"**{_argument(function.args.kwarg, None)}")
    result = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    line = f"{name}({', '.join(parts)}){result}"
    if len(line) <= 90:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    told = f"{argument.arg}: {ast.unparse(argument.annotation)}" if argument.annotation else None
    text = told or argument.arg
    if default is None:
        return text
    return f"{text} = {ast.unparse(default)}" if told else f"{text}={ast.unparse(default)}"


def fields_of(module: str, node: ast.ClassDef) -> Iterator[Field]:
    """Fields that a dataclass declares, in order; private ones are nobody's business."""
    lines = module_text(module).splitlines()
    for each in node.body:
        if not isinstance(each, ast.AnnAssign) or not isinstance(each.target, ast.Name):
            continue
        if each.target.id.startswith("_") or "ClassVar" in ast.unparse(each.annotation):
            continue
        comment = re.search(r"  # (?!fmt|type|noqa)(.*)$", lines[(each.end_lineno or 1) - 1])
        yield Field(
            each.target.id,
            ast.unparse(each.annotation),
            _default(each.value),
            comment[1] if comment else "",
        )


def _default(value: ast.expr | None) -> str | None:
    """What a field is if nothing is said: a factory makes an empty one."""
    text = None if value is None else ast.unparse(value)
    if text is None or not text.startswith("field("):
        return text
    found = re.search(r"default(?:_factory)?=([\w().]+)", text)
    return found[1] if found else None


def is_dataclass(node: ast.ClassDef) -> bool:
    """Whether its fields are what it is made of."""
    return any("dataclass" in ast.unparse(each) for each in node.decorator_list)


def methods_of(node: ast.ClassDef) -> Iterator[Function]:
    """Public methods and properties, in order."""
    for each in node.body:
        if isinstance(each, Function) and not each.name.startswith("_"):
            if any(ast.unparse(mark).endswith(".setter") for mark in each.decorator_list):
                continue
            yield each


def initializer(node: ast.ClassDef) -> Function | None:
    """What makes one, if the class says it itself."""
    found = (each for each in node.body if isinstance(each, Function) and each.name == "__init__")
    return next(found, None)


def is_property(function: Function) -> bool:
    """Whether it is read like a field."""
    return any("property" in ast.unparse(mark) for mark in function.decorator_list)
