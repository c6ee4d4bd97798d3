"""Models of flax.nnx as people write them; none of them is in the zoo."""

from __future__ import annotations

from typing import Any

from flax import nnx

import jax
from jax import numpy as jnp


class Block(nnx.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int, rngs: nnx.Rngs) -> None:
        self.conv1 = nnx.Conv(inputs, outputs, (3, 3), strides=stride, use_bias=False, rngs=rngs)
        self.bn1 = nnx.BatchNorm(outputs, rngs=rngs)
        self.conv2 = nnx.Conv(outputs, outputs, (3, 3), use_bias=False, rngs=rngs)
        self.bn2 = nnx.BatchNorm(outputs, rngs=rngs)
        same = stride == 1 and inputs == outputs
        project = None if same else nnx.Conv(inputs, outputs, (1, 1), strides=stride, rngs=rngs)
        self.shortcut = nnx.data(project)

    def __call__(self, x: Any) -> Any:
        y = nnx.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return nnx.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResidualCNN(nnx.Module):
    """A stem, three residual blocks, and a head on the mean over the map."""

    def __init__(self, width: int = 8, *, rngs: nnx.Rngs) -> None:
        self.stem = nnx.Conv(3, width, (3, 3), rngs=rngs)
        self.blocks = nnx.List(
            [
                Block(width, width, 1, rngs),
                Block(width, 2 * width, 2, rngs),
                Block(2 * width, 2 * width, 1, rngs),
            ]
        )
        self.head = nnx.Linear(2 * width, 10, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = nnx.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.head(jnp.mean(x, axis=(1, 2)))


class EncoderLayer(nnx.Module):
    """Attention and two linear layers, each behind a normalisation and beside a shortcut."""

    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.norm1, self.norm2 = nnx.LayerNorm(width, rngs=rngs), nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, width, decode=False, rngs=rngs)
        self.up = nnx.Linear(width, 2 * width, rngs=rngs)
        self.down = nnx.Linear(2 * width, width, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


class Transformer(nnx.Module):
    """Embedded tokens with learnt positions, equal layers, and a head on the mean."""

    def __init__(self, width: int = 16, layers: int = 2, *, rngs: nnx.Rngs) -> None:
        self.tokens = nnx.Embed(50, width, rngs=rngs)
        self.positions = nnx.Param(0.02 * jax.random.normal(rngs.params(), (12, width)))
        self.layers = nnx.List([EncoderLayer(width, rngs) for _ in range(layers)])
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.head = nnx.Linear(width, 4, rngs=rngs)

    def __call__(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.positions[...]
        for layer in self.layers:
            x = layer(x)
        return self.head(jnp.mean(self.norm(x), axis=1))


class Recurrent(nnx.Module):
    """A GRU over a sequence, and a head on its last position."""

    def __init__(self, width: int = 12, *, rngs: nnx.Rngs) -> None:
        self.enter = nnx.Linear(5, width, rngs=rngs)
        self.rnn = nnx.RNN(nnx.GRUCell(width, width, rngs=rngs), rngs=rngs)
        self.head = nnx.Linear(width, 3, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.head(self.rnn(nnx.tanh(self.enter(x)))[:, -1])


class Looped(nnx.Module):
    """An LSTM cell that the model's own code runs along a sequence."""

    def __init__(self, width: int = 8, *, rngs: nnx.Rngs) -> None:
        self.cell = nnx.LSTMCell(5, width, rngs=rngs)
        self.head = nnx.Linear(width, 3, rngs=rngs)
        self.width = width

    def __call__(self, x: Any) -> Any:
        zeros = jnp.zeros((x.shape[0], self.width))
        carry = (zeros, zeros)
        for position in range(x.shape[1]):
            carry, y = self.cell(carry, x[:, position])
        return self.head(y)


class TwoInputs(nnx.Module):
    """A picture and a list of tokens, put together."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(3, 8, (3, 3), rngs=rngs)
        self.tokens = nnx.Embed(20, 6, rngs=rngs)
        self.joined = nnx.Linear(14, 10, rngs=rngs)
        self.head = nnx.Linear(10, 2, rngs=rngs)

    def __call__(self, picture: Any, tokens: Any) -> Any:
        seen = jnp.mean(nnx.relu(self.conv(picture)), axis=(1, 2))
        read = jnp.sum(self.tokens(tokens), axis=1)
        both = jnp.concatenate([seen, read], axis=-1)
        return self.head(nnx.relu(self.joined(both)))


MODELS = {
    "residual": (ResidualCNN, "16x16x3"),
    "transformer": (Transformer, "12:int64<50"),
    "recurrent": (Recurrent, "7x5"),
    "looped": (Looped, "4x5"),
    "two inputs": (TwoInputs, "8x8x3, 6:int64<20"),
}


def make(name: str, **arguments: Any) -> nnx.Module:
    """A model by its name here, without values: making them up takes JAX seconds."""
    made: nnx.Module = nnx.eval_shape(lambda: MODELS[name][0](**arguments, rngs=nnx.Rngs(0)))
    return made
