import contextlib
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ampere
from ampere.core.boundary.fields import parse_json
from ampere.core.boundary.trust import ForeignText
from ampere.core.fingerprint import Fingerprint
from ampere.core.inputs import parse_inputs
from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.errors import DataError, JournalError
from ampere.meters.base import Provenance
from ampere.records.journal import Header, Journal, JournalWarning, read_journal
from ampere.records.measurement import Measurement

DOCS = Path(__file__).parents[2] / "docs" / "journal.md"
HEADER = Header(
    Fingerprint({"cores": "2"}, {"host": "bench"}),
    {"name": ForeignText("fake")},  # as a file has it
    Provenance.SIMULATED,
    "today",
)


def row(energy_j):
    layer = Layer("fc", LayerKind("fc", Role.LAST, "linear"), Widths({"in": 8}))
    return Measurement((layer,), energy_j, 0.1, provenance=Provenance.SIMULATED)


ROWS = [row(float(n)) for n in range(1, 5)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "profile.jsonl"


def write(path, rows=ROWS):
    with Journal.open(path, HEADER) as journal:
        for measurement in rows:
            journal.append(measurement)
    return path.read_bytes()


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    return write(tmp_path_factory.mktemp("journal") / "profile.jsonl")


APPENDER = """
import os, signal, sys
from tests_rows import HEADER, row
from ampere.records.journal import Journal
if len(sys.argv) > 3:
    name, before = sys.argv[3].split()
    function = getattr(os, name)
    def die(*arguments):
        if before == "False":
            function(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(os, name, die)
with Journal.open(sys.argv[1], HEADER) as journal:
    count = len(journal.measurements)
    print(count, flush=True)
    if sys.argv[2] == "hold":
        sys.stdin.read()
    while True:
        count += 1
        journal.append(row(float(count)))
        print(count, flush=True)
"""


@contextlib.contextmanager
def appender(path, task, die_at=None):
    """A real process that holds the lock or appends forever; SIGKILL ends it."""
    source = APPENDER.replace("tests_rows", f"records.{Path(__file__).stem}")
    places = [str(Path(__file__).parents[1]), str(Path(ampere.__file__).parents[1])]
    process = subprocess.Popen(
        [sys.executable, "-c", source, str(path), task, *([die_at] if die_at else [])],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() or die_at, "the process did not get the journal"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_journal_keeps_header_and_measurements(path):
    with Journal.open(path, HEADER) as journal:
        assert journal.header == HEADER
        assert journal.measurements == []
        for measurement in ROWS:
            journal.append(measurement)
        assert journal.measurements == ROWS
    assert read_journal(path) == (HEADER, ROWS)
    with Journal.open(path, replace(HEADER, created="later")) as journal:
        assert journal.header == HEADER
        assert journal.measurements == ROWS
    assert os.listdir(path.parent) == [path.name]


def test_lines_are_json_with_sorted_keys_and_the_header_first(content):
    texts = content.decode().splitlines()
    assert len(texts) == 1 + len(ROWS)
    assert texts[0].startswith('{"ampere_journal":1,')
    short = (",", ":")
    again = [json.dumps(json.loads(text), sort_keys=True, separators=short) for text in texts]
    assert again == texts


def test_an_append_is_on_the_disk_at_once(path):
    with Journal.open(path, HEADER) as journal:
        journal.append(ROWS[0])
        assert read_journal(path) == (HEADER, ROWS[:1])


def test_every_line_is_synced_before_append_returns(path, monkeypatch):
    synced = []
    fsync = os.fsync

    def record(fd):
        fsync(fd)
        synced.append(os.fstat(fd).st_ino)

    monkeypatch.setattr(os, "fsync", record)
    with Journal.open(path, HEADER) as journal:
        assert synced == [path.stat().st_ino, path.parent.stat().st_ino]
        journal.append(ROWS[0])
        assert synced[2:] == [path.stat().st_ino]


@given(
    reference=st.tuples(*[st.none() | st.floats(1e-9, 1e9)] * 3),
    texts=st.tuples(st.none() | st.sampled_from(["zoo:lenet5"]), st.none() | st.text(max_size=9)),
    identity=st.dictionaries(st.text(max_size=5), st.text(max_size=5)),
)
def test_headers_round_trip(reference, texts, identity):
    header = Header(
        Fingerprint(identity), {"hz": 10}, Provenance.BATTERY, "now", *reference, *texts
    )
    assert Header.from_json(parse_json(json.dumps(header.to_json(), allow_nan=False))) == header


def test_an_unknown_reference_is_null_and_not_nan():
    nan = float("nan")
    assert replace(HEADER, reference_energy_j=nan, idle_w=nan).to_json()["reference"] is None
    assert replace(HEADER, reference_time_s=1.0, reference_energy_j=nan).to_json()["reference"] == {
        "time_s": 1.0
    }


def test_the_header_of_the_documentation_is_a_header():
    text = DOCS.read_text(encoding="utf-8")
    example = parse_json(re.findall(r"```json\n(.*?)```", text, re.S)[-1])
    header = Header.from_json(example)
    assert header.to_json() == example
    assert None not in (header.reference_time_s, header.reference_energy_j, header.idle_w)
    section = text.partition("## The header\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.M)) == {*example, "asks"}
    # Version and reference stand for one field more, and only some profiles have `asks`.
    assert len(example) == len(fields(Header)) - 1


def test_how_to_go_on_asking_is_kept():
    asks = {"input": "3x8x8", "training": {"batch_size": 3}, "strategy": {"seed": 1}}
    header = replace(HEADER, asks=asks)
    assert header.to_json()["asks"] == asks
    assert Header.from_json(parse_json(json.dumps(header.to_json()))) == header
    assert "asks" not in HEADER.to_json()


# --- damage ---


@settings(max_examples=300)
@given(st.data())
def test_a_journal_cut_anywhere_keeps_every_whole_line(content, data):
    cut = data.draw(st.integers(0, len(content)))
    kept = content[:cut]
    whole = kept.count(b"\n") - 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "profile.jsonl")
        path.write_bytes(kept)
        if whole < 0:
            with pytest.raises(JournalError, match=r"empty|line 1"):
                read_journal(path)
            with pytest.raises(JournalError, match=r"empty|line 1"):
                Journal.open(path, HEADER)
            assert path.read_bytes() == kept
            return
        torn = not kept.endswith(b"\n")
        with warned(torn):
            assert read_journal(path) == (HEADER, ROWS[:whole])
        with warned(torn), Journal.open(path, HEADER) as journal:
            assert journal.measurements == ROWS[:whole]
            journal.append(row(9.0))
        assert read_journal(path) == (HEADER, [*ROWS[:whole], row(9.0)])


def warned(torn):
    return pytest.warns(JournalWarning, match="torn") if torn else contextlib.nullcontext()


@given(st.data())
def test_a_damaged_middle_line_is_refused_by_its_number(content, data):
    texts = content.split(b"\n")
    number = data.draw(st.integers(1, len(ROWS)))
    line = bytearray(texts[number - 1])
    line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.sampled_from([0, 1, 0xFF]))
    texts[number - 1] = bytes(line)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "profile.jsonl")
        path.write_bytes(b"\n".join(texts))
        damaged = path.read_bytes()
        with pytest.raises(JournalError, match=re.escape(f"{path} line {number}")):
            read_journal(path)
        with pytest.raises(JournalError, match=f"line {number}"):
            Journal.open(path, HEADER)
        assert path.read_bytes() == damaged


@pytest.mark.parametrize("tail", [b"{", b'{"layers"\n', b"\0" * 500, b"\n", b"7"])
def test_a_torn_last_line_is_left_out_and_cut_off(path, tail):
    content = write(path)
    path.write_bytes(content + tail)
    with pytest.warns(JournalWarning, match="torn"):
        assert read_journal(path) == (HEADER, ROWS)
    with pytest.warns(JournalWarning), Journal.open(path, HEADER) as journal:
        journal.append(row(7.0))
    assert path.read_bytes().startswith(content)
    assert read_journal(path) == (HEADER, [*ROWS, row(7.0)])


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        (b"{\n{", "line 6 is damaged: not JSON"),
        (b"\n\n", "line 6 is damaged: not JSON"),
        (b"[]\n", "line 6 is damaged: a row is an object"),
        (b'{"layers": [{"kind": "fc"}], "energy_j_per_step": 0}\n', "line 6 is damaged: energy_j"),
    ],
)
def test_other_damage_at_the_end_is_refused(path, tail, said):
    path.write_bytes(write(path) + tail)
    with pytest.raises(JournalError, match=said):
        read_journal(path)


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("", "empty"),
        ("hello\n", "line 1: not JSON"),
        ("{}\n", "not a journal"),
        ("[]\n", "not a journal"),
        (json.dumps(ROWS[0].to_json()) + "\n", "not a journal"),
        (json.dumps({**HEADER.to_json(), "ampere_journal": 2}) + "\n", "newer ampere.*upgrade"),
        (json.dumps({**HEADER.to_json(), "ampere_journal": True}) + "\n", "ampere_journal"),
        (json.dumps({**HEADER.to_json(), "provenance": "x"}) + "\n", "provenance 'x'"),
        (json.dumps({**HEADER.to_json(), "device": 3}) + "\n", "device must be an object"),
        (json.dumps({**HEADER.to_json(), "reference": {"time_s": 10**400}}) + "\n", "time_s"),
        (json.dumps({**HEADER.to_json(), "idle_w": "x"}) + "\n", "line 1: idle_w must be"),
        ('{"ampere_journal": 1}\n', "line 1: meter is missing"),
    ],
)
def test_what_is_no_journal_is_refused_and_left_alone(path, first, said):
    path.write_text(first)
    for attempt in (lambda: read_journal(path), lambda: Journal.open(path, HEADER)):
        with pytest.raises(JournalError, match=said) as caught:
            attempt()
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert path.read_text() == first


def test_a_packed_journal_is_read_but_not_added_to(path):
    with Journal.open(path, HEADER) as journal:
        journal.append(ROWS[0])
    whole = path.read_bytes()
    path.write_bytes(gzip.compress(whole))
    assert read_journal(path) == (HEADER, ROWS[:1])
    with pytest.raises(JournalError, match="is packed: gunzip it"):
        Journal.open(path, HEADER)
    path.write_bytes(gzip.compress(whole)[:-9])
    with pytest.raises(JournalError, match="cannot be unpacked"):
        read_journal(path)


def test_absent_files_and_directories_are_refused(tmp_path):
    with pytest.raises(JournalError, match="does not exist"):
        read_journal(tmp_path / "absent")
    with pytest.raises(JournalError, match="absent is no directory: make it first"):
        Journal.open(tmp_path / "absent" / "profile", HEADER)
    for attempt in (lambda: read_journal(tmp_path), lambda: Journal.open(tmp_path, HEADER)):
        with pytest.raises(JournalError, match="is a directory"):
            attempt()


# --- writing under adverse conditions ---


def test_a_measurement_that_cannot_be_read_back_is_not_written(path):
    content = write(path)
    endless = Layer("x", LayerKind("x", Role.LAST, "x", {"a": float("inf")}), Widths({"in": 1}))
    with Journal.open(path, HEADER) as journal:
        for bad in (row(float("nan")), row(0.0), replace(row(1.0), layers=(endless,))):
            with pytest.raises(DataError):
                journal.append(bad)
        assert journal.measurements == ROWS
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(28, "No space left on device"), JournalError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_line_that_is_not_completed_is_taken_back(path, monkeypatch, error, raised):
    def fail(fd):
        raise error

    with Journal.open(path, HEADER) as journal:
        journal.append(ROWS[0])
        with monkeypatch.context() as patch, pytest.raises(raised):
            patch.setattr(os, "fsync", fail)
            journal.append(ROWS[1])
        assert journal.measurements == ROWS[:1]
        assert read_journal(path) == (HEADER, ROWS[:1])
        journal.append(ROWS[2])
    assert read_journal(path) == (HEADER, [ROWS[0], ROWS[2]])


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("delete", "replaced or deleted"),
        ("replace", "replaced or deleted"),
        ("edit", "changed by another program"),
    ],
)
def test_an_append_is_refused_when_the_file_changed_underneath(path, how, said):
    with Journal.open(path, HEADER) as journal:
        journal.append(ROWS[0])
        if how == "edit":
            path.write_bytes(path.read_bytes() + b"x")
        else:
            path.rename(path.with_name("moved"))
        if how == "replace":
            write(path, [])
        with pytest.raises(JournalError, match=said):
            journal.append(ROWS[1])
        if how == "edit":
            assert path.read_bytes().endswith(b"\nx")


def test_a_closed_journal_does_not_append(path):
    with Journal.open(path, HEADER) as journal:
        pass
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.append(ROWS[0])


def test_creating_without_hard_links(path, monkeypatch):
    def refuse(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    write(path)
    assert read_journal(path) == (HEADER, ROWS)
    assert os.listdir(path.parent) == [path.name]


def test_creating_never_replaces_a_journal_that_appeared_meanwhile(path, monkeypatch):
    link = os.link

    def lose_the_race(source, target):
        monkeypatch.setattr(os, "link", link)
        write(path)
        link(source, target)

    monkeypatch.setattr(os, "link", lose_the_race)
    with Journal.open(path, replace(HEADER, created="second")) as journal:
        assert (journal.header, journal.measurements) == (HEADER, ROWS)


def test_creating_through_a_symbolic_link(path):
    link = path.with_name("link")
    link.symlink_to(path)
    write(link)
    assert link.is_symlink()
    assert read_journal(path) == (HEADER, ROWS)


def test_appending_goes_on_after_a_change_of_directory(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    with Journal.open(path.name, HEADER) as journal:
        monkeypatch.chdir("/")
        journal.append(ROWS[0])
    assert read_journal(path) == (HEADER, ROWS[:1])


def test_a_failed_open_lets_go_of_the_file(path):
    content = write(path)
    path.write_bytes(content + b"torn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(JournalWarning):
            Journal.open(path, HEADER)
    with pytest.warns(JournalWarning), Journal.open(path, HEADER) as journal:
        assert journal.measurements == ROWS


# --- real processes ---


def test_kill_while_appending_loses_at_most_the_last_line(path):
    told = 0
    for _ in range(3):
        with appender(path, "append") as process:
            for _ in range(20):
                told = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            process.wait()
            told = max([told, *(int(n) for n in process.stdout.read().split())])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", JournalWarning)
            header, measurements = read_journal(path)
        assert header == HEADER
        assert len(measurements) - told in (0, 1)  # killed between the line and the print
        assert measurements == [row(float(n)) for n in range(1, len(measurements) + 1)]
    assert told >= 60
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JournalWarning)
        with Journal.open(path, HEADER) as journal:
            journal.append(row(0.5))
    assert read_journal(path) == (HEADER, [*measurements, row(0.5)])


@pytest.mark.parametrize("moment", ["fsync", "link"])
def test_kill_while_creating_leaves_no_file_or_a_whole_header(path, moment):
    for before in (True, False):
        with appender(path, "append", f"{moment} {before}") as process:
            assert process.wait() == -signal.SIGKILL
        if before or moment == "fsync":
            assert not path.exists()
        else:
            assert read_journal(path) == (HEADER, [])
    write(path)
    assert read_journal(path) == (HEADER, ROWS)


def test_a_second_process_is_refused_until_the_first_is_killed(path):
    with appender(path, "hold") as process:
        with pytest.raises(JournalError, match="in use by another process") as caught:
            Journal.open(path, HEADER)
        if sys.platform == "linux" and f" {process.pid} " in Path("/proc/locks").read_text():
            assert f"(pid {process.pid})" in str(caught.value)
        assert read_journal(path) == (HEADER, [])
        process.send_signal(signal.SIGKILL)
        process.wait()
        with Journal.open(path, HEADER) as journal:
            journal.append(ROWS[0])
    assert read_journal(path) == (HEADER, ROWS[:1])


def test_reading_does_not_let_go_of_the_lock(path):
    with Journal.open(path, HEADER) as journal:
        read_journal(path)
        with pytest.raises(JournalError, match="in use"):
            Journal.open(path, HEADER)
        journal.append(ROWS[0])


def test_what_a_model_was_fed_is_kept_as_data():
    fed = parse_inputs("3x64x64, mask=16:bool")
    header = replace(HEADER, input=fed)
    assert Header.from_json(json.loads(json.dumps(header.to_json()))).input == fed
    assert "input" not in HEADER.to_json()  # files of older versions have none


@pytest.mark.parametrize(
    ("input", "says"),
    [
        ("magic", "input: 'magic' is no input"),
        ("0x3", "every size must be at least 1"),
        ("99999x99999", "more than 67108864 numbers"),
        (3, "input must be a text"),
    ],
)
def test_what_nobody_can_be_fed_is_refused(path, input, says):
    path.write_text(json.dumps({**HEADER.to_json(), "input": input}) + "\n")
    with pytest.raises(JournalError, match=re.escape(says)):
        read_journal(path)
