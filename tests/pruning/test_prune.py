"""Pruning to a budget: on devices of known costs, by every strategy and guide, and in words."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import ampere
from ampere.core.budget import parse_budget
from ampere.core.choices import resample
from ampere.core.layers import Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.core.training import Training
from ampere.datasets.registry import open_data
from ampere.errors import AmpereError, DataError, FingerprintError, ModelError, NotCovered
from ampere.estimators.additive import AdditiveFit
from ampere.estimators.base import Cost, Line
from ampere.meters.base import Provenance
from ampere.profiles.estimate import Estimate
from ampere.profiles.profile import Profile
from ampere.pruning.judge import Judging
from ampere.pruning.prune import prune
from ampere.pruning.result import Pruning
from ampere.pruning.search import Search
from ampere.pruning.strategies import STRATEGIES
from ampere.pruning.verify import Verification
from ampere.pytorch.graph.counter import with_features
from ampere.pytorch.models import read
from ampere.pytorch.pruning.slimmer import Slim
from ampere.pytorch.pruning.tuner import judge
from ampere.records.measurement import Measurement
from ampere.zoo.families import find_family
from fakes import FakeDevice, exact
from golden_files import agreed

INPUT = (1, 8, 8)
BLOCK = 16


def net(norm: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.BatchNorm2d(32) if norm else nn.Identity(),
        nn.ReLU(),
        nn.Conv2d(32, 48, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(4),
        nn.Flatten(),
        nn.Linear(48 * 4, 10),
    )


def by_work(layer: Layer) -> Cost:
    """A little for a layer, more for its FLOPs, most for its map: what FLOPs say is not enough."""
    size = layer.kind.attributes.get("height", 1)
    width = sum(layer.widths.values())
    energy_j = 1e-3 + 1e-9 * counted(layer) + 1e-4 * size * width
    return Cost(energy_j, 0.0, 0.25 * energy_j, 0.0)


def by_blocks(layer: Layer) -> Cost:
    """FLOPs on whole blocks of channels, so that a cut inside a block saves nothing."""
    filled = math.prod(-(-size // BLOCK) * BLOCK / size for size in layer.widths.values())
    energy_j = 1e-3 + 1e-9 * counted(layer) * filled
    return Cost(energy_j, 0.0, 0.25 * energy_j, 0.0)


def counted(layer: Layer) -> float:
    flops = with_features(layer).features.flops
    assert flops is not None
    return flops


def profile_of(
    layers: tuple[Layer, ...], cost: Callable[[Layer], Cost] = by_work, noise: float = 0.0
) -> Profile:
    """What a device of these costs teaches, by members of a family."""
    rng = random.Random(0)
    rows = []
    for member in (layers, *(resample(layers, rng) for _ in range(11))):
        row = exact([with_features(layer) for layer in member], cost)
        factor = math.exp(noise * rng.gauss(0.0, 1.0))
        rows.append(replace(row, energy_j_per_step=factor * row.energy_j_per_step))
    return ampere.fit(rows, device="pi")


@cache
def known() -> Profile:
    return profile_of(read(net(), INPUT))


@cache
def noisy() -> Profile:
    return profile_of(read(net(), INPUT), noise=0.1)


def cut(**options: Any) -> Pruning:
    """Cut `net`, or a model, with options of all parts by their names."""
    parts: dict[str, Any] = {"search": Search, "judging": Judging}
    if options.pop("verify", False):
        parts["verification"] = Verification
    arguments: dict[str, Any] = {"profile": known(), "budget": "60%"}
    for name, part in parts.items():
        own = [field.name for field in fields(part) if field.name in options]
        arguments[name] = part(**{key: options.pop(key) for key in own})
    return prune(options.pop("model", None) or net(), INPUT, **{**arguments, **options})


def message_of(error: type[AmpereError], **given: Any) -> str:
    with pytest.raises(error) as caught:
        cut(**given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- budgets -------------------------------------------------------------------------------------


def full_j() -> float:
    return known().estimate(net(), INPUT).energy_j


def test_a_share_is_one_of_the_models_own_energy() -> None:
    found = cut(budget="60%")
    assert found.before.energy_j == pytest.approx(full_j())
    assert found.limit_j == pytest.approx(0.6 * full_j())
    assert 0.8 * found.limit_j < found.after.energy_j <= found.limit_j
    assert found.after.energy_j == known().estimate(found.model, INPUT).energy_j
    assert not found.unchanged and 0 < found.importance_kept < 1
    true = ampere.fit([exact(found.slim.layers, by_work)]).measurements[0].energy_j_per_step
    assert found.after.energy_j == pytest.approx(true, rel=0.02)


@pytest.mark.parametrize(
    ("budget", "steps", "share"),
    [
        ("{} J/step", None, 0.5),
        ("{}mJ/step", None, 0.7),
        ("{} J", 2000, 0.5),
        ("{}kJ", 100_000, 0.7),
        ("{} Wh", 5000, 0.5),
    ],
)
def test_joules_of_a_step_or_of_a_job(budget: str, steps: int | None, share: float) -> None:
    unit = {"mJ/step": 1e-3, "kJ": 1e3, "Wh": 3600.0}.get(budget[2:].strip(), 1.0)
    amount = share * full_j() * (steps or 1) / unit
    found = cut(budget=budget.format(amount), steps=steps)
    assert found.limit_j == pytest.approx(share * full_j())
    assert found.bound_j <= found.limit_j
    assert found.steps == steps
    page = repr(found)
    assert (" over " in page) == (steps is not None)
    assert steps is None or f"a step over {steps:,} steps\n" in page


def test_fine_tuning_of_all_finalists_counts_towards_the_job() -> None:
    budget = f"{0.6 * full_j() * 1000} J"
    train: Any = {"fine_tune": lambda model: None, "fine_tune_steps": 20}
    found = cut(budget=budget, steps=960, score=lambda model: 0.0, **train)
    assert (found.steps, found.fine_tune_steps) == (1000, 40)
    assert found.limit_j == pytest.approx(0.6 * full_j())
    assert "over 1,000 steps, 40 of them fine-tuning" in repr(found)
    alone = cut(budget=budget, steps=980, **train)  # nothing scores, so one is trained
    assert (alone.steps, alone.fine_tune_steps) == (1000, 20)


@pytest.mark.parametrize("budget", ["100%", "150%", "10 J/step"])
@pytest.mark.parametrize("guide", ["energy", "flops"])
def test_a_model_that_fits_is_left_as_it_is(budget: str, guide: str, tmp_path: Path) -> None:
    found = cut(budget=budget, guide=guide)
    assert found.unchanged
    assert found.widths == found.full_widths == {"0.out": 32, "3.out": 48}
    same(found.model, net())
    assert found.after == found.before
    page = repr(found)
    assert page.startswith(f"Sequential fits {found.budget} as it is: ")
    assert "search" not in page and "warning" not in page
    found.save(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "model.py",
        "model.safetensors",
        "widths.json",
    }


def same(ours: nn.Module, theirs: nn.Module) -> None:
    a, b = ours.state_dict(), theirs.state_dict()
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        assert torch.equal(tensor, b[name]), name


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_budget_below_the_smallest_model_names_what_that_needs(strategy: str) -> None:
    small = cut(budget="10 J/step").slim.layers
    least = {"0.out": 4, "3.out": 5}  # a tenth, rounded up
    smallest = known().estimate(ampere.core.choices.resize(small, least)).energy_j
    says = message_of(DataError, budget="1uJ/step", confidence=0.5, strategy=strategy)
    assert f"the least possible is {ampere.core.units.joules(smallest)} a step" in says
    assert "1.00 µJ are allowed" in says
    assert cut(budget=f"{1.001 * smallest} J/step", confidence=0.5).widths == least


def test_the_least_share_of_a_width() -> None:
    found = cut(budget="70%", least=0.5)
    assert all(size >= 0.5 * found.full_widths[name] for name, size in found.widths.items())
    assert "the least possible is" in message_of(DataError, least=1.0)
    for least in (-0.1, 1.1, math.nan):
        assert "use a number from 0 to 1" in message_of(DataError, least=least)


def test_a_job_needs_its_length() -> None:
    assert "give the job's length (--steps" in message_of(DataError, budget="800J")
    assert "a job of -3 steps" in message_of(DataError, budget="800J", steps=-3)
    assert "'lots' is no budget" in message_of(DataError, budget="lots")


# --- confidence ----------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_who_wants_to_be_surer_gets_less(strategy: str) -> None:
    joules = []
    for confidence in (0.5, 0.75, 0.9, 0.97):
        found = cut(profile=noisy(), budget="70%", confidence=confidence, strategy=strategy)
        assert found.bound_j <= found.limit_j
        joules.append(found.after.energy_j)
    assert joules == sorted(joules, reverse=True)
    assert joules[0] > 1.05 * joules[-1]


def test_a_confidence_of_a_half_is_the_mean_alone() -> None:
    found = cut(profile=noisy(), confidence=0.5)
    assert found.bound_j == found.after.energy_j
    assert found.after.energy_j_interval[1] > found.limit_j


@pytest.mark.parametrize("confidence", [1.5, 1.0, 0.49, 0.0, -1.0, math.nan])
def test_a_confidence_that_cannot_be(confidence: float) -> None:
    says = message_of(DataError, confidence=confidence)
    assert says == f"confidence is {confidence}: use 0.5 or more, and less than 1"


# --- strategies and guides -----------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_guides_differ_in_the_guide_alone(strategy: str) -> None:
    energy, flops = (cut(strategy=strategy, guide=guide, seed=3) for guide in ("energy", "flops"))
    assert (energy.limit_j, energy.full_widths, energy.before) == (
        flops.limit_j,
        flops.full_widths,
        flops.before,
    )
    assert energy.bound_j <= energy.limit_j
    tables = known().tabulate(net(), INPUT)
    sizes = [list(flops.widths.values()), list(flops.full_widths.values())]
    after, before = tables.flops(sizes)
    assert 0.5 < after / before <= 0.6
    assert flops.after.energy_j > flops.limit_j  # what FLOPs do not tell
    assert energy.widths != flops.widths
    assert "by FLOPs" in repr(flops) and "surely" not in repr(flops)
    again = cut(strategy=strategy, seed=3)
    assert again.widths == energy.widths
    same(again.model, energy.model)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_widths_end_where_a_stair_ends(strategy: str, confidence: float) -> None:
    model = nn.Sequential(*net(), nn.ReLU(), nn.Linear(10, 3))
    layers = read(model, INPUT)
    profile = stairs()
    found = prune(model, INPUT, profile=profile, budget="70%",
                  search=Search(strategy=strategy, confidence=confidence))  # fmt: skip
    sizes = list(found.widths.values())
    assert not found.unchanged
    assert [size % BLOCK for size in sizes[:2]] == [0, 0]
    tables = profile.tabulate(layers)
    for axis, top in enumerate(tables.largest):
        larger = [[*sizes[:axis], n, *sizes[axis + 1 :]] for n in range(sizes[axis] + 1, top + 1)]
        if larger:
            assert (tables.estimate_many(larger) > found.after.energy_j).all()


@cache
def stairs() -> Profile:
    model = nn.Sequential(*net(), nn.ReLU(), nn.Linear(10, 3))
    profile = profile_of(read(model, INPUT), by_blocks)
    assert isinstance(profile.fit, AdditiveFit)
    return profile


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"strategy": "magic"}, DataError, "use one of random, gradient, evolution"),
        ({"guide": "time"}, DataError, "unknown guide 'time': use one of energy, flops"),
        ({"importance": "magic"}, ModelError, "use one of l1, l2, bn, random"),
        ({"data": "magic"}, DataError, "there are no data 'magic'"),
        ({"fine_tune_steps": 3}, DataError, "fine-tuning needs data"),
        ({"training": Training(optimizer="lion")}, ModelError, "unknown optimizer 'lion'"),
        ({"weights": "absent.pt"}, DataError, "there is no such file"),
    ],
)
def test_unknown_names(given: dict[str, Any], error: type[AmpereError], says: str) -> None:
    assert says in message_of(error, **given)


@pytest.mark.parametrize("importance", ["l1", "l2", "bn", "random"])
def test_importance_decides_which_channels_stay(importance: str) -> None:
    found = cut(importance=importance, model=net().requires_grad_(True))
    weight = found.model.get_parameter("0.weight")
    rows = net()[0].weight
    kept = [int((rows == row).flatten(1).all(1).nonzero()) for row in weight]
    assert kept == sorted(kept)
    assert len(kept) == found.widths["0.out"]
    if importance == "bn":  # all scales are 1: the first stay
        assert kept == list(range(len(kept)))


# --- models --------------------------------------------------------------------------------------


def test_the_model_itself_is_left_alone() -> None:
    model = net().eval()
    before = copy.deepcopy(model)
    found = cut(model=model)
    same(model, before)
    assert not model.training
    assert isinstance(found.model, nn.Sequential)
    assert list(found.model.state_dict()) == list(model.state_dict())


def test_what_is_frozen_stays_frozen() -> None:
    model = net()
    model[0].requires_grad_(False)
    profile = profile_of(read(model, INPUT))
    found = cut(model=model, profile=profile)
    flags = {name: p.requires_grad for name, p in found.model.named_parameters()}
    assert [name for name, trained in flags.items() if not trained] == ["0.weight", "0.bias"]
    says = message_of(ModelError, model=net().requires_grad_(False))
    assert says == "Sequential is frozen: there is nothing to train"


def test_weights_of_a_file_are_the_ones_that_are_cut(tmp_path: Path) -> None:
    trained = net()
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.mul_(2.0)
    save_file(trained.state_dict(), tmp_path / "w.safetensors")
    fresh = net()
    found = cut(model=fresh, weights=tmp_path / "w.safetensors")
    same(found.model, cut(model=trained).model)
    same(fresh, net())


def test_a_model_by_name_says_whose_weights_they_are() -> None:
    text = "zoo:cnn5(channels=[8, 12, 16, 16])"
    profile = profile_of(read(text))
    found = prune(text, profile=profile, budget="60%")
    assert found.source == found.name == text
    assert found.warnings[-1] == (
        "no weights were given: channels were chosen by those it is built with"
    )
    assert not cut().warnings


class Sized(nn.Module):
    """Sizes stand in its code."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.head = nn.Linear(16 * 64, 10)

    def forward(self, x: Tensor) -> Any:
        return self.head(self.norm(self.conv(x)).relu().view(-1, 16 * 64))


def test_a_model_that_does_not_follow_is_built_again_and_said() -> None:
    found = prune(Sized(), INPUT, profile=profile_of(read(Sized(), INPUT)), budget="60%")
    assert found.slim.rebuilt
    assert not isinstance(found.model, Sized)
    assert found.warnings[-1].startswith(
        "sizes stand in the model's own code, so it was built again"
    )


class Numbered(nn.Module):
    """A channel is known by its number, so neither it nor what is made of it can be followed."""

    def __init__(self, *before: nn.Module, behind: int = 0) -> None:
        super().__init__()
        self.before = nn.Sequential(*before)
        self.conv = nn.Conv2d(1 + 15 * len(before), 48, 3, padding=1)
        self.behind = nn.Conv2d(48, behind, 3, padding=1) if behind else nn.Identity()
        self.head = nn.Linear((behind or 48) * 64, 10)

    def forward(self, x: Tensor) -> Any:
        y = self.conv(self.before(x))
        y[:, 0] = 0.0
        return self.head(self.behind(y).flatten(1))


def test_what_cannot_be_followed_is_left_as_it_is_and_said() -> None:
    model = Numbered(nn.Conv2d(1, 16, 3, padding=1))
    found = prune(model, INPUT, profile=profile_of(read(model, INPUT)), budget="70%")
    assert (found.widths["conv.out"], found.full_widths["conv.out"]) == (48, 48)
    assert found.widths["before.0.out"] < found.full_widths["before.0.out"] == 16
    assert found.warnings[-1] == "left as they are, their channels cannot be followed: conv.out"
    deeper = Numbered(behind=24)
    found = prune(deeper, INPUT, profile=profile_of(read(deeper, INPUT)), budget="70%")
    assert found.widths["conv.out"] == 48 and found.widths["behind.out"] < 24
    bare = Numbered()
    with pytest.raises(ModelError, match=r"nothing can be cut, the channels of conv\.out cannot"):
        prune(bare, INPUT, profile=profile_of(read(bare, INPUT)), budget="70%")


class Twice(nn.Module):
    """A layer that stands at two places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.mix, self.head = nn.Linear(4, 24), nn.Linear(24, 24), nn.Linear(24, 3)
        self.again = self.mix

    def forward(self, x: Tensor) -> Any:
        return self.head(self.again(self.mix(self.first(x)).relu()).relu())


class Tied(nn.Module):
    """A weight that two layers share; nothing else says that their widths are one."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.mix = nn.Embedding(11, 24), nn.Linear(24, 24)
        self.head = nn.Linear(24, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Any:
        return self.head(self.mix(self.words(ids)).relu().mean(1))


@pytest.mark.parametrize(("model", "input"), [(Twice, "4"), (Tied, "5:int64<11")])
def test_what_is_shared_stays_shared(model: type[nn.Module], input: str) -> None:
    whole = model()
    before = copy.deepcopy(whole)
    found = prune(whole, input, profile=profile_of(read(model(), input)), budget="70%")
    same(whole, before)
    assert isinstance(found.model, model) and not found.unchanged
    names = dict(found.model.named_parameters(remove_duplicate=False))
    pairs = {Twice: ("mix.weight", "again.weight"), Tied: ("words.weight", "head.weight")}
    one, other = pairs[model]
    assert names[one] is names[other]


@pytest.mark.parametrize("round_to", [1, 8])
def test_widths_are_rounded_where_the_originals_are(round_to: int) -> None:
    found = cut(round_to=round_to)
    assert all(size % round_to == 0 for size in found.widths.values())
    assert found.widths.keys() == {"0.out", "3.out"}
    assert "use 1 or more" in message_of(DataError, round_to=0)


def test_a_model_of_many_sizes_is_looked_at_in_coarser_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = 2 * 33 + 33 * 49 + 2 * 49  # of each layer; none of the first and last have one alone
    monkeypatch.setattr("ampere.pruning.search.MANY", sizes // 3)
    assert all(size % 2 == 0 for size in cut().widths.values())
    monkeypatch.setattr("ampere.pruning.search.MANY", 0)
    assert all(size % 16 == 0 for size in cut().widths.values())


def test_weights_that_are_no_numbers_are_refused() -> None:
    model = net()
    with torch.no_grad():
        model[0].weight[0] = math.nan
    assert "0.weight holds numbers that are not finite" in message_of(ModelError, model=model)


def test_a_small_profile_is_doubted() -> None:
    few = ampere.fit(known().measurements[:6], device="pi")
    assert any("6 measurements" in text for text in cut(profile=few).warnings)
    assert not any("measurements" in text for text in cut().warnings)


def test_a_model_that_fits_only_on_average_says_why_it_is_cut() -> None:
    fits = noisy().estimate(net(), INPUT).energy_j * 1.001
    found = cut(profile=noisy(), budget=f"{fits}J/step")
    assert any("not with the asked confidence" in text for text in found.warnings)
    assert not found.unchanged


def test_what_is_being_done_is_told() -> None:
    told: list[str] = []
    cut(watch=told.append, score=lambda model: 0.0, fine_tune=lambda model: None)
    assert told == [
        "looking for widths",
        "scoring 8 candidates",
        "fine-tuning 1 of 2",
        "fine-tuning 2 of 2",
    ]


def test_what_cannot_be_cut() -> None:
    linear = nn.Linear(4, 2)
    profile = profile_of(read(linear, 4))
    with pytest.raises(ModelError, match="every width is tied to the inputs or the outputs"):
        prune(linear, 4, profile=profile, budget="50%")
    with pytest.raises(ModelError, match="the model's input is not known"):
        prune(net(), profile=known(), budget="50%")
    thing: Any = 3
    with pytest.raises(ModelError, match="not int"):
        prune(thing, INPUT, profile=known(), budget="50%")


def test_a_profile_that_knows_nothing_of_the_model_names_its_kinds() -> None:
    strange = LayerKind("last odd", Role.LAST, "odd")
    rows = [
        Measurement((Layer("odd", strange, Widths({"in": n})),), 1e-3 * n, 1e-4) for n in (1, 9)
    ]
    profile = ampere.fit(rows, device="pi")
    profile = replace(profile, header=replace(profile.header, model="zoo:har"))
    says = message_of(NotCovered, profile=profile, training=Training())
    assert says.startswith("the profile (it was made for zoo:har) does not cover first conv2d3x3")
    assert "last flatten+linear" in says
    paper = replace(known(), method="paper")
    assert "only the additive method makes tables" in message_of(DataError, profile=paper)


# --- scores and fine-tuning ----------------------------------------------------------------------


def test_own_score_and_fine_tuning_see_models_that_fit() -> None:
    scored: list[tuple[int, int]] = []
    trained: list[tuple[int, int]] = []

    def sizes(model: nn.Module) -> tuple[int, int]:
        return len(model.get_parameter("0.weight")), len(model.get_parameter("3.weight"))

    def score(model: nn.Module) -> float:
        assert model(torch.zeros(2, *INPUT)).shape == (2, 10)
        scored.append(sizes(model))
        return float(sizes(model)[0])  # the widest first layer wins

    def train(model: nn.Module) -> None:
        trained.append(sizes(model))

    found = cut(score=score, fine_tune=train)
    first, again = scored[:-2], scored[-2:]
    assert 2 < len(set(first)) == len(first) <= 8
    tables = known().tabulate(net(), INPUT)
    assert (tables.estimate_many(first) <= found.limit_j).all()
    assert trained == again == sorted(first, key=lambda each: -each[0])[:2]
    assert sizes(found.model) == tuple(found.widths.values()) == trained[0]
    assert found.slim.layers[0].widths["out"] == trained[0][0]


def test_digits_choose_and_train() -> None:
    bare, found = cut(), cut(data="digits", fine_tune_steps=60, learning_rate=0.1)
    data = open_data("digits", INPUT)
    assert judge(found.model, data.test).accuracy > judge(bare.model, data.test).accuracy + 0.3
    assert found.accuracy == (
        judge(net(), data.test).accuracy,
        judge(found.model, data.test).accuracy,
    )
    assert found.to_json()["after"]["accuracy"] == found.accuracy[1]
    assert "on test samples" in repr(found)
    assert bare.accuracy is None
    assert found.bound_j <= found.limit_j
    assert len(found.model.get_parameter("0.weight")) == found.widths["0.out"]


# --- metering both -------------------------------------------------------------------------------


class Counting(FakeDevice):
    """A device of known costs, in shape to be profiled."""

    def __init__(self, **given: Any) -> None:
        super().__init__(by_work, **given)


@pytest.fixture(scope="module")
def metered_profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    path = tmp_path_factory.mktemp("profile") / "p.ampere"
    strategy = ampere.Strategy(max_measurements=10, tolerance=1e-6)
    return ampere.profile(net(), INPUT, path=path, device=Counting(), strategy=strategy)


@pytest.mark.parametrize("budget", ["60%", "{}J/step"])
def test_both_are_metered_side_by_side(metered_profile: Profile, budget: str) -> None:
    device = Counting(drift=lambda clock_s: 1.0 + 0.3 * math.sin(clock_s))
    budget = budget.format(0.6 * metered_profile.estimate(net(), INPUT).energy_j)
    found = cut(profile=metered_profile, budget=budget, verify=True, device=device)
    assert found.metered is not None
    true_j = [
        exact(each, by_work).energy_j_per_step for each in (found.layers_before, found.slim.layers)
    ]
    # the moment's drift is in both, so their ratio is known better
    assert [row.energy_j_per_step for row in found.metered] == pytest.approx(true_j, rel=0.05)
    assert found.metered_ratio == pytest.approx(true_j[1] / true_j[0], rel=0.015)
    assert ": inside the budget" in repr(found)
    assert "not measured)" not in repr(found)  # it is said once, of all joules
    row = found.to_json()
    assert row["after"]["metered_j"] == found.metered[1].energy_j_per_step
    assert row["metered_ratio"] == found.metered_ratio
    assert row["metered_provenance"] == row["provenance"] == "simulated"


def test_a_model_that_is_over_its_budget_is_said_to_be(metered_profile: Profile) -> None:
    dear = Counting(interaction=lambda layers: 1.0 if layers[0].widths["out"] == 32 else 1.5)
    found = cut(profile=metered_profile, verify=True, device=dear, guide="flops")
    assert ": OVER the budget" in repr(found)


def test_a_model_that_turns_out_too_dear_is_looked_for_again(
    metered_profile: Profile,
) -> None:
    dearer = Counting(interaction=lambda layers: 1.0 if layers[0].widths["out"] == 32 else 1.1)
    said: list[str] = []
    found = cut(profile=metered_profile, verify=True, device=dearer, watch=said.append)
    assert said.count("metering 3 candidates beside the whole model") > 1
    assert ": inside the budget" in repr(found)
    assert found.metered_ratio is not None and 0.57 < found.metered_ratio <= 0.6
    assert any("took more than allowed by the meter" in text for text in found.warnings)
    assert not any("--verify" in text for text in found.warnings)
    by_flops = cut(profile=metered_profile, verify=True, device=dearer, guide="flops")
    assert not any("took more" in text for text in by_flops.warnings)  # it is to compare with


def test_what_cannot_be_made_to_fit_is_kept_and_said_to_be_over(metered_profile: Profile) -> None:
    hopeless = Counting(interaction=lambda layers: 1.0 if layers[0].widths["out"] == 32 else 9.0)
    found = cut(profile=metered_profile, verify=True, device=hopeless)
    assert ": OVER the budget" in repr(found)
    first = cut(profile=metered_profile)
    assert found.metered_ratio is not None
    assert found.metered_ratio < 9 * first.after.energy_j / first.before.energy_j  # the nearest
    assert found.to_json()["inside"] is False
    assert any("no candidate was inside the budget" in text for text in found.warnings)


def test_what_is_metered_makes_room_that_the_profile_had_kept_for_doubt(
    metered_profile: Profile,
) -> None:
    unsure = replace(metered_profile, measurements=metered_profile.measurements[:5])
    blind = cut(profile=unsure)
    found = cut(profile=unsure, verify=True, device=Counting())
    assert blind.after.energy_j / blind.before.energy_j < 0.58
    assert found.metered_ratio is not None and 0.58 < found.metered_ratio <= 0.6
    assert found.importance_kept > blind.importance_kept
    assert found.metered is not None and found.metered[1].layers == found.slim.layers
    assert found.after.energy_j == pytest.approx(found.metered[1].energy_j, rel=0.01)
    assert len(unsure.measurements) == 5  # it is left as it was


def test_a_whole_model_that_fits_by_the_estimate_alone_is_looked_into(
    metered_profile: Profile,
) -> None:
    dear = Counting(interaction=lambda layers: 1.3)
    allowed = 1.1 * metered_profile.estimate(net(), INPUT).energy_j
    found = cut(profile=metered_profile, budget=f"{allowed}J/step", verify=True, device=dear)
    assert not found.unchanged
    assert found.metered is not None and found.metered[1].energy_j <= allowed
    assert found.to_json()["inside"] is True


def test_a_fault_in_a_later_round_leaves_what_was_inside(metered_profile: Profile) -> None:
    class Tiring(Counting):
        def load(self, workload: Any) -> Any:
            if len(self.seen) > 8:  # of the second round
                raise ampere.errors.DeviceError("it went away")
            return super().load(workload)

    unsure = replace(metered_profile, measurements=metered_profile.measurements[:5])
    found = cut(profile=unsure, verify=True, device=Tiring())
    assert ": inside the budget" in repr(found)
    assert any("the search was not repeated: it went away" in each for each in found.warnings)


def test_one_that_is_just_inside_ends_it(metered_profile: Profile) -> None:
    said: list[str] = []
    cut(profile=metered_profile, verify=True, device=Counting(), confidence=0.5, watch=said.append)
    assert said == ["looking for widths", "metering 3 candidates beside the whole model"]


def test_candidates_over_the_budget_are_dropped_before_they_are_scored(
    metered_profile: Profile,
) -> None:
    scored: list[int] = []
    narrow = cut(profile=metered_profile, score=lambda model: 0.0).slim.layers[0].widths["out"]

    def score(model: nn.Module) -> float:
        scored.append(read(model, INPUT)[0].widths["out"])
        return 0.0

    odd = Counting(interaction=lambda layers: 2.0 if layers[0].widths["out"] == narrow else 1.0)
    found = cut(profile=metered_profile, verify=True, device=odd, score=score)
    assert narrow not in scored
    assert ": inside the budget" in repr(found)


def test_a_share_is_one_of_what_was_metered_and_joules_are_joules(
    metered_profile: Profile,
) -> None:
    warm = Counting(interaction=lambda layers: 3.0)  # all of it costs more than on that day
    share = cut(profile=metered_profile, verify=True, device=warm)
    assert ": inside the budget" in repr(share)
    joules = replace(share, budget=parse_budget(f"{share.limit_j} J/step"))
    assert ": OVER the budget" in repr(joules)


def test_another_device_is_refused_before_anything_is_done(metered_profile: Profile) -> None:
    def refuse(model: nn.Module) -> None:
        raise AssertionError("it was fine-tuned")

    other = Counting()
    other.fingerprint = ampere.core.fingerprint.Fingerprint({"device": "other"})
    given: dict[str, Any] = {"profile": metered_profile, "verify": True, "device": other}
    says = message_of(FingerprintError, fine_tune=refuse, **given)
    assert "device is other here, fake there" in says
    assert not other.seen
    other.provenance = Provenance.SENSOR
    found = cut(any_device=True, **given)
    assert "inside the budget (measured by a power sensor)" in repr(found)
    assert found.to_json()["provenance"] == "simulated"
    assert found.to_json()["metered_provenance"] == "sensor"
    assert found.before == metered_profile.estimate(net(), INPUT)  # its rows tell nothing of ours


def test_a_model_that_cannot_be_metered(metered_profile: Profile) -> None:
    failing = Counting()
    whole = ampere.core.workloads.Workload(read(net(), INPUT))
    failing._fails_to_load = [whole]
    with pytest.raises(ampere.errors.MeasurementFailed, match="out of memory"):
        cut(profile=metered_profile, verify=True, device=failing)


# --- what is said and saved ----------------------------------------------------------------------

KEYS = {
    *("model", "budget", "budget_j_per_step", "confidence", "before", "after", "metered_ratio"),
    *("provenance", "metered_provenance", "widths", "full_widths", "strategy", "guide"),
    *("importance", "importance_kept", "fine_tuned", "steps", "warnings", "inside"),
}


def test_plain_data() -> None:
    found = cut(strategy="gradient")
    row: Any = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert set(row) == KEYS
    for side, estimate in (("before", found.before), ("after", found.after)):
        assert set(row[side]) == {"estimate_j", "interval_j", "metered_j", "accuracy"}
        assert row[side]["estimate_j"] == estimate.energy_j
        low, high = row[side]["interval_j"]
        assert low < estimate.energy_j < high
        assert row[side]["metered_j"] is None
    assert row["budget_j_per_step"] == pytest.approx(0.6 * row["before"]["estimate_j"])
    assert (row["budget"], row["strategy"], row["guide"]) == ("60%", "gradient", "energy")
    assert row["metered_ratio"] is row["metered_provenance"] is None
    assert row["provenance"] == "simulated"
    assert row["widths"] == {"0.out": len(found.model.get_parameter("0.weight")),
                             "3.out": len(found.model.get_parameter("3.weight"))}  # fmt: skip
    assert row["full_widths"] == {"0.out": 32, "3.out": 48}


@pytest.mark.parametrize("trouble", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_no_half_folder_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: BaseException
) -> None:
    found = cut(strategy="gradient")

    def write_half(folder: Path, *rest: Any) -> None:
        (folder / "model.py").write_text("half")
        raise trouble

    monkeypatch.setattr("ampere.pytorch.pruning.files.write_model", write_half)
    (tmp_path / "there").mkdir()
    for name in ("new", "there"):
        with pytest.raises((DataError, KeyboardInterrupt)) as caught:
            found.save(tmp_path / name)
        if isinstance(trouble, OSError):
            says = f"cannot write {tmp_path / name}: No space left on device"
            assert str(caught.value) == says
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert not any((tmp_path / "there").iterdir())


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    found = cut(strategy="gradient")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name, says in (
        ("full", "is there already"),
        ("file", "is there already"),
        ("file/below", "file is no folder that you may write to"),
    ):
        with pytest.raises(DataError, match=says):
            found.save(tmp_path / name)
    (tmp_path / "empty").mkdir()
    found.save(tmp_path / "empty")
    found.save(tmp_path / "deep" / "down")
    assert (tmp_path / "deep" / "down" / "model.py").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "empty", "file", "full"]
    assert (tmp_path / "full" / "precious").read_text() == "mine"
    assert oct((tmp_path / "empty").stat().st_mode)[-3:] == "755"
    assert oct((tmp_path / "empty" / "model.safetensors").stat().st_mode)[-3:] == "644"


CONV = LayerKind("hidden conv2d3x3+relu @inx32x32 b10", Role.HIDDEN, "conv2d", {"batch": 10})
FC = LayerKind("last flatten+linear @inx32x32 b10", Role.LAST, "linear", {"batch": 10})


def layers_of(*widths: int) -> tuple[Layer, ...]:
    sizes = (widths[0], *widths)
    convs = [
        Layer(f"block{i}", CONV, Widths({"in": a, "out": b}))
        for i, (a, b) in enumerate(zip(sizes, widths, strict=False))
    ]
    return (*convs, Layer("head", FC, Widths({"in": widths[-1]})))


def an_estimate(joules: tuple[float, ...], layers: tuple[Layer, ...]) -> Estimate:
    return Estimate(
        tuple(
            Line(layer, Cost(energy_j, 0.1 * energy_j, 1.0, 0.1))
            for layer, energy_j in zip(layers, joules, strict=True)
        ),
        sum(joules) + 0.002,
        0.05 * sum(joules),
        3.0,
        0.1,
        device="pi, Cortex-A72, 4 cores, 4 threads, cpu, torch 2.6.0",
        provenance=Provenance.COUNTER,
    )


def a_pruning(**changes: Any) -> Pruning:
    was, now = layers_of(64, 64, 64, 128), layers_of(48, 48, 48, 37)
    metered = tuple(
        Measurement(layers, energy_j, 0.1, provenance=Provenance.COUNTER)
        for layers, energy_j in ((was, 0.185), (now, 0.088))
    )
    fields: dict[str, Any] = {
        "name": "zoo:cnn5",
        "budget": parse_budget("800 J"),
        "limit_j": 0.1,
        "search": Search(strategy="evolution", confidence=0.95),
        "before": an_estimate((0.05, 0.05, 0.05, 0.03, 0.006), was),
        "after": an_estimate((0.02, 0.02, 0.02, 0.02, 0.0053), now),
        "layers_before": was,
        "slim": Slim(nn.Identity(), now, {}, {}, rebuilt=False),
        "widths": {"block0.in": 48, "block3.out": 37},
        "full_widths": {"block0.in": 64, "block3.out": 128},
        "importance_kept": 0.6254,
        "ratios": {},
        "steps": 8000,
        "fine_tune_steps": 400,
        "metered": metered,
        "source": "zoo:cnn5",
        "warnings": ("left as they are, nothing in a training step uses them: spare",),
    }
    return Pruning(**{**fields, **changes})


def an_unchanged_pruning() -> Pruning:
    whole = a_pruning()
    return a_pruning(
        budget=parse_budget("120%"),
        limit_j=1.2 * whole.before.energy_j,
        after=whole.before,
        slim=replace(whole.slim, layers=whole.layers_before),
        widths=whole.full_widths,
        steps=None,
        fine_tune_steps=0,
        metered=None,
        warnings=(),
    )


@pytest.mark.parametrize(
    ("name", "make"), [("prune", a_pruning), ("prune_unchanged", an_unchanged_pruning)]
)
def test_what_is_printed_is_what_was_agreed_on(name: str, make: Callable[[], Pruning]) -> None:
    said = repr(make()) + "\n"
    assert said == agreed(f"{name}.txt", said)
    page = make()._repr_html_()
    for line in said.splitlines():
        if line.strip("─"):
            assert line.split()[0] in page


def test_an_accuracy_says_what_was_fine_tuned() -> None:
    bare, tuned = (
        repr(a_pruning(accuracy=(0.834, 0.976), fine_tuned=each)) for each in (False, True)
    )
    assert "97.6 % on test samples, 83.4 % before it was cut; neither was fine-tuned" in bare
    assert "97.6 % on test samples, cut and fine-tuned; 83.4 % before it was cut, where" in tuned
    assert "train the whole model as long" in tuned


def test_a_notebook_draws_before_after_and_the_budget() -> None:
    page = a_pruning()._repr_html_()
    assert page.count("<span") == 3 + 3  # ranges, and shares of three rows
    assert "budget" not in {each.name for each in a_pruning(limit_j=1.0)._ranges()}


# --- Torch-Pruning -------------------------------------------------------------------------------


def pruned_by_them(model: nn.Module, found: Pruning, shape: tuple[int, ...]) -> nn.Module:
    """What Torch-Pruning makes of a model with our ratios, and nothing else said."""
    tp = pytest.importorskip("torch_pruning")
    theirs = copy.deepcopy(model)
    pruner = tp.pruner.BasePruner(
        theirs,
        torch.zeros(2, *shape),
        importance=tp.importance.MagnitudeImportance(p=2),
        pruning_ratio_dict=found.pruning_ratio_dict(theirs),
        global_pruning=False,
    )
    pruner.step()
    return theirs


def test_torch_pruning_cuts_a_chain_as_we_do() -> None:
    model = net(norm=False)
    found = prune(model, INPUT, profile=profile_of(read(model, INPUT)), budget="60%")
    assert not found.unchanged
    same(pruned_by_them(model, found, INPUT), found.model)


def test_torch_pruning_cuts_what_a_residual_joins_as_we_do() -> None:
    family = find_family("resnet")
    torch.manual_seed(1)
    model = family.build(depth=8)
    profile = profile_of(read(model, family.input))
    found = prune(model, family.input, profile=profile, budget="60%")
    assert len(found.widths) == 3 and not found.unchanged
    ratios = found.pruning_ratio_dict(model)
    assert ratios[model.get_submodule("fc")] == 0.0  # or a pruner would cut it by its own ratio
    # Every convolution has the ratio of its group, so it does not matter whose a pruner takes.
    assert len({*ratios.values()}) == 4
    theirs = pruned_by_them(model, found, (3, 32, 32))
    same(theirs, found.model)


@pytest.mark.parametrize("size", [1, 7, 31, 100])
def test_ratios_come_to_whole_channels(size: int) -> None:
    model = nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 3))
    slimmer = ampere.pytorch.models.make_slimmer(model, 4)
    ratios = slimmer.ratios({"0.out": size})
    assert int(100 * (1 - ratios["0"])) == size
    assert ratios["2"] == 0.0
