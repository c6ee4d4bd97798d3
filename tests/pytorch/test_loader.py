"""Models named by texts: the zoo's, those of a file and those of a module."""

import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from torch import nn

from ampere.core.boundary.losses import load_loss, names_loss
from ampere.core.inputs import Inputs, InputSpec, parse_inputs
from ampere.errors import ModelError
from ampere.pytorch.runtime.loader import build_model, load_model

FILE = '''
"""A user's file."""
from __future__ import annotations
from dataclasses import dataclass
from torch import nn
from torch.nn import Linear

@dataclass
class Config:
    width: int = 8

class Net(nn.Module):
    input = "4"

    def __init__(self, width: int = 8):
        super().__init__()
        self.config = Config(width)
        self.fc = Linear(4, width)

    def forward(self, x):
        return self.fc(x)

def make(width=16, name="a:b"):
    return Net(width)
make.input = "4x4"

def bare(): return Net()
def needs(width): return Net(width)
def breaks(): return nn.Conv2d(3, 8, 3, groups=5)
def numbers(): return 3
def nothing(): pass
def the_class(): return Net
def leaves(): raise SystemExit(2)

trained = Net(5)
LIMIT = 7
'''
SPEC = Inputs((InputSpec((4,)),))
Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a file into an empty directory that is the current one."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def message_of(spec: str, input: Inputs | None = SPEC) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(spec, input)
    message = str(caught.value)
    assert "\n" not in message
    return message


def width_of(model: nn.Module) -> int:
    (fc,) = model.children()
    assert isinstance(fc, nn.Linear)
    return fc.out_features


def test_zoo_with_and_without_arguments() -> None:
    model, spec = load_model("zoo:lenet5")
    assert sum(p.numel() for p in model.parameters()) == 61_706
    assert spec == parse_inputs("1x28x28")
    model, _ = load_model(" zoo:cnn5(channels=[16,32,64,9]) ")
    assert [p.shape[0] for p in model.parameters()][::2] == [16, 32, 64, 9, 10]


def test_explicit_input_wins() -> None:
    mine = parse_inputs("3x64x64")
    assert load_model("zoo:resnet(depth=8)", mine)[1] == mine


@pytest.mark.parametrize(
    ("factory", "width"),
    [
        ("make", 16),
        ("make(width=32)", 32),
        ("make(name='x:y(z)')", 16),
        ("Net", 8),
        ("Net(width=3)", 3),
        ("needs(width=2)", 2),
        ("trained", 5),
    ],
)
@pytest.mark.parametrize("source", ["models/my-net.v2.py", "models/net.py"])
def test_file(write: Write, source: str, factory: str, width: int) -> None:
    path = write(source, FILE)
    assert width_of(load_model(f"{source}:{factory}", SPEC)[0]) == width
    assert width_of(load_model(f"{path}:{factory}", SPEC)[0]) == width


def test_input_of_the_factory(write: Write) -> None:
    write("net.py", FILE)
    assert load_model("net.py:make")[1] == parse_inputs("4x4")
    assert load_model("net.py:Net")[1] == load_model("net.py:trained")[1] == SPEC
    assert load_model("net.py:make", SPEC)[1] == SPEC
    assert "give input, e.g. 3x32x32" in message_of("net.py:bare", None)


def test_bad_input_of_the_factory_is_quoted(write: Write) -> None:
    write("net.py", "def make(): pass\nmake.input = '3x4, b=three'")
    assert "'three' is no input" in message_of("net.py:make", None)


@pytest.mark.parametrize(
    ("own", "inputs"),
    [
        (
            "'3x8x8, mask=5:bool'",
            Inputs((InputSpec((3, 8, 8)),), (("mask", InputSpec((5,), "bool")),)),
        ),
        ("InputSpec((4,), 'int64', 9)", parse_inputs("4:int64<9")),
        ("Inputs((InputSpec((4,)), InputSpec((2,))))", parse_inputs("4, 2")),
    ],
)
def test_the_factory_says_several_inputs(write: Write, own: str, inputs: Inputs) -> None:
    write(
        "net.py",
        f"from ampere import Inputs, InputSpec\n{FILE.split('annotations')[1]}\nbare.input = {own}",
    )
    assert load_model("net.py:bare")[1] == inputs


@pytest.mark.parametrize("own", ["nn.Linear(4, 4)", "3", "None"])
def test_what_a_model_else_calls_input_is_none(write: Write, own: str) -> None:
    write("net.py", FILE + f"\nbare.input = {own}")
    assert "does not say its input" in message_of("net.py:bare", None)


def test_module_in_the_current_directory(write: Write) -> None:
    write("ampere_test_package/net.py", FILE)
    before = list(sys.path)
    assert width_of(load_model("ampere_test_package.net:make(width=6)")[0]) == 6
    assert sys.path == before


def test_installed_module() -> None:
    model, _ = load_model("torch.nn:Linear(in_features=4, out_features=2)", SPEC)
    assert isinstance(model, nn.Linear)


def test_file_imports_its_neighbours(write: Write) -> None:
    write("deep/ampere_test_neighbour.py", "WIDTH = 11")
    write(
        "deep/net.py",
        "from torch import nn\ndef make():\n"
        "    import ampere_test_neighbour as n\n    return nn.Linear(1, n.WIDTH)",
    )
    model, _ = load_model("deep/net.py:make", SPEC)
    assert isinstance(model, nn.Linear) and model.out_features == 11


def test_models_of_a_file_loaded_twice_can_be_pickled(write: Write) -> None:
    write("net.py", FILE)
    first, second = (load_model("net.py:make")[0] for _ in range(2))
    assert first is not second and type(first) is type(second)
    for model in (first, second):
        assert width_of(pickle.loads(pickle.dumps(model))) == 16


def test_changed_file_is_read_again(write: Write) -> None:
    write("net.py", FILE)
    old, _ = load_model("net.py:make")
    write("net.py", FILE.replace("width=16", "width=17"))
    assert width_of(load_model("net.py:make")[0]) == 17
    assert width_of(pickle.loads(pickle.dumps(old))) == 16


def test_same_name_in_two_directories(write: Write) -> None:
    write("a/net.py", FILE)
    write("b/net.py", FILE.replace("width=16", "width=17"))
    assert width_of(load_model("a/net.py:make")[0]) == 16
    assert width_of(load_model("b/net.py:make")[0]) == 17


def test_file_may_extend_the_path_for_good(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    write("net.py", "import sys\nsys.path.append('/ampere-test-lib')\n" + FILE.split("\n", 3)[3])
    load_model("net.py:make")
    assert sys.path[-1] == "/ampere-test-lib"


@pytest.mark.parametrize(
    "text",
    ["", "lenet5", "zoo:", ":make", "net.py", "net.py:", "net.py:3", "zoo:a b", "a:b(", "\n"],
)
def test_malformed_text(text: str) -> None:
    assert "names no model: write zoo:lenet5" in message_of(text)


@pytest.mark.parametrize(
    "arguments",
    [
        "(16)",
        "(*[1])",
        "(**{'width': 1})",
        "(width=)",
        "(width=1, width=2)",
        "(width=2+x)",
        "(width=__import__('os').getpid())",
        "(width=1)(width=2)",
        "(width=1) + (2)",
        "(width=[1)",
        "(width={[1]: 2})",
        "(width='\0')",
        "(width=" + "(" * 500 + ")" * 500 + ")",
    ],
)
def test_arguments_are_literals_by_name(arguments: str) -> None:
    assert "write name=value pairs" in message_of(f"zoo:lstm{arguments}")


def test_zoo_errors() -> None:
    assert "no 'alexnet'; it has lenet5" in message_of("zoo:alexnet")
    assert "no argument 'width'; it takes channels" in message_of("zoo:cnn5(width=3)")
    assert "multiple of the 4 heads" in message_of("zoo:transformer(d_model=6)")
    assert "zoo:resnet raises TypeError" in message_of("zoo:resnet(blocks=3)")


def test_missing_file_or_module(write: Write) -> None:
    write("folder.py/x", "")
    assert re.search(r"cannot read .*nets/net\.py: No such file", message_of("nets/net.py:make"))
    assert "check the path" in message_of("nets/net:make")
    assert "cannot read" in message_of("folder.py:make")
    assert "no module 'ampere_absent' here" in message_of("ampere_absent.net:make")
    assert "neither a .py file nor a module" in message_of("a-b:make")
    assert "neither a .py file nor a module" in message_of("..net:make")


@pytest.mark.parametrize(
    ("text", "raised", "line"),
    [
        ("x = 1\ny = 1 / 0\n", "ZeroDivisionError: division by zero", 2),
        ("x = 1\n\ndef f(:\n", "SyntaxError: ", 3),
        ("import ampere_absent\n", "ModuleNotFoundError: No module named 'ampere_absent'", 1),
        ("import sys\nsys.exit('usage:\\n net')\n", "SystemExit: usage: net", 2),
        ("from torch import nn\nnet = nn.Conv2d(3, 8, 3, groups=5)\n", "ValueError: ", 2),
        ("\nassert False\n", "AssertionError: no message", 2),
    ],
)
def test_file_or_module_that_raises(write: Write, text: str, raised: str, line: int) -> None:
    path = write("ampere_test_broken.py", text)
    before = set(sys.modules)
    for source in ("ampere_test_broken.py", "ampere_test_broken"):
        message = message_of(f"{source}:make")
        assert f"{source} raises {raised}" in message
        assert f"({path}:{line})" in message
    assert not {name for name in set(sys.modules) - before if "ampere_test_broken" in name}


def test_missing_factory_lists_candidates(write: Write) -> None:
    write("net.py", FILE)
    message = message_of("net.py:mak")
    assert "net.py has no 'mak'; it has Net, make, bare" in message
    assert "Linear" not in message and "Config" not in message
    assert "net.py:LIMIT is an object of type int" in message_of("net.py:LIMIT")
    write("empty.py", "")
    assert "define a function that returns a model" in message_of("empty.py:make")


def test_factory_that_raises(write: Write) -> None:
    path = write("net.py", FILE)
    line = 1 + FILE[: FILE.index("def breaks")].count("\n")
    message = message_of("net.py:breaks")
    assert "net.py:breaks raises ValueError: " in message
    assert f"({path}:{line})" in message
    assert "raises SystemExit: 2" in message_of("net.py:leaves")


@pytest.mark.parametrize(
    ("factory", "returned"),
    [
        ("numbers", "an object of type int"),
        ("nothing", "None"),
        ("the_class", "the class Net"),
        ("Config", "an object of type Config"),
    ],
)
def test_factory_that_returns_no_model(write: Write, factory: str, returned: str) -> None:
    write("net.py", FILE)
    assert f"net.py:{factory} returned {returned}; it must" in message_of(f"net.py:{factory}")


def test_wrong_arguments(write: Write) -> None:
    write("net.py", FILE)
    assert "unexpected keyword argument 'depth'; it takes width=16, name='a:b'" in message_of(
        "net.py:make(depth=3)"
    )
    assert "missing a required argument: 'width'" in message_of("net.py:needs")
    assert "it takes no arguments" in message_of("net.py:bare(width=1)")
    assert "is a model already" in message_of("net.py:trained(width=3)")


LOSSES = """
import torch

def squared(output): return (output ** 2).mean()
def with_target(output, target): return (output - target).mean()
def with_default(output, weight=2.0): return weight * output.mean()
LIMIT = 7
"""


@pytest.mark.parametrize("source", ["deep/losses.py", "deep.losses"])
def test_a_loss_is_found_as_a_model_is(write: Write, source: str) -> None:
    write("deep/losses.py", LOSSES)
    for name in ("squared", "with_default"):
        assert load_loss(f" {source}:{name} ").__name__ == name


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("losses.py:square", "losses.py has no 'square'; it has squared, with_target"),
        ("losses.py:LIMIT", "an object of type int, which makes no loss"),
        ("losses.py:with_target", "is called with what the model returns: missing a required argu"),
        ("losses.py:squared(x=1)", "names no loss: write path/file.py:loss"),
        ("losses.py", "names no loss"),
        ("absent.py:squared", "cannot read"),
        ("ampere_absent:squared", "no module 'ampere_absent'"),
        ("empty.py:squared", "define a function that returns a loss"),
        ("broken.py:squared", "ZeroDivisionError"),
    ],
)
def test_a_loss_that_cannot_be_loaded(write: Write, spec: str, says: str) -> None:
    write("losses.py", LOSSES)
    write("empty.py", "")
    write("broken.py", "1 / 0")
    with pytest.raises(ModelError) as caught:
        load_loss(spec)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert names_loss(spec) == ("names no loss" not in says)


def test_a_model_can_be_built_without_its_input(write: Write) -> None:
    write("net.py", FILE)
    with pytest.raises(ModelError, match="does not say its input"):
        load_model("net.py:bare")
    assert width_of(build_model("net.py:bare")) == 8
    assert width_of(build_model("net.py:make(width=3)")) == 3
    assert len(build_model("zoo:lenet5(channels=[2, 3])").get_parameter("conv2.weight")) == 3
    with pytest.raises(ModelError, match=r"must return an nn\.Module"):
        build_model("net.py:numbers")
