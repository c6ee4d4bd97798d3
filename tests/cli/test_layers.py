"""`ampere layers`: what a model is made of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.runner import answer, check_bad_line, run

BLOCKS = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(8, 8)

    def forward(self, x, mask):
        # Channels one by one: such a layer cannot be resized.
        return x + torch.stack([c.relu() for c in self.f(x).unbind(1)], 1) * mask


class Blocks(nn.Module):
    input = "4, mask=1"

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 8).requires_grad_(False)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(8, 3)
        self.spare = nn.Parameter(torch.zeros(5))

    def forward(self, x, mask):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)
"""


def test_equal_layers_stand_in_one_line_and_what_is_odd_is_said(net: Path) -> None:
    net.with_name("blocks.py").write_text(BLOCKS)
    result = run("layers", "blocks.py:Blocks")
    assert result.exit_code == 0, result.stderr
    assert re.search(r"blocks\.\d\S* ×\d", result.stdout)
    assert "frozen" in result.stdout
    assert "cannot be rebuilt at other widths; profiled as they stand" in result.stdout
    assert "in no layer: spare (5)" in result.stdout


def test_layers_of_a_model(net: Path) -> None:
    result = run("layers", "net.py:Frozen", "--json")
    row = answer(result)
    assert "loading the model" in result.stderr
    assert row["params"] == 4 * 6 + 6 + 6 * 3 + 3
    assert row["flops"] == sum(layer["flops"] for layer in row["layers"]) > 0
    assert [layer["role"] for layer in row["layers"]] == ["first", "last"]
    assert [layer["frozen"] for layer in row["layers"]] == ["frozen", ""]
    assert [layer["widths"] for layer in row["layers"]] == [{"out": 6}, {"in": 6}]


def test_equal_layers_stand_in_one_line() -> None:
    text = run("layers", "zoo:resnet(depth=14)", "--batch-size", 2).stdout
    (line,) = [line for line in text.splitlines() if "stages.0.0" in line]
    assert "stages.0.0 ×2" in line
    assert "stages.0.1" not in text
    total = text.splitlines()[-1].split()
    params = [int(line.split()[-3].replace(",", "")) for line in text.splitlines()[2:-2]]
    assert int(total[1].replace(",", "")) == sum(params)


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("layers nothing", 1, "names no model"),
        ("layers zoo:lenet6", 1, "lenet5"),
        ("layers missing.py:Net", 1, "No such file"),
        ("layers net.py:Nope", 1, "it has Net"),
        ("layers net.py:raises", 1, "first line second line"),
        ("layers net.py:three", 1, "must return an nn.Module"),
        ("layers net.py:Net --input 3x32x32", 1, "does not run"),
        ("layers net.py:Net --input three", 1, "is no input"),
        ("layers net.py:Norm --batch-size 1", 1, "more than 1 value per channel"),
        ("layers net.py:Net --batch-size 0", 2, "--batch-size"),
        ("layers net.py:Net --optimizer magic", 1, "unknown optimizer"),
        ("layers net.py:Net --loss magic", 1, "unknown loss"),
        ("layers net.py:Net --input 4,mask=", 1, "is no input"),
        ("layers zoo:lenet5 --sequence 8", 2, "--task and --sequence go with hf:MODEL"),
        ("layers hf:bert --task dance", 2, "is not one of speech-to-text, seq2seq"),
        ("layers hf:bert --sequence 0", 2, "--sequence"),
        ("layers hf:bert(sequence=8) --sequence 8", 2, "not both"),
        ("layers timm:resnet50(pretrained=True)", 1, "is built without weights"),
        ("layers hf:./nowhere", 1, "ampere fetches nothing"),
    ],
)
@pytest.mark.usefixtures("files")
def test_bad_input_is_one_line(line: str, code: int, says: str) -> None:
    check_bad_line(line, code, says)
