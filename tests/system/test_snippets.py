"""Python on the pages that are no tutorials is run as well, among things that a reader would have.

A page's blocks follow each other in one session, in a folder with profiles that were kept. What is
run elsewhere, or is a part of something, is named with the reason.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ampere
from pages import DOCS, ROOT, TUTORIALS, blocks

JOURNALS = DOCS / "paper" / "journals"
ELSEWHERE = {
    "README.md": "docs/start.md has the same, and is followed",
    "integrations.md": "tests/integrations/test_pages.py",
    "flower.md": "tests/integrations/test_flower_page.py",
    "frameworks.md": "tests/integrations",
}
PARTS = {  # blocks, by their number from 0, that cannot run by themselves
    "contributing.md": {1: "a test without its fixtures", 2: "a rule of a module of ampere"},
    "searching.md": {2: "the inside of a function"},
}
NEEDS = {"reading.md": {0: "transformers"}, "searching.md": {0: "optuna", 1: "optuna"}}
REFERENCE = "reference"
INSTEAD = {  # less to do, and a device that nobody else keeps busy
    "n_trials=100": "n_trials=3",
    "done, now_s=4100.0)": "done, now_s=4100.0, objective='energy')",  # the plan's is a mix
    "ampere.Verification()": "ampere.Verification(device=ampere.open_device('simulated:oppo'))",
}
SLOW = ("additive.md", "fleet.md", "pruning.md")  # only in `make docs-check`


def kept(name: str, path: str) -> None:
    """A profile that was measured once."""
    Path(path).parent.mkdir(exist_ok=True, parents=True)
    Path(path).write_bytes(gzip.decompress((JOURNALS / f"{name}.ampere.gz").read_bytes()))


class Net(nn.Module):
    """What a reader calls `model`: two convolutions, and a table of features beside the image."""

    def __init__(self, width: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, stride=4)
        self.conv2 = nn.Conv2d(width, width, 3)
        self.fc = nn.Linear(width, 4)
        self.beside = nn.Linear(5, 4)

    def forward(self, image: torch.Tensor, features: torch.Tensor | None = None) -> torch.Tensor:
        scores: torch.Tensor = self.fc(self.conv2(self.conv1(image).relu()).relu().mean((2, 3)))
        return scores if features is None else scores + self.beside(features)


def loader() -> Any:
    return DataLoader(TensorDataset(torch.randn(8, 3, 32, 32), torch.randint(4, (8,))), 4)


def additive() -> dict[str, Any]:
    kept("threads1-cnn5-additive", "cnn5.ampere")
    return {"profile": ampere.Profile.load("cnn5.ampere"), "widths": [[8, 16, 32, 32]]}


def contributing() -> dict[str, Any]:
    import typer

    from ampere.cli.command import Command
    from ampere.cli.options import AsJson
    from ampere.cli.shell import json_text
    from ampere.errors import DataError

    names = {"Command": Command, "AsJson": AsJson, "json_text": json_text, "DataError": DataError}
    return {**names, "typer": typer, "Annotated": __import__("typing").Annotated}


def fleet() -> dict[str, Any]:
    for name, device in {"phone": "oppo", "tablet": "iphone", "board": "xavier"}.items():
        kept(f"{device}-lenet5-additive", f"profiles/{name}.ampere")
    kept("server-lenet5-additive", "profiles/server.ampere")
    for name in ("fleet.toml", "jobs.toml", "grid.csv"):
        shutil.copy(ROOT / "examples" / "fleet" / name, ".")
    return {}


def gates() -> dict[str, Any]:
    kept("threads1-cnn5-additive", "laptop.ampere")
    model = ampere.build_model("zoo:cnn5")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    names = {"model": model, "optimizer": optimizer, "loss": nn.CrossEntropyLoss(), "torch": torch}
    return {**names, "epochs": 1, "loader": loader(), "validate": lambda model: None}


def jobs() -> dict[str, Any]:
    kept("xavier-lenet5-additive", "lenet5.ampere")
    return {"ampere": ampere, "profile": ampere.Profile.load("lenet5.ampere")}


def library() -> dict[str, Any]:
    for device in ("oppo", "xavier"):
        kept(f"{device}-lenet5-additive", f"fleet/{device}.ampere")
    kept("threads1-lenet5-additive", "laptop.ampere")
    return {}


def plain_data() -> dict[str, Any]:
    rows = [
        {"layers": [{"kind": "dense", "widths": {"in": n, "out": m}}],
         "energy_j_per_step": 1 + n * m / 50, "time_s_per_step": 0.1 + n * m / 500}
        for n, m in [(2, 4), (4, 8), (8, 8), (16, 4), (16, 16), (4, 16)]
    ]  # fmt: skip
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return {}


def pruning() -> dict[str, Any]:
    import torch_pruning

    kept("oppo-cnn5-additive", "cnn5.ampere")
    names = {"accuracy": lambda model, data: 0.5, "train": lambda model, steps: model}
    return {
        **names,
        "model": ampere.build_model("zoo:cnn5"),
        "validation": None,
        "torch_pruning": torch_pruning,
        "example_inputs": torch.randn(2, 3, 32, 32),
        "importance": torch_pruning.importance.MagnitudeImportance(),
    }


def reading() -> dict[str, Any]:
    kept("xavier-transformer-additive", "transformer.ampere")
    samples = {"images": torch.randn(4, 3, 32, 32), "features": torch.randn(4, 5)}
    profile = ampere.Profile.load("transformer.ampere")
    return {"ampere": ampere, "profile": profile, "model": Net(), **samples}


def searching() -> dict[str, Any]:
    kept("threads1-cnn5-additive", "laptop.ampere")
    logits = torch.zeros(4, requires_grad=True)
    names = {"torch": torch, "logits": logits, "task_loss": torch.tensor(1.0), "largest": 32}
    if importlib.util.find_spec("optuna"):
        names["optuna"] = __import__("optuna")
    names |= {"make_model": Net, "EPOCHS": 1, "data": range(64), "accuracy": 0.5}
    profile = ampere.Profile.load("laptop.ampere")
    return {**names, "profile": profile, "model": ampere.build_model("zoo:cnn5")}


def watch() -> dict[str, Any]:
    with ampere.gate(steps=2, budget="100J", run="runs/a") as gate:
        gate.step()
    return {}


STAGES: dict[str, Callable[[], dict[str, Any]]] = {
    "additive.md": additive,
    "contributing.md": contributing,
    "fleet.md": fleet,
    "gates.md": gates,
    "jobs.md": jobs,
    "library.md": library,
    "meters.md": dict,
    "plain-data.md": plain_data,
    "pruning.md": pruning,
    "reading.md": reading,
    "searching.md": searching,
    "tracking.md": dict,
    "watch.md": watch,
}


def marked(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())


@pytest.mark.parametrize("name", [marked(name) for name in STAGES])
def test_it_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__", **STAGES[name]()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, block in enumerate(blocks(DOCS / name, ("python",))):
            needed = NEEDS.get(name, {}).get(number)
            absent = needed is not None and importlib.util.find_spec(needed) is None
            if absent or number in PARTS.get(name, {}):
                continue
            text = block.text
            for words, others in INSTEAD.items():
                text = text.replace(words, others)
            exec(compile(text, f"{name}:{block.line}", "exec"), names)


def test_no_page_with_python_is_forgotten() -> None:
    pages = {page for page in DOCS.rglob("*.md") if blocks(page, ("python",))} - set(TUTORIALS)
    others = {page.name for page in pages if page.parent.name not in (REFERENCE, "paper")}
    assert others - set(ELSEWHERE) == set(STAGES)
