"""Files of rows: strict JSON, a line each, faults of meters left out, all else named."""

import io
import json
import re
from pathlib import Path

import pytest

from ampere.core.boundary.fields import parse_json
from ampere.errors import DataError
from ampere.records.rows import read_layer_file, read_rows

MINIMAL = {"layers": [{"kind": "conv", "widths": {"in": 3, "out": 8}}], "energy_j_per_step": 0.5}


@pytest.mark.parametrize("text", ['{"a": NaN}', "[-Infinity]", "{", "", "[" * 10**5, b"\xff{}"])
def test_only_strict_json_is_parsed(text):
    with pytest.raises(DataError, match="not JSON"):
        parse_json(text)


def lines(*rows):
    return "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)


def test_read_rows_of_a_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("\ufeff" + lines(MINIMAL, "\n", MINIMAL).rstrip(), encoding="utf-8")
    assert read_rows(path) == read_rows(str(path))
    assert [m.energy_j_per_step for m in read_rows(path)] == [0.5, 0.5]


def test_read_rows_of_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(lines(MINIMAL, {**MINIMAL, "spread": -1})))
    with pytest.raises(DataError, match="standard input line 2: spread"):
        read_rows("-")
    monkeypatch.setattr("sys.stdin", io.StringIO(lines(MINIMAL)))
    assert len(read_rows(Path("-"))) == 1


def test_read_rows_skips_the_header_of_a_journal(tmp_path):
    path = tmp_path / "journal"
    path.write_text(lines({"ampere_journal": 1}, MINIMAL))
    assert len(read_rows(path)) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lines(MINIMAL, "\n", "{\n", MINIMAL), "line 3: not JSON"),
        (lines(MINIMAL, '{"energy_j_per_step": NaN}\n'), "line 2: not JSON"),
        (lines({"ampere_journal": 2}, MINIMAL), "line 1: written by a newer ampere"),
        (lines({"ampere_journal": "x"}, MINIMAL), "line 1: ampere_journal"),
        (lines(MINIMAL, {"ampere_journal": 1}), "line 2: a second header"),
    ],
)
def test_read_rows_names_the_line(tmp_path, text, said):
    path = tmp_path / "rows"
    path.write_text(text)
    with pytest.raises(DataError, match=re.escape(f"{path} {said}")):
        read_rows(path)


def test_read_rows_of_what_is_no_text_file(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfd")
    for name, said in {"binary": "UTF-8", "absent": "No such file", ".": "directory"}.items():
        with pytest.raises(DataError, match=said):
            read_rows(tmp_path / name)


def test_layers_of_one_network_as_a_document_or_a_line_each(tmp_path):
    path = tmp_path / "layers.json"
    layers = [{"kind": "conv", "widths": {"in": 3}}, {"kind": "fc"}]
    read = []
    for text in (json.dumps(layers), json.dumps({"layers": layers}), lines(*layers)):
        path.write_text(text)
        read.append(read_layer_file(path))
    assert [layer.kind.name for layer in read[0]] == ["conv", "fc"]
    assert read[0] == read[1] == read[2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "has no layer to estimate"),
        ("", "has no layer to estimate"),
        ('["conv"]', ": layers[0] must be an object"),
        ('{"kind": "a"}\n{"kind": 5}', " line 2: kind must be a text"),
        ('{"kind": "a"}\n{"kind"', " line 2: not JSON"),
        ('{"layers": 5}', "layers must be a list"),
        (lines({"layers": []}, {"layers": []}), "several networks"),
    ],
)
def test_what_is_no_network_is_told_with_its_place(tmp_path, text, said):
    path = tmp_path / "layers.json"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_layer_file(path)
    assert said in str(caught.value) and str(path) in str(caught.value)
