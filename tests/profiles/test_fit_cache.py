"""Fit cache: what is kept beside a journal never shows, but in the time that it saves."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampere.core.layers import Layer
from ampere.core.training import Training
from ampere.estimators.methods import METHODS
from ampere.estimators.solution import rebuild, solution_of
from ampere.profiles import fit_cache
from ampere.profiles.fit_cache import MODELS, FitCache
from ampere.profiles.profile import Profile
from ampere.records.journal import Journal
from fakes import exact, plain_layer, plain_model
from reported import made_up

RECORDED = Path(__file__).parents[2] / "benchmarks" / "results"
ASKED = plain_model(20, 30, 40)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made_up().save(tmp_path / "pi.ampere")
    return tmp_path / "pi.ampere"


def kept(path: Path) -> Path:
    return FitCache.of(path.read_bytes()).path


def load(path: Path, method: str = "additive") -> Profile:
    return Profile.load(path, method, keep_fit=True)


def answer(profile: Profile) -> str:
    return json.dumps({**profile.estimate(ASKED).to_json(), "warnings": []})  # no notes on disk


class Searched(Exception):
    """A fit was made from the beginning."""


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: object) -> Any:
        raise Searched

    monkeypatch.setattr(fit_cache, "fit_rows", search)


@pytest.mark.parametrize("method", METHODS)
def test_the_second_time_nothing_is_searched_for(
    path: Path, method: str, request: pytest.FixtureRequest
) -> None:
    fresh = answer(Profile.load(path, method))
    assert not kept(path).exists()  # only who wants it has it kept
    assert answer(load(path, method)) == fresh
    assert kept(path).exists()
    request.getfixturevalue("no_search")
    assert answer(load(path, method)) == fresh


def test_all_methods_are_kept_side_by_side(path: Path, request: pytest.FixtureRequest) -> None:
    answers = [answer(load(path, method)) for method in METHODS]
    assert answers[0] != answers[1]
    request.getfixturevalue("no_search")
    assert [answer(load(path, method)) for method in METHODS] == answers


@pytest.mark.parametrize("packed", [False, True])
def test_a_real_journal_of_forty_networks(
    tmp_path: Path, packed: bool, request: pytest.FixtureRequest
) -> None:
    original = RECORDED / "additive_lenet5_first.ampere.gz"
    path = tmp_path / ("net.ampere.gz" if packed else "net.ampere")
    path.write_bytes(original.read_bytes() if packed else gzip.decompress(original.read_bytes()))
    fresh = load(path)
    asked = [row.layers for row in fresh.measurements]
    assert len(asked) == 40
    before = [fresh.estimate(layers).to_json() for layers in asked[::4]]
    request.getfixturevalue("no_search")
    again = load(path)
    assert [again.estimate(layers).to_json() for layers in asked[::4]] == before
    assert again.warnings == fresh.warnings
    assert repr(again) == repr(fresh)


def test_a_journal_that_grew_is_fitted_anew(path: Path, request: pytest.FixtureRequest) -> None:
    before = answer(load(path))
    with Journal.open(path, made_up().header) as journal:
        row = exact(ASKED)
        journal.append(replace(row, energy_j_per_step=1.1 * row.energy_j_per_step))
    fresh = answer(Profile.load(path))
    assert fresh != before
    assert answer(load(path)) == fresh
    request.getfixturevalue("no_search")
    assert answer(load(path)) == fresh


def test_a_line_that_is_edited_is_fitted_anew(path: Path) -> None:
    before = answer(load(path))
    text = path.read_text()
    old = f'"energy_j_per_step":{made_up().measurements[3].energy_j_per_step}'
    assert text.count(old) == 1 and old.count("0.01") == 1
    time = path.stat().st_mtime_ns
    path.write_text(text.replace(old, old.replace("0.01", "0.02")))
    os.utime(path, ns=(time, time))  # neither its size nor its time tells
    fresh = answer(Profile.load(path))
    assert fresh != before
    assert answer(load(path)) == fresh


def test_other_code_fits_anew(path: Path, monkeypatch: pytest.MonkeyPatch, no_search: None) -> None:
    with pytest.raises(Searched):
        load(path).fit  # noqa: B018
    monkeypatch.undo()
    load(path).fit  # noqa: B018
    monkeypatch.setattr(fit_cache, "code_version", lambda: "0.0.0 of another day")
    monkeypatch.setattr(fit_cache, "fit_rows", lambda *_: pytest.fail("searched"))
    with pytest.raises(pytest.fail.Exception):
        load(path).fit  # noqa: B018


def test_the_version_knows_the_code_and_what_it_calculates_with() -> None:
    import numpy
    import scipy

    import ampere

    version = fit_cache.code_version()
    for part in (ampere.__version__, numpy.__version__, scipy.__version__):
        assert part in version


@cache
def unkept() -> str:
    """What a fit says that was never kept."""
    return answer(made_up())


@pytest.fixture
def found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever searches, finds: where the question is what is believed, not how it is found."""
    known = solution_of(made_up().fit, made_up().measurements)

    def search(rows: Any, method: str, kernel: str, drift: float, lenders: Any) -> Any:
        return rebuild(known, rows, method, kernel, lenders)

    monkeypatch.setattr(fit_cache, "fit_rows", search)


SEARCHES_QUICKLY = pytest.mark.usefixtures("found_at_once")


@SEARCHES_QUICKLY
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"not JSON\n{}",
        b"\xff\xfe\x00",
        b"{}\n{}",
        b"[]\n[]",
        b"[" * 100_000,
        b'{"ampere_fit": 99}\n{}',
        b"cos\nsystem\n(S'touch executed'\ntR.",  # a pickle that runs a command
    ],
)
def test_what_is_no_cache_is_passed_over_in_silence(path: Path, content: bytes) -> None:
    kept(path).parent.mkdir(parents=True, exist_ok=True)
    kept(path).write_bytes(content)
    assert answer(load(path)) == unkept()
    assert kept(path).read_bytes() != content  # and written anew
    assert not Path("executed").exists()


@SEARCHES_QUICKLY
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_anywhere_is_noticed(path: Path, data: st.DataObject) -> None:
    if not kept(path).exists():  # the one before has written it anew
        load(path).fit  # noqa: B018
    content = bytearray(kept(path).read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[at:]
    kept(path).parent.mkdir(parents=True, exist_ok=True)
    kept(path).write_bytes(content)
    assert answer(load(path)) == unkept()


def forge(path: Path, body: Any) -> None:
    """A cache with a proper header, whatever is in it."""
    cache, data = FitCache.of(path.read_bytes()), json.dumps(body).encode()
    kept(path).parent.mkdir(parents=True, exist_ok=True)
    kept(path).write_bytes(json.dumps(cache._header(data)).encode() + b"\n" + data)


NAME = f"additive matern52 {len(made_up().measurements)}"


@SEARCHES_QUICKLY
@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {"fits": []},
        {"fits": {NAME: None}},
        {"fits": {NAME: {"energy": {}, "time": None, "rejected": []}}},
        {"fits": {NAME: {"energy": 1, "time": 2, "rejected": 3}}},
        {"fits": {NAME: "additive"}},
        {"layers": 7},
    ],
)
def test_a_proper_cache_of_nonsense_does_no_harm(path: Path, body: Any) -> None:
    forge(path, body)
    assert answer(load(path)) == unkept()


def test_a_cache_of_another_journal_is_passed_over(path: Path, tmp_path: Path) -> None:
    load(path).fit  # noqa: B018
    other = tmp_path / "other.ampere"
    made_up(whole=4).save(other)
    kept(other).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(kept(path), kept(other))
    assert answer(load(other)) == answer(Profile.load(other))


@SEARCHES_QUICKLY
@pytest.mark.skipif(os.name == "nt", reason="folders are read-only otherwise there")
def test_where_nothing_can_be_written_nothing_is_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise PermissionError(13, "read-only")  # root may write wherever it likes

    monkeypatch.setattr("ampere.core.boundary.files.os.open", refuse)
    assert answer(load(path)) == unkept()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@SEARCHES_QUICKLY
@pytest.mark.parametrize("broken", ["replace", "fsync"])
def test_a_full_disk_leaves_nothing_behind(
    path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def full(*_: object, **__: object) -> Any:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(fit_cache.os, broken, full)
    assert answer(load(path)) == unkept()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@SEARCHES_QUICKLY
@pytest.mark.skipif(os.name == "nt", reason="there are no pipes with names")
def test_a_link_or_a_pipe_in_its_place_leads_nowhere(path: Path) -> None:
    precious = path.with_name("precious")
    precious.write_text("mine")
    kept(path).parent.mkdir(parents=True)
    kept(path).symlink_to(precious)
    assert answer(load(path)) == unkept()
    assert precious.read_text() == "mine"
    assert not kept(path).is_symlink()
    kept(path).unlink()
    os.mkfifo(kept(path))
    assert answer(load(path)) == unkept()
    assert kept(path).is_file()


@SEARCHES_QUICKLY
def test_a_folder_in_its_place_is_no_error(path: Path) -> None:
    kept(path).mkdir(parents=True)
    assert answer(load(path)) == unkept()
    assert kept(path).is_dir()


@SEARCHES_QUICKLY
def test_nothing_lies_beside_the_journal_and_nothing_there_is_believed(path: Path) -> None:
    """A stranger who sends a profile may send a file beside it."""
    load(path).fit  # noqa: B018
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    path.with_name(path.name + ".fit").write_bytes(kept(path).read_bytes().replace(b"0", b"9"))
    kept(path).unlink()
    assert answer(load(path)) == unkept()


def test_fits_that_nobody_asks_for_are_forgotten(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit_cache, "MOST_FILES", 3)
    for number in range(6):
        FitCache.of(b"%d" % number)._keep("fits", "a", 1)
    assert len(list(kept(path).parent.iterdir())) == 3


def test_a_journal_that_is_missing_is_told_as_ever(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="does not exist"):
        load(tmp_path / "none.ampere")


TIMES = 2


def _ask(path: Path, start: Any, answers: Any) -> None:
    start.wait()
    for _ in range(TIMES):
        kept(path).unlink(missing_ok=True)
        answers.put(answer(load(path)))


def test_several_at_once_do_no_harm(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start, answers = context.Event(), context.Queue()
    workers = [context.Process(target=_ask, args=(path, start, answers)) for _ in range(2)]
    for worker in workers:
        worker.start()
    start.set()
    found = {answers.get(timeout=120) for _ in range(2 * TIMES)}
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert found == {unkept()}
    assert not [each for each in path.parent.iterdir() if each.name.startswith(".")]


def test_threads_may_ask_one_profile(path: Path) -> None:
    profile, answers = load(path), []
    threads = [threading.Thread(target=lambda: answers.append(answer(profile))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) == {unkept()}


def test_a_told_profile_does_not_change_what_is_kept(path: Path) -> None:
    profile = load(path)
    before = answer(profile)
    content = kept(path).read_bytes()
    row = exact(ASKED)
    told = profile.tell(replace(row, energy_j_per_step=1.05 * row.energy_j_per_step))
    assert answer(told) != before
    assert kept(path).read_bytes() == content
    assert answer(load(path)) == before


LAYERS = (plain_layer(ASKED[0].kind, out=4), plain_layer(ASKED[-1].kind, in_=4))


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)


class Reader:
    """Counts how often a model is read."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> tuple[Layer, ...]:
        self.times += 1
        return LAYERS


def test_layers_of_the_zoo_are_read_once(path: Path, without_torch: None) -> None:
    read = Reader()
    cache = FitCache.of(path.read_bytes())
    for _ in range(2):
        assert cache.layers("zoo:lenet5", Training(), read) == LAYERS
    assert read.times == 1
    for model, training in [
        ("zoo:lenet5(channels=[3, 8])", Training()),
        ("zoo:lenet5", Training(batch_size=11)),
        ("zoo:lenet5", Training(optimizer="adam")),
        ("zoo:lenet5", Training(loss="mse")),
        ("zoo:lenet5", Training(amp=True)),
    ]:
        before = read.times
        cache.layers(model, training, read)
        assert read.times == before + 1


@pytest.mark.parametrize(
    ("model", "training"),
    [
        ("net.py:Net", Training()),  # it may change under its name
        ("zoo:lenet5", Training(loss="losses.py:own")),
        ("zoo:lenet5", Training(loss=lambda out: out)),
    ],
)
def test_the_users_own_code_is_read_each_time(
    path: Path, model: str, training: Training, without_torch: None
) -> None:
    read = Reader()
    for _ in range(2):
        FitCache.of(path.read_bytes()).layers(model, training, read)
    assert read.times == 2
    assert not kept(path).exists()


def test_where_torch_is_in_use_layers_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", object())
    read = Reader()
    for _ in range(2):
        FitCache.of(path.read_bytes()).layers("zoo:lenet5", Training(), read)
    assert read.times == 2


def test_layers_of_a_few_models_are_kept(path: Path, without_torch: None) -> None:
    cache = FitCache.of(path.read_bytes())
    for number in range(MODELS + 3):
        cache.layers(f"zoo:lenet5(n={number})", Training(), Reader())
    first, last = Reader(), Reader()
    cache.layers("zoo:lenet5(n=3)", Training(), last)
    cache.layers("zoo:lenet5(n=2)", Training(), first)
    assert (first.times, last.times) == (1, 0)


def test_layers_that_are_none_are_read_again(path: Path, without_torch: None) -> None:
    name = json.dumps(["zoo:lenet5", Training().to_json(), fit_cache._installed("torch")])
    for nonsense in ("layers", [], [7], [{"widths": 1}]):
        forge(path, {"layers": {name: nonsense}})
        read = Reader()
        assert FitCache.of(path.read_bytes()).layers("zoo:lenet5", Training(), read) == LAYERS
        assert read.times == 1


def test_the_command_line_needs_neither_torch_nor_scipy_the_second_time(tmp_path: Path) -> None:
    path = tmp_path / "lenet5.ampere.gz"
    shutil.copy(RECORDED / "additive_lenet5_first.ampere.gz", path)
    code = (
        "import sys\n"
        "from ampere.cli.app import app\n"
        f"app(['estimate', 'zoo:lenet5', '--profile', {str(path)!r}, '--json'],"
        " standalone_mode=False)\n"
        "print([name for name in ('torch', 'scipy') if name in sys.modules])\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        for _ in range(2)
    ]
    first, second = (run.stdout.splitlines() for run in runs)
    assert first[1] == "['torch', 'scipy']"
    assert second[1] == "[]"
    assert first[0] == second[0]
    assert json.loads(first[0])["energy_j"] > 0
