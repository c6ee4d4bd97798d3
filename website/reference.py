"""Reference: the pages in docs/reference, written from the code.

    python website/reference.py          # write them anew (make reference)

They are kept in the repository, since who reads it there has no site; a test compares.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sources
from sources import Function, constant, definition, docstring, fields_of, signature

PAGES = sources.ROOT / "docs" / "reference"
WRITTEN = "<!-- Written by `make reference` from the code: change the code, then write it anew. -->"
HEADINGS = re.compile(r"^(Args|Returns|Raises|Attributes|Yields|Example|Examples):$")

GROUPS = {  # of the API: what a reader looks for together
    "Verbs on models": "profile survey measure measure_loader evaluate check after_steps sample"
    " prune gate keep_memory",
    "What a profile is, and what it answers": "Profile fit Estimate Job Loading Training align",
    "Models and layers": "read_layers Layer LayerKind Role Features Widths InputSpec Inputs"
    " Network build_model rebuild_model",
    "How it is measured": "Strategy Effort Profiler ask tell Measured MeasuredLoader Measurement"
    " Failure Cause Evaluation Check progress",
    "Devices and meters": "open_device Device LocalDevice Settings Meter Reading Provenance"
    " calibrate",
    "Many profiles": "open_library Library add_profile compare_devices Comparison",
    "Pruning": "Search Judging Verification Pruning",
    "Gates": "Gate",
    "Fleets": "schedule read_fleet read_jobs read_plan Fleet Member Battery Charging Span Task"
    " Plan",
    "Pages and rows": "report report_comparison report_plan Report Page read_rows",
    "Errors": "AmpereError",
}

FILES = (  # title, what it is, (module, class) of what it holds, page by hand
    (
        "`NAME.ampere`: a profile",
        "JSON lines: a header, then a row for each network that was measured. Appended to, never"
        " rewritten; `.gz` is read as it is.",
        (("ampere.records.journal", "Header"), ("ampere.records.measurement", "Measurement")),
        "[The journal](../journal.md) says what each field means, and its bounds.",
    ),
    (
        "`todo.jsonl`, `done.jsonl`: rows to be measured, and measured",
        "What `ampere ask` prints and `ampere tell` reads: rows as above, without a header;"
        " `network` says how to build one.",
        (),
        "[Bring your own device](../devices.md#bring-your-own-device) has its fields.",
    ),
    (
        "`layers.jsonl`: a model as plain layers",
        "What `ampere layers MODEL --json` prints under `layers`, and `--layers` reads: a layer"
        " a line.",
        (("ampere.core.layers", "Layer"),),
        "[Fields of a layer](../journal.md#a-row).",
    ),
    (
        "`gate.jsonl`: the story of a run",
        "What a gate appends to the folder of a run: a start, statuses, an end; each has `event`.",
        (
            ("ampere.gates.story", "Start"),
            ("ampere.gates.story", "Status"),
            ("ampere.gates.story", "End"),
        ),
        "[Gates](../gates.md), [watch](../watch.md).",
    ),
    (
        "`plan.json`: a plan of a fleet",
        "What `ampere schedule` writes: one object. Seconds count from `begins`.",
        (
            ("ampere.fleet.plan", "Plan"),
            ("ampere.fleet.plan", "Assignment"),
            ("ampere.fleet.plan", "Unplaced"),
            ("ampere.fleet.plan", "Standing"),
        ),
        "[Fleets](../fleet.md).",
    ),
    (
        "`fleet.toml`, `jobs.toml`: what people write of a fleet",
        "Tables `[[member]]` and `[[job]]`, and `[defaults]`.",
        (),
        "[Fleets](../fleet.md) has both tables of settings.",
    ),
    (
        "`widths.json`: a pruned model",
        "What `ampere prune` writes beside `model.py` and `model.safetensors`: every width before"
        " and after, the estimates, and the layers.",
        (),
        "[Pruning](../pruning.md).",
    ),
)

CODES = (
    ("0", "it was done"),
    ("1", "one line on standard error says what is wrong and what to do; `--debug` shows where"),
    ("2", "the command line itself is wrong: an option, a value, a missing argument"),
    ("3", "`ampere schedule`: a plan was written, but not every job has a place"),
    ("75", "`ampere run`: the budget ended the program"),
    ("130", "Ctrl-C; what was measured so far is kept"),
    ("141", "nobody read the output on"),
)


def home(name: str) -> tuple[str, str]:
    """Where a public name is defined: its module, and what it is called there."""
    homes = constant("ampere", "_HOMES")
    assert isinstance(homes, dict)
    module, _, attribute = homes[name].partition(":")
    return module, attribute or name


def api_page() -> str:
    """Every public name of `import ampere`."""
    names = constant("ampere", "__all__")
    assert isinstance(names, list)
    grouped = [name for group in GROUPS.values() for name in group.split()]
    assert sorted(grouped) == sorted(names), sorted(set(grouped) ^ set(names))
    parts = [
        "# Python",
        WRITTEN,
        "Everything that `import ampere` shows. A name is imported when it is first used; what"
        " needs PyTorch says so.",
        "`Model` is an `nn.Module` or a name such as `zoo:lenet5` ([forms](../commands.md#model));"
        " `Input` a shape, an example batch, a text such as `3x32x32`, or a tuple or dict of them"
        " ([inputs](../reading.md#inputs)); `Watch` a function that is told of progress.",
    ]
    for title, group in GROUPS.items():
        parts += [f"## {title}", *(entry(name) for name in group.split())]
    return joined(parts)


def entry(name: str) -> str:
    """One public name: how it is called, what it says of itself, what it has."""
    module, attribute = home(name)
    node = definition(module, attribute)
    if isinstance(node, Function):
        return joined([f"### `{name}`", fenced(signature(f"ampere.{name}", node)), prose(node)])
    return joined([f"### `{name}`", *class_parts(name, module, node)]).rstrip()


def class_parts(name: str, module: str, node: ast.ClassDef) -> Iterator[str]:
    """What a class says of itself, its fields and its methods."""
    maker = sources.initializer(node)
    bases = [ast.unparse(base) for base in node.bases]
    if maker is not None:
        yield fenced(signature(f"ampere.{name}", maker).removesuffix(" -> None"))
    yield prose(node)
    if "Enum" in bases:
        values = [each for each in node.body if isinstance(each, ast.Assign)]
        yield "\n".join(f"- `{ast.unparse(each)}`" for each in values)
        return
    if sources.is_dataclass(node):
        yield table(module, node)
    rows = [method_row(each) for each in sources.methods_of(node)]
    if rows:
        yield joined_lines(["| | |", "|---|---|", *rows])


def method_row(method: Function) -> str:
    """A method or a property, and its first line."""
    first = docstring(method).partition("\n")[0]
    call = method.name
    if not sources.is_property(method):
        call = " ".join(signature(method.name, method).split()).replace("( ", "(")
        call = call.replace(",)", ")").replace(", )", ")")
    return f"| `{escaped(call)}` | {escaped(first)} |"


def table(module: str, node: ast.ClassDef) -> str:
    """The fields of a dataclass; None where nothing at all is told of one."""
    rows = list(fields_of(module, node))
    if not rows:
        return ""
    told = any(row.comment for row in rows)
    head = "| field | type | default |" + (" |" if told else "")
    lines = [head, "|---|---|---|" + ("---|" if told else "")]
    for row in rows:
        default = "" if row.default is None else f"`{escaped(row.default)}`"
        cells = [f"`{row.name}`", f"`{escaped(row.type)}`", default]
        lines.append(f"| {' | '.join([*cells, escaped(row.comment)] if told else cells)} |")
    return joined_lines(lines)


def prose(node: sources.Definition | ast.Module) -> str:
    """A docstring as Markdown: its sections become lists, its drawings stay as they are."""
    lines: list[str] = []
    inside = False
    for line in docstring(node).splitlines():
        heading = HEADINGS.match(line)
        if heading:
            inside = heading[1] != "Example"
            lines += ["", f"{heading[1]}:", ""]
        elif inside and re.match(r"    [\w*, ]+: ", line):
            name, _, rest = line.strip().partition(": ")
            lines.append(f"- `{name}`: {rest}")
        elif inside and line.startswith("    "):
            listed = bool(lines) and lines[-1].startswith(("- ", "  "))
            lines.append(f"  {line.strip()}" if listed else f"- {line.strip()}")
        else:
            inside = inside and not line
            lines.append(line)
    return "\n".join(lines).strip()


def commands_page() -> str:
    """Every command, from the application itself."""
    import typer

    from ampere.cli.app import COMMANDS, app

    root: Any = typer.main.get_command(app)
    parts = [
        "# Command line",
        WRITTEN,
        "`ampere COMMAND --help` says the same. `--debug` before the command shows tracebacks of"
        " errors, `--version` the version. By example: [commands in a glance](../commands.md).",
    ]
    for each in COMMANDS:
        command = root.commands[each.name]
        inner = getattr(command, "commands", None)
        if inner is None:
            parts += [f"## ampere {each.name}", *command_parts(command, each)]
            continue
        parts += [f"## ampere {each.name}", command.help or ""]
        for verb in getattr(each, "commands", ()):
            title = f"### ampere {each.name} {verb.name}"
            parts += [title, *command_parts(inner[verb.name], verb)]
    return joined(parts)


def command_parts(command: Any, own: Any) -> Iterator[str]:
    """Its help, its example, its arguments and options."""
    import inspect

    text = inspect.cleandoc(command.help or "")
    yield escaped_prose(text)
    yield fenced(own.example, "")
    shown = [each for each in command.params if each.name != "help" and not each.hidden]
    if shown:
        lines = ["| | | default |", "|---|---|---|"]
        yield joined_lines([*lines, *(parameter_row(each) for each in shown)])


def parameter_row(parameter: Any) -> str:
    """An argument or an option, what it says, and what it is if it is left out."""
    metavar = parameter.metavar or ("" if getattr(parameter, "is_flag", False) else "VALUE")
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
    else:
        names = ", ".join(sorted(parameter.opts, key=len))
        name = f"{names} {metavar}".rstrip()
    default: Any = parameter.default
    said = not (default is None or default is False or default in ((), [], "") or callable(default))
    shown = f"`{escaped(str(default))}`" if said and not parameter.required else ""
    shown = "must be given" if parameter.required else shown
    return f"| `{escaped(name)}` | {escaped(parameter.help or '')} | {shown} |"


def files_page() -> str:
    """The files that ampere reads and writes."""
    parts = [
        "# Files",
        WRITTEN,
        "What ampere reads and writes, as the code has it. All of it is data: nothing in a file"
        " becomes code, a path to import, a command or a meter ([security](../security.md)).",
        f"Format of a profile: {constant('ampere.records.rows', 'FORMAT')}; of a story:"
        f" {constant('ampere.gates.story', 'VERSION')}; of a plan:"
        f" {constant('ampere.fleet.plan', 'VERSION')}. A newer one is refused with a line that says"
        " so.",
    ]
    for title, what, classes, page in FILES:
        parts += [f"## {title}", what, page]
        for module, name in classes:
            node = definition(module, name)
            assert isinstance(node, ast.ClassDef)
            parts += [f"### {name}", prose(node), table(module, node)]
    return joined(parts)


def errors_page() -> str:
    """The tree of errors, and exit codes."""
    tree = sources.tree_of("ampere.errors")
    drawn = docstring(tree).partition("\n\n")[2]
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    rows = [f"| `{node.name}` | {docstring(node).partition(chr(10))[0]} |" for node in classes]
    codes = [f"| {code} | {what} |" for code, what in CODES]
    return joined(
        [
            "# Errors",
            WRITTEN,
            docstring(tree).partition("\n")[0]
            + " On the command line it is one line that says what is wrong and what to do; in"
            " Python an exception of `ampere.errors`, all of them `ampere.AmpereError`.",
            fenced(drawn, ""),
            joined_lines(["| error | what it says |", "|---|---|", *rows]),
            "## Exit codes",
            joined_lines(["| code | |", "|---|---|", *codes]),
        ]
    )


def escaped(text: str) -> str:
    """A text for a cell of a table, on one line."""
    return " ".join(text.split()).replace("|", "\\|")


def escaped_prose(text: str) -> str:
    """A help text: lines of one paragraph are one line."""
    return "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))


def fenced(text: str, language: str = "python") -> str:
    """A block of code."""
    return f"```{language}\n{text}\n```"


def joined_lines(lines: list[str]) -> str:
    """Lines of one block."""
    return "\n".join(lines)


def joined(parts: list[str]) -> str:
    """Blocks with an empty line between them."""
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


WRITERS = {
    "api.md": api_page,
    "commands.md": commands_page,
    "files.md": files_page,
    "errors.md": errors_page,
}


def drifted(folder: Path = PAGES) -> list[str]:
    """Pages that are not what the code says."""
    return [
        name
        for name, write in WRITERS.items()
        if not (folder / name).exists() or (folder / name).read_text(encoding="utf-8") != write()
    ]


def main() -> None:
    """Write what has changed."""
    PAGES.mkdir(exist_ok=True)
    for name in drifted():
        (PAGES / name).write_text(WRITERS[name](), encoding="utf-8")
        print(f"written: docs/reference/{name}")


if __name__ == "__main__":
    main()
