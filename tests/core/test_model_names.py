"""Names of models: what they say, without importing anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere.core.boundary.model_names import ModelName, parse_name
from ampere.core.boundary.trust import ForeignText, model_of_file
from ampere.errors import DataError, ModelError


@pytest.mark.parametrize(
    ("text", "source", "name", "arguments"),
    [
        ("zoo:lenet5", "zoo", "lenet5", {}),
        (" timm:resnet50 ", "timm", "resnet50", {}),
        ("timm:resnet50.a1_in1k(num_classes=10)", "timm", "resnet50.a1_in1k", {"num_classes": 10}),
        ("hf:xlm-roberta", "hf", "xlm-roberta", {}),
        ("hf:gpt2(task='causal-lm', n_layer=2)", "hf", "gpt2", {"task": "causal-lm", "n_layer": 2}),
        ("hf:../my models/one(two)/bert", "hf", "../my models/one(two)/bert", {}),
        ("hf:/models/bert(sequence=64)", "hf", "/models/bert", {"sequence": 64}),
        ("hf:gpt2(\n n_layer=2)", "hf", "gpt2", {"n_layer": 2}),
        ("net.py:Net(width=8)", "net.py", "Net", {"width": 8}),
        ("./hf.py:bert", "./hf.py", "bert", {}),
        ("timm.models:resnet50", "timm.models", "resnet50", {}),
    ],
)
def test_what_a_name_says(text: str, source: str, name: str, arguments: dict[str, object]) -> None:
    assert parse_name(text) == ModelName(source, name, arguments)


@pytest.mark.parametrize("text", ["timm:", "hf:", "hf: bert", "timm:(a=1)", "hf:gpt2(", "x"])
def test_malformed_names(text: str) -> None:
    if text == "hf:gpt2(":  # a name that no type and no folder has: said when it is looked for
        assert parse_name(text).name == "gpt2("
        return
    with pytest.raises(ModelError, match=r"names no model: write .*timm:resnet50, hf:bert"):
        parse_name(text)


def test_arguments_are_plain_values() -> None:
    with pytest.raises(ModelError, match="cannot read the arguments"):
        parse_name("hf:gpt2(n_layer=__import__('os').getpid())")


def test_only_what_cannot_change_is_settled(tmp_path: Path) -> None:
    settled = ["zoo:lenet5", "timm:resnet50", "hf:bert", "hf:bert(sequence=8)"]
    assert all(parse_name(text).is_settled for text in settled)
    open_ones = ["net.py:Net", "package.module:Net", "hf:./bert", f"hf:{tmp_path}", "hf:."]
    assert not any(parse_name(text).is_settled for text in open_ones)


def test_a_folder_is_known_by_its_separator(tmp_path: Path) -> None:
    assert parse_name(f"hf:{tmp_path}").path == tmp_path.resolve()
    assert parse_name("hf:bert").path is None
    assert parse_name("timm:resnet50").path is None


@given(
    st.sampled_from(["timm", "hf", "zoo"]),
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True).filter(str.isidentifier),
        st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=3) | st.booleans(),
        max_size=3,
    ),
)
def test_what_is_written_out_says_the_same(source: str, arguments: dict[str, object]) -> None:
    from keyword import iskeyword

    kept = {name: value for name, value in arguments.items() if not iskeyword(name)}
    name = ModelName(source, "net", kept)
    assert parse_name(str(name)) == name


@pytest.mark.parametrize("text", ["timm:resnet50", "hf:bert", "hf:./folder", "hf:bert(a=1)"])
def test_a_file_cannot_name_a_public_model(text: str) -> None:
    named = model_of_file(text)
    assert named == ForeignText(text)
    with pytest.raises(DataError, match="must not choose what runs here"):
        parse_name(named)  # type: ignore[arg-type]
