"""Every family, its original and its members, run as they would in training."""

import random
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ampere.core.inputs import Inputs, InputSpec
from ampere.errors import ModelError
from ampere.pytorch.runtime.loader import load_model
from ampere.zoo.families import family_names, find_family

CLASSES = {"lenet5": 10, "cnn5": 10, "har": 6, "lstm": 4, "transformer": 10, "resnet": 10}
FAMILIES = pytest.mark.parametrize("name", family_names())


def batch_of(spec: InputSpec) -> Tensor:
    """A batch of two; token ids include the largest."""
    if spec.dtype == "int64":
        assert spec.below is not None
        tokens = torch.randint(spec.below, (2, *spec.shape))
        tokens[0, 0] = spec.below - 1
        return tokens
    return torch.randn(2, *spec.shape)


def assert_trains(model: nn.Module, inputs: Inputs, classes: int) -> None:
    (spec,) = inputs
    output = model(batch_of(spec))
    assert output.shape == (2, classes)
    torch.autograd.backward(nn.functional.cross_entropy(output, torch.tensor([0, 1])))
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def test_the_zoo_is_the_papers() -> None:
    assert set(family_names()) == set(CLASSES)


@FAMILIES
def test_the_original_trains(name: str) -> None:
    family = find_family(name)
    assert_trains(family.build(), family.input, CLASSES[name])


@FAMILIES
def test_sampled_members_train(name: str) -> None:
    family = find_family(name)
    rng = random.Random(0)
    for _ in range(20):
        assert_trains(family.build(**family.sample(rng)), family.input, CLASSES[name])


@FAMILIES
def test_samples_stay_within_bounds_and_reach_them(name: str) -> None:
    family = find_family(name)
    rng = random.Random(1)
    samples = [family.sample(rng) for _ in range(2000)]

    def flat(value: Any) -> list[int]:
        return value if isinstance(value, list) else [value]

    for argument in samples[0]:
        original = flat(family.defaults[argument])
        choices = family.choices.get(argument)
        for drawn, top in zip(
            zip(*(flat(s[argument]) for s in samples), strict=True), original, strict=True
        ):
            allowed = set(range(1, top + 1)) if choices is None else set(choices)
            assert set(drawn) == allowed


def test_samples_vary_what_the_paper_varies() -> None:
    drawn = {name: set(find_family(name).sample(random.Random(2))) for name in family_names()}
    assert drawn == {
        "lenet5": {"channels", "hidden"},
        "cnn5": {"channels"},
        "har": {"channels", "hidden"},
        "lstm": {"embedding", "hidden"},
        "transformer": {"d_model", "layers"},
        "resnet": {"widths", "depth"},
    }
    assert max(find_family("transformer").choices["d_model"]) == 128


def test_sampling_repeats_with_its_seed() -> None:
    cnn5 = find_family("cnn5")
    assert cnn5.sample(random.Random(3)) == cnn5.sample(random.Random(3))
    assert cnn5.sample(random.Random(3)) != cnn5.sample(random.Random(4))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("lenet5", 61_706),
        ("cnn5", 896 + 18_496 + 73_856 + 147_584 + 5_130),
        ("lstm", 2000 * 64 + 4 * 128 * (64 + 128 + 2) + 128 * 4 + 4),
    ],
)
def test_parameters_of_the_original(name: str, count: int) -> None:
    assert parameters(find_family(name).build()) == count


@FAMILIES
def test_text_of_a_member_loads_it(name: str) -> None:
    family = find_family(name)
    arguments = family.sample(random.Random(5))
    model, spec = load_model(family.describe(arguments))
    assert spec == family.input
    shapes = [p.shape for p in model.parameters()]
    assert shapes == [p.shape for p in family.build(**arguments).parameters()]


def test_text_of_a_member() -> None:
    cnn5 = find_family("cnn5")
    assert cnn5.describe({}) == "zoo:cnn5"
    text = "zoo:cnn5(channels=[16, 32, 64, 64])"
    assert cnn5.describe({"channels": [16, 32, 64, 64]}) == text


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("block", "convolutions"), [("basic", 2), ("bottleneck", 3)])
def test_depth_counts_the_layers_of_a_resnet(n: int, block: str, convolutions: int) -> None:
    depth = 3 * convolutions * n + 2
    resnet = find_family("resnet").build(depth=depth, block=block)
    kernels = [m for m in resnet.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    projections = [
        child
        for m in resnet.modules()
        for name, child in m.named_children()
        if name == "shortcut" and not isinstance(child, nn.Identity)
    ]
    assert len(projections) == 2  # only where a stage begins with a stride
    assert len(kernels) - len(projections) == depth


def test_resnet_with_its_own_blocks() -> None:
    resnet = find_family("resnet")
    assert_trains(resnet.build(blocks=[1, 3, 2]), resnet.input, 10)
    assert_trains(
        resnet.build(block="bottleneck", blocks=(2, 1, 1), widths=[8, 4, 12]), resnet.input, 10
    )
    same = parameters(resnet.build(blocks=[3, 3, 3]))
    assert same == parameters(resnet.build(depth=20)) == parameters(resnet.build())


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("cnn5", {"widths": [1, 2, 3, 4]}, "no argument 'widths'; it takes channels"),
        ("cnn5", {"channels": [1, 2, 3]}, r"e\.g\. zoo:cnn5\(channels=\[32, 64, 128, 128\]\)"),
        ("cnn5", {"channels": [1, 2, 3, 0]}, "cannot have channels"),
        ("cnn5", {"channels": [1, 2, 3, 4.5]}, "cannot have channels"),
        ("cnn5", {"channels": 64}, "cannot have channels"),
        ("lstm", {"hidden": True}, "cannot have hidden"),
        ("transformer", {"d_model": 30}, "multiple of the 4 heads"),
        ("resnet", {"depth": 21}, "use 8, 14, 20, 26, 32"),
        ("resnet", {"depth": 2}, "no depth 2"),
        ("resnet", {"block": "wide"}, "use basic or bottleneck"),
        ("resnet", {"block": "bottleneck", "widths": [8, 10, 16]}, "multiple of 4"),
        ("resnet", {"blocks": [1, 2]}, "three numbers"),
        ("resnet", {"blocks": [1, 2, 0]}, "three numbers"),
    ],
)
def test_members_that_cannot_be(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        find_family(name).build(**arguments)


def test_unknown_family_lists_the_known() -> None:
    with pytest.raises(ModelError, match="no 'alexnet'; it has lenet5, cnn5, har, lstm"):
        find_family("alexnet")


def test_listing_and_sampling_need_no_torch() -> None:
    code = (
        "import random, sys\n"
        "from ampere.zoo.families import family_names, find_family\n"
        "for family in map(find_family, family_names()):\n"
        "    family.describe(family.sample(random.Random()))\n"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
