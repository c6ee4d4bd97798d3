"""Whatever is typed: an answer, or one line that says what is wrong; never a traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import ampere
from ampere.cli.app import app
from ampere.core.layers import Layer
from ampere.estimators.base import Cost
from fakes import exact

ENDLESS = str(10**400)
LONG = "n" * 300
BYTES = os.fsdecode(b"a\xff")  # the name of a file, and no text
NET = """
from torch import nn


def net(width=24):
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))


net.input = "4"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, a profile of it, layers, and files of which something is wrong."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "net.py").write_text(NET)
    spec = f"{folder}/net.py:net"

    def cost(layer: Layer) -> Cost:
        return Cost(1e-3 * sum(layer.widths.values()), 0.0, 1e-4, 0.0)

    nets = [ampere.read_layers(f"{spec}(width={width})") for width in (1, 6, 12, 18, 24)]
    rows = [exact(layers, cost) for layers in (*nets, *(each[1:] for each in nets))]
    ampere.fit(rows, device="pi").save(folder / "net.ampere")
    text = (folder / "net.ampere").read_text()
    (folder / "metered.ampere").write_text(text.replace('"simulated"', '"modelled"'))
    layers = "\n".join(json.dumps(layer.to_json()) for layer in nets[0])
    (folder / "layers.jsonl").write_text(layers)
    (folder / "dir").mkdir()
    for name, content in ODD.items():
        (folder / name).write_bytes(content)
    (folder / "loop").symlink_to("loop")
    return folder


ODD = {
    "empty": b"",
    "nul": bytes(1000),
    "bytes": bytes(range(256)) * 4,
    "latin": "é\n".encode("latin-1"),
    "deep": b"[" * 200_000,
    "number": b"5",
    "text": b"hello\nworld\n",
    "nan": b'{"layers": [{"kind": NaN}]}',
    "packed": b"\x1f\x8b\x08" + bytes(20),
}
PLACES = (*ODD, "dir", "loop", "absent", "absent/x", LONG, "/dev/null")


@pytest.fixture(autouse=True)
def there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refusal(*arguments: str) -> str:
    """The one line that a command ends with; nothing is answered, and nothing is made."""
    before = set(os.listdir())
    result = run(*arguments)
    assert result.exit_code in (1, 2), result.output
    assert result.stdout == ""
    lines = [each for each in result.stderr.splitlines() if each.lower().startswith("error: ")]
    assert lines == result.stderr.splitlines()[-1:]
    made = {each for each in set(os.listdir()) - before if not each.endswith((".fit", "cache__"))}
    assert made == set()
    return lines[0]


@pytest.mark.parametrize(
    "line",
    [
        "estimate --profile net.ampere --layers {}",
        "estimate --layers layers.jsonl --profile {}",
        "tell {} --profile new.ampere",
        "tell layers.jsonl --profile {}",
        "report {} -o page.html",
        "report net.ampere -o {}/new/page.html",
        "ask --profile {}",
        "devices list {}",
        "devices show {} net",
        "devices add dir {} --name new",
        "devices compare {} net.py:net",
        "devices compare . net.py:net --html {}/new/page.html",
        "align --profile metered.ampere --log {} -o new.ampere",
        "prune net.py:net --profile net.ampere --budget 50% -o half --weights {}",
        "layers ./{}:net",
        "layers net.py:net --loss ./{}:loss",
        "measure net.py:net --device recorded:{}",
        "reproduce -o {} --refit",
    ],
)
def test_files_of_all_sorts_are_one_line(line: str) -> None:
    for place in PLACES:
        if "./{}" in line and place == "/dev/null":
            continue
        refusal(*(part.format(place) for part in line.split()))


ESTIMATE = "estimate net.py:net --profile net.ampere"
PRUNE = "prune net.py:net --profile net.ampere --budget 50% -o half"
PROFILE = "profile net.py:net --profile new.ampere --device simulated:xavier"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{ESTIMATE} --steps {ENDLESS}", "--steps"),
        (f"{ESTIMATE} --steps {'9' * 5000}", "--steps"),
        (f"{ESTIMATE} --epochs {ENDLESS} --samples 5", "--epochs"),
        (f"{ESTIMATE} --epochs 5 --samples {ENDLESS}", "--samples"),
        (f"{ESTIMATE} --epochs {10**15} --samples {10**15}", "batches, more than"),
        (f"{ESTIMATE} --batch-size {10**30}", "--batch-size"),
        (f"{ESTIMATE} --battery-wh 1e308", "--battery-wh"),
        (f"{ESTIMATE} --battery-wh 5e-324", "--battery-wh"),
        (f"{ESTIMATE} --battery-wh nan", "--battery-wh"),
        (f"{ESTIMATE} --after-steps {ENDLESS}", "--after-steps"),
        (f"{ESTIMATE} --input 999999999x999999999", "more than any device holds"),
        (f"{ESTIMATE} --input {ENDLESS}", "is no input"),
        (f"{ESTIMATE} --input ²", "is no input"),
        (f"layers net.py:net --batch-size {10**9} --input 4x99999999", "more than any device"),
        (f"layers net.py:net(width={ENDLESS})", "net.py:net raises"),
        (f"layers net.py:{LONG}", "has no"),
        (f"layers {LONG}:net", "no module"),
        (f"layers zoo:{LONG}", "the zoo has no"),
        ("layers net.py:net" + "(" * 5000, "names no model"),
        ("layers ~nobody-of-this-name/x.py:net", "cannot read"),
        ("layers loop/x.py:net", "Too many levels"),
        ("layers /dev/zero:net", "larger than any Python file"),
        (f"measure net.py:net --threads {10**9}", "--threads"),
        (f"measure net.py:net --device simulated:{LONG}", "no simulated device"),
        (f"measure net.py:net --meter {LONG}", "there is no meter"),
        (f"{PROFILE} --measurements {ENDLESS}", "--measurements"),
        (f"{PROFILE} --max-points {ENDLESS}", "--max-points"),
        (f"{PROFILE} --burst-s 1e300", "--burst-s"),
        (f"{PROFILE} --precision 1e-300", "--precision"),
        (f"{PROFILE} --time-limit 1e308", "--time-limit"),
        (f"{PROFILE} --kernel {LONG}", "unknown kernel"),
        (f"evaluate net.py:net --profile net.ampere --models {10**12}", "--models"),
        (f"evaluate net.py:net --profile net.ampere --seed {ENDLESS}", "--seed"),
        (f"ask net.py:net --profile new.ampere -n {10**12}", "-n"),
        (f"ask net.py:net --profile new.ampere --label {'x' * 20_000}", "20,000 letters"),
        (f"{PRUNE} --seed {ENDLESS}", "--seed"),
        (f"{PRUNE} --round-to {ENDLESS}", "--round-to"),
        (f"{PRUNE} --fine-tune {ENDLESS}", "--fine-tune"),
        (f"{PRUNE} --budget 5J --steps {ENDLESS}", "--steps"),
        (f"{PRUNE} --weights /dev/zero", "it is no file"),
        (f"prune net.py:net --profile net.ampere --budget 50% -o {LONG}", "File name too long"),
        (f"report net.ampere -o {LONG}", "File name too long"),
        (f"devices compare . net.py:net --html {LONG}", "File name too long"),
        (f"devices compare . net.py:net --steps {ENDLESS}", "--steps"),
        (f"devices add dir net.ampere --name {LONG}", "is no name for a profile"),
        (f"devices show . {LONG}", "has no profile"),
        ("report net.ampere -o page.html --input 4", "--input goes with --model"),
        ("align --profile metered.ampere --log text -o x --offset-s nan", "--offset-s"),
        ("align --profile metered.ampere --log text -o x --pulse-at inf", "--pulse-at"),
        ("calibrate --watts ²=1 --watts 4=2", "is not like 0=2.7"),
        (f"calibrate --watts {ENDLESS}=1 --watts 4=2", "is not like 0=2.7"),
        ("calibrate --watts 0=1 --watts 1=1e-300", "watts above 0"),
        ("calibrate --watts 0=1.1.1 --watts 4=2", "is not like 0=2.7"),
        ("calibrate --watts 00=1 --watts 0=2", "given twice"),
        # What would be passed over in silence.
        ("layers net.py:net --loss absent.py:loss", "cannot read"),
        ("layers net.py:net --loss net.py:loss", "has no 'loss'"),
        (f"{ESTIMATE} --loss absent.py:loss", "cannot read"),
        (f"{ESTIMATE} --loss net.py:loss", "has no 'loss'"),
        (f"{ESTIMATE} --device simulated:xavier", "go with --after-steps"),
        ("estimate --layers layers.jsonl --profile net.ampere --loss mse", "leave that out"),
        ("estimate --layers layers.jsonl --profile net.ampere --optimizer x", "leave that out"),
        (f"{PRUNE} --device simulated:xavier", "go with --verify"),
        (f"{PRUNE} --quick", "go with --verify"),
    ],
)
def test_nonsense_is_one_line(line: str, said: str) -> None:
    assert said in refusal(*line.split())


@pytest.mark.parametrize(
    "line",
    [
        "layers {}.py:net",
        "layers net.py:net --loss {}.py:loss",
        "estimate {}.py:net --profile net.ampere",
        "profile {}.py:net --profile new.ampere",
        "profile net.py:net --profile new.ampere --candidate {}",
        "ask net.py:net --profile new.ampere --label {}",
        "align --profile metered.ampere --log {} -o new.ampere",
        "measure net.py:net --meter log:path={}",
        "measure net.py:net --device recorded:{}",
        "prune net.py:net --profile net.ampere --budget 50% -o half --data {}.py:data",
        "reproduce -o out --only {}",
    ],
)
def test_texts_that_are_kept_must_be_texts(line: str) -> None:
    Path(f"{BYTES}.py").write_text(NET)
    assert "is no UTF-8 text: rename it" in refusal(*(part.format(BYTES) for part in line.split()))


def test_files_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / BYTES
    folder.mkdir()
    for name in ("net.py", "net.ampere", "layers.jsonl"):
        (folder / name.replace("net.a", f"{BYTES}.a")).write_bytes(Path(name).read_bytes())
    monkeypatch.chdir(folder)
    profile = f"{BYTES}.ampere"
    for line in (
        f"estimate --layers layers.jsonl --profile {profile}",
        f"estimate net.py:net --profile {profile} --json",
        f"report {profile} -o {BYTES}.html --json",
        f"report {profile} --figures {BYTES}.figures",
        f"tell {profile} --profile {BYTES}.told --any-device --json",
        f"prune net.py:net --profile {profile} --budget 50% -o {BYTES}.cut --json",
    ):
        result = run(*line.split())
        assert result.exit_code == 0, result.stderr
        assert "\ufffd" not in result.stdout
        if line.endswith("--json"):
            json.loads(result.stdout)
    assert compile(Path(f"{BYTES}.cut/model.py").read_text(), "model.py", "exec")
    assert "a? does not exist" in refusal_text(f"estimate --layers layers.jsonl --profile {BYTES}")
    weights = f"{BYTES}.safetensors"
    Path(weights).write_bytes(Path(f"{BYTES}.cut/model.safetensors").read_bytes())
    line = f"prune net.py:net --profile {profile} --budget 50% -o x --weights {weights}"
    assert "whose name is not UTF-8: rename" in refusal_text(line)


def refusal_text(line: str) -> str:
    return refusal(*line.split()).replace("\ufffd", "?")


def test_no_memory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 7.28 TiB")

    monkeypatch.setattr("ampere.profiles.profile.Profile.load", refuse)
    said = refusal("estimate", "net.py:net", "--profile", "net.ampere")
    assert said == "error: there is not enough memory for this: Unable to allocate 7.28 TiB"


def test_bugs_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("ampere.profiles.profile.Profile.load", broken)
    with pytest.raises(ZeroDivisionError):
        run("estimate", "net.py:net", "--profile", "net.ampere")


@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="root may read whatever it likes")
@pytest.mark.parametrize(
    "line",
    [
        "estimate --layers closed --profile net.ampere",
        "estimate --layers layers.jsonl --profile closed",
        "tell closed --profile new.ampere",
        "report closed -o page.html",
        "layers ./closed:net",
        f"{PRUNE} --weights closed",
    ],
)
def test_what_may_not_be_read(line: str) -> None:
    Path("closed").touch(mode=0)
    assert "ermission denied" in refusal(*line.split()) or "not readable" in refusal(*line.split())
