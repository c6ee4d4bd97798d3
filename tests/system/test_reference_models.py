"""The references run, and are the same class at both of their widths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from reference_models import REFERENCES, Reference, example

EVERY = pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES.keys())

# Parts that a step may leave without a gradient, although they are not frozen.
UNREACHED = {"unused_parameter": ("unused",), "data_branch": ("above", "below")}
FROZEN = {"lora", "head_only"}


def tensors(output: Any) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    else:
        for part in output.values() if isinstance(output, dict) else output:
            yield from tensors(part)


def sizes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Of all parameters and buffers."""
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


@EVERY
@pytest.mark.parametrize("which", ["width", "wider"])
def test_runs_forward_and_backward(reference: Reference, which: str) -> None:
    torch.manual_seed(0)
    model = reference.build(getattr(reference, which)).train()
    by_position, by_name = example(reference, 4)
    outputs = list(tensors(model(*by_position, **by_name)))
    assert all(len(output) == 4 and output.isfinite().all() for output in outputs)

    sum(output.square().mean() for output in outputs).backward()
    for name, parameter in model.named_parameters():
        if any(part in name for part in UNREACHED.get(reference.name, ())):
            continue
        assert (parameter.grad is not None) == parameter.requires_grad, name
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


@EVERY
def test_every_size_is_constant_or_grows_with_the_width(reference: Reference) -> None:
    narrow, wide = (sizes(reference.build(w)) for w in (reference.width, reference.wider))
    assert narrow.keys() == wide.keys()
    assert narrow != wide
    for name, shape in narrow.items():
        for size, other in zip(shape, wide[name], strict=True):
            assert other == size or other * reference.width == size * reference.wider, name


@EVERY
def test_only_the_fine_tuned_have_frozen_parameters(reference: Reference) -> None:
    model = reference.build(reference.width)
    frozen = [not parameter.requires_grad for parameter in model.parameters()]
    assert any(frozen) == (reference.name in FROZEN)
    assert not all(frozen)


def test_the_unused_stay_without_a_gradient() -> None:
    reference = REFERENCES["unused_parameter"]
    model = reference.build(reference.width)
    model(*example(reference, 4)[0]).sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == [
        "unused_scale",
        "unused_conv.weight",
        "unused_conv.bias",
    ]


def test_the_branch_depends_on_the_data() -> None:
    model = REFERENCES["data_branch"].build(16)
    block = model.body[0]
    x = torch.ones(4, 16, 8, 8)
    assert torch.equal(block(x), x + torch.tanh(block.above(x)))
    assert torch.equal(block(-x), -x + torch.tanh(block.below(-x)))


def test_head_and_embedding_are_one() -> None:
    model = REFERENCES["gpt"].build(32)
    assert model.head.weight is model.wte.weight


def test_examples_are_what_the_inputs_say() -> None:
    (src, tgt), none = example(REFERENCES["encoder_decoder"], 3)
    assert (src.shape, tgt.shape, none) == ((3, 16), (3, 12), {})
    assert src.dtype == torch.int64
    assert 0 <= int(src.min()) <= int(src.max()) < 50
    (image,), named = example(REFERENCES["multi_input"], 2, "meta")
    assert (image.shape, image.dtype, image.device.type) == ((2, 3, 16, 16), torch.float32, "meta")
    assert {name: tensor.shape for name, tensor in named.items()} == {"features": (2, 8)}
