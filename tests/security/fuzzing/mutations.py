"""Mutations: a valid input, and what damage, malice and mistaken units make of it.

JSON is changed as JSON (values, keys, nesting) as often as it is changed as bytes: most of what is
wrong in a file of somebody's still parses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

NUMBERS = (
    0, -1, 1, 2, 3, 64, 1000, 10**6, 10**9, 1e-14, 1e-9, 1e14, 2.9, 0.1, -0.0, 1e-308, 5e-324,
    1e-30, 1e15, 1e30, 1e31, 1e308, -1e308, 2**31, 2**53 + 1, 2**63, 10**400, -(10**400),
    "1e999", "-1e999", "NaN", "Infinity",
)  # fmt: skip
TEXTS = (
    "", " ", "0", "null", "zoo:lenet5", "zoo:lenet5(channels=[1,1])", "os:system('touch canary')",
    "subprocess:Popen(args=['touch', 'canary'])", "./p.ampere:loss", "../../etc/passwd", "\x00",
    "\x1b[31m", "\r\n", "\u202e", "\ud800", "ﬀ²₁", "<script>canary()</script>", "{{7*7}}", "%s%n",
    "a" * 300, "x" * 20_000, "__class__", "torch.load", "iphone", "adb shell touch canary",
    "2026-01-01T00:00:00+00:00", "0001-01-01", "9999-12-31T23:59:59Z", "first", "last", "step",
)  # fmt: skip
BYTES = (
    b"\x00", b"\xff", b"\n", b"\r", b"{", b"}", b"[", b"]", b'"', b",", b":", b"9" * 400, b"NaN",
    b"\xef\xbb\xbf", b"\x1f\x8b", b";", b"\t", b"-", b"e", b"1e999", b"[" * 2000,
)  # fmt: skip


class Unquoted(str):
    """A number as JSON may spell it and Python's writer would not."""

    __slots__ = ()


def mutate(data: bytes, others: list[bytes], rng: Random) -> bytes:
    """Some changes to an input; sometimes a part of another one."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        change = rng.random()
        if change < 0.6:
            data = _mutate_json(data, rng)
        elif change < 0.9:
            data = _mutate_bytes(data, rng)
        else:
            data = _spliced(data, rng.choice(others), rng)
    return data


def _mutate_json(data: bytes, rng: Random) -> bytes:
    """Change one of the lines that are JSON; bytes where none is."""
    lines = data.split(b"\n")
    number = rng.randrange(len(lines))
    try:
        document = json.loads(lines[number])
    except (ValueError, RecursionError):
        return _mutate_bytes(data, rng)
    places = list(_places(document))
    if not places:
        changed = nasty(rng)
    else:
        owner, key = rng.choice(places)
        changed = document
        _change(owner, key, rng)
    lines[number] = _dumped(changed)
    return b"\n".join(lines)


def _change(owner: Any, key: Any, rng: Random) -> None:
    how = rng.random()
    if how < 0.15:
        del owner[key]
    elif how < 0.25 and isinstance(owner, dict):
        owner[rng.choice(TEXTS)] = owner[key]
    elif how < 0.3 and isinstance(owner, list):
        owner += [owner[key]] * rng.choice((1, 20, 500))
    elif how < 0.4:
        owner[key] = [owner[key]] if rng.random() < 0.5 else {"a": owner[key]}
    elif how < 0.5 and isinstance(owner[key], (int, float)) and abs(owner[key]) < 1e300:
        owner[key] = owner[key] * rng.choice((-1, 1e-3, 1e3, 1e6, 1e-9, 0.5))
    else:
        owner[key] = nasty(rng)


def nasty(rng: Random) -> Any:
    """A value that is hardly ever right."""
    kind = rng.random()
    if kind < 0.45:
        number = rng.choice(NUMBERS)
        return Unquoted(number) if isinstance(number, str) else number
    if kind < 0.8:
        return rng.choice(TEXTS)
    return rng.choice((None, True, False, [], {}, [[]], {"": None}, [None] * 3, {"name": 5}))


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def _dumped(document: Any) -> bytes:
    """JSON with numbers that only a parser makes of it: 1e999 is infinite there."""
    unquoted: list[str] = []

    def mark(tree: Any) -> Any:
        if isinstance(tree, Unquoted):
            unquoted.append(tree)
            return f"@{len(unquoted) - 1}@"
        if isinstance(tree, dict):
            return {key: mark(part) for key, part in tree.items()}
        return [mark(part) for part in tree] if isinstance(tree, list) else tree

    text = json.dumps(mark(document))
    for i, number in enumerate(unquoted):
        text = text.replace(f'"@{i}@"', number)
    return text.encode()


def _mutate_bytes(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    how = rng.random()
    if how < 0.3:
        return data[:at] + rng.choice(BYTES) + data[at:]
    if how < 0.5:
        return data[:at] + data[at + rng.choice((1, 2, 10, 100)) :]
    if how < 0.7:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if how < 0.85:
        return data[:at]
    end = min(len(data), at + rng.choice((1, 10, 100)))
    return data[:end] + data[at:end] * rng.choice((1, 3, 30)) + data[end:]


def _spliced(data: bytes, other: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
