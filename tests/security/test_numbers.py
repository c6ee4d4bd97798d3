"""No wrong joule passes in silence: mixed devices, faulty rows, numbers that cannot be."""

from __future__ import annotations

import json
import math
import os
import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ampere
from ampere.cli.app import app
from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.errors import AmpereError, ContradictoryRows, DataError
from ampere.estimators.base import Cost, Line, Prediction
from ampere.meters.base import Provenance
from ampere.profiles.estimate import estimate
from ampere.records.measurement import Measurement
from fakes import exact, plain_model


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def network(width: int, count: int = 1) -> tuple[Layer, ...]:
    """Two layers whose FLOPs are known, as rows of another tool have them."""
    kinds = [LayerKind(name, Role.HIDDEN, name) for name in ("conv", "linear")]
    flops = (2e5 * width * width, 1e4 * width)
    return tuple(
        Layer(kind.name, kind, Widths({"out": width}), Features(work, 4 * work, work), None, count)
        for kind, work in zip(kinds, flops, strict=True)
    )


def measured(width: int, factor: float = 1.0, **fields: Any) -> Measurement:
    layers = network(width)
    joules = 2e-3 + 3e-10 * sum(layer.features.flops or 0.0 for layer in layers)
    return Measurement(layers, factor * joules, factor * joules / 4, **fields)


def write(path: str, rows: Sequence[Measurement]) -> str:
    Path(path).write_text("".join(json.dumps(row.to_json()) + "\n" for row in rows))
    return path


def test_rows_of_two_devices_are_never_estimated_as_one_in_silence() -> None:
    phone = [measured(w, device="phone") for w in (4, 8, 16)]
    tablet = [measured(w, 3.0, device="tablet") for w in (5, 9, 17)]
    run("tell", "--profile", "p", write("phone.jsonl", phone))
    assert "--any-device" in run("tell", "--profile", "p", write("t.jsonl", tablet), code=1).stderr
    run("tell", "--profile", "p", "t.jsonl", "--any-device")
    profile = ampere.Profile.load("p")
    assert profile.devices == ("phone", "tablet")
    said = "rows of 2 devices are mixed (phone, tablet): estimates are of none of them"
    assert said in profile.warnings
    Path("m.json").write_text(json.dumps([layer.to_json() for layer in network(6)]))
    shown = run("estimate", "--layers", "m.json", "--profile", "p")
    assert said in shown.stdout
    assert "phone, mixed with 1 other device" in shown.stdout
    row = json.loads(run("estimate", "--layers", "m.json", "--profile", "p", "--json").stdout)
    assert said in row["warnings"]


def test_joules_of_two_origins_are_told_apart() -> None:
    rows = [measured(w) for w in (4, 8, 16)]
    ampere.tell("p", rows)
    profile = ampere.tell(
        "p", [replace(measured(5), provenance=Provenance.MODELLED)], any_device=True
    )
    said = "joules of different origin are mixed: external, modelled"
    assert said in profile.estimate(network(6)).warnings
    assert profile.estimate(network(6)).provenance is Provenance.MODELLED


def test_an_estimate_inherits_every_warning_of_its_profile() -> None:
    rows = [measured(w, spread=0.6, bursts={"faults": 2}) for w in (4, 8, 16, 20)]
    profile = ampere.fit(rows)
    old = replace(profile, header=replace(profile.header, created="2020-01-01T00:00:00+00:00"))
    noted = replace(old, notes=("the clock was 600 MHz",))
    assert len(noted.warnings) >= 4  # age, spread, faults, the note
    for asked in (noted.estimate(network(6)), noted.estimate(network(6), steps=100)):
        assert set(noted.warnings) <= set(asked.warnings)
        assert set(noted.warnings) <= set(asked.to_json()["warnings"])
        assert all(text in repr(asked) for text in noted.warnings)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
@pytest.mark.parametrize("rows", [3, 4, 5, 6, 7, 12])
def test_a_gross_fault_is_flagged_among_few_rows_too(rows: int, factor: float) -> None:
    rng = random.Random(rows)
    widths = rng.sample(range(4, 40), rows)
    for wrong in range(rows):
        told = [measured(w, factor if i == wrong else 1.0) for i, w in enumerate(widths)]
        profile = ampere.fit(told)
        (rejection,) = profile.rejected
        assert rejection.row == told[wrong]
        assert any("left out" in text for text in profile.warnings)
        true = measured(11).energy_j
        assert profile.estimate(network(11)).energy_j == pytest.approx(true, rel=0.25)


@pytest.mark.parametrize("rows", [3, 4, 5, 6, 7])
def test_honest_rows_are_never_called_gross(rows: int) -> None:
    """Tiny and huge ones beside each other, with noise, cost what their sizes make them cost."""
    for seed in range(3):
        rng = random.Random(seed)
        widths = [round(2 ** rng.uniform(0, 12)) for _ in range(rows)]
        told = [measured(w, math.exp(rng.gauss(0, 0.2))) for w in widths]
        assert not ampere.fit(told).rejected
        models = [plain_model(*rng.choices(range(1, 65), k=rng.randint(1, 6))) for _ in range(rows)]
        assert not ampere.fit([exact(model) for model in models]).rejected


def test_five_rows_of_which_one_is_a_thousand_times_too_small() -> None:
    """What was found: −454 µJ, outside its own interval, exit 0."""
    rows = [measured(w, 1e-3 if w == 24 else 1.0) for w in (4, 8, 16, 24, 32)]
    run("tell", "--profile", "p", write("rows.jsonl", rows))
    for width in (1, 2, 5, 24, 64):
        Path("m.json").write_text(json.dumps([layer.to_json() for layer in network(width)]))
        row = json.loads(run("estimate", "--layers", "m.json", "--profile", "p", "--json").stdout)
        low, high = row["energy_j_interval"]
        assert 0 <= low < row["energy_j"] < high
        assert any("left out" in text for text in row["warnings"])


class Fit:
    """A fit that says anything."""

    method = "anything"

    def __init__(self, *costs: Cost) -> None:
        self.costs = costs

    def predict(self, layers: Sequence[Layer]) -> Prediction:
        lines = [Line(layer, cost) for layer, cost in zip(layers, self.costs, strict=False)]
        return Prediction(tuple(lines), self.costs[-1])


@pytest.mark.parametrize("joules", [-454e-6, 0.0, math.nan, math.inf])
def test_an_estimate_that_cannot_be_is_an_error(joules: float) -> None:
    with pytest.raises(ContradictoryRows, match="rows contradict each other"):
        estimate(network(3), Fit(Cost(1.0, 0.1), Cost(joules, 0.1)))
    with pytest.raises(ContradictoryRows):
        estimate(network(3), Fit(Cost(1.0, 0.1), Cost(1.0, math.nan)))


def test_seconds_that_cannot_be_are_unknown() -> None:
    for seconds in (-1.0, 0.0, math.nan):
        made = estimate(network(3), Fit(Cost(1.0, 0.1), Cost(1.0, 0.1, seconds, 0.1)))
        assert made.time_s is None


def test_a_layer_below_zero_is_named() -> None:
    made = estimate(network(3), Fit(Cost(-0.1, 0.1), Cost(1.0, 0.1)))
    assert "below 0 J, which cannot be" in " ".join(made.warnings)


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ({"features": {"flops": -5e6}}, "[0].features.flops must be a number from 0"),
        ({"count": 2.9}, "[0].count must be a whole number"),
        ({"count": 10**400}, "[0].count must be a whole number"),
        ({"attributes": {"kernel": "1e999"}}, "[0].attributes.kernel must be a number"),
        ({"widths": {"out": 1e30}}, "[0].widths.out must be a whole number"),
        ({"widths": {"out": True}}, "[0].widths.out must be a whole number"),
        ({"widths": [3]}, "[0].widths must be an object"),
        ({"kind": 7}, "[0].kind must be a text"),
        ({"kind": "\ud800"}, "[0].kind is no text that can be written"),
        ({"features": {"FLOPS": 5}}, "features are flops"),
    ],
)
def test_layers_of_a_file_are_checked(layer: dict[str, Any], said: str) -> None:
    ampere.fit([measured(w) for w in (4, 8, 16)]).save("p")
    row = {**network(6)[0].to_json(), **layer}
    Path("m.json").write_text(json.dumps([row]).replace('"1e999"', "1e999"))
    result = run("estimate", "--layers", "m.json", "--profile", "p", code=1)
    assert (result.stdout, result.stderr.count("\n")) == ("", 1)
    assert f"error: m.json: layers{said}" in result.stderr or said in result.stderr


@pytest.mark.parametrize("text", ['{"layers": 5}', '{"layers": []}', "[]", "5", '[{"layers": 5}]'])
def test_what_holds_no_layers_is_told_in_a_line(text: str) -> None:
    ampere.fit([measured(w) for w in (4, 8, 16)]).save("p")
    Path("m.json").write_text(text)
    result = run("estimate", "--layers", "m.json", "--profile", "p", code=1)
    assert (result.stdout, result.stderr.count("\n")) == ("", 1)
    assert "m.json" in result.stderr


def test_a_refused_row_leaves_no_profile_behind() -> None:
    mixed = [measured(4, device="phone"), measured(8, device="tablet")]
    run("tell", "--profile", "p", write("rows.jsonl", mixed), code=1)
    assert not Path("p").exists()
    with pytest.raises(DataError):
        ampere.tell("p", [measured(4), replace(measured(8), repeats=10**400)])
    assert not Path("p").exists()
    ampere.tell("p", [measured(4)])
    before = Path("p").read_bytes()
    with pytest.raises(DataError):
        ampere.tell("p", [measured(9), replace(measured(8), energy_j_per_step=1e308)])
    assert Path("p").read_bytes() == before


@pytest.mark.parametrize(
    "poison",
    [
        {"repeats": 10**400},
        {"bursts": {"steps": None, "energy_j": [1.0], "faults": None}},
        {"bursts": {"steps": "many"}},
        {"bursts": {"faults": 1e999}},
        {"layers": [{"kind": "conv", "widths": {"out": 1e30}}]},
        {"energy_j_per_step": 1e308},
        {"energy_j_per_step": 1e-308},
        {"spread": 1e308},
        {"cost_s": 1e308},
        {"when": "0001-01-01T00:00:00"},
        {"when": "9999-12-31T23:59:59-23:59"},
        {"bursts": {"drift": [None, 1.0], "at": [None]}},
        {"bursts": {"drift": [1e-300], "steps": 10**12}},
        {"bursts": {"energy_j": [-1e29] * 3, "steps": 10**12}},
        {"layers": [{"kind": "conv", "attributes": {"batch": "many", "optimizer": 3}}]},
        {"layers": [{"kind": "conv", "attributes": {"a": [[[[[[[[1]]]]]]]]}}]},
    ],
)
def test_a_poisoned_row_is_refused_or_harmless(poison: dict[str, Any]) -> None:
    """Never appended and then the end of every later command."""
    ampere.tell("p", [measured(w) for w in (4, 8, 16)])
    row = json.dumps({**measured(5).to_json(), **poison}).replace("Infinity", "1e999")
    Path("rows.jsonl").write_text(row + "\n")
    told = CliRunner().invoke(app, ["tell", "--profile", "p", "rows.jsonl"])
    assert (told.exit_code in (0, 1) and not told.exc_info) or told.exit_code in (0, 1)
    assert told.exception is None or isinstance(told.exception, SystemExit)
    Path("m.json").write_text(json.dumps([layer.to_json() for layer in network(6)]))
    run("estimate", "--layers", "m.json", "--profile", "p")
    run("report", "p", "-o", "p.html")
    journal = Path("p").read_text() + row + "\n"  # a stranger's file has it anyway
    Path("q").write_text(journal)
    estimated = CliRunner().invoke(app, ["estimate", "--layers", "m.json", "--profile", "q"])
    assert estimated.exception is None or isinstance(estimated.exception, SystemExit)
    if estimated.exit_code:
        assert "q line 5" in estimated.stderr


def test_what_was_mixed_is_not_replayed_as_one() -> None:
    ampere.tell("p", [measured(w, device="phone") for w in (4, 8)])
    ampere.tell("p", [measured(5, 3.0, device="tablet")], any_device=True)
    with pytest.raises(DataError, match="rows of 2 devices"):
        ampere.open_device("recorded:p")
    ampere.tell("q", [measured(w) for w in (4, 8)])
    ampere.tell("q", [measured(5, provenance=Provenance.SIMULATED)], any_device=True)
    assert ampere.open_device("recorded:q").provenance is Provenance.SIMULATED


def test_bursts_without_steps_are_aligned_as_single_ones() -> None:
    bursts = {"at": [100.0, 110.0], "time_s": [5.0, 5.0], "drift": [1.0, 1.0]}
    ampere.tell("p", [replace(measured(4), bursts=bursts)])
    Path("log.csv").write_text("time_s,power_w\n" + "".join(f"{t},3.{t % 9}\n" for t in range(200)))
    (row,) = ampere.align("p", "log.csv", "q").measurements
    assert 14 < row.energy_j < 20
    Path("zero.csv").write_text("time_s,power_w\n" + "".join(f"{t},0.0\n" for t in range(200)))
    with pytest.raises(AmpereError):
        ampere.align("p", "zero.csv", "r")
    assert not Path("r").exists()


def test_a_small_file_does_not_take_for_ever() -> None:
    """A few hundred kilobytes, packed, may hold more rows than any fit would end with."""
    one, many = measured(4), [network(w)[0] for w in range(1, 4200)]
    warnings = ampere.fit([one] * 2001).estimate(network(4)).warnings
    assert "1000 rows drawn at random were fitted, 1001 were not used" in warnings
    with pytest.raises(DataError, match="too many for a fit: choose up to 2000 rows"):
        ampere.fit([one] * 2001, method="paper").estimate(network(4))
    with pytest.raises(DataError, match="too many for a fit"):
        ampere.fit([replace(one, layers=tuple(many))]).estimate(network(4))


@pytest.mark.parametrize(
    "model", ["zoo:resnet(blocks=[1000000,1,1])", "zoo:lenet5(channels=[100000,100000])"]
)
def test_a_file_asks_for_no_model_without_measure(model: str) -> None:
    ampere.tell("p", [measured(w) for w in (4, 8, 16)])
    Path("p").write_text(Path("p").read_text().replace('"model":null', f'"model": "{model}"'))
    run("report", "p", "-o", "p.html")
    with pytest.raises(DataError, match="say it yourself"):
        ampere.Profile.load("p").tabulate()


def test_a_pipe_is_read_once() -> None:
    ampere.fit([measured(w) for w in (4, 8, 16)]).save("p")
    Path("m.json").write_text(json.dumps([layer.to_json() for layer in network(6)]))
    os.mkfifo("pipe")
    feeder = threading.Thread(target=lambda: Path("pipe").write_bytes(Path("p").read_bytes()))
    feeder.start()
    run("estimate", "--layers", "m.json", "--profile", "pipe")
    feeder.join()
