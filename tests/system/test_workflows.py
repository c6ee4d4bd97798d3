"""Workflows run what the Makefile has, and no more than they may.

There is no reader of YAML among what tests install. These files use little of it, so lines are
looked at: enough to see a tab, a bad indent, a target or a folder that is gone.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
LINE = re.compile(r"^( *)(- )?(?:([A-Za-z][\w-]*):(?: (.+))?|(.+))$")
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def lines(path: Path) -> list[str]:
    """What is not a comment."""
    text = path.read_text(encoding="utf-8").splitlines()
    return [line for line in text if line.strip() and not line.lstrip().startswith("#")]


def keys(path: Path, indent: int) -> list[str]:
    found = [re.match(rf"^ {{{indent}}}([A-Za-z][\w-]*):", line) for line in lines(path)]
    return [match[1] for match in found if match]


def test_there_are_four() -> None:
    names = [path.stem for path in WORKFLOWS]
    assert names == ["docs", "integrations", "systems", "test"]


@each_workflow
def test_its_lines_are_yaml(path: Path) -> None:
    depth, folded = 0, False
    for line in lines(path):
        assert "\t" not in line and line == line.rstrip(), line
        match = LINE.match(line)
        assert match, line
        indent = len(match[1])
        assert indent % 2 == 0, line
        if folded and indent > depth:
            continue  # a text over several lines
        assert match[3] or match[2], f"neither a key nor an item: {line}"
        assert indent <= depth + 4, line
        value = match[4] or ""
        assert value.count('"') % 2 == 0 and value.count("[") == value.count("]"), line
        depth, folded = indent, value in (">-", ">", "|")


@each_workflow
def test_it_has_what_a_workflow_must_have(path: Path) -> None:
    top = keys(path, 0)
    assert len(top) == len(set(top))
    assert {"name", "on", "permissions", "jobs"} <= set(top)
    assert f"name: {path.stem}" in lines(path)


@each_workflow
def test_it_may_only_read_and_knows_no_secret(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^permissions:\n((?:  .*\n)+)", text, re.M) == ["  contents: read\n"]
    assert "permissions" not in keys(path, 4)  # no job gives itself more
    assert "secrets" not in text and "pull_request_target" not in text


@each_workflow
def test_actions_are_the_hosts_own_by_their_major_version(path: Path) -> None:
    used = re.findall(r"uses: (.+)", path.read_text(encoding="utf-8"))
    assert used and all(re.fullmatch(r"actions/[\w-]+@v\d+", each) for each in used), used


@each_workflow
def test_every_target_is_in_the_makefile(path: Path) -> None:
    for target in re.findall(r"\bmake ([a-z][a-z-]*)", "\n".join(lines(path))):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


@each_workflow
def test_tests_and_files_that_are_named_are_there(path: Path) -> None:
    named = re.findall(r"\b(?:tests/[\w/.]+|constraints\.txt)", "\n".join(lines(path)))
    assert all((ROOT / each).exists() for each in named), named


def test_what_is_tested_is_what_is_offered() -> None:
    """The versions of Python in test.yml, in the package's metadata, and on the page."""
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    matrix = re.search(r"python: \[(.*)\]", workflow)
    assert matrix
    tested = re.findall(r'"([\d.]+)"', matrix[1])
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert tested == re.findall(r'"Programming Language :: Python :: (3\.\d+)"', metadata)
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    assert all(f"| {version} |" in page for version in tested)
