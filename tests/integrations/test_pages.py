"""The examples of docs/integrations.md: each is stopped by a small budget, and goes on by itself.

Real training, and joules that are modelled from CPU time: nothing is simulated here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from ampere.gates.story import End, Reason, Start, read_events

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
SMALL_J = 3.0
LIBRARIES = {
    "Lightning": ("lightning",),
    "Hugging Face": ("transformers", "accelerate"),
    "Accelerate": ("accelerate",),
    "Keras": ("keras", "torch"),
    "skorch": ("skorch",),
}


def example(heading: str) -> str:
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


def run(script: str, folder: Path, *launcher: str) -> str:
    (folder / "train.py").write_text(f"import os\nos.environ['OMP_NUM_THREADS'] = '1'\n{script}")
    environment = {**os.environ, "KERAS_BACKEND": "torch", "KERAS_HOME": str(folder / "keras")}
    command = [sys.executable, *launcher, "train.py"]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.timeout(600)
@pytest.mark.parametrize("heading", LIBRARIES)
def test_it_is_stopped_and_goes_on(heading: str, tmp_path: Path) -> None:
    missing = [library for library in LIBRARIES[heading] if find_spec(library) is None]
    if missing:
        pytest.skip(f"pip install {' '.join(missing)}")
    script = example(heading)
    assert 'budget="2Wh"' in script
    said = run(script.replace("2Wh", f"{SMALL_J:g}J"), tmp_path)
    assert "ampere: stopped at step " in said
    assert "ampere: go on with " in said
    run(script, tmp_path)
    (story,) = tmp_path.glob("runs/*/gate.jsonl")
    events = list(read_events(story.read_bytes().splitlines()))
    starts = [event for event in events if isinstance(event, Start)]
    ends = [event for event in events if isinstance(event, End)]
    assert [end.reason for end in ends] == [Reason.BUDGET, Reason.FINISHED]
    assert 0 < ends[0].spent_j <= 1.3 * SMALL_J  # nobody knew what the first checkpoint takes
    assert {start.run for start in starts} == {starts[0].run}
    assert starts[-1].spent_j >= ends[0].spent_j
    assert ends[1].spent_j > starts[-1].spent_j


@pytest.mark.slow
def test_several_processes(tmp_path: Path) -> None:
    if find_spec("torch") is None:
        pytest.skip("pip install torch")
    script = example("Several processes").replace("2Wh", f"{SMALL_J:g}J").replace("200", "100000")
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    said = run(script, tmp_path, *launcher)
    assert "ampere: stopped at step " in said
    assert re.search(r"the meter 'tree:pid=\d+' sees all", said)
