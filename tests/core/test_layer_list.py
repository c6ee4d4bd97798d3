from __future__ import annotations

import pickle

from ampere.core.layers import Features, Layer, LayerKind, Role
from ampere.core.program.widths import Widths
from ampere.core.shown.layer_list import Layers

CONV = LayerKind("first conv", Role.FIRST, "conv2d")
FC = LayerKind("last linear", Role.LAST, "linear")
LAYERS = (
    Layer("conv1", CONV, Widths({"out": 8}), Features(3e6), params=80),
    Layer("conv2", CONV, Widths({"out": 8}), Features(3e6), params=80),
    Layer("head\x1b", FC, Widths(), Features(2e6), params=1200),
)


def test_they_are_a_tuple_to_everybody_else() -> None:
    layers = Layers(LAYERS)
    assert layers == LAYERS and hash(layers) == hash(LAYERS)
    assert isinstance(layers, tuple)
    assert pickle.loads(pickle.dumps(layers)) == LAYERS


def test_they_show_themselves_as_a_table() -> None:
    assert repr(Layers(LAYERS)).splitlines() == [
        "3 layers, 2 different ones",
        "",
        "layer     role   operation  widths  parameters      a step",
        "──────────────────────────────────────────────────────────",
        "conv1 ×2  first  conv2d     out=8          160  6.00 MFLOP",
        "head�     last   linear     fixed        1,200  2.00 MFLOP",
        "──────────────────────────────────────────────────────────",
        "total                                    1,360  8.00 MFLOP",
    ]
    page = Layers(LAYERS)._repr_html_()
    assert "#2f86c6 75.0%" in page and "\x1b" not in page


def test_a_layer_by_itself_is_one_line() -> None:
    assert repr(LAYERS[0]) == "Layer('conv1', 'first conv', {'out': 8})"
    assert "\x1b" not in repr(LAYERS[2])


def test_of_no_layers() -> None:
    assert repr(Layers()).startswith("0 layers")
    assert "linear-gradient" not in Layers()._repr_html_()
