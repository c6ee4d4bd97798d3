from __future__ import annotations

from dataclasses import replace

from ampere.reports.labels import SORTS, moment, network_of, short_names, sort_of, took
from fakes import HIDDEN, LAST, exact, plain_layer, plain_model


def test_names_lose_what_all_share() -> None:
    assert short_names(["a x b10 #1", "a y b10 #2"]) == {"a x b10 #1": "x", "a y b10 #2": "y"}
    assert short_names(["a b10 #1", "a b10 #2"]) == {"a b10 #1": "#1", "a b10 #2": "#2"}
    assert short_names(["a", "a a"]) == {"a": "a", "a a": "a a"}
    assert short_names(["a #1"]) == {"a #1": "a"}
    assert short_names([]) == {}
    assert LAST.name == "last linear"


def test_a_network_is_named_by_its_first_layers() -> None:
    row = exact(plain_model(8, 8, 8, 8, 8))
    assert network_of(row) == "linear(out=8) + linear(in=8, out=8) ×4 + linear(in=8)"
    assert network_of(replace(row, stage="forward")).endswith(", forward alone")
    assert network_of(exact(plain_model(1, 2, 3, 4, 5))).endswith(" and 2 more layers")


def test_rows_are_sorted_by_what_was_run() -> None:
    network, layer = exact(plain_model(8, 8, 8)), exact((plain_layer(HIDDEN, in_=8, out=8),))
    failed = replace(network, failed="out of memory")
    rows = (network, layer, replace(layer, stage="forward"), failed)
    assert [SORTS[sort_of(row)] for row in rows] == list(SORTS)


def test_what_a_row_took() -> None:
    row = replace(exact(plain_model(8)), cost_s=2.0)
    assert took(row) == "2.00 s"
    assert took(replace(row, failed="out of memory")) == "2.00 s in vain"
    assert moment("2026-01-02T03:04:05+00:00") == "2026-01-02 03:04:05 UTC"
