"""`ampere zoo`: the models that come with ampere."""

from __future__ import annotations

import pytest

from ampere.zoo.families import family_names
from cli.runner import answer, run


def test_every_family_is_listed_with_its_input() -> None:
    rows = run("zoo").stdout.splitlines()[4:]
    assert [row.split("(")[0] for row in rows] == [f"zoo:{name}" for name in family_names()]
    assert rows[0].startswith("zoo:lenet5(channels=[6, 16], hidden=[120, 84]) ")
    assert "32:int64<2000" in next(row for row in rows if row.startswith("zoo:lstm"))


def test_json_has_all_arguments() -> None:
    families = {row["model"]: row for row in answer(run("zoo", "--json"))["families"]}
    assert families["zoo:resnet"]["arguments"] == {
        "widths": [16, 32, 64],
        "depth": 20,
        "blocks": None,
        "block": "basic",
    }
    assert families["zoo:cnn5"]["input"] == "3x32x32"


@pytest.mark.parametrize("row", range(len(family_names())))
def test_what_is_listed_can_be_given_as_a_model(row: int) -> None:
    model = run("zoo").stdout.splitlines()[4 + row].split("  ")[0]
    name = model.partition("(")[0]
    listed, original = (answer(run("layers", each, "--json")) for each in (model, name))
    assert listed == original
