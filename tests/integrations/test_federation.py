"""A real SuperLink with SuperNodes on loopback: real training, simulated joules, nodes that fail.

Each message starts a process that imports torch: a minute or two for all of it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="pip install 'ampere-energy[flower]'")
pytest.importorskip("sklearn", reason="pip install 'ampere-energy[prune]': digits")

import ampere
from ampere.core.choices import resample
from ampere.core.training import Training
from ampere.pytorch.graph.counter import with_features
from ampere.pytorch.models import read
from ampere.records.measurement import Measurement
from fakes import known_cost, total
from integrations.federation import Federation
from processes import runs, until

APP = Path(__file__).parent / "flower_app"
# Each of six clients imports torch for each message: a machine that does other things needs longer.
BUSY = min(2.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))
pytestmark = pytest.mark.timeout(600 * BUSY)


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of LeNet-5s whose costs are known."""
    rng, rows = random.Random(0), []
    layers = read("zoo:lenet5", None, Training(10))
    for _ in range(6):
        drawn = tuple(map(with_features, resample(layers, rng)))
        cost = total(drawn, known_cost)
        noise = 1 + 0.02 * rng.gauss(0, 1)
        rows.append(Measurement(drawn, noise * cost.energy_j, noise * cost.time_s))
    path = tmp_path_factory.mktemp("profiles") / "phone.ampere"
    ampere.fit(rows).save(path)
    return path


@pytest.fixture(scope="module")
def round_j(profile: Path) -> float:
    estimate = ampere.Profile.load(profile).estimate("zoo:lenet5", steps=10)
    return float(estimate.energy_j)


class Killer(threading.Thread):
    """Ends a SuperNode as soon as the client on it has begun to train."""

    def __init__(self, federation: Federation, node: int, pids: Path) -> None:
        super().__init__(daemon=True)
        self._federation, self._node, self._pids = federation, node, pids
        self.killed = False

    def run(self) -> None:
        until(lambda: any(self._pids.iterdir()), "it never trained", seconds=300)
        (pid,) = (int(path.name) for path in self._pids.iterdir())
        self._federation.kill(self._node)
        if runs(pid):  # its own session
            os.kill(pid, signal.SIGKILL)
        self.killed = True


@pytest.fixture(scope="module")
def told(
    profile: Path, round_j: float, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """One federation for all: a phone with a battery, one at a socket, one without a profile, one
    that sends garbage, one that tells nonsense, one that is killed while it trains."""
    folder, pids = tmp_path_factory.mktemp("federation"), tmp_path_factory.mktemp("pids")
    story = folder / "story.json"
    own = [
        {"profile": profile, "battery": 1.6 * round_j},
        {"profile": profile},
        {},
        {"profile": profile, "behaviour": "garbage"},
        {"profile": profile, "behaviour": "liar"},
        {"profile": profile, "behaviour": "slow", "pids": pids},
    ]
    nodes = [{"part": part, "parts": len(own), **each} for part, each in enumerate(own)]
    with Federation(folder, nodes) as federation:
        killer = Killer(federation, len(own) - 1, pids)
        killer.start()
        settings = {
            "story": str(story),
            "nodes": len(nodes),
            "clients": len(nodes),
            "rounds": 2,
            "reply-s": 90.0 * BUSY,
        }
        log = federation.run(APP, settings, longest_s=500 * BUSY)
        killer.join(5)
    assert story.exists(), f"{log}\n{federation.logs()}"
    assert killer.killed
    assert all(process.poll() is not None for process in federation.processes)
    yield {**json.loads(story.read_text()), "log": log}


def test_all_that_quoted_were_asked_and_the_honest_ones_came_back(told: dict[str, Any]) -> None:
    first, second = told["rounds"]
    assert len(first["invitations"]) == 5  # the liar's quote was refused
    assert len(first["answered"]) == 3
    assert len(told["dropped"][0]) == 2  # garbage, and the one that was killed
    assert set(second["answered"]) <= set(first["answered"])
    assert told["dropped"][1] == []
    assert told["finite"]


def test_the_battery_lasts_for_a_round_and_a_part_of_one(told: dict[str, Any]) -> None:
    partial = [each for each in told["rounds"][1]["invitations"] if not each["whole"]]
    assert [each["steps"] for each in partial] in ([5], [4])
    (steps,) = (each["steps"] for each in partial)
    assert told["metrics"]["2"]["steps"] < 10
    assert 4 <= steps <= 5


def test_one_without_a_profile_trains_at_a_socket(told: dict[str, Any]) -> None:
    unknown = [each for each in told["rounds"][0]["invitations"] if each["energy_j"] is None]
    assert len(unknown) == 1
    assert unknown[0]["name"] in told["rounds"][0]["answered"]


def test_why_others_were_left_out_is_said(told: dict[str, Any]) -> None:
    assert "num-examples must be a number above 0" in told["log"]
    assert "quote.energy_j must be a number" in told["log"]
    assert "no work came back from" in told["log"]


def test_joules_are_those_that_clients_metered(told: dict[str, Any], round_j: float) -> None:
    """Two whole rounds at sockets, one and a part on the battery; garbage does not count."""
    (steps,) = (e["steps"] for e in told["rounds"][1]["invitations"] if not e["whole"])
    assert told["spent_j"] == pytest.approx(round_j * (3 + steps / 10), rel=1e-3)
