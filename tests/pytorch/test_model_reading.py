"""Models to layers: nothing is lost or counted twice, and members of a family share kinds."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils.parametrizations import weight_norm

from ampere.core.inputs import Inputs, InputSpec, parse_inputs
from ampere.core.layers import Layer, Role
from ampere.core.program.sizes import Size
from ampere.core.program.structure import Structure
from ampere.core.program.terms import ValueRef
from ampere.core.training import Training
from ampere.errors import ModelError
from ampere.pytorch.graph.flops import flop_counter
from ampere.pytorch.graph.model_reading import read_layers
from ampere.pytorch.runtime.trainer import synthetic_inputs
from ampere.zoo.families import family_names, find_family
from written import Written

FAMILIES = pytest.mark.parametrize("name", family_names())
LAYERS = {"lenet5": 5, "cnn5": 5, "har": 5, "lstm": 3, "transformer": 2 + 2 * 4, "resnet": 2 + 9}


def read(model: nn.Module, *shape: int, batch: int = 10) -> tuple[Layer, ...]:
    return read_layers(model, Inputs((InputSpec(shape),)), Training(batch))


def operations(layers: tuple[Layer, ...]) -> list[str]:
    """What each layer does, out of names such as `first conv2d5x5+relu @1x28x28 ...`."""
    return [layer.kind.name.split()[1] for layer in layers]


def structure(layer: Layer) -> Structure:
    assert layer.kind.structure is not None
    return layer.kind.structure


def assert_complete(layers: tuple[Layer, ...], model: nn.Module, inputs: Inputs) -> None:
    """Parameters and FLOPs of the layers are those of the model."""
    assert sum(layer.params or 0 for layer in layers) == sum(p.numel() for p in model.parameters())
    whole = copy.deepcopy(model).to("meta").train()
    args, kwargs = synthetic_inputs(inputs, 10, "meta")
    with flop_counter() as counter:
        whole(*args, **kwargs).sum().backward()
    assert sum(layer.features.flops or 0 for layer in layers) == counter.get_total_flops()


@functools.cache
def members(name: str) -> list[tuple[nn.Module, tuple[Layer, ...]]]:
    """The original of a family, two that were drawn, and their layers."""
    family, rng = find_family(name), random.Random(7)
    models = [family.build(), *(family.build(**family.sample(rng)) for _ in range(2))]
    return [(model, read_layers(model, family.input)) for model in models]


@FAMILIES
def test_nothing_is_lost_or_counted_twice(name: str) -> None:
    for model, layers in members(name):
        assert_complete(layers, model, find_family(name).input)


@FAMILIES
def test_first_hidden_last(name: str) -> None:
    _, layers = members(name)[0]
    assert len(layers) == LAYERS[name]
    hidden = [Role.HIDDEN] * (len(layers) - 2)
    assert [layer.kind.role for layer in layers] == [Role.FIRST, *hidden, Role.LAST]
    assert len({layer.name for layer in layers}) == len(layers)


@FAMILIES
def test_one_profile_serves_the_family(name: str) -> None:
    original, *others = ({layer.kind for layer in layers} for _, layers in members(name))
    assert len(original) <= 7
    assert all(kinds <= original for kinds in others)


@pytest.mark.parametrize("depth", [8, 14, 32])
def test_depth_adds_no_kinds(depth: int) -> None:
    layers = read_layers(find_family("resnet").build(depth=depth), parse_inputs("3x32x32"))
    assert len(layers) == 2 + (depth - 2) // 2
    assert {layer.kind for layer in layers} <= {layer.kind for layer in members("resnet")[0][1]}


@FAMILIES
def test_the_batch_is_part_of_the_kind_but_not_of_its_shapes(name: str) -> None:
    model, ten = members(name)[0]
    eleven = read_layers(model, find_family(name).input, Training(11))
    for one, other in zip(ten, eleven, strict=True):
        assert one.kind != other.kind
        assert one.kind.structure == other.kind.structure


def test_the_optimiser_is_part_of_the_kind() -> None:
    model, inputs = find_family("cnn5").build(), parse_inputs("3x32x32")
    sgd, adam = (read_layers(model, inputs, Training(optimizer=name)) for name in ("sgd", "adam"))
    assert not {layer.kind for layer in sgd} & {layer.kind for layer in adam}


def test_functions_and_modules_are_both_understood() -> None:
    modules = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 9, 3)
    )
    functions = Written(
        lambda m, x: m.b(torch.flatten(F.max_pool2d(F.relu(m.a(x)), 2), 1)),
        a=nn.Conv2d(1, 4, 3),
        b=nn.Linear(4 * 9, 3),
    )
    for layers in (read(modules, 1, 8, 8), read(functions, 1, 8, 8)):
        assert [dict(layer.widths) for layer in layers] == [{"out": 4}, {"in": 4}]
    assert operations(read(modules, 1, 8, 8)) == ["conv2d3x3+relu+maxpool2d2", "flatten+linear"]
    assert operations(read(functions, 1, 8, 8)) == ["conv2d3x3+relu+max_pool2d", "flatten+linear"]


def test_what_gives_up_the_map_belongs_to_the_layer_behind_it() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5), nn.Dropout(), nn.Linear(5, 3),
    )  # fmt: skip
    assert operations(read(model, 3, 8, 8)) == [
        "conv2d3x3+batchnorm2d+relu",
        "conv2d3x3+batchnorm2d+relu+maxpool2d2",
        "adaptiveavgpool2d+flatten+linear+dropout",
        "linear",
    ]


@pytest.mark.parametrize(
    "flatten",
    [
        lambda x: x.view(-1, 16 * 5 * 5),
        lambda x: x.view(x.size(0), -1),
        lambda x: x.reshape(x.shape[0], 400),
        lambda x: x.flatten(1),
    ],
)
def test_flattening_is_understood_however_it_is_written(
    flatten: Callable[[Tensor], Tensor],
) -> None:
    model = Written(
        lambda m, x: m.b(flatten(F.relu(m.a(x)))), a=nn.Conv2d(1, 16, 4), b=nn.Linear(400, 3)
    )
    first, last = read(model, 1, 8, 8)
    assert (dict(first.widths), dict(last.widths)) == ({"out": 16}, {"in": 16})
    assert "400" not in str(structure(last).to_json())


def test_a_reshape_that_mixes_channels_and_positions_is_understood() -> None:
    model = Written(
        lambda m, x: m.c(m.b(m.a(x).reshape(-1, 3, 32)).mean(1)),
        a=nn.Conv2d(1, 6, 5), b=nn.Linear(32, 7), c=nn.Linear(7, 2),
    )  # fmt: skip
    layers = read(model, 1, 8, 8)
    assert [dict(layer.widths) for layer in layers] == [
        {"out": 32},
        {"in": 32, "out": 7},
        {"in": 7},
    ]
    assert structure(layers[0]).calls[0].arguments["out_channels"] == Size("out", 3, 16)
    assert structure(layers[0]).multiples == {"out": 16}  # 3 channels of 16 positions
    assert_complete(layers, model, parse_inputs("1x8x8"))


def test_what_takes_the_channels_one_by_one_pins_the_widths() -> None:
    model = Written(
        lambda m, x: m.c(m.b(torch.stack(m.a(x).unbind(1)[::-1], 1).flatten(1))),
        a=nn.Conv2d(1, 6, 5), b=nn.Linear(96, 7), c=nn.Linear(7, 2),
    )  # fmt: skip
    layers = read(model, 1, 8, 8)
    assert [dict(layer.widths) for layer in layers] == [{}, {"out": 7}, {"in": 7}]
    assert_complete(layers, model, parse_inputs("1x8x8"))


def test_concatenated_widths_vary_in_proportion() -> None:
    model = Written(
        lambda m, x: m.c(torch.cat([m.a(x), m.b(x)], 1)),
        a=nn.Linear(4, 6), b=nn.Linear(4, 4), c=nn.Linear(10, 3),
    )  # fmt: skip
    layers = read(model, 4)
    assert [dict(layer.widths) for layer in layers] == [{"out": 6}, {"width": 6}, {"in": 10}]
    assert [structure(layer).multiples for layer in layers] == [{"out": 3}, {"width": 3}, {"in": 5}]
    assert structure(layers[1]).output == (Size("width", 5, 3),)


def test_several_inputs_are_read_each_by_the_layer_that_needs_it() -> None:
    def forward(m: Any, x: Tensor, *, ids: Tensor) -> Tensor:
        y = m.a(x)
        return m.d(F.relu(m.c(y + m.b(ids).mean(1))) + y)

    model = Written(
        forward, a=nn.Linear(4, 6), b=nn.Embedding(9, 6), c=nn.Linear(6, 6), d=nn.Linear(6, 3)
    )
    inputs = parse_inputs("4, ids=5:int64<9")
    layers = read_layers(model, inputs)
    assert [layer.name for layer in layers] == ["a", "b", "c", "d"]
    assert [layer.kind.role for layer in layers] == [
        Role.FIRST, Role.FIRST, Role.HIDDEN, Role.LAST,
    ]  # fmt: skip
    assert [set(layer.reads) for layer in layers] == [
        {(-1, 0)}, {(-1, 1)}, {(0, 0), (1, 0)}, {(2, 0)},
    ]  # fmt: skip
    (ids,) = structure(layers[1]).inputs
    assert (ids.shape, ids.dtype, ids.below) == ((5,), "int64", 9)
    assert_complete(layers, model, inputs)


def test_a_width_of_one_is_a_width_too() -> None:
    family = find_family("resnet")
    narrow, wide = (
        read_layers(family.build(depth=8, widths=widths), family.input)
        for widths in ([1, 2, 3], [16, 32, 64])
    )
    assert [layer.kind for layer in narrow] == [layer.kind for layer in wide]
    assert [tuple(layer.widths.values()) for layer in narrow] == [(1,), (1,), (1, 2), (2, 3), (3,)]


def test_a_plain_perceptron() -> None:
    model = nn.Sequential(
        nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 3)
    )
    layers = read(model, 8)
    assert operations(layers) == ["linear+tanh", "linear+tanh", "linear"]
    assert [layer.name for layer in layers] == ["0", "2", "4"]
    assert dict(layers[1].widths) == {"in": 16, "out": 12}
    assert_complete(layers, model, parse_inputs("8"))


def test_bare_parameters_belong_to_the_layer_that_needs_them() -> None:
    family = find_family("transformer")
    layers = read_layers(family.build(d_model=8), family.input)
    assert layers[0].params == 1000 * 8 + 64 * 8


def test_residual_additions_tie_widths() -> None:
    _, layers = members("resnet")[0]
    same, wider = ("width",), ("in", "out")  # a block that widens has a projection beside it
    blocks = [same, same, same, wider, same, same, wider, same, same]
    assert [tuple(layer.widths) for layer in layers] == [("out",), *blocks, ("in",)]


def test_depthwise_convolutions_tie_widths_and_grouped_ones_need_multiples() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, groups=8), nn.Conv2d(8, 12, 1, groups=4),
        nn.Flatten(), nn.Linear(12 * 16, 3),
    )  # fmt: skip
    layers = read(model, 3, 8, 8)
    assert dict(layers[1].widths) == {"width": 8}
    assert dict(structure(layers[2]).multiples) == {"in": 4, "out": 4}
    assert_complete(layers, model, IMAGE)


def add_in_place(m: Any, x: Tensor) -> Any:
    x = m.a(x)
    x += m.b(x.mean(2))[:, :, None]
    return m.c(x.flatten(1))


SHARED = nn.Linear(8, 8)
VECTOR, SERIES, IMAGE, TOKENS = map(parse_inputs, ("4", "4x16", "3x8x8", "5:int64<20"))
USERS: dict[str, tuple[Inputs, nn.Module]] = {
    "transposed": (SERIES, Written(
        lambda m, x: m.c(F.relu(m.b(F.relu(m.a(x)))).transpose(1, 2)).mean(1),
        a=nn.Conv1d(4, 6, 3), b=nn.Conv1d(6, 9, 3), c=nn.Linear(9, 2))),
    "transposed by name": (SERIES, Written(
        lambda m, x: m.b(m.a(x).transpose(dim0=1, dim1=2)),
        a=nn.Conv1d(4, 6, 3), b=nn.Linear(6, 2))),
    "permuted by name": (SERIES, Written(
        lambda m, x: m.b(torch.permute(m.a(x), dims=(0, 2, 1))),
        a=nn.Conv1d(4, 6, 3), b=nn.Linear(6, 2))),
    "in-place activations": (IMAGE, nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.Conv2d(4, 6, 3), nn.ReLU(inplace=True),
        nn.Flatten(), nn.Linear(6 * 16, 3))),
    "added in place to what enters": (SERIES, Written(
        add_in_place, a=nn.Conv1d(4, 5, 3), b=nn.Linear(5, 5), c=nn.Linear(5 * 14, 3))),
    "halved by a gate": (VECTOR, nn.Sequential(nn.Linear(4, 10), nn.GLU(), nn.Linear(5, 3))),
    "upsampled": (IMAGE, nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.Upsample(scale_factor=2), nn.Conv2d(8, 4, 3),
        nn.Flatten(), nn.Linear(4 * 14 * 14, 3))),
    "concatenated": (VECTOR, Written(
        lambda m, x: m.c(torch.cat([m.a(x), m.b(x)], 1)),
        a=nn.Linear(4, 5), b=nn.Linear(4, 6), c=nn.Linear(11, 3))),
    "a layer used twice": (VECTOR, nn.Sequential(
        nn.Linear(4, 8), SHARED, nn.ReLU(), SHARED, nn.ReLU(), nn.Linear(8, 3))),
    "an embedding used as head": (TOKENS, Written(
        lambda m, x: F.linear(m.b(m.a(x)), m.a.weight), a=nn.Embedding(20, 4), b=nn.Linear(4, 4))),
    "positions counted by arange": (TOKENS, Written(
        lambda m, x: m.c((m.a(x) + m.b(torch.arange(x.shape[1], device=x.device))).mean(1)),
        a=nn.Embedding(20, 4), b=nn.Embedding(5, 4), c=nn.Linear(4, 3))),
    "both directions of an LSTM": (TOKENS, Written(
        lambda m, x: m.c(m.b(m.a(x))[0][:, -1]), a=nn.Embedding(20, 4),
        b=nn.LSTM(4, 6, batch_first=True, bidirectional=True), c=nn.Linear(12, 3))),
    "a parameter alone": (VECTOR, Written(lambda m, x: x * m.p, p=nn.Parameter(torch.ones(4)))),
    "normalised weights": (VECTOR, nn.Sequential(weight_norm(nn.Linear(4, 8)), nn.Linear(8, 3))),
}  # fmt: skip


@pytest.mark.parametrize("name", USERS)
def test_nothing_is_lost_of_what_users_write(name: str) -> None:
    inputs, model = USERS[name]
    assert_complete(read_layers(model, inputs), model, inputs)


def test_shapes_between_layers_start_with_the_batch() -> None:
    model = Written(
        lambda m, x: m.h(m.r(m.e(x))[1][0][-1]),  # the last state: layers × batch × hidden
        e=nn.Embedding(20, 4), r=nn.LSTM(4, 6, batch_first=True), h=nn.Linear(6, 3),
    )  # fmt: skip
    ten, eleven = (read_layers(model, TOKENS, Training(n)) for n in (10, 11))
    shapes = [
        [layer.kind.structure.input for layer in layers if layer.kind.structure]
        for layers in (ten, eleven)
    ]
    assert shapes[0] == shapes[1]


def test_frozen_layers_are_kinds_of_their_own() -> None:
    def layers(*frozen: int) -> tuple[Layer, ...]:
        model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)))
        for i in frozen:
            model[i].requires_grad_(False)
        return read(model, 8)

    def input_grads(*frozen: int) -> list[bool]:
        return [
            bool(layer.kind.structure and layer.kind.structure.input_grad)
            for layer in layers(*frozen)
        ]

    assert input_grads() == [False, True, True, True]
    assert input_grads(0) == [False, False, True, True]
    assert input_grads(0, 1) == [False, False, False, True]
    assert input_grads(1) == [False, True, True, True]
    free, frozen = layers()[1], layers(1)[1]
    assert free.kind == layers()[2].kind
    assert frozen.kind != free.kind
    assert "frozen" in frozen.kind.name
    assert layers(0)[1].kind not in (free.kind, frozen.kind)
    assert (frozen.features.flops or 0) < (free.features.flops or 0)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_a_layer_without_any_channel_is_refused() -> None:
    with pytest.raises(ModelError, match="out is not a whole size at out=0"):
        read(nn.Sequential(nn.Linear(8, 0), nn.Linear(0, 3)), 8)


def test_reading_leaves_the_model_as_it_was() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 36, 3))
    model[1].eval()
    before = copy.deepcopy(model.state_dict())
    read(model, 3, 8, 8)
    assert [module.training for module in model] == [True, False, True, True]
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert model(torch.randn(2, 3, 8, 8)).shape == (2, 3)
    assert "forward" not in vars(model[0])


@pytest.mark.parametrize(
    ("model", "batch", "reason"),
    [
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(7, 3)), 10,
         r"Sequential does not run on an input of 10x\(3x8x8\): in 2: .* \(10x144 and 7x3\)$"),
        (nn.Sequential(nn.Conv2d(3, 4, 8), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 3)), 1,
         r"an input of 1x\(3x8x8\): in 1: .*; use a batch size of 2 or more$"),
        (nn.Sequential(nn.Flatten(), nn.ReLU()), 10, "^Sequential has no layer with parameters"),
        (Written(lambda m, x: None, a=nn.Linear(8, 3)), 10, ": it returns no tensor$"),
        (Written(lambda m, x, y: m.a(x + y), a=nn.Linear(8, 3)), 10, "'y'; name each input"),
    ],
    ids=["wrong shape", "one value a channel", "no parameters", "no tensor", "another input"],
)  # fmt: skip
def test_what_cannot_be_read_is_told_in_one_line(model: nn.Module, batch: int, reason: str) -> None:
    with pytest.raises(ModelError, match=reason) as caught:
        read(model, 3, 8, 8, batch=batch)
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_what_cannot_be_followed_is_refused() -> None:
    model = nn.Sequential(torch.jit.script(nn.Linear(8, 8)), nn.Linear(8, 3))
    with pytest.raises(ModelError, match="in 1: a tensor comes from code that cannot be followed"):
        read(model, 8)


def _chain(middle: nn.Module | None = None) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(8, 16), nn.ReLU(), middle or nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)
    )


def test_what_runs_without_gradients_is_frozen() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        with torch.no_grad():
            x = self.body(x)
        return self.head(x)

    model = Written(forward, body=_chain()[:4], head=nn.Linear(16, 4))
    first, hidden, last = read(model, 8)
    assert "frozen" in first.kind.name and "frozen" in hidden.kind.name
    assert last.kind.structure is not None and not last.kind.structure.input_grad


def test_reading_without_gradients_is_the_same() -> None:
    with torch.no_grad():
        quiet = read(_chain(), 8, batch=7)
    _, hidden, _ = quiet
    assert quiet == read(_chain(), 8, batch=7)
    assert hidden.features.flops == 3 * 2 * 7 * 16 * 16  # forward, and two products backward


def test_a_layer_of_which_a_part_is_frozen_is_a_kind_of_its_own() -> None:
    whole, part = _chain(), _chain()
    part[2].weight.requires_grad_(False)
    ours, theirs = (read(model, 8)[1] for model in (whole, part))
    assert ours.kind != theirs.kind
    assert ours.features.flops > theirs.features.flops


def test_recurrent_layers_keep_their_nonlinearity() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.head(self.rnn(self.table(x))[0][:, -1])

    def hidden(**options: Any) -> Layer:
        held = {"table": nn.Embedding(9, 8), "head": nn.Linear(8, 4)}
        model = Written(forward, rnn=nn.RNN(8, 8, batch_first=True, **options), **held)
        return read_layers(model, parse_inputs("5:int64<9"))[1]

    assert hidden().kind != hidden(nonlinearity="relu").kind


def test_assignments_are_calls() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        x = self.a(x).clone()
        x[:, 0] = 0
        return self.b(x)

    first, _ = read(Written(forward, a=nn.Linear(8, 8), b=nn.Linear(8, 4)), 8)
    assert first.kind.structure is not None
    assert first.kind.structure.calls[-1].op.endswith("__setitem__")


def test_a_model_with_nothing_to_train_is_refused() -> None:
    from ampere.pytorch.models import read

    frozen = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).requires_grad_(False)
    with pytest.raises(ModelError, match="nothing to train"):
        read(frozen, 4)


class LooksAtItsState(nn.Module):
    """Computes something of the LSTM's state that nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.lstm = nn.LSTM(6, 8, batch_first=True)
        self.last = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, (state, _) = self.lstm(self.first(x))
        state.sum()  # dead for the output
        return self.last(y)


def test_a_dead_call_does_not_decide_what_a_layer_hands_on() -> None:
    layers = read(LooksAtItsState(), 5, 4)
    lstm = layers[1].kind.structure
    assert lstm is not None
    assert lstm.result == ValueRef(1, (0,))  # the output, not the state
    assert lstm.output == (5, Size("out"))


class Looking(nn.Module):
    """Chooses by a value what runs; `batches` are those that it saw for real."""

    batches: ClassVar[list[int]] = []

    def __init__(self, by_sample: bool = False, by_weight: bool = False) -> None:
        super().__init__()
        self.body, self.other, self.head = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 3)
        self.by_sample, self.by_weight = by_sample, by_weight

    def forward(self, x: Tensor) -> Tensor:
        if not x.is_meta:
            self.batches.append(len(x))
        seen = self.body(x).detach() if self.by_weight else x
        chosen = self.body if bool(torch.isfinite(seen).all()) else self.other
        out = F.relu(chosen(x))
        for _ in range(int((seen[:, 0] > -1e9).sum()) if self.by_sample else 1):
            out = out + 1
        return self.head(out)


@pytest.mark.parametrize("by_sample", [False, True])
def test_a_model_that_looks_at_its_inputs_is_never_run_for_real(by_sample: bool) -> None:
    Looking.batches.clear()
    with torch.device("meta"):
        model = Looking(by_sample)
    layers = read(model, 8, batch=5)
    assert Looking.batches == []
    assert sum(layer.params or 0 for layer in layers) == 8 * 16 + 16 + 16 * 3 + 3


class Masking(nn.Module):
    """Looks at a mask that it makes of ids, in place and through views, as bart does."""

    def __init__(self, spoilt: bool = False) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(9, 8), nn.Linear(8, 3)
        self.spoilt = spoilt

    def forward(self, ids: Tensor) -> Tensor:
        shifted = ids.new_zeros(ids.shape)
        shifted[:, 1:] = ids[:, :-1].clone()
        shifted[:, 0] = 4
        if self.spoilt:
            shifted[:, 0] = self.table(ids)[:, 0, 0].long().clamp(0, 8)
        mask = shifted.ne(-1).all()
        out = self.table(shifted)
        return self.head(out if mask else out * 2)


def read_masked(model: nn.Module) -> tuple[Layer, ...]:
    return read_layers(model, parse_inputs("6:int64<9"), Training(4))


def test_masks_of_ids_are_seen_without_weights() -> None:
    with torch.device("meta"):
        model = Masking()
    assert [layer.params for layer in read_masked(model)] == [72, 27]


WAYS_TO_LOOK: list[Callable[[Tensor], bool]] = [
    lambda ids: -1 in ids,
    lambda ids: torch.equal(ids, ids - 1),
    lambda ids: torch.allclose(ids, ids - 1),
    lambda ids: torch.is_nonzero(ids.min() < 0),
]


@pytest.mark.parametrize("looks", WAYS_TO_LOOK)
def test_whatever_looks_at_ids_sees_them(looks: Callable[[Tensor], bool]) -> None:
    class Asking(Masking):
        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.table(ids)) if not looks(ids) else self.table(ids)

    with torch.device("meta"):
        model = Asking()
    assert [layer.params for layer in read_masked(model)] == [72, 27]


def test_what_weights_were_written_into_is_seen_for_real_or_not_at_all() -> None:
    with torch.device("meta"):
        model = Masking(spoilt=True)
    with pytest.raises(ModelError, match="meta"):
        read_masked(model)
    assert sum(layer.params or 0 for layer in read_masked(Masking(spoilt=True))) == 99


def test_a_model_that_looks_at_values_is_run_with_a_few_samples() -> None:
    Looking.batches.clear()
    layers = read(Looking(by_weight=True), 8, batch=64)
    assert max(Looking.batches) == 3
    assert sum(layer.params or 0 for layer in layers) == 8 * 16 + 16 + 16 * 3 + 3
    plain = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    assert sum(layer.features.flops or 0 for layer in layers) == sum(
        layer.features.flops or 0 for layer in read(plain, 8, batch=64)
    )


def test_one_whose_values_tell_how_many_samples_there_are_is_run_as_a_whole() -> None:
    Looking.batches.clear()
    read(Looking(by_sample=True, by_weight=True), 8, batch=5)
    assert max(Looking.batches) == 5
