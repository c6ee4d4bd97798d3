"""`ampere prune`: a smaller model in a new folder, or one line that says why not."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

import ampere
from ampere.core.layers import Layer
from ampere.estimators.base import Cost
from cli.runner import answer, last_line, run
from fakes import exact

WIDE = """
from torch import nn


def net(width=24):
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))


def heavy():
    convs = [nn.Conv2d(3, 96, 3), nn.ReLU(), nn.Conv2d(96, 96, 3), nn.ReLU()]
    return nn.Sequential(*convs, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 3))


def frozen():
    return net().requires_grad_(False)


def alone():
    return nn.Linear(4, 2)


net.input = frozen.input = alone.input = "4"
heavy.input = "3x64x64"
"""


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A profile of a model with something to cut."""
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "wide.py").write_text(WIDE)
    nets = [ampere.read_layers(f"{folder}/wide.py:net(width={w})") for w in (1, 6, 12, 18, 24)]

    def cost(layer: Layer) -> Cost:
        return Cost(1e-3 * sum(layer.widths.values()), 0.0, 1e-4, 0.0)

    rows = [exact(layers, cost) for layers in nets]
    rows += [exact(layers[1:], cost) for layers in nets]
    ampere.fit(rows, device="pi").save(folder / "wide.ampere")
    return (folder / "wide.ampere").read_bytes()


@pytest.fixture
def wide(net: Path, profiled: bytes) -> Path:
    """A user's file with such a model, and the profile."""
    net.with_name("wide.py").write_text(WIDE)
    net.with_name("wide.ampere").write_bytes(profiled)
    return net.with_name("wide.py")


PRUNE = ("prune", "wide.py:net", "--profile", "wide.ampere")


def test_prune_writes_a_model_and_says_what_was_cut(wide: Path) -> None:
    result = run(*PRUNE, "--budget", "50%", "-o", "half")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("wide.py:net, cut to 50%: ")
    assert "out=24→" in result.stdout
    assert "joules are simulated, not measured" in result.stdout
    assert result.stderr.splitlines() == [
        "looking for widths ...",
        "wrote half: model.py builds the model, model.safetensors holds its weights",
    ]
    width = json.loads(Path("half/widths.json").read_text())["widths"]["0.out"]
    built = runpy.run_path("half/model.py")["build"]()  # in another process: pytorch/test_files.py
    assert 0 < width == built[0].out_features < 24


def test_prune_prints_one_line_of_json(wide: Path) -> None:
    wide.write_text("print('loading the model')\n" + WIDE)
    job = ("--epochs", 2, "--samples", 95, "--seed", 3, "--confidence", 0.75)
    result = run(*PRUNE, "--budget", "240mJ", *job, "--guide", "flops", "-o", "half", "--json")
    row = answer(result)
    assert (row["steps"], row["budget_j_per_step"]) == (20, pytest.approx(0.012))
    assert (row["guide"], row["strategy"], row["confidence"]) == ("flops", "random", 0.75)
    assert row["widths"].keys() == row["full_widths"].keys() == {"0.out"}
    assert set(row["before"]) == {"estimate_j", "interval_j", "metered_j", "accuracy"}
    loaded, looking, wrote, *warned = result.stderr.splitlines()
    assert (loaded, looking) == ("loading the model", "looking for widths ...")
    assert wrote.startswith("wrote half: ")
    assert warned == [f"warning: {text}" for text in row["warnings"]] != []


@pytest.mark.parametrize(
    ("budget", "rate"),
    [
        ("50% battery", ("--battery-wh", 0.24 / 1800)),
        ("0.24 gCO2e", ("--carbon", "3600kg/kWh")),
        ("0.24 EUR", ("--price", "3600000 EUR/kWh")),
    ],
)
@pytest.mark.usefixtures("wide")
def test_prune_to_what_a_job_may_take_emit_or_cost(budget: str, rate: tuple[object, ...]) -> None:
    job = ("--steps", 20, "--confidence", 0.75, "-o", "half", "--json")
    row = answer(run(*PRUNE, "--budget", budget, *rate, *job))
    assert (row["budget"], row["budget_j_per_step"]) == (budget, pytest.approx(0.012))


def test_prune_says_that_a_model_fits(wide: Path) -> None:
    result = run(*PRUNE, "--budget", "200%", "-o", "same")
    assert result.stdout.startswith("wide.py:net fits 200% as it is: ")
    assert "→" not in result.stdout
    assert Path("same/model.safetensors").exists()


def test_prune_with_weights(wide: Path) -> None:
    import torch
    from safetensors.torch import save_model

    model = ampere.pytorch.runtime.loader.load_model("wide.py:net")[0]
    with torch.no_grad():
        model.get_parameter("0.weight").zero_()[7:11] = 1.0
        model.get_parameter("2.weight").fill_(0.01)
    save_model(model, "w.safetensors")
    line = (*PRUNE, "--budget", "8 mJ/step", "--confidence", 0.5, "-o", "cut")
    row = answer(run(*line, "--weights", "w.safetensors", "--json", "--strategy", "gradient"))
    assert row["widths"] == {"0.out": 4}
    assert not any("weights" in text for text in row["warnings"])
    assert row["importance_kept"] > 0.95


def test_prune_meters_both_on_a_simulated_device(wide: Path) -> None:
    line = ("wide.py:heavy", "--profile", "sim.ampere", "--device", "simulated:xavier", "--quick")
    assert run("profile", *line, "--measurements", 12).exit_code == 0
    row = answer(run("prune", *line, "--budget", "60%", "--verify", "-o", "less", "--json"))
    metered = [row[side]["metered_j"] for side in ("before", "after")]
    assert row["metered_ratio"] == pytest.approx(metered[1] / metered[0])
    assert 0.4 < row["metered_ratio"] < 0.6
    assert row["metered_provenance"] == row["provenance"] == "simulated"
    estimated = [row[side]["estimate_j"] for side in ("before", "after")]
    assert metered == pytest.approx(estimated, rel=0.2)


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("wide.py:net --profile wide.ampere --budget 50%", 2, "'--output' / '-o'"),
        ("wide.py:net --profile wide.ampere -o x", 2, "--budget"),
        ("wide.py:net --budget 50% -o x", 2, "--profile"),
        ("--profile wide.ampere --budget 50% -o x", 2, "MODEL"),
        ("wide.py:net --profile absent --budget 50% -o x", 1, "does not exist"),
        ("wide.py:absent --profile wide.ampere --budget 50% -o x", 1, "has no 'absent'"),
        ("wide.py:frozen --profile wide.ampere --budget 50% -o x", 1, "is frozen"),
        ("wide.py:alone --profile wide.ampere --budget 50% -o x", 1, "every width is tied"),
        ("zoo:lenet5 --profile told.ampere --budget 50% -o x", 1, "not cover first conv2d5x5"),
        ("{} --budget lots -o x", 1, "'lots' is no budget: write a share"),
        ("{} --budget 50 -o x", 1, "'50' is no budget"),
        ("{} --budget 0% -o x", 1, "leaves room for nothing"),
        ("{} --budget 800J -o x", 1, "give the job's length (--steps, or --epochs with --samples)"),
        ("{} --budget 1uJ/step -o x", 1, "the least possible is"),
        ("{} --budget 0.5kgCO2e --steps 9 -o x", 1, "what a kilowatt-hour emits: give --carbon FR"),
        ("{} --budget 1EUR --steps 9 -o x", 1, "give --price 0.30EUR/kWh"),
        ("{} --budget 1EUR --steps 9 --price $1/kWh -o x", 1, "in EUR, the price in USD"),
        ("{} --budget 1EUR --steps 9 --price dear -o x", 1, "no price of a kilowatt-hour"),
        ("{} --budget 1gCO2e --steps 9 --carbon Narnia -o x", 1, "no country"),
        ("{} --budget 800J --epochs 2 -o x", 2, "go together"),
        ("{} --budget 800J --steps 0 -o x", 2, "--steps"),
        ("{} --budget 50% -o x --confidence 1.5", 1, "confidence is 1.5: use 0.5 or more"),
        ("{} --budget 50% -o x --strategy magic", 1, "use one of random, gradient, evolution"),
        ("{} --budget 50% -o x --guide magic", 1, "use one of energy, flops"),
        ("{} --budget 50% -o x --importance magic", 1, "use one of l1, l2, bn, random"),
        ("{} --budget 50% -o x --least 2", 1, "use a number from 0 to 1"),
        ("{} --budget 50% -o x --data magic", 1, "there are no data 'magic'"),
        ("{} --budget 50% -o x --data absent.py:data", 1, "cannot read"),
        ("{} --budget 50% -o x --fine-tune 5", 1, "fine-tuning needs data"),
        ("{} --budget 50% -o x --fine-tune -5", 2, "--fine-tune"),
        ("{} --budget 50% -o x --seed -1", 2, "--seed"),
        ("{} --budget 50% -o x --weights absent.pt", 1, "there is no such file"),
        ("{} --budget 50% -o x --weights net.py", 1, "holds no plain weights"),
        ("{} --budget 50% -o x --weights other.safetensors", 1, "0.bias is 6, the model's is 24"),
        ("{} --budget 50% -o full", 1, "full is there already"),
        ("wide.py:absent --profile absent --budget 50% -o full", 1, "full is there already"),
        ("{} --budget 50% -o net.py", 1, "net.py is there already"),
        ("{} --budget 50% -o net.py/x", 1, "is no folder that you may write to"),
        ("{} --budget 50% -o x --verify --device simulated:abacus", 1, "use one of"),
        ("{} --budget 50% -o x --verify --device simulated:xavier", 1, "do not mix"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*pickle protocol")
def test_prune_with_bad_input_writes_nothing(
    wide: Path, told: Path, line: str, code: int, says: str
) -> None:
    from safetensors.torch import save_model

    other, _ = ampere.pytorch.runtime.loader.load_model("wide.py:net(width=6)")
    save_model(other, "other.safetensors")
    Path("full").mkdir()
    Path("full/precious").write_text("mine")
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    result = run("prune", *line.format("wide.py:net --profile wide.ampere").split())
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert says in last_line(result)
    if code == 1:
        errors = [each for each in result.stderr.splitlines() if each.startswith("error: ")]
        assert errors == [last_line(result)]
    after = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    new = {path for path in after if "__pycache__" not in path.parts} - before.keys()
    assert not new


def test_ctrl_c_while_pruning_leaves_nothing(wide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(folder: Path, *rest: object) -> None:
        (folder / "model.py").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr("ampere.pytorch.pruning.files.write_model", interrupt)
    before = set(Path().iterdir())
    result = run(*PRUNE, "--budget", "50%", "-o", "half")
    assert (result.exit_code, result.stdout) == (130, "")
    assert last_line(result) == "interrupted"
    assert set(Path().iterdir()) == before
