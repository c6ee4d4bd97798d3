"""The client and the server of docs/flower.md, as they stand there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="pip install 'ampere-energy[flower]'")
pytest.importorskip("sklearn", reason="pip install 'ampere-energy[prune]': digits")

from flwr.app import Context, RecordDict

import ampere
from ampere.devices.simulated import SimulatedDevice
from integrations.local_grid import LocalGrid

PAGE = Path(__file__).parents[2] / "docs" / "flower.md"


@pytest.fixture
def phones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's files in a folder."""
    (tmp_path / "phones").mkdir()
    text = PAGE.read_text(encoding="utf-8")
    for name, code in re.findall(r"```python\n# (phones/\w+\.py)\n(.*?)```", text, re.DOTALL):
        (tmp_path / name).write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [each for each in sys.modules if each.split(".")[0] == "phones"]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def test_they_train_together(phones: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from phones import client, server  # type: ignore[import-not-found]

    path = phones / "oppo.ampere"
    model, input = f"{phones}/phones/client.py:make_model", (1, 8, 8)
    strategy = ampere.Strategy(max_points=4)
    training = ampere.Training(batch_size=client.BATCH)
    ampere.profile(
        model,
        input,
        path=path,
        device=SimulatedDevice("oppo", seed=3),
        strategy=strategy,
        training=training,
    )
    nodes = {1: {"part": 0, "profile": str(path)}, 2: {"part": 1}}
    context = Context(1, 1, {}, RecordDict(), {"rounds": 3})
    server.app(LocalGrid(client.app, nodes), context)
    assert capsys.readouterr().out.splitlines() == [
        f"{number} trained: (1, 2) dropped: ()" for number in (1, 2, 3)
    ]
    for name in ("phones", "phones.client", "phones.server"):
        sys.modules.pop(name)
