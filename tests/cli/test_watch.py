"""`ampere watch`: pages of runs, a page of a moment, plain data."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from cli.runner import answer, check_bad_line, last_line, run
from told_runs import finished, started, write_run
from watching import watching


def test_it_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    write_run(tmp_path / "a", finished())
    with watching(tmp_path / "a", tmp_path / "later") as served:
        with urllib.request.urlopen(served.url, timeout=5) as page:
            text = page.read().decode()
        assert "2 runs" in text and "took 4.8 of 5 Wh" in text
        strange = urllib.request.Request(served.url, headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(strange, timeout=5)
        assert refused.value.code == 403
        refused.value.close()
        assert served.interrupt() == 0
        assert served.process.stderr is not None and served.process.stderr.read() == ""


def test_others_need_a_token(tmp_path: Path) -> None:
    with watching(tmp_path, "--host", "0.0.0.0") as served:
        address, _, token = served.url.partition("?token=")
        assert len(token) >= 32 and "0.0.0.0" not in address
        port = address.rstrip("/").rpartition(":")[2]
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
        assert refused.value.code == 403
        refused.value.close()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(f"http://127.0.0.1:{port}/?token={token}", timeout=5) as page:
            assert "waits for its first line" in page.read().decode()
            assert "token" not in page.url


def test_a_page_of_this_moment(tmp_path: Path) -> None:
    write_run(tmp_path / "a", finished())
    page = tmp_path / "page.html"
    done = run("watch", tmp_path / "a", "--once", page)
    assert done.stdout == f"wrote {page}: open it in a browser\n"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    again = run("watch", tmp_path / "a", "--once", page)
    assert last_line(again) == f"error: {page} exists: choose another name, or remove it first"
    found = answer(run("watch", tmp_path / "a", "--once", tmp_path / "b.html", "--json"))
    assert found["page"] == str(tmp_path / "b.html") and len(found["runs"]) == 1


def test_plain_data_of_many_runs(tmp_path: Path) -> None:
    write_run(tmp_path / "a", finished())
    (tmp_path / "b.jsonl").write_text("nonsense\n")
    found = answer(run("watch", tmp_path, tmp_path / "b.jsonl", tmp_path / "later", "--json"))
    assert [each["state"] for each in found["runs"]] == ["finished", "waiting", "waiting"]
    assert found["runs"][1]["verdict"] == (
        "waits for its first line: it has told nothing yet; line 1: not JSON"
        " (Expecting value: line 1 column 1 (char 0))"
    )


def test_it_needs_neither_torch_nor_numpy(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [started()])
    line = ["ampere", "watch", str(tmp_path), "--once", str(tmp_path / "a.html")]
    script = (
        "import sys; sys.modules['torch'] = sys.modules['numpy'] = None\n"
        "from ampere.cli import main\n"
        f"sys.argv = {line!r}\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_port_that_is_taken_is_refused_if_it_was_asked_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        check_bad_line(f"watch {tmp_path} --port {port}", 1, f"port {port}: Address already in use")


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("watch", 2, "RUN"),
        ("watch runs --port 70000", 2, "65535"),
        ("watch runs --host no.such.host.invalid", 1, "no address of this machine"),
        (f"watch {'n' * 300}", 1, "File name too long"),
        ("watch runs --once page.html", 1, "no run to show: runs/gate.jsonl: it is not there yet"),
        ("watch runs --once none/page.html", 1, "none is no folder"),
    ],
)
def test_bad_input_is_one_line(
    line: str, code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_bad_line(line, code, says)
