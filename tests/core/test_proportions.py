"""Sizes tied in proportion: ratios along any way to the root."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from ampere.core.program.proportions import Proportional


def test_a_size_alone_is_its_own_root() -> None:
    size = Proportional()
    assert size.find() == (size, 1)


def test_ratios_multiply_along_the_way() -> None:
    a, b, c = Proportional(), Proportional(), Proportional()
    assert a.tie(b, Fraction(2))  # b is twice a
    assert c.tie(a, Fraction(1, 3))  # a is a third of c
    assert [size.find() for size in (a, b, c)] == [
        (c, Fraction(1, 3)),
        (c, Fraction(2, 3)),
        (c, Fraction(1)),
    ]


def test_a_second_tie_must_say_the_same() -> None:
    a, b = Proportional(), Proportional()
    assert a.tie(b, Fraction(2))
    assert a.tie(b, Fraction(2)) and b.tie(a, Fraction(1, 2))
    assert not a.tie(b, Fraction(3))
    assert b.find() == (a, 2)


@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=20),
)
def test_whatever_is_tied_has_the_ratio_of_the_sizes(
    sizes: list[int], ties: list[tuple[int, int]]
) -> None:
    nodes = [Proportional() for _ in sizes]
    group = list(range(len(sizes)))
    for a, b in ((a % len(sizes), b % len(sizes)) for a, b in ties):
        assert nodes[a].tie(nodes[b], Fraction(sizes[b], sizes[a]))
        group = [group[a] if g == group[b] else g for g in group]
    for i, (node, size) in enumerate(zip(nodes, sizes, strict=True)):
        root, ratio = node.find()
        assert ratio == Fraction(size, sizes[nodes.index(root)])
        for k, other in enumerate(nodes):
            assert (root is other.find()[0]) == (group[i] == group[k])
