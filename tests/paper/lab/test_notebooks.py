"""Notebooks go on where they stopped; transcripts answer what stands in them, and nothing else."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ampere.acquisition.families import Network
from ampere.acquisition.loop import open_journal
from ampere.acquisition.progress import Event
from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.errors import NotCovered
from ampere.sittings.effort import Effort
from ampere_paper.lab.notebooks import Notebook, Transcript, journal_file, network
from fakes import FakeDevice

LITTLE = Effort(burst_s=0.01, warmup_s=0.0, min_rounds=2, max_rounds=2)
KIND = LayerKind("linear", Role.HIDDEN, "linear")


def networks(count: int) -> list[Network]:
    return [
        network(f"net{i}", [Layer("linear", KIND, Widths({"in": 1 + i, "out": 4}))])
        for i in range(count)
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of six rows: four networks, two of them twice, and a few steps of none."""
    device, watched = FakeDevice(), list[Event]()
    journal, _ = open_journal(tmp_path / "a.ampere", device, effort=LITTLE)
    with journal:
        book = Notebook("bench a", journal, device, LITTLE, watched.append)
        book.measure(networks(4))
        book.measure(networks(2), passes=2)
        assert len(journal.measurements) == 6
        assert all(event.doing.startswith("bench a: metering net") for event in watched)
    return tmp_path / "a.ampere"


def test_a_notebook_goes_on(path: Path) -> None:
    device = FakeDevice()
    journal, _ = open_journal(path, device, effort=LITTLE)
    with journal:
        book = Notebook("again", journal, device, LITTLE)
        device.seen.clear()
        rows = book.measure(networks(4))
        assert device.seen == []
        assert [len(each) for each in rows] == [1] * 4
        book.measure(networks(4), passes=2)
        assert len(journal.measurements) == 8
        assert book.header == journal.header


def test_a_transcript_says_what_the_notebook_said(path: Path) -> None:
    transcript = Transcript.read(path)
    assert [len(pair) for pair in transcript.measure(networks(2), passes=2)] == [2, 2]
    assert [row.layers for row in transcript.few_steps(networks(4))] == [
        each.layers for each in networks(4)
    ]


def test_a_transcript_measures_nothing(path: Path) -> None:
    with pytest.raises(NotCovered, match=r"a\.ampere lacks net2, and nothing is to be measured"):
        Transcript.read(path).measure(networks(3), passes=2)
    with pytest.raises(NotCovered, match=r"none\.ampere is not there"):
        Transcript.read(path.with_name("none.ampere"))


def test_packed_journals_are_found_unless_there_is_a_plain_one(path: Path) -> None:
    assert journal_file(path.parent, "a") == path
    packed = path.with_name("a.ampere.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert journal_file(path.parent, "a") == path
    rows = Transcript.read(path).rows
    path.unlink()
    assert journal_file(path.parent, "a") == packed
    assert Transcript.read(packed).rows == rows
    assert journal_file(path.parent, "b") == path.with_name("b.ampere")
