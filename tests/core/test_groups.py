from __future__ import annotations

from ampere.core.groups import grouped


def test_equal_things_stand_together_in_order() -> None:
    assert grouped("abac", str) == [["a", "a"], ["b"], ["c"]]
