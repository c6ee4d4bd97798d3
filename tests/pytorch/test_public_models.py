"""Public models by name, with small packages in the place of timm and transformers."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from ampere.core.training import Training
from ampere.core.workloads import ModelSpec, Settings, Workload
from ampere.errors import AmpereError, ModelError
from ampere.frameworks.models import layers_of
from ampere.pytorch.models import make_slimmer, read, read_whole
from ampere.pytorch.pruning.files import code
from ampere.pytorch.public import packages
from ampere.pytorch.public.configurations import read_configuration
from ampere.pytorch.public.tasks import TASKS
from ampere.pytorch.runtime.loader import build_model, load_model
from ampere.pytorch.runtime.trainer import make_trainer

from .public_fakes import TIMM, TRANSFORMERS, installed


@pytest.fixture
def timm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with installed("timm", TIMM, tmp_path, monkeypatch):
        yield


@pytest.fixture
def transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with installed("transformers", TRANSFORMERS, tmp_path, monkeypatch):
        yield


def message_of(text: str) -> str:
    with pytest.raises(AmpereError) as caught:
        load_model(text)
    message = str(caught.value)
    assert "\n" not in message
    return message


def written(folder: Path, **settings: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "writer", **settings}))
    return folder


@pytest.mark.parametrize(
    ("text", "package"), [("timm:resnet50", "timm"), ("hf:bert", "transformers")]
)
def test_a_missing_package_says_what_to_install(
    text: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert message_of(text) == (
        f"{text} needs the package {package}: pip install 'ampere-energy[{package}]'"
    )


def test_a_broken_package_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = "raise RuntimeError('built for\\nanother torch')"
    with installed("timm", broken, tmp_path, monkeypatch):
        assert "cannot be imported here (built for)" in message_of("timm:resnet50")


def test_operators_of_torchvision_that_do_not_fit_are_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defined: list[str] = []
    monkeypatch.setattr(torch.library, "define", lambda name, signature: defined.append(name))
    monkeypatch.setattr(torch, "defined_by_test", defined, raising=False)
    needs = """
import torch
if not torch.defined_by_test:
    raise RuntimeError("operator torchvision::nms does not exist")
"""
    with (
        installed("torchvision", needs, tmp_path, monkeypatch),
        installed("timm", TIMM, tmp_path, monkeypatch),
    ):
        build_model("timm:tiny")
    assert defined == ["torchvision::nms", "torchvision::qnms"]


class TestTimm:
    pytestmark = pytest.mark.usefixtures("timm")

    def test_its_input_is_that_of_its_configuration(self) -> None:
        model, inputs = load_model("timm:tiny")
        assert str(inputs) == "3x8x8"
        assert {p.device.type for p in model.parameters()} == {"cpu"}
        assert str(load_model("timm:tiny_net(img_size=12, in_chans=1)")[1]) == "1x12x12"
        assert str(load_model("timm:tiny_net(img_size=(12, 20))")[1]) == "3x12x20"

    def test_arguments_reach_it(self) -> None:
        assert build_model("timm:tiny(num_classes=7)")[-1].out_features == 7  # type: ignore[index]

    def test_it_is_read_without_values(self) -> None:
        model, _ = load_model("timm:tiny", hollow=True)
        assert all(p.is_meta for p in model.parameters())
        layers = read("timm:tiny", None, Training(2))
        assert sum(layer.params or 0 for layer in layers) == 3 * 8 * 9 + 8 + 8 * 4 + 4
        assert layers == read(build_model("timm:tiny"), "3x8x8", Training(2))

    def test_another_input_wins(self) -> None:
        first, _ = read("timm:tiny", "3x10x10", Training(2))
        assert "10x10" in first.kind.name
        with pytest.raises(ModelError, match="does not say its input: give input"):
            load_model("timm:sizeless")
        assert len(read("timm:sizeless", "3x8x8", Training(2))) == 2

    def test_what_was_read_stays_known(self) -> None:
        spec = ModelSpec("timm:tiny", None, Training(3))
        assert layers_of(spec) is layers_of(spec)

    def test_wrong_names(self) -> None:
        assert "timm has no model 'tinny': did you mean tiny" in message_of("timm:tinny")
        assert "`timm.list_models()` lists them" in message_of("timm:qqqqqq")
        assert "timm has no model 'hf-hub:x/tiny'" in message_of("timm:hf-hub:x/tiny")
        assert "Invalid pretrained tag (a1)" in message_of("timm:tiny.a1")
        assert "timm has no model" in message_of("timm:" + "x" * 5000)

    def test_bad_arguments_are_one_line(self) -> None:
        assert "timm:tiny raises TypeError" in message_of("timm:tiny(depth=3)")

    @pytest.mark.parametrize("argument", ["pretrained", "pretrained_cfg", "checkpoint_path"])
    def test_it_has_no_weights(self, argument: str) -> None:
        message = message_of(f"timm:tiny({argument}='a')")
        assert message == f"timm:tiny is built without weights: leave {argument} out"

    def test_a_worker_trains_it(self) -> None:
        workload = Workload(model=ModelSpec("timm:tiny", None, Training(2)))
        make_trainer(Workload.from_json(workload.to_json()), Settings()).step()


class TestTransformers:
    pytestmark = pytest.mark.usefixtures("transformers")

    @pytest.mark.parametrize(
        ("text", "inputs"),
        [
            ("hf:writer", "input_ids=64:int64<50, labels=64:int64<50"),  # it holds no 128
            ("hf:writer(sequence=16)", "input_ids=16:int64<50, labels=16:int64<50"),
            ("hf:writer(task='classification')", "input_ids=64:int64<50, labels=1:int64<2"),
            ("hf:writer(task='classification', num_labels=1)", "input_ids=64:int64<50"),
            ("hf:seer", "pixel_values=3x8x8, labels=1:int64<2"),
            ("hf:seer(image_size=[8, 12])", "pixel_values=3x8x12, labels=1:int64<2"),
        ],
    )
    def test_what_it_is_fed(self, text: str, inputs: str) -> None:
        assert str(load_model(text)[1]) == inputs

    def test_the_loss_is_its_own(self) -> None:
        spec = ModelSpec("hf:writer(sequence=16)", None, Training(2))
        trainer = make_trainer(Workload(model=spec), Settings())
        assert trainer.model.loss_type == "ForCausalLM"
        (loss,) = trainer.forward()
        assert loss is not None and loss.dim() == 0
        trainer.step()

    def test_layers_with_labels_are_trained_elsewhere(self) -> None:
        layers = layers_of(ModelSpec("hf:writer(sequence=16)", None, Training(2)))
        sent = Workload.from_json(Workload(layers).to_json())
        trainer = make_trainer(sent, Settings())
        trainer.step()
        assert trainer.forward()[0].dim() == 0

    def test_a_step_leaves_nothing_to_chance(self) -> None:
        assert build_model("hf:writer").config.layerdrop == 0.0
        assert build_model("hf:writer(layerdrop=0.5)").config.layerdrop == 0.5

    def test_one_that_looks_at_values_is_built_for_real(self, tmp_path: Path) -> None:
        text = TRANSFORMERS.replace(
            "logits = self.head(self.embed(input_ids))",
            "assert input_ids.sum() >= 0\n        logits = self.head(self.embed(input_ids))",
        )
        sys.modules.pop("transformers", None)
        (tmp_path / "transformers.py").write_text(text)
        importlib.invalidate_caches()
        reading = read_whole("hf:writer(sequence=17)", None, Training(2))
        assert sum(layer.params or 0 for layer in reading.layers) == 50 * 8 + 8 * 50 + 50

    def test_wrong_names(self, tmp_path: Path) -> None:
        assert "no type of model 'write': did you mean writer?" in message_of("hf:write")
        assert "did you mean writer?" in message_of("hf:Writer")
        assert "use a type such as bert" in message_of("hf:qqq")
        written(tmp_path / "own")
        assert message_of("hf:own").endswith("the folder of this name is hf:./own")
        assert "has no setting 'hiden': did you mean hidden?" in message_of("hf:writer(hiden=3)")
        assert "has no setting 'to_dict'" in message_of("hf:writer(to_dict=3)")

    def test_wrong_settings(self) -> None:
        assert "ValueError: hidden must be above 0" in message_of("hf:writer(hidden=0)")
        message = message_of("hf:writer(attn_implementation='org/kernel')")
        assert message.endswith("attn_implementation is one of eager, sdpa")
        assert "auto_map names code" in message_of("hf:writer(auto_map={'AutoModel': 'x'})")

    def test_wrong_tasks(self) -> None:
        message = message_of("hf:writer(task='masked-lm')")
        assert message == "hf:writer has no head for masked-lm; it has causal-lm, classification"
        assert "use one of speech-to-text, " in message_of("hf:writer(task='dance')")

    def test_wrong_sequences(self) -> None:
        message = message_of("hf:writer(sequence=65)")
        assert "takes 64 tokens at most, not 65" in message
        assert message.endswith("hf:writer(max_position_embeddings=65)")
        assert str(load_model("hf:writer(max_position_embeddings=65, sequence=65)")[1])[:12]
        assert "a sequence of 0 cannot" in message_of("hf:writer(sequence=0)")
        assert "a sequence of 'a' cannot" in message_of("hf:writer(sequence='a')")
        assert "images has no sequence" in message_of("hf:seer(sequence=4)")

    def test_a_folder(self, tmp_path: Path) -> None:
        written(tmp_path / "own", vocab_size=30, architectures=["WriterClassifier"])
        model, inputs = load_model("hf:./own(hidden=4)")
        assert type(model).__name__ == "WriterClassifier"
        assert str(inputs) == "input_ids=64:int64<30, labels=1:int64<2"
        assert model.embed.weight.shape == (30, 4)  # type: ignore[union-attr]
        own, _ = load_model("hf:own/(task='causal-lm')")
        assert type(own).__name__ == "Writer"

    def test_a_folder_that_is_not_there(self) -> None:
        message = message_of("hf:google/bert")
        assert "google/bert/config.json: No such file" in message
        assert "ampere fetches nothing" in message


CODE = {"AutoModel": "own.py--Net"}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"auto_map": CODE}, "auto_map names code of its own, which ampere never runs"),
        ({"text_config": {"parts": [{"auto_map": CODE}]}}, "auto_map names code"),
        ({"trust_remote_code": True}, "trust_remote_code asks for code"),
        ({"use_timm_backbone": True}, "another package: use timm:NAME"),
        ({"backbone": "resnet50"}, "another package: use timm:NAME"),
        ({"text_config": {"model_type": "timm_wrapper"}}, "another package: use timm:NAME"),
        ({"use_pretrained_backbone": True}, "asks for weights"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"model_type": 3}, "model_type must be"),
        ({"hidden": 1e300}, "must be a number"),
    ],
)
def test_configurations_that_are_refused(
    settings: dict[str, object], says: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as caught:
        read_configuration(written(tmp_path / "own", **settings))
    assert says in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', "null", "\0", '{"a":' * 10**5])
def test_what_is_no_configuration(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match="is no configuration of a model"):
        read_configuration(tmp_path)


def test_what_may_lead_to_code_or_weights_is_left_out(tmp_path: Path) -> None:
    kept = {"hidden": 4, "parts": [{"size": 3}], "auto_map": None, "use_timm_backbone": False}
    implementations = {
        "_attn_implementation_internal": "org/kernel",
        "attn_implementation": "org/kernel",
        "_experts_implementation": "org/kernel",
        "_name_or_path": "org/model",
    }
    kept["parts"] = [{"size": 3, **implementations}]
    folder = written(tmp_path / "own", **kept, **implementations)
    assert read_configuration(folder) == {
        "model_type": "writer",
        "hidden": 4,
        "parts": [{"size": 3}],
    }


class TestOffline:
    HUB = "huggingface_hub.constants"

    def test_what_was_said_comes_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
        monkeypatch.delitem(sys.modules, self.HUB, raising=False)
        with packages.offline():
            assert os.environ["HF_HUB_OFFLINE"] == os.environ["TRANSFORMERS_OFFLINE"] == "1"
        assert os.environ["HF_HUB_OFFLINE"] == "0"
        assert "TRANSFORMERS_OFFLINE" not in os.environ

    @pytest.mark.parametrize("was", [True, False])
    def test_a_hub_in_use_is_as_it_was(self, was: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        hub = SimpleNamespace(HF_HUB_OFFLINE=was)
        monkeypatch.setitem(sys.modules, self.HUB, hub)
        with pytest.raises(ValueError), packages.offline():
            assert hub.HF_HUB_OFFLINE
            raise ValueError
        assert hub.HF_HUB_OFFLINE is was

    @pytest.mark.parametrize(("said", "after"), [("1", True), ("", False)])
    def test_a_hub_that_is_first_imported_meanwhile_is_as_was_said(
        self, said: str, after: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delitem(sys.modules, self.HUB, raising=False)
        monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
        monkeypatch.setenv("HF_HUB_OFFLINE", said)
        hub = SimpleNamespace(HF_HUB_OFFLINE=True)
        with packages.offline():
            monkeypatch.setitem(sys.modules, self.HUB, hub)
        assert hub.HF_HUB_OFFLINE is after


@pytest.mark.usefixtures("transformers")
def test_a_pruned_one_knows_its_folder_from_anywhere(tmp_path: Path) -> None:
    written(tmp_path / "own")
    name = "hf:./own(sequence=16)"
    slimmer = make_slimmer(name, None, Training(2))
    text = code(slimmer.slim({}), name, "title")
    assert f'build_model("hf:{tmp_path.resolve()}/own(sequence=16)")' in text


def test_tasks_have_heads_of_their_own() -> None:
    autos = [task.auto for task in TASKS.values()]
    assert len(set(autos)) == len(autos)
    assert all(auto.startswith("AutoModel") for auto in autos)


def test_a_mask_of_the_least_number_goes_to_a_worker() -> None:
    least = torch.finfo(torch.float32).min

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x).clamp(min=least)

    layers = read(Masked(), (4,), Training(2))
    sent = Workload.from_json(json.loads(json.dumps(Workload(layers).to_json())))
    make_trainer(sent, Settings()).step()
